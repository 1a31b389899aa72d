from __future__ import annotations

import json
from pathlib import Path

import pytest

from hubaudit.errors import InputError
from hubaudit.tasks import load_contrast, load_task
from hubaudit.tasks import read as read_module


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


CHOICE = {"question": "Which?", "options": {"A": "one", "B": "two"}, "answer": "B"}


def test_multiple_choice_file_is_read_in_arc_format(tmp_path: Path) -> None:
    task = load_task(str(write(tmp_path / "mine.jsonl", CHOICE)), limit=None, seed=0)
    (item,) = task.items
    assert (task.name, task.kind, task.headline_metric) == ("mine", "multiple_choice", "acc_norm")
    assert item.contexts == ("Question: Which?\nAnswer:",) * 2
    assert item.continuations == (" one", " two")
    assert item.gold == 1


@pytest.mark.parametrize("row", [{"prompt": "2+2=", "target": " 4"}, {"question": "2+2=", "answer": "4"}])
def test_answers_are_tokenized_apart(tmp_path: Path, row: dict[str, str]) -> None:
    task = load_task(str(write(tmp_path / "mine.jsonl", row)), limit=None, seed=0)
    assert (task.kind, task.headline_metric, task.joined_tokens) == ("answer", "exact_match", False)
    assert task.items[0].continuations == (" 4",)


def test_a_corpus_is_cut_into_windows_that_lose_nothing(tmp_path: Path) -> None:
    text = " ".join(f"word{number}" for number in range(1000))
    path = tmp_path / "corpus.txt"
    path.write_text(text)
    task = load_task(str(path), limit=None, seed=0)
    assert task.kind == "corpus"
    assert "".join(item.continuations[0] for item in task.items) == text


def test_the_sample_is_seeded_and_keeps_the_order(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.jsonl", *[{**CHOICE, "id": f"{number:03d}"} for number in range(50)])
    ids = [[item.item_id for item in load_task(str(path), limit=10, seed=seed).items] for seed in (1, 1, 2)]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0] == sorted(ids[0])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((), "the file is empty"),
        (("not json",), r"line 1: expected a JSON object"),
        ((CHOICE, "[1]"), r"line 2: expected a JSON object, but got list"),
        (({**CHOICE, "options": {"A": "one"}},), "line 1: .*at least two options"),
        (({**CHOICE, "answer": "C"},), r"line 1: the answer must be one of the labels \['A', 'B'\]"),
        (({**CHOICE, "answer": 7},), "line 1: the answer's index must be below 2"),
        (({**CHOICE, "options": {"A": "one", "B": " "}},), "line 1: an option is empty"),
        (({"question": "Which?", "options": ["a", "b"]},), "line 1: the field 'answer' is missing"),
        (({"prompt": "x"},), "line 1: the field 'target' is missing"),
        (({"prompt": "x", "target": 3},), "line 1: target must be a text"),
        ((CHOICE, {"prompt": "x", "target": "y"}), "every line must be of one kind"),
        (({**CHOICE, "id": "a"}, {**CHOICE, "id": "a"}), "line 2: the id 'a' stands in line 1 too"),
    ],
)
def test_a_bad_file_names_itself_and_the_line(tmp_path: Path, rows: tuple[object, ...], message: str) -> None:
    path = write(tmp_path / "bad.jsonl", *rows)
    with pytest.raises(InputError, match=message) as caught:
        load_task(str(path), limit=None, seed=0)
    assert "bad.jsonl" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    path.write_text(json.dumps({"prompt": "a\u2028b\u0085c", "target": " d"}, ensure_ascii=False) + "\r\n")
    (item,) = load_task(str(path), limit=None, seed=0).items
    assert item.contexts == ("a\u2028b\u0085c",)


def test_deep_nesting_is_a_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="line 1: expected a JSON object"):
        load_task(str(path), limit=None, seed=0)


def test_other_bad_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown task 'nonsense'"):
        load_task("nonsense", limit=None, seed=0)
    with pytest.raises(InputError, match="cannot be read as UTF-8"):
        load_task(str(tmp_path / "missing.jsonl"), limit=None, seed=0)
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read as UTF-8"):
        load_task(str(tmp_path / "latin.jsonl"), limit=None, seed=0)
    (tmp_path / "blank.txt").write_text(" \n ")
    with pytest.raises(InputError, match="expected text"):
        load_task(str(tmp_path / "blank.txt"), limit=None, seed=0)


def test_contrast_from_two_files(tmp_path: Path) -> None:
    first = tmp_path / "a.txt"
    first.write_text("\n".join(f"please {number}" for number in range(9)))
    second = write(tmp_path / "b.jsonl", *[{"instruction": f"do {number}"} for number in range(12)])
    contrast = load_contrast(f"{first},{second}", limit=8, seed=0)
    assert (len(contrast.prompts_a), len(contrast.prompts_b)) == (8, 8)
    assert contrast.prompts_b[0].startswith("do")


def test_contrast_classes_need_eight_prompts(tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    few.write_text("one\ntwo\n")
    with pytest.raises(InputError, match="at least 8 prompts in the first class, but got 2"):
        load_contrast(f"{few},{few}", limit=None, seed=0)
    with pytest.raises(InputError, match="unknown contrast set"):
        load_contrast("nothing", limit=None, seed=0)


def test_hub_tasks_use_their_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"question": "Why?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "2"}
    asked = []

    def rows(*where: object) -> tuple[list[dict[str, object]], str]:
        asked.append(where)
        return [row], "f" * 40

    monkeypatch.setattr(read_module, "read_hub_rows", rows)
    task = load_task("arc", limit=None, seed=0)
    assert asked == [("allenai/ai2_arc", "ARC-Challenge", "test")]
    assert "f" * 40 in task.source
    assert task.items[0].gold == 1
