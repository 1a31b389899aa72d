"""Inputs of a metric from what a visitor of its page pastes or uploads: JSON, CSV or NPZ, checked before it is read."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hubaudit.errors import InputError

__all__ = ["MAX_BYTES", "MAX_NUMBERS", "read_text", "read_upload"]

MAX_BYTES = 256 * 2**20
"""Largest file, and largest sum of an NPZ file's arrays after decompression."""
MAX_NUMBERS = 32 * 2**20
"""Most numbers in all inputs together."""

_MATRIX_COLUMN = re.compile(r"(?P<name>.+)[._](?P<index>\d+)")


def read_upload(path: Path) -> dict[str, Any]:
    """Read a file by its suffix.

    Args:
        path: A `.json`, `.csv` or `.npz` file.

    Returns:
        One entry an input, lists or arrays.

    Raises:
        InputError: If the suffix is another, the file is too large, or its content is not what the suffix says.
    """
    if (size := path.stat().st_size) > MAX_BYTES:
        raise InputError(f"expected a file of at most {MAX_BYTES} bytes, got {size}; use the Python package for more")
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _checked(_read_npz(path))
    if suffix not in (".json", ".csv"):
        raise InputError(f"expected a .json, .csv or .npz file, got {path.name!r}; export the inputs as one of these")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as exc:
        raise InputError(f"expected a text file in UTF-8, got other bytes at {exc.start}; save it as UTF-8") from exc
    return _checked(_read_json(text) if suffix == ".json" else _read_csv(text))


def read_text(text: str) -> dict[str, Any]:
    r"""Read pasted text: JSON where it starts with a brace or bracket, else CSV.

    Args:
        text: What was pasted.

    Returns:
        One entry an input.

    Raises:
        InputError: If there is nothing, too much, or it cannot be parsed.

    Example:
        >>> read_text("labels,predictions.0,predictions.1\n0,1.5,2\n1,3,4")
        {'labels': [0, 1], 'predictions': [[1.5, 2], [3, 4]]}
    """
    if not text.strip():
        raise InputError("expected JSON or CSV, got nothing; paste the inputs or upload a file")
    if len(text) > MAX_BYTES:
        raise InputError(f"expected at most {MAX_BYTES} characters, got {len(text)}; use the Python package for more")
    return _checked(_read_json(text) if text.lstrip()[0] in "{[" else _read_csv(text))


def _read_json(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as exc:
        raise InputError(f"expected JSON, got text that is none ({exc}); check it near that place") from exc
    if isinstance(content, list) and content and all(isinstance(row, dict) for row in content):
        names = content[0].keys()
        if any(row.keys() != names for row in content):
            raise InputError("expected the same names in every row of the JSON list, got others; fill in null")
        content = {name: [row[name] for row in content] for name in names}
    if not isinstance(content, dict) or not content:
        raise InputError("expected a JSON object of inputs, or a list of rows, got neither; name every input")
    return content


def _read_csv(text: str) -> dict[str, Any]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text), strict=True) if row]
    except csv.Error as exc:
        raise InputError(f"expected CSV, got text that is none ({exc}); check the quotes") from exc
    if len(rows) < 2:
        raise InputError("expected a header line and at least one row, got less; name the inputs in the first line")
    header = [name.strip() for name in rows[0]]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise InputError(f"expected {len(header)} cells in every row, got {len(row)} in row {number}; fill it in")
    columns = {name: _typed([row[i].strip() for row in rows[1:]]) for i, name in enumerate(header)}
    if len(columns) != len(header):
        raise InputError(f"expected every column once, got {', '.join(header)}; rename or drop one")
    return _with_matrices(columns)


def _with_matrices(columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Join columns `name.0`, `name.1`, ... into rows of one input."""
    joined: dict[str, Any] = {}
    groups: dict[str, dict[int, list[Any]]] = {}
    for name, column in columns.items():
        if match := _MATRIX_COLUMN.fullmatch(name):
            groups.setdefault(match["name"], {})[int(match["index"])] = column
        else:
            joined[name] = column
    for name, group in groups.items():
        if sorted(group) != list(range(len(group))):
            raise InputError(f"expected columns {name}.0 to {name}.{len(group) - 1}, got others; number them from 0")
        joined[name] = [list(row) for row in zip(*(group[i] for i in range(len(group))), strict=True)]
    return joined


def _typed(cells: list[str]) -> list[Any]:
    for convert in (int, float):
        try:
            return [convert(cell) for cell in cells]
        except ValueError:
            continue
    return [cell or None for cell in cells]


def _read_npz(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            # Asked before anything is unpacked: a small file may unpack to more than the memory holds.
            unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > MAX_BYTES:
            raise InputError(f"expected arrays of at most {MAX_BYTES} bytes, got {unpacked}; give fewer rows")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError) as exc:
        if isinstance(exc, InputError):
            raise
        raise InputError(
            f"expected an NPZ file of numbers or strings, got one that cannot be read ({exc}); save it with numpy.savez"
        ) from exc


def _checked(inputs: dict[str, Any]) -> dict[str, Any]:
    total = sum(_count(value) for value in inputs.values())
    if total > MAX_NUMBERS:
        raise InputError(f"expected at most {MAX_NUMBERS} values, got {total}; give fewer rows")
    return inputs


def _count(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return math.prod(value.shape)
    return sum(len(row) if isinstance(row, list) else 1 for row in value) if isinstance(value, list) else 1
