"""Items -> token ids with gold spans, tokenized as lm-eval does."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from hubaudit.errors import InputError
from hubaudit.tasks.items import Task, TaskKind

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from hubaudit.tasks.contrast import ContrastSet

__all__ = ["ScoredOption", "TokenizedItem", "TokenizedTask", "max_length", "tokenize_contrast", "tokenize_task"]


@dataclasses.dataclass(frozen=True)
class ScoredOption:
    """The token ids of one option: `input_ids` are fed, `target_ids` are predicted by its last positions."""

    input_ids: tuple[int, ...]
    """Context and all but the last target token."""
    target_ids: tuple[int, ...]
    """Tokens whose log-probability counts; predicted at the last `len(target_ids)` positions."""


@dataclasses.dataclass(frozen=True)
class TokenizedItem:
    """One item's options as token ids."""

    item_id: str
    options: tuple[ScoredOption, ...]
    labels: tuple[str, ...]
    """What is shown for each option."""
    lengths: tuple[int, ...]
    """Characters of each option: the divisor of `acc_norm`."""
    gold: int
    subject: str | None


@dataclasses.dataclass(frozen=True)
class TokenizedTask:
    """A task ready to run."""

    name: str
    kind: TaskKind
    source: str
    headline_metric: str
    items: tuple[TokenizedItem, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The scores that this kind of task has."""
        return {"multiple_choice": ("acc", "acc_norm"), "answer": ("exact_match",), "corpus": ()}[self.kind]

    @property
    def n_gold_tokens(self) -> int:
        """Rows of the feature matrix: tokens of all gold options."""
        return sum(len(item.options[item.gold].target_ids) for item in self.items)


def max_length(config: Any) -> int:
    """Positions that a model has, by its text configuration; a million where that does not say."""
    return int(getattr(config, "max_position_embeddings", None) or 2**20)


def tokenize_task(task: Task, tokenizer: PreTrainedTokenizerBase, *, max_length: int) -> TokenizedTask:
    """Tokenize every option of every item.

    Args:
        task: The task.
        tokenizer: The base's tokenizer.
        max_length: Positions that the base has; longer inputs lose tokens at the left, as in lm-eval.

    Returns:
        The task as token ids.

    Raises:
        InputError: If an option tokenizes to nothing, or alone is longer than the model's context.
    """
    items = []
    for item in task.items:
        options = []
        for context, continuation, shown in zip(item.contexts, item.continuations, item.options, strict=True):
            context_ids, target_ids = _encode_pair(tokenizer, context, continuation, joined=task.joined_tokens)
            if not target_ids:
                raise InputError(
                    f"{task.source}, item {item.item_id}: the option {shown!r} has no tokens of its own; "
                    "change or drop the item"
                )
            if len(target_ids) > max_length:
                raise InputError(
                    f"{task.source}, item {item.item_id}: an option has {len(target_ids)} tokens, but the model "
                    f"takes {max_length}; shorten it"
                )
            input_ids = (context_ids + target_ids)[-(max_length + 1) : -1]
            options.append(ScoredOption(tuple(input_ids), tuple(target_ids)))
        items.append(
            TokenizedItem(
                item.item_id,
                tuple(options),
                item.options,
                tuple(len(option) for option in item.options),
                item.gold,
                item.subject,
            )
        )
    return TokenizedTask(task.name, task.kind, task.source, task.headline_metric, tuple(items))


def _encode_pair(
    tokenizer: PreTrainedTokenizerBase, context: str, continuation: str, *, joined: bool
) -> tuple[list[int], list[int]]:
    if not context:
        ids = list(tokenizer.encode(continuation, add_special_tokens=False))
        prefix = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        return ([prefix], ids) if prefix is not None else (ids[:1], ids[1:])
    spaces = len(context) - len(context.rstrip())
    if joined and spaces:
        context, continuation = context[:-spaces], context[-spaces:] + continuation
    context_ids = _encode(tokenizer, context)
    if not joined:
        return context_ids, list(tokenizer.encode(continuation, add_special_tokens=False))
    whole = _encode(tokenizer, context + continuation)
    return context_ids, whole[len(context_ids) :]


def _encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """With the tokenizer's own special tokens, unless the text already begins with BOS."""
    bos = tokenizer.bos_token
    special = not (isinstance(bos, str) and bos and text.startswith(bos))
    return list(tokenizer.encode(text, add_special_tokens=special))


def tokenize_contrast(
    contrast: ContrastSet, tokenizer: PreTrainedTokenizerBase, *, max_length: int
) -> tuple[tuple[int, ...], ...]:
    """Token ids of every prompt through the base's chat template, class A first.

    Without a template the prompt's own text is used.
    """
    sequences = []
    for prompt in (*contrast.prompts_a, *contrast.prompts_b):
        if tokenizer.chat_template:
            text = str(
                tokenizer.apply_chat_template(
                    [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
                )
            )
            ids = list(tokenizer.encode(text, add_special_tokens=False))
        else:
            ids = list(tokenizer.encode(prompt))
        if not ids:
            raise InputError(f"contrast set {contrast.name}: the prompt {prompt!r} has no tokens; drop it")
        sequences.append(tuple(ids[-max_length:]))
    return tuple(sequences)
