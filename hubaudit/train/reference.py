"""The reference set: sequences whose features the fine-tuned model shall keep."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from hubaudit.errors import InputError

__all__ = ["Reference", "read_reference"]

_IGNORED = -100


@dataclasses.dataclass(frozen=True)
class Reference:
    """A batch of token sequences, padded on the right."""

    input_ids: torch.Tensor
    """(sequences, longest), int64."""
    attention_mask: torch.Tensor
    """1 where there is a token, 0 for padding, (sequences, longest), int64."""

    @property
    def n_tokens(self) -> int:
        """Tokens without padding."""
        return int(self.attention_mask.sum())

    @property
    def digest(self) -> str:
        """SHA-256 of the tokens and their lengths: features of one reference set are not those of another."""
        lengths = self.attention_mask.sum(1).tolist()
        rows = [ids[:length] for ids, length in zip(self.input_ids.tolist(), lengths, strict=True)]
        return hashlib.sha256(repr(rows).encode()).hexdigest()

    @property
    def labels(self) -> torch.Tensor:
        """The tokens, and -100 for padding, as transformers' losses take them."""
        return self.input_ids.masked_fill(self.attention_mask == 0, _IGNORED)

    def to(self, device: torch.device) -> Reference:
        """The same on a device."""
        return Reference(self.input_ids.to(device), self.attention_mask.to(device))


def read_reference(
    sequences: Sequence[str | Sequence[int]], tokenizer: Any, *, vocabulary: int, max_tokens: int | None = None
) -> Reference:
    """Tokens of texts, or tokens as they are given, as one batch.

    Args:
        sequences: Texts, or token ids of each sequence.
        tokenizer: Tokenizes the texts as the model's own does (special tokens included); None where all are ids.
        vocabulary: Rows of the model's embeddings: no id may reach it.
        max_tokens: Cut each sequence to this length; None keeps all of it.

    Returns:
        The batch; a sequence of one token has no next token to predict and is of use for features only.

    Raises:
        InputError: If there is no sequence, one has no tokens, an id is no integer of the vocabulary, or a text has no
            tokenizer.
    """
    if isinstance(sequences, str) or not len(sequences):
        raise InputError(
            "reference: expected a list of texts or of token ids, got "
            f"{'one text' if isinstance(sequences, str) else 'an empty one'}; give some dozens of sequences of what "
            "the model shall keep, such as the base's own training texts"
        )
    if max_tokens is not None and max_tokens < 1:
        raise InputError(f"reference_max_tokens: expected a positive integer, got {max_tokens}")
    rows = [_tokens(number, sequence, tokenizer, vocabulary)[:max_tokens] for number, sequence in enumerate(sequences)]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    return Reference(ids, mask)


def _tokens(number: int, sequence: str | Sequence[int], tokenizer: Any, vocabulary: int) -> torch.Tensor:
    where = f"reference[{number}]"
    if isinstance(sequence, str):
        if tokenizer is None:
            raise InputError(f"{where}: a text needs a tokenizer; pass processing_class=tokenizer, or token ids")
        sequence = tokenizer(sequence)["input_ids"]
    row = torch.as_tensor(sequence)
    if row.dim() != 1 or not len(row):
        raise InputError(f"{where}: expected tokens, got {'none' if row.dim() == 1 else f'shape {tuple(row.shape)}'}")
    if row.is_floating_point() or int(row.min()) < 0 or int(row.max()) >= vocabulary:
        raise InputError(
            f"{where}: expected token ids from 0 to {vocabulary - 1}, got {sequence[int(row.argmax())]}; "
            "tokenize with the model's own tokenizer"
        )
    return row.long()
