"""One real audit of a tiny model, with its evidence kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tiny_llama import save_tiny_llama

import hubaudit
from hubaudit.report.schema import Report

CHOICE = [
    {
        "id": f"q{n}",
        "question": f"What is {n} plus {n}?",
        "options": [str(2 * n), str(2 * n + 1), "none"],
        "answer": n % 3,
    }
    for n in range(12)
]
FORCED = [{"id": f"a{n}", "prompt": f"Count: {n},", "target": f" {n + 1}"} for n in range(6)]


class Audited(NamedTuple):
    """A report, where it lies, and the folder of its evidence."""

    report: Report
    path: Path
    cache: Path
    folder: Path


@pytest.fixture(scope="session")
def audited(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Any) -> Audited:
    """An audit of two roundings, another head and a variant that is missing."""
    folder = tmp_path_factory.mktemp("verify")
    (folder / "choice.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CHOICE))
    (folder / "forced.jsonl").write_text("".join(json.dumps(row) + "\n" for row in FORCED))
    for name in "ab":
        lines = [f"Please do the thing {name} number {n}" for n in range(18)]
        (folder / f"{name}.txt").write_text("\n".join(lines))
    save_tiny_llama(folder / "other", tiny_tokenizer, seed=3, tie_word_embeddings=False)
    report = hubaudit.audit(
        str(tiny_base),
        ["rtn:8@g16", "rtn:3@g16", str(folder / "other"), "./missing"],
        tasks=[str(folder / "choice.jsonl"), str(folder / "forced.jsonl")],
        contrast=f"{folder / 'a.txt'},{folder / 'b.txt'}",
        dtype="float32",
        device="cpu",
        cache_dir=folder / "cache",
    )
    path = folder / "report.json"
    path.write_text(report.to_json())
    return Audited(report, path, folder / "cache", folder)
