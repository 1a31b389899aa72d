"""A metric's inputs past Arrow: `compute`, `add` and `add_batch` of evaluate, without its detour over files.

evaluate writes every input to an Arrow file and reads it back as Python lists: two arrays of 20,000 x 576 numbers take
15 s that way. Here arrays and tensors are kept as they are. What callers know stays: names are keyword-only and
checked, batches add up, numpy's and torch's random states are restored, and with `num_process > 1` the inputs do go
through Arrow files, because that is how evaluate's processes meet.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import datasets
import evaluate
import numpy as np
from datasets.utils.py_utils import temp_seed

from hubaudit.errors import InputError
from hubaudit.modules.columns import Column, Kind, StoredRows, read_batch
from hubaudit.stats.arrays import place_like

__all__ = ["ArrayInputs"]


class ArrayInputs:
    """Mixin for an `evaluate.Metric`, to be named before it among the bases.

    It is no metric itself: evaluate's loader takes the first metric class that it finds in a module's file, and that
    must be the file's own. A subclass sets `columns` and defines `_info` and `_compute`.
    """

    columns: ClassVar[tuple[Column, ...]]
    """The inputs with one entry a row; everything else that `_compute` takes is an option."""

    # Set by evaluate.
    num_process: int
    process_id: int
    seed: int
    filelock: Any
    filelocks: Any
    rendez_vous_lock: Any
    cache_file_name: str | None
    file_paths: list[str] | None
    writer: Any
    buf_writer: Any
    data: Any
    selected_feature_format: Any

    _stored: StoredRows | None = None
    _optional_given: tuple[str, ...] = ()

    def compute(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> dict[str, Any] | None:
        """Compute the metric over what `add` and `add_batch` were given and what is given here.

        All names are keyword-only. Whatever happens, the metric is empty and unlocked afterwards.

        Args:
            predictions: What comes from the variant; see below.
            references: What comes from the base, or what is right; see below.
            **kwargs: Further inputs and options; see below.

        Returns:
            The figures; None on processes other than the first where there are several.

        Raises:
            InputError: (a ValueError) saying what was expected, what was found and what to do.
        """
        given = {"predictions": predictions, "references": references, **kwargs}
        try:
            return self._computed(given)
        except BaseException:
            self._release()
            raise
        finally:
            self._stored, self._optional_given = None, ()

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add a batch of rows; where something is wrong with it, nothing of it is added.

        Args:
            predictions: What comes from the variant, one entry a row; see below.
            references: What comes from the base, or what is right, one entry a row; see below.
            **kwargs: Further inputs with one entry a row; options belong to `compute`.

        Raises:
            InputError: (a ValueError) saying what was expected, what was found and what to do.
        """
        batch = {"predictions": predictions, "references": references, **kwargs}
        names = [column.name for column in self.columns]
        if unknown := [name for name in batch if name not in names]:
            raise InputError(
                f"expected the inputs {', '.join(names)}, got {', '.join(unknown)}; options belong to compute"
            )
        if self.num_process > 1:
            self._add_through_arrow(batch)
        else:
            self._store(batch, copy=True)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one row.

        Args:
            prediction: What comes from the variant: one entry of `predictions`.
            reference: What comes from the base, or what is right: one entry of `references`.
            **kwargs: One entry of further inputs, under their own names.

        Raises:
            InputError: (a ValueError) saying what was expected, what was found and what to do.
        """
        row = {"predictions": prediction, "references": reference, **kwargs}
        # A model may have given no answer, which is None; a reference that is None was not given.
        answers = {column.name for column in self.columns if column.kind is Kind.VALUES} - {"references"}
        self.add_batch(
            **{name: None if value is None and name not in answers else _as_batch(value) for name, value in row.items()}
        )

    def __len__(self) -> int:
        """Number of rows that are stored."""
        if self.num_process > 1:
            return 0 if self.writer is None else len(self.writer)
        return 0 if self._stored is None else len(self._stored)

    def _compute(self, **inputs: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _computed(self, given: dict[str, Any]) -> dict[str, Any] | None:
        names = [column.name for column in self.columns]
        rows = {name: given[name] for name in names if given.get(name) is not None}
        options = {name: value for name, value in given.items() if name not in names}
        self._check_options(options)
        if self.num_process > 1:
            if rows:
                self._choose(rows)
            computed: dict[str, Any] | None = evaluate.EvaluationModule.compute(self, **rows, **options)
            return computed
        if rows:
            self._store(rows, copy=False)
        if self._stored is None:
            needed = ", ".join(column.name for column in self.columns if column.required)
            raise InputError(f"expected the inputs {needed}, got none; give them here, or with add_batch before")
        with temp_seed(self.seed):
            return self._compute(**self._stored.joined(), **options)

    def _check_options(self, options: Mapping[str, Any]) -> None:
        known = set(inspect.signature(self._compute).parameters)
        if unknown := sorted(options.keys() - known):
            raise InputError(
                f"expected inputs and options among {', '.join(sorted(known))}, got {', '.join(unknown)}; "
                "correct the name"
            )

    def _store(self, batch: Mapping[str, Any], *, copy: bool) -> None:
        stored = StoredRows(self.columns) if self._stored is None else self._stored
        stored.add(batch, copy=copy)
        self._stored = stored

    # What follows serves num_process > 1 only.

    def _add_through_arrow(self, batch: Mapping[str, Any]) -> None:
        parts = read_batch(self.columns, batch)
        self._choose(parts)
        try:
            evaluate.EvaluationModule.add_batch(self, **{name: _for_arrow(part) for name, part in parts.items()})
        except BaseException:
            self._release()
            raise

    def _choose(self, rows: Mapping[str, Any]) -> None:
        """Settle which optional columns there are: a file has one set of columns."""
        chosen = tuple(column.name for column in self.columns if not column.required and column.name in rows)
        if self.writer is not None and chosen != self._optional_given:
            raise InputError(
                f"expected the optional inputs of the first batch ({', '.join(self._optional_given) or 'none'}), got "
                f"{', '.join(chosen) or 'none'}; give every batch the same inputs"
            )
        self._optional_given = chosen

    def _feature_names(self) -> list[str]:
        return [column.name for column in self.columns if column.required or column.name in self._optional_given]

    def _infer_feature_from_batch(self, batch: Mapping[str, Any]) -> Any:
        kinds = {column.name: column.kind for column in self.columns}
        return datasets.Features({name: _feature(kinds[name], values) for name, values in batch.items()})

    def _enforce_nested_string_type(self, schema: Any, obj: Any) -> None:
        """Nothing to enforce: the features are read off the values, and None is an answer."""

    def _release(self) -> None:
        """Let go of every file and lock of an evaluation that failed."""
        if self.num_process == 1:
            return
        if self.writer is not None:
            with contextlib.suppress(OSError, ValueError):
                self.writer.close()
        self.writer = self.buf_writer = self.data = self.selected_feature_format = None
        for path in {self.cache_file_name, *(self.file_paths or [])} - {None}:
            with contextlib.suppress(OSError):
                Path(str(path)).unlink(missing_ok=True)
        for lock in (self.filelock, self.rendez_vous_lock, *(self.filelocks or [])):
            if lock is not None:
                lock.release(force=True)
        self.cache_file_name = self.filelock = self.rendez_vous_lock = self.file_paths = self.filelocks = None


def _as_batch(value: Any) -> Any:
    return value[None] if hasattr(value, "shape") else [value]


def _for_arrow(part: Any) -> list[Any]:
    """Rows that Arrow can encode: builtin values, or one numpy array a row."""
    if isinstance(part, list):
        return part
    array = place_like(part, np.empty(0))
    return list(array) if array.ndim > 1 else array.tolist()


def _feature(kind: Kind, values: list[Any]) -> Any:
    if kind is Kind.ROWS:
        return datasets.Sequence(datasets.Value("float64"))
    known = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in known):
        return datasets.Value("string")
    whole = all(isinstance(value, int) for value in known)
    return datasets.Value("int64" if whole else "float64")
