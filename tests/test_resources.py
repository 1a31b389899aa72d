"""Where the bundled folders are found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hubaudit.errors import InputError
from hubaudit.resources import bundled

PACKAGE = Path(__file__).resolve().parents[1] / "hubaudit"


def located(folder: Path, name: str) -> str:
    """What `bundled` answers where the package lies in `folder`; or the last line of its error."""
    package = folder / "hubaudit"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("")
    for module in ("errors.py", "resources.py"):
        (package / module).write_text((PACKAGE / module).read_text(encoding="utf-8"), encoding="utf-8")
    code = f"from hubaudit.resources import bundled; print(bundled({name!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_the_checkout_holds_the_card_template() -> None:
    assert (bundled("model_cards") / "section.md.jinja").is_file()


def test_unknown_name() -> None:
    with pytest.raises(InputError, match="no bundled folder 'papers'; expected one of metrics, model_cards, spaces"):
        bundled("papers")


def test_beside_the_package_in_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "metrics").mkdir()
    assert located(tmp_path, "metrics") == str(tmp_path / "metrics")


def test_inside_the_package_in_a_wheel(tmp_path: Path) -> None:
    (tmp_path / "hubaudit" / "_bundled" / "metrics").mkdir(parents=True)
    (tmp_path / "metrics").mkdir()  # somebody else's folder in site-packages
    assert located(tmp_path, "metrics") == str(tmp_path / "hubaudit" / "_bundled" / "metrics")


def test_missing_from_the_installation(tmp_path: Path) -> None:
    assert "folder 'spaces' is missing from this installation" in located(tmp_path, "spaces")
