"""One row of a dataset -> one item, with lm-eval 0.4.13's prompts for the tasks of the same name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hubaudit.tasks.items import Item

__all__ = [
    "answer_item",
    "arc_item",
    "csqa_item",
    "gsm8k_item",
    "hellaswag_item",
    "labelled_options",
    "mmlu_item",
    "question_item",
    "squad_item",
    "sst2_item",
    "triviaqa_item",
    "winogrande_item",
]

Row = Mapping[str, Any]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def question_item(item_id: str, context: str, options: list[str], gold: int, *, subject: str | None = None) -> Item:
    """Options that share one context and follow it after a space."""
    return Item(
        item_id=item_id,
        contexts=(context,) * len(options),
        continuations=tuple(f" {option}" for option in options),
        options=tuple(options),
        gold=gold,
        subject=subject,
    )


def labelled_options(options: Any, answer: Any) -> tuple[list[str], int]:
    """Read the spellings of options that benchmark files use.

    Args:
        options: `{"A": text, ...}`, a list of texts, or `{"text": [...], "label": [...]}`.
        answer: A label, an index from 0, or the text of the right option.

    Returns:
        The texts and the index of the right one.

    Raises:
        ValueError: If the options or the answer are none of these; the message says what was expected.
    """
    if isinstance(options, Mapping) and isinstance(options.get("text"), list):
        texts = [str(text) for text in options["text"]]
        labels = [str(label) for label in options.get("label", LETTERS[: len(texts)])]
    elif isinstance(options, Mapping):
        labels, texts = [str(key) for key in options], [str(value) for value in options.values()]
    elif isinstance(options, list | tuple):
        texts = [str(text) for text in options]
        labels = list(LETTERS[: len(texts)])
    else:
        raise ValueError(f"options must be a list or a mapping, but got {type(options).__name__}")
    if len(texts) < 2:
        raise ValueError(f"a multiple-choice item needs at least two options, but got {len(texts)}")
    if isinstance(answer, int) and not isinstance(answer, bool):
        gold = answer
    elif str(answer) in labels:
        gold = labels.index(str(answer))
    elif str(answer) in texts:
        gold = texts.index(str(answer))
    else:
        raise ValueError(f"the answer must be one of the labels {labels}, an index or an option, but got {answer!r}")
    if not 0 <= gold < len(texts):
        raise ValueError(f"the answer's index must be below {len(texts)}, but got {gold}")
    return texts, gold


def arc_item(item_id: str, row: Row) -> Item:
    """`allenai/ai2_arc`: options' texts after the question and `Answer:`."""
    options, gold = labelled_options(row["choices"], row["answerKey"])
    return question_item(item_id, f"Question: {row['question']}\nAnswer:", options, gold)


def _lettered(item_id: str, question: str, options: list[str], gold: int, before: str, subject: str | None) -> Item:
    lines = "".join(f"\n{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))
    context = f"{before}{question.strip()}{lines}\nAnswer:"
    return question_item(item_id, context, list(LETTERS[: len(options)]), gold, subject=subject)


def mmlu_item(item_id: str, row: Row) -> Item:
    """`cais/mmlu`, 0-shot: the options stand in the question, their letters are scored."""
    subject = str(row["subject"])
    before = f"The following are multiple choice questions (with answers) about {subject.replace('_', ' ')}.\n\n"
    options, gold = labelled_options(row["choices"], row["answer"])
    return _lettered(item_id, row["question"], options, gold, before, subject)


def csqa_item(item_id: str, row: Row) -> Item:
    """`tau/commonsense_qa`: the options stand in the question, their letters are scored."""
    options, gold = labelled_options(row["choices"], row["answerKey"])
    return _lettered(item_id, f"Question: {row['question'].strip()}", options, gold, "", None)


def _hellaswag_text(text: str) -> str:
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


def hellaswag_item(item_id: str, row: Row) -> Item:
    """`Rowan/hellaswag`: four endings of a story, cleaned as lm-eval does."""
    context = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
    endings = [_hellaswag_text(ending) for ending in row["endings"]]
    return question_item(item_id, _hellaswag_text(context), endings, int(row["label"]))


def winogrande_item(item_id: str, row: Row) -> Item:
    """`allenai/winogrande`: the option stands in the context, the rest of the sentence is scored."""
    before, after = row["sentence"].split("_", 1)
    contexts = tuple(before + str(row[key]) for key in ("option1", "option2"))
    return Item(item_id, contexts, (f" {after.strip()}",) * 2, contexts, int(row["answer"]) - 1)


def sst2_item(item_id: str, row: Row) -> Item:
    """`stanfordnlp/sst2`: the sentiment of a sentence, `negative` or `positive`."""
    context = f"{row['sentence']}\nQuestion: Is this sentence positive or negative?\nAnswer:"
    return question_item(item_id, context, ["negative", "positive"], int(row["label"]))


def answer_item(item_id: str, prompt: str, target: str) -> Item:
    """A text to be forced after a prompt."""
    return Item(item_id, (prompt,), (target,), (target.strip(),), 0)


def gsm8k_item(item_id: str, row: Row) -> Item:
    """`openai/gsm8k`: the whole worked solution."""
    return answer_item(item_id, f"Question: {row['question']}\nAnswer:", f" {row['answer']}")


def triviaqa_item(item_id: str, row: Row) -> Item:
    """`mandarjoshi/trivia_qa`: the answer's canonical spelling."""
    return answer_item(item_id, f"Question: {row['question']}?\nAnswer:", f" {row['answer']['value']}")


def squad_item(item_id: str, row: Row) -> Item:
    """`rajpurkar/squad`: the first annotated span, after lm-eval's SQuAD prompt."""
    prompt = f"Title: {row['title']}\n\nBackground: {row['context']}\n\nQuestion: {row['question']}\n\nAnswer:"
    return answer_item(item_id, prompt, f" {row['answers']['text'][0]}")
