"""The prompt set that ships with the package keeps the rules its README states."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(str(resources.files("hubaudit") / "tasks" / "builtin"))
LETTERS = ("A", "B", "C", "D")


def read_jsonl(name: str) -> list[dict[str, Any]]:
    """Rows of a JSONL file of the set; a broken line fails with its own message."""
    return [json.loads(line) for line in (FOLDER / name).read_text("utf-8").splitlines()]


def read_lines(name: str) -> list[str]:
    """Prompts of a contrast file."""
    return (FOLDER / name).read_text("utf-8").splitlines()


def normalise(text: str) -> str:
    """Lower-case words with single spaces: what is left when punctuation cannot hide a copy."""
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))


@pytest.fixture(scope="module")
def items() -> list[dict[str, Any]]:
    return read_jsonl("multiple_choice.jsonl")


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    return read_jsonl("answers.jsonl")


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return list(zip(read_lines("contrast_declined.txt"), read_lines("contrast_accepted.txt"), strict=True))


def test_files_are_ascii_and_end_with_one_newline() -> None:
    for path in sorted(FOLDER.iterdir()):
        data = path.read_bytes()
        assert data.isascii(), path.name
        assert b"\r" not in data, path.name
        assert data.endswith(b"\n"), path.name
        assert not data.endswith(b"\n\n"), path.name


def test_multiple_choice_rows_have_exactly_the_documented_fields(items: list[dict[str, Any]]) -> None:
    for item in items:
        assert list(item) == ["id", "subject", "question", "options", "answer"], item
        assert tuple(item["options"]) == LETTERS, item["id"]
        assert item["answer"] in item["options"], item["id"]
        texts = [item["question"], *item["options"].values()]
        assert all(isinstance(text, str) and text and text == text.strip() for text in texts), item["id"]


def test_multiple_choice_covers_enough_subjects(items: list[dict[str, Any]]) -> None:
    per_subject = Counter(item["subject"] for item in items)
    assert len(items) >= 144
    assert len(per_subject) >= 12
    assert min(per_subject.values()) >= 12, per_subject


def test_multiple_choice_ids_are_the_subject_and_a_running_number(items: list[dict[str, Any]]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        seen[item["subject"]] += 1
        assert item["id"] == f"{item['subject'].replace('_', '-')}-{seen[item['subject']]:02d}"


def test_multiple_choice_has_no_duplicates(items: list[dict[str, Any]]) -> None:
    assert len({item["id"] for item in items}) == len(items)
    assert len({normalise(item["question"]) for item in items}) == len(items)
    for item in items:
        assert len({normalise(text) for text in item["options"].values()}) == 4, item["id"]


def test_every_letter_is_right_equally_often_within_a_few(items: list[dict[str, Any]]) -> None:
    counts = Counter(item["answer"] for item in items)
    for letter in LETTERS:
        assert 0.20 <= counts[letter] / len(items) <= 0.30, counts


def test_options_of_an_item_have_one_form(items: list[dict[str, Any]]) -> None:
    """Options are scored as text, so a capital, a full stop or an extra clause must not mark the answer."""
    longest_right = 0
    for item in items:
        texts = list(item["options"].values())
        assert len({text.endswith(".") for text in texts}) == 1, item["id"]
        lengths = [len(text) for text in texts]
        assert max(lengths) <= 45, item["id"]
        assert max(lengths) - min(lengths) <= 16, item["id"]
        longest_right += len(item["options"][item["answer"]]) == max(lengths)
    # Chance alone is 1/4 and ties add to it; well above one half the longest option would be a winning guess.
    assert longest_right / len(items) <= 0.5


def test_answers_have_a_scored_space_and_one_to_four_words(answers: list[dict[str, Any]]) -> None:
    assert len(answers) >= 48
    for row in answers:
        assert list(row) == ["id", "prompt", "target"], row
        assert row["prompt"] == row["prompt"].strip(), row["id"]
        assert row["target"].startswith(" "), row["id"]
        assert row["target"][1:] == row["target"].strip(), row["id"]
        assert 1 <= len(row["target"].split()) <= 4, row["id"]
        assert "\n" not in row["target"], row["id"]


def test_answers_are_of_several_kinds_and_distinct(answers: list[dict[str, Any]]) -> None:
    kinds = Counter(row["id"].rsplit("-", 1)[0] for row in answers)
    assert len(kinds) >= 8, kinds
    assert max(kinds.values()) <= len(answers) / 3, kinds
    assert len({row["id"] for row in answers}) == len(answers)
    assert len({normalise(row["prompt"]) for row in answers}) == len(answers)


def test_no_question_answering_prompt_shows_its_own_target(answers: list[dict[str, Any]]) -> None:
    """The solved example in a prompt must not be the answer that is asked for."""
    for row in answers:
        shown = re.findall(r"Answer: (.+)", row["prompt"])
        assert row["target"].strip() not in shown, row["id"]


def test_contrast_classes_are_distinct_and_large_enough(pairs: list[tuple[str, str]]) -> None:
    assert len(pairs) >= 96
    prompts = [normalise(prompt) for pair in pairs for prompt in pair]
    assert len(set(prompts)) == len(prompts)
    assert all(prompt == prompt.strip() for pair in pairs for prompt in pair)


def test_contrast_pairs_share_opening_length_and_punctuation(pairs: list[tuple[str, str]]) -> None:
    """Line by line the same form, so that a direction between the classes is not one of length or mood."""
    for declined, accepted in pairs:
        assert declined.split()[:2] == accepted.split()[:2], (declined, accepted)
        assert len(declined.split()) == len(accepted.split()), (declined, accepted)
        assert declined[-1] == accepted[-1], (declined, accepted)
        assert declined[-1] in ".?", declined
        assert abs(len(declined) - len(accepted)) <= 14, (declined, accepted)


def test_contrast_length_in_characters_does_not_tell_the_classes_apart(pairs: list[tuple[str, str]]) -> None:
    """The best single cut on length does little better than a coin: at most 60 % right."""
    declined = [len(pair[0]) for pair in pairs]
    accepted = [len(pair[1]) for pair in pairs]
    for cut in range(min(declined + accepted), max(declined + accepted) + 1):
        right = sum(n >= cut for n in declined) + sum(n < cut for n in accepted)
        share = right / (2 * len(pairs))
        assert 0.40 <= share <= 0.60, cut


def test_contrast_openings_are_varied(pairs: list[tuple[str, str]]) -> None:
    openings = Counter(declined.split()[0] for declined, _ in pairs)
    assert len(openings) >= 10, openings
    assert max(openings.values()) <= len(pairs) / 4, openings


def test_nothing_is_copied_from_the_reference_data(
    shared: Path,
    items: list[dict[str, Any]],
    answers: list[dict[str, Any]],
    pairs: list[tuple[str, str]],
) -> None:
    """No run of eight words, and no shorter item as a whole, also occurs in a data file of the developers."""
    ours = [item["question"] for item in items]
    lines = [line for row in answers for line in row["prompt"].splitlines() if line]
    ours += [line.removeprefix("Question: ") for line in lines if not line.startswith("Answer:")]
    ours += [prompt for pair in pairs for prompt in pair]
    runs: dict[tuple[str, ...], str] = {}
    for text in ours:
        words = normalise(text).split()
        assert len(words) >= 2, text
        runs |= {tuple(words[i : i + 8]): text for i in range(max(1, len(words) - 7))}
    openings: dict[tuple[str, ...], set[int]] = {}  # first two words -> lengths of the runs that begin so
    for run in runs:
        openings.setdefault(run[:2], set()).add(len(run))
    paths = sorted((shared / "data").glob("*.jsonl"))
    assert paths
    for path in paths:
        for line in path.read_text("utf-8").splitlines():
            for value in json.loads(line).values():
                words = normalise(str(value)).split()
                for i, opening in enumerate(itertools.pairwise(words)):
                    for size in openings.get(opening, ()):
                        run = tuple(words[i : i + size])
                        assert run not in runs, (path.name, runs.get(run))
