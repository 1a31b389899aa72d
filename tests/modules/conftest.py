"""The metrics as evaluate makes them, with caches of the tests' own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubaudit.modules.install import metric_folder


@pytest.fixture(scope="session")
def load_metric(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """`evaluate.load` by absolute path; keyword arguments go to the metric."""
    import evaluate

    caches = tmp_path_factory.mktemp("evaluate")
    patch = pytest.MonkeyPatch()
    patch.setattr(evaluate.config, "HF_MODULES_CACHE", caches / "modules")

    def load(name: str, **options: Any) -> Any:
        path = metric_folder(name) / f"{name}.py"
        assert path.is_absolute()
        return evaluate.load(str(path), **{"cache_dir": str(caches / "data")} | options)

    yield load
    patch.undo()


def files_below(folder: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
