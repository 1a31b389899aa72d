"""An installed wheel, not the checkout: what it holds and that it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from this checkout, unpacked by pip into a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    subprocess.run([str(part) for part in build], check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("hubaudit-*.whl")
    install = [*pip, "install", "--no-deps", "--target", folder / "site", wheel]
    subprocess.run([str(part) for part in install], check=True, capture_output=True, timeout=300)
    return folder


def run(installed: Path, code: str) -> str:
    """Run Python outside the checkout with the unpacked wheel first on the path."""
    environment = {**os.environ, "PYTHONPATH": str(installed / "site"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=installed, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_metrics_spaces_and_model_cards(installed: Path) -> None:
    (wheel,) = installed.glob("hubaudit-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for metric in ("correctness_agreement", "direction_floor", "prism_bound", "translation_attenuation"):
        assert f"hubaudit/_bundled/metrics/{metric}/{metric}.py" in names
    assert "hubaudit/_bundled/spaces/hubaudit/app.py" in names
    assert "hubaudit/_bundled/model_cards/section.md.jinja" in names
    assert "hubaudit/tasks/builtin/multiple_choice.jsonl" in names
    assert "hubaudit/report/report.schema.json" in names
    assert not [name for name in names if "__pycache__" in name or name.startswith("tests")]


def test_the_installed_package_finds_what_it_ships(installed: Path) -> None:
    code = (
        "import hubaudit, pathlib; from hubaudit.resources import bundled; from hubaudit.tasks import load_task;"
        "print(pathlib.Path(hubaudit.__file__).parent);"
        "print(bundled('metrics')); print(len(load_task('builtin', limit=None, seed=0).items))"
    )
    package, metrics, items = run(installed, code).split("\n")[:3]
    assert package == str(installed / "site" / "hubaudit")
    assert metrics == str(installed / "site" / "hubaudit" / "_bundled" / "metrics")
    assert int(items) >= 120


def test_the_installed_command_audits(installed: Path, tiny_base: Path) -> None:
    arguments = ["audit", str(tiny_base), "rtn:4@g16", "--tasks", "builtin", "--contrast", "builtin", "--limit", "8"]
    code = f"import sys; sys.argv[1:] = {[*arguments, '--quiet', '--cache-dir', 'cache', '--dtype', 'float32']!r}\n"
    run(
        installed,
        code
        + "from hubaudit.cli import main\ntry:\n    main()\nexcept SystemExit as e:\n    assert not e.code, e.code",
    )
    assert (installed / "audit-report" / "report.html").is_file()


def test_importing_the_package_loads_no_torch(installed: Path) -> None:
    assert run(installed, "import hubaudit, sys; print('torch' in sys.modules)").strip() == "False"
