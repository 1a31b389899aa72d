"""Make audit_tiny.json: every figure of one audit of a tiny model, so that speed work cannot change a result unseen.

    python tests/golden/make_audit.py

Figures of the compute floor are left out: they are rounding errors, and differ between processors.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GOLDEN = HERE / "audit_tiny.json"
# Names and times, what follows from the floor, and long lists whose counts are there.
LEFT_OUT = frozenset(
    {"spec", "content_id", "seconds", "notes", "check_max_difference", "check_tolerance"}
    | {"findings", "below_floor", "theta0_degrees", "changed_items", "monitor"}
)


def audit_figures(folder: Path, tokenizer: Any) -> dict[str, Any]:
    """Every figure of an audit of four variants of a random Llama, by its path in the report.

    Args:
        folder: An empty folder.
        tokenizer: The tests' tokenizer of bytes.
    """
    from tiny_llama import save_tiny_llama

    import hubaudit

    base = save_tiny_llama(folder / "base", tokenizer)
    other = save_tiny_llama(folder / "other", tokenizer, seed=3, tie_word_embeddings=False)
    rows = (
        {"question": f"What is {n} plus {n % 7}?", "options": [str(n + n % 7 + k) for k in range(4)], "answer": n % 4}
        for n in range(40)
    )
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "corpus.txt").write_text("Snow is cold and the sun is hot. " * 14)
    report = hubaudit.audit(
        str(base),
        ["rtn:8@g16", "rtn:3@g16", "bnb:nf4", str(other)],
        tasks=[str(folder / "sums.jsonl"), str(folder / "corpus.txt"), "builtin-answers"],
        contrast="builtin",
        limit=40,
        dtype="float32",
        device="cpu",
        cache_dir=folder / "cache",
    )
    content = report.model_dump(mode="json")
    kept = {key: content[key] for key in ("tasks", "contrast", "ranking", "ranking_pooled")}
    kept["variants"] = {str(index): variant for index, variant in enumerate(content["variants"])}
    return dict(_leaves(kept, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in LEFT_OUT:
                yield from _leaves(inner, f"{path}/{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}/{index}")
    elif isinstance(value, float):
        yield path, float(f"{value:.7g}")
    elif not isinstance(value, str) or not value.startswith("/"):
        yield path, value


def main() -> None:
    """Audit and write."""
    sys.path.insert(0, str(HERE.parent))
    from tiny_llama import byte_tokenizer

    with tempfile.TemporaryDirectory() as folder:
        figures = audit_figures(Path(folder), byte_tokenizer())
    GOLDEN.write_text(json.dumps(figures, indent=0) + "\n")
    print(f"{len(figures)} figures in {GOLDEN}")


if __name__ == "__main__":
    main()
