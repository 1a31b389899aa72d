"""The base's tokenizer, and whether its ids mean the same to a variant."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from hubaudit.errors import ModelFileError, VariantError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["TokenizerComparison", "compare_tokenizers", "load_tokenizer"]

ChatTemplate = Literal["same", "differs", "missing", "added"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
_ROLES = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
"""Roles as transformers names them, and GGUF."""


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerComparison:
    """What a variant's tokenizer says about the base's token ids, and its chat template."""

    n_tokens: int
    """Tokens that the variant's tokenizer names."""
    n_differing: int
    """Ids of the base that have another name in the variant; none of them is used by the audit."""
    special_tokens: list[str]
    """Roles whose token differs, as `eos_token`, where the variant states them."""
    chat_template: ChatTemplate
    """`same` or `differs` where both have one (or neither: `same`), `missing` in the variant, or `added` by it."""


def compare_tokenizers(path: Path, tokenizer: PreTrainedTokenizerBase, plan: _UsesTokens) -> TokenizerComparison | None:
    """Check that every token id that is used means the same to the variant, and what else differs.

    Args:
        path: The variant's folder or GGUF file.
        tokenizer: The base's tokenizer.
        plan: What is fed.

    Returns:
        The differences; None if the variant has no tokenizer of its own.

    Raises:
        VariantError: If an id that is used means another token.
    """
    theirs = _read(path)
    if theirs is None:
        return None
    ours = {index: token for token, index in tokenizer.get_vocab().items()}
    differing = [index for index, token in ours.items() if theirs.tokens.get(index, token) != token]
    used = sorted(set(differing) & plan.token_ids)
    if used:
        first = used[0]
        raise VariantError(
            f"{path.name}: foreign tokens: id {first} is {ours[first]!r} in the base but {theirs.tokens[first]!r} "
            f"here, and {len(used)} of the ids that the audit feeds differ; this is no variant of that base"
        )
    special = [
        role for role, token in theirs.special.items() if token is not None and token != getattr(tokenizer, role, None)
    ]
    return TokenizerComparison(
        n_tokens=len(theirs.tokens),
        n_differing=len(differing),
        special_tokens=sorted(special),
        chat_template=_compare_templates(tokenizer.chat_template, theirs.chat_template),
    )


@dataclasses.dataclass(frozen=True)
class _Tokenizer:
    tokens: dict[int, str]
    special: dict[str, str | None]
    chat_template: object
    """A string, a dict of named ones, or None."""


def _read(path: Path) -> _Tokenizer | None:
    if path.is_file():
        return _read_gguf(path)
    if not any((path / name).is_file() for name in _TOKENIZER_FILES):
        return None
    tokenizer = load_tokenizer(path)
    tokens = {index: token for token, index in tokenizer.get_vocab().items()}
    return _Tokenizer(tokens, {role: getattr(tokenizer, role, None) for role in _ROLES}, tokenizer.chat_template)


def _read_gguf(path: Path) -> _Tokenizer | None:
    from hubaudit.load.gguf_file import open_gguf, read_tokens

    names = read_tokens(path)
    if names is None:
        return None
    tokens, file = dict(enumerate(names)), open_gguf(path)
    ids = {role: file.metadata.get(f"tokenizer.ggml.{key}_token_id") for role, key in _ROLES.items()}
    special = {role: tokens.get(index) if isinstance(index, int) else None for role, index in ids.items()}
    return _Tokenizer(tokens, special, file.metadata.get("tokenizer.chat_template"))


def _compare_templates(ours: object, theirs: object) -> ChatTemplate:
    ours, theirs = (
        template.get("default") if isinstance(template, dict) else template or None for template in (ours, theirs)
    )
    if ours == theirs or (isinstance(ours, str) and isinstance(theirs, str) and ours.strip() == theirs.strip()):
        return "same"
    if theirs is None:
        return "missing"
    return "added" if ours is None else "differs"
