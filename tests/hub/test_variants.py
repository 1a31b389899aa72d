"""`hubaudit variants`, run as users run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import pytest
from remote_models import card, config, gguf_bytes, plain_model
from rich.console import Console
from typer.testing import CliRunner

from hubaudit.cli import app
from hubaudit.hub.child import Child
from hubaudit.hub.children import Listing
from hubaudit.hub.children_claims import ModelShape
from hubaudit.hub.children_read import BaseFacts
from hubaudit.variants_view import print_children

TYPES = gguf.GGMLQuantizationType
HOSTILE = "x\x1b[31m[red]\u202e\n"


@pytest.fixture
def filled(hub: Any, tmp_path: Path) -> Any:
    plain = {"config.json": config(), "model.safetensors": plain_model()}
    hub.add("org/tiny", plain)
    quants = {"Q8_0": TYPES.Q8_0, "Q4_0": TYPES.Q4_0}
    files = {f"tiny-{name}.gguf": gguf_bytes(tmp_path, head=kind) for name, kind in quants.items()}
    hub.add("a/tiny-GGUF", files | {"README.md": card("org/tiny", tags=["gguf"])}, downloads=1234)
    hub.add("c/tiny-mlx", plain | {"README.md": card("org/tiny", tags=["mlx"])}, downloads=7)
    return hub


def test_the_table(filled: Any) -> None:
    result = CliRunner().invoke(app, ["variants", "org/tiny", "--quiet"], env={"COLUMNS": "110"})
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("org/tiny at ")
    assert lines[1] == "3 variants in 2 repos, 2 of them can be audited"
    (row,) = [line for line in lines if "Q4_0 *" in line]
    assert row.split()[:3] == ["Q4_0", "✓", "gguf"]
    assert any("a/tiny-GGUF" in line and "1,234" in line for line in lines)
    assert any("c/tiny-mlx" in line and "✗ 1" in line for line in lines)
    assert any(line.strip().startswith("1 MLX weights run in Apple's mlx only") for line in lines)
    assert "hubaudit audit org/tiny a/tiny-GGUF:Q8_0" in result.output


def test_json_in_another_process_without_a_token_in_it(filled: Any) -> None:
    code = "import sys\nfrom hubaudit.cli import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
    command = [sys.executable, "-c", code, "variants", "org/tiny", "--json", "--relations", "quantized"]
    ran = subprocess.run(command, env=filled.env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["base"]["repo_id"] == "org/tiny"
    assert [(child["quant"], child["loadable"]) for child in found["children"]] == [
        ("Q8_0", True),
        ("Q4_0", True),
        (None, False),
    ]
    assert "TESTSECRET" not in ran.stdout + ran.stderr


def test_errors(filled: Any) -> None:
    unknown = CliRunner().invoke(app, ["variants", "org/none"])
    assert "no such model" in str(unknown.exception)
    relation = CliRunner().invoke(app, ["variants", "org/tiny", "--relations", "quantized,merge"])
    assert "--relations must be among" in str(relation.exception)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_hostile_names_reach_no_terminal(width: int) -> None:
    base = BaseFacts(repo_id="org/tiny", revision="b" * 40, shape=ModelShape(), n_parameters=None)
    child = Child(
        spec=HOSTILE,
        repo_id=f"org/{HOSTILE}",
        revision="c" * 40,
        relation="quantized",
        format=HOSTILE,
        quant=HOSTILE,
        head_quantized=True,
        head_type=HOSTILE,
        reason=HOSTILE * 200,
    )
    console = Console(width=width, force_terminal=True, color_system=None, record=True)
    with console.capture() as captured:
        print_children(Listing(base, [child], [HOSTILE * 300]), console)
    text = captured.get()
    assert "\x1b[31m" not in text
    assert "\u202e" not in text
    assert "[red]" in text
    assert max(map(len, text.splitlines())) <= 400
