"""The base's tokenizer, and whether its ids mean the same to a variant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hubaudit.errors import ModelFileError, VariantError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["check_same_tokens", "load_tokenizer"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")


class _UsesTokens(Protocol):
    """Something that feeds token ids."""

    @property
    def token_ids(self) -> frozenset[int]:
        """The ids that are fed or predicted."""
        ...


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model's folder.

    Raises:
        ModelFileError: If the folder has none, or it cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as exc:
        lines = str(exc).strip().splitlines()
        raise ModelFileError(
            f"{folder}: the tokenizer cannot be read ({lines[0][:200] if lines else type(exc).__name__}); "
            "the base needs its tokenizer's files"
        ) from exc
    return tokenizer


def check_same_tokens(path: Path, tokenizer: PreTrainedTokenizerBase, plan: _UsesTokens) -> list[str]:
    """Check that every token id that is used means the same to the variant.

    Args:
        path: The variant's folder or GGUF file.
        tokenizer: The base's tokenizer.
        plan: What is fed.

    Returns:
        Notes for the report: how many other ids differ, or that the variant has no tokens to compare.

    Raises:
        VariantError: If an id that is used means another token.
    """
    theirs = _tokens(path)
    if theirs is None:
        return ["it has no tokenizer of its own; its token ids are taken to be the base's"]
    ours = {index: token for token, index in tokenizer.get_vocab().items()}
    differing = [index for index, token in ours.items() if index in theirs and theirs[index] != token]
    used = sorted(set(differing) & plan.token_ids)
    if used:
        first = used[0]
        raise VariantError(
            f"{path.name}: foreign tokens: id {first} is {ours[first]!r} in the base but {theirs[first]!r} here, "
            f"and {len(used)} of the ids that the audit feeds differ; this is no variant of that base"
        )
    return [f"{len(differing)} token ids that the audit does not use have another name than in the base"] * bool(
        differing
    )


def _tokens(path: Path) -> dict[int, str] | None:
    if path.is_file():
        from hubaudit.load.gguf_file import read_tokens

        tokens = read_tokens(path)
        return dict(enumerate(tokens)) if tokens is not None else None
    if not any((path / name).is_file() for name in _TOKENIZER_FILES):
        return None
    return {index: token for token, index in load_tokenizer(path).get_vocab().items()}
