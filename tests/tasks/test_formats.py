"""The prompts of lm-eval 0.4.13, written out by hand from its task files."""

from __future__ import annotations

from hubaudit.tasks import formats


def test_mmlu() -> None:
    row = {"question": " What? ", "choices": ["w", "x", "y", "z"], "answer": 2, "subject": "high_school_physics"}
    item = formats.mmlu_item("i", row)
    assert item.contexts[0] == (
        "The following are multiple choice questions (with answers) about high school physics.\n\n"
        "What?\nA. w\nB. x\nC. y\nD. z\nAnswer:"
    )
    assert item.continuations == (" A", " B", " C", " D")
    assert (item.gold, item.subject) == (2, "high_school_physics")


def test_csqa() -> None:
    row = {"question": "Where?", "choices": {"text": list("vwxyz"), "label": list("ABCDE")}, "answerKey": "E"}
    item = formats.csqa_item("i", row)
    assert item.contexts[0] == "Question: Where?\nA. v\nB. w\nC. x\nD. y\nE. z\nAnswer:"
    assert item.gold == 4


def test_hellaswag_is_cleaned() -> None:
    row = {
        "activity_label": "Cooking",
        "ctx_a": "[header] Stir [title] slowly",
        "ctx_b": "the pot",
        "endings": ["boils  over.", "[step] rests."],
        "label": "1",
    }
    item = formats.hellaswag_item("i", row)
    assert item.contexts[0] == "Cooking: Stir. slowly The pot"
    assert item.continuations == (" boils over.", "  rests.")
    assert item.gold == 1


def test_winogrande_scores_the_rest_of_the_sentence() -> None:
    row = {"sentence": "Ann thanked Eve because _ helped her.", "option1": "Ann", "option2": "Eve", "answer": "2"}
    item = formats.winogrande_item("i", row)
    assert item.contexts == ("Ann thanked Eve because Ann", "Ann thanked Eve because Eve")
    assert item.continuations == (" helped her.",) * 2
    assert item.gold == 1


def test_sst2_squad_triviaqa_gsm8k() -> None:
    assert formats.sst2_item("i", {"sentence": "fine", "label": 1}).contexts[0].endswith("negative?\nAnswer:")
    squad = {"title": "T", "context": "C", "question": "Q", "answers": {"text": ["a", "b"]}}
    assert formats.squad_item("i", squad).contexts[0] == "Title: T\n\nBackground: C\n\nQuestion: Q\n\nAnswer:"
    assert formats.squad_item("i", squad).continuations == (" a",)
    trivia = {"question": "Who", "answer": {"value": "Me"}}
    assert formats.triviaqa_item("i", trivia).contexts == ("Question: Who?\nAnswer:",)
    assert formats.gsm8k_item("i", {"question": "1+1", "answer": "#### 2"}).continuations == (" #### 2",)
