"""The metrics' folders: front matter as the Hub wants it, and examples that do what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hubaudit.modules.install import METRICS, install_metrics, metric_folder

RUN = """
import doctest, re, sys, pathlib
failed = attempted = 0
for path in sys.argv[1:]:
    blocks = re.findall(r"```python\\n(.*?)```", pathlib.Path(path).read_text(encoding="utf-8"), flags=re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\\n".join(blocks), {}, path, path, 0)
    result = doctest.DocTestRunner().run(test)
    failed, attempted = failed + result.failed, attempted + result.attempted
    import evaluate
    usage = evaluate.load(pathlib.Path(path).parent.name).inputs_description
    result = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(usage, {}, path, path, 0))
    failed, attempted = failed + result.failed, attempted + result.attempted
assert "hubaudit.cli" not in sys.modules
print(f"{attempted} examples, {failed} failed")
sys.exit(failed > 0)
"""


def test_examples_run_by_bare_name_offline_in_another_folder(tmp_path: Path) -> None:
    install_metrics(cache=tmp_path / "modules")
    environment = os.environ | {
        "HF_MODULES_CACHE": str(tmp_path / "modules"),
        "HF_HOME": str(tmp_path / "home"),
        "HF_EVALUATE_OFFLINE": "1",
    }
    readmes = [str(metric_folder(name) / "README.md") for name in METRICS]
    (tmp_path / "elsewhere").mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", RUN, *readmes],
        cwd=tmp_path / "elsewhere",
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert int(re.search(r"(\d+) examples", ran.stdout)[1]) > 60


@pytest.mark.parametrize("name", METRICS)
def test_folder_is_a_space(name: str) -> None:
    folder = metric_folder(name)
    text = (folder / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["sdk"] == "gradio"
    assert re.fullmatch(r"\d+\.\d+\.\d+", front["sdk_version"])
    assert (folder / front["app_file"]).is_file()
    assert front["tags"] == ["evaluate", "metric"]
    assert front["pinned"] is False
    # The Hub's own limits for a Space's card.
    assert len(front["emoji"]) in (1, 2)
    assert {front["colorFrom"], front["colorTo"]} <= {
        "red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray",
    }  # fmt: skip
    requirements = (folder / "requirements.txt").read_text(encoding="utf-8").split()
    assert "hubaudit" in requirements
    for heading in ("Description", "How to use", "Inputs", "Output values", "Limitations and bias", "Citation"):
        assert f"## {heading}" in text


@pytest.mark.parametrize("name", METRICS)
def test_module_file_obeys_the_loader(name: str) -> None:
    source = (metric_folder(name) / f"{name}.py").read_text(encoding="utf-8")
    imports = [line for line in source.splitlines() if re.match(r"(import|from)\s", line)]
    # One import a line, and no class of another metric by name: evaluate reads imports with a regex.
    assert all(re.fullmatch(r"import [\w.]+( as \w+)?", line) for line in imports)
    assert source.count("evaluate.Metric)") == 1
