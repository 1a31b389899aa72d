"""Rows that a metric collects over any number of batches: arrays stay arrays, on the device where they are."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hubaudit.errors import InputError
from hubaudit.stats.answers import listed
from hubaudit.stats.arrays import as_array, check_rows, namespace, place_like

__all__ = ["Column", "Kind", "StoredRows", "read_column"]


class Kind(enum.Enum):
    """What one row of a column is."""

    ROWS = "a row of numbers"
    NUMBERS = "a number"
    VALUES = "a string, a number or None"


@dataclasses.dataclass(frozen=True)
class Column:
    """An input with one entry a row."""

    name: str
    kind: Kind
    required: bool = True


def read_column(column: Column, values: Any) -> Any:
    """Check one batch of a column.

    Args:
        column: Its name and kind.
        values: Lists, a numpy array or a tensor with at least one row.

    Returns:
        `Kind.ROWS`: an array or tensor, (n, d); `Kind.NUMBERS`: one of shape (n,); `Kind.VALUES`: a list. Arrays and
        tensors are neither copied nor cast nor moved.

    Raises:
        InputError: If the shape is another, there is no row, or the values are no numbers of 64 bits at most.
    """
    if column.kind is Kind.VALUES:
        return _values(column.name, values)
    array = _numbers(column.name, values)
    if column.kind is Kind.ROWS:
        return check_rows(array, column.name)
    if array.ndim != 1 or 0 in tuple(array.shape):
        raise InputError(
            f"expected {column.name} of shape (n,) with at least one entry, got {tuple(array.shape)}; "
            "give one number a row"
        )
    return array


class StoredRows:
    """Batches of some columns, one after the other.

    Args:
        columns: The columns there can be.

    Example:
        >>> stored = StoredRows([Column("scores", Kind.NUMBERS)])
        >>> stored.add({"scores": [0.5, 1.5]}, copy=False)
        >>> stored.add({"scores": [2.5]}, copy=False)
        >>> len(stored), stored.joined()["scores"].tolist()
        (3, [0.5, 1.5, 2.5])
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = tuple(columns)
        self._batches: dict[str, list[Any]] = {}
        self._n_rows = 0

    def __len__(self) -> int:
        return self._n_rows

    def add(self, batch: Mapping[str, Any], *, copy: bool) -> None:
        """Add one batch, or nothing of it where something is wrong.

        Args:
            batch: One entry a column, (n, ...) each; None where a column is not given.
            copy: Whether arrays are copied, because their owner may write to them before they are used.

        Raises:
            InputError: If a required column is missing, lengths or widths differ, a value has another shape or
                type, or a column is given in some batches only.
        """
        parts = read_batch(self._columns, batch)
        if self._batches:
            self._check_like_before(parts)
        for name, part in parts.items():
            self._batches.setdefault(name, []).append(_copied(part) if copy else part)
        self._n_rows += len(next(iter(parts.values())))

    def joined(self) -> dict[str, Any]:
        """Take all rows out, each column in one piece, in the library and on the device of its first batch."""
        columns = {}
        for name in list(self._batches):
            # A column's batches are let go as soon as they are joined: at most one column exists twice.
            columns[name] = _joined(self._batches.pop(name))
        self._n_rows = 0
        return columns

    def _check_like_before(self, parts: Mapping[str, Any]) -> None:
        if parts.keys() != self._batches.keys():
            raise InputError(
                f"expected the inputs of the first batch, {', '.join(self._batches)}, got {', '.join(parts)}; "
                "give every batch the same inputs"
            )
        for name, part in parts.items():
            first = self._batches[name][0]
            if not isinstance(part, list) and tuple(part.shape[1:]) != tuple(first.shape[1:]):
                raise InputError(
                    f"expected {name} of width {first.shape[1]} as in the first batch, got {part.shape[1]}; "
                    "give features of one layer of one model"
                )


def read_batch(columns: Sequence[Column], batch: Mapping[str, Any]) -> dict[str, Any]:
    """Check one batch of all columns.

    Args:
        columns: The columns there can be.
        batch: One entry a column; None where it is not given.

    Returns:
        The columns that are given, as `read_column` returns them, all of one length.

    Raises:
        InputError: If a required column is missing, or the lengths differ, and as `read_column`.
    """
    missing = [column.name for column in columns if column.required and batch.get(column.name) is None]
    if missing:
        needed = ", ".join(column.name for column in columns if column.required)
        raise InputError(f"expected the inputs {needed}, got none for {', '.join(missing)}; give them in every call")
    parts = {
        column.name: read_column(column, batch[column.name]) for column in columns if batch.get(column.name) is not None
    }
    lengths = {name: len(part) for name, part in parts.items()}
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{n} {name}" for name, n in lengths.items())
        raise InputError(f"expected as many rows in every input, got {got}; join the inputs by row first")
    return parts


def _values(name: str, values: Any) -> list[Any]:
    if getattr(values, "ndim", 1) != 1:
        raise InputError(f"expected {name} of shape (n,), got {tuple(values.shape)}; give one entry a row")
    # Typed anew: what a caller calls hashable may hold lists all the same.
    column: list[Any] = [*listed(values, name)]
    if not column:
        raise InputError(f"expected at least one row of {name}, got none; give one entry a row")
    for row, value in enumerate(column):
        if isinstance(value, list | dict | set):
            raise InputError(
                f"expected {Kind.VALUES.value} in every row of {name}, got a {type(value).__name__} in row {row}; "
                "give one entry a row"
            )
    return column


def _numbers(name: str, values: Any) -> Any:
    try:
        array = as_array(values)
    except (ValueError, TypeError, OverflowError) as exc:
        raise InputError(
            f"expected {name} as an array of numbers, got {type(values).__name__} of uneven shape or mixed types "
            f"({exc}); give rows of one length"
        ) from exc
    if isinstance(array, np.ndarray) and array.size and array.dtype.kind not in "biuf":
        remedy = "convert the values to numbers"
        if all(isinstance(value, int) for value in array.flat):
            remedy = "whole numbers must fit into 64 bits"
        raise InputError(f"expected {name} as an array of numbers, got values of type {array.dtype}; {remedy}")
    return array


def _copied(part: Any) -> Any:
    return list(part) if isinstance(part, list) else namespace(part).asarray(part, copy=True)


def _joined(parts: list[Any]) -> Any:
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, list):
        return [value for part in parts for value in part]
    return namespace(first).concat([place_like(part, first) for part in parts], axis=0)
