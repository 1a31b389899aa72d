"""Each metric's page: its Blocks are built, its example computes, a visitor's mistake is told."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hubaudit.errors import InputError
from hubaudit.modules.install import METRICS, metric_folder


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    import evaluate

    patch = pytest.MonkeyPatch()
    patch.setenv("GRADIO_ANALYTICS_ENABLED", "0")
    patch.setattr(evaluate.config, "HF_MODULES_CACHE", tmp_path_factory.mktemp("modules"))
    patch.setattr(evaluate.config, "HF_METRICS_CACHE", str(tmp_path_factory.mktemp("data")))
    yield
    patch.undo()


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.usefixtures("caches")
def test_page(name: str, tmp_path: Path) -> None:
    gradio = pytest.importorskip("gradio", reason="the pages need the extra `hubaudit[space]`")
    app = runpy.run_path(str(metric_folder(name) / "app.py"))
    page: Any = app["PAGE"]
    assert isinstance(app["demo"], gradio.Blocks)
    defaults = [option.default for option in page.options]

    table, figure, result = page.compute(page.example, None, *defaults)
    assert [row[0] for row in table[: len(page.headline)]] == list(page.headline)
    assert {row[0] for row in table} == result.keys() - {"notes", "reasons"}
    assert figure.axes[0].get_xlabel()
    json.dumps(result, allow_nan=False)
    assert page.compute(page.example, None, *(None for _ in defaults))[2] == result

    with pytest.raises(InputError, match="got answers"):
        page.compute('{"answers": [1]}', None, *defaults)
    # What the button runs is the same with the error as a message of the page.
    (button,) = [function for function in app["demo"].fns.values() if function.fn.__name__ == "shown"]
    assert button.fn(page.example, None, *defaults)[2] == result
    with pytest.raises(gradio.Error, match="got nothing"):
        button.fn("", None, *defaults)


@pytest.mark.usefixtures("caches")
def test_uploaded_arrays(tmp_path: Path) -> None:
    pytest.importorskip("gradio", reason="the pages need the extra `hubaudit[space]`")
    page: Any = runpy.run_path(str(metric_folder("prism_bound") / "app.py"))["PAGE"]
    base = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    np.savez(tmp_path / "upload.npz", references=base, predictions=base, base_head=np.eye(4, dtype=np.float32))
    result = page.compute("", str(tmp_path / "upload.npz"), "token", "procrustes")[2]
    assert (result["bound"], result["weights"], result["alignment"]) == (0.0, "token", "procrustes")
