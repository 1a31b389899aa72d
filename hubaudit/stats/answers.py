"""Two models' answers to the same items, checked and compared row by row."""

from __future__ import annotations

import dataclasses
import numbers
from collections import Counter
from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError

__all__ = ["ComparedAnswers", "compare_answers", "listed"]

Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class ComparedAnswers:
    """What the answers say of each item, one boolean a row."""

    base_right: Mask
    variant_right: Mask
    same_answer: Mask

    def take(self, rows: Mask) -> ComparedAnswers:
        """The rows that the mask selects."""
        return ComparedAnswers(self.base_right[rows], self.variant_right[rows], self.same_answer[rows])

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.base_right)

    @property
    def kept(self) -> Mask:
        """Items that both get right."""
        return self.base_right & self.variant_right

    @property
    def lost(self) -> Mask:
        """Items that only the base gets right."""
        return self.base_right & ~self.variant_right

    @property
    def gained(self) -> Mask:
        """Items that only the variant gets right."""
        return ~self.base_right & self.variant_right

    @property
    def changed_while_wrong(self) -> Mask:
        """Items that both get wrong, with different answers."""
        return ~self.base_right & ~self.variant_right & ~self.same_answer


def compare_answers(
    variant_answers: Iterable[Hashable],
    base_answers: Iterable[Hashable],
    references: Iterable[Hashable],
    *,
    item_ids: Iterable[Hashable] | None = None,
) -> ComparedAnswers:
    """Check three equally long lists of answers and compare them.

    Args:
        variant_answers: The variant's answers, (n,): strings or numbers, None where it gave none.
        base_answers: The base's answers, (n,).
        references: The right answers, (n,), none of them None.
        item_ids: Names of the items, (n,), each once.

    Returns:
        Booleans a row. Two missing answers are the same answer, and never right.

    Raises:
        InputError: If there is no item, the lengths differ, an id comes twice, a reference is None, a value is
            NaN or no string or number, or strings meet numbers.
    """
    columns = {
        "variant answers": listed(variant_answers, "variant answers"),
        "base answers": listed(base_answers, "base answers"),
        "references": listed(references, "references"),
    }
    if item_ids is not None:
        columns["item ids"] = listed(item_ids, "item ids")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{count} {name}" for name, count in lengths.items())
        raise InputError(f"expected one entry an item in every list, got {got}; join the lists by item first")
    if not lengths["references"]:
        raise InputError("expected at least one item, got none; give the items that both models answered")
    if item_ids is not None:
        _check_unique(columns["item ids"])
    _check_values(columns)
    variant, base, right = (columns[name] for name in ("variant answers", "base answers", "references"))
    return ComparedAnswers(
        base_right=np.array([x == y for x, y in zip(base, right, strict=True)], dtype=bool),
        variant_right=np.array([x == y for x, y in zip(variant, right, strict=True)], dtype=bool),
        same_answer=np.array([x == y for x, y in zip(variant, base, strict=True)], dtype=bool),
    )


def listed(values: Iterable[Hashable], name: str) -> list[Hashable]:
    """Turn a column into a list of builtin values.

    Args:
        values: A list, tuple, numpy array or tensor of one dimension.
        name: What the column holds, for the message.

    Returns:
        The values, numpy scalars turned into Python's.

    Raises:
        InputError: If the column is a single string, or no sequence at all.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InputError(f"expected a list of {name}, got {type(values).__name__}; put the values in a list")
    tolist = getattr(values, "tolist", None)
    column = tolist() if callable(tolist) else list(values)
    return [x.item() if isinstance(x, np.generic) else x for x in column]


def _check_unique(ids: list[Hashable]) -> None:
    name, count = Counter(ids).most_common(1)[0]
    if count > 1:
        raise InputError(
            f"expected every item once, got {name!r} {count} times; repeated items make the intervals too narrow"
        )


def _check_values(columns: dict[str, list[Hashable]]) -> None:
    kind_of_references = None
    for name in ("references", "variant answers", "base answers"):
        for row, value in enumerate(columns[name]):
            kind = _kind(value)
            if kind is None and value is not None:
                raise InputError(
                    f"expected a string, a number or None, got {value!r} in row {row} of the {name}; "
                    "give one answer an item, None where there is none"
                )
            if name == "references":
                if value is None:
                    raise InputError(f"expected a reference for every item, got None in row {row}; leave the item out")
                kind_of_references = kind_of_references or kind
            if kind is not None and kind != kind_of_references:
                raise InputError(
                    f"expected {kind_of_references} as the first reference is, got {value!r} in row {row} of the "
                    f"{name}; a string never equals a number, so convert one of them"
                )


def _kind(value: object) -> str | None:
    if isinstance(value, str):
        return "strings"
    if isinstance(value, numbers.Real) and value == value:  # NaN is the number that differs from itself
        return "numbers"
    return None
