"""What each figure means, read from the schema, so that a description is written once."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

__all__ = ["describe", "descriptions"]

# Building a schema takes milliseconds, and a page asks for hundreds of descriptions.
_READ: dict[type[Any], dict[str, str]] = {}


def descriptions(cls: type[Any]) -> dict[str, str]:
    """The description of every field of one of the report's classes.

    Args:
        cls: A pydantic model or a result dataclass of `hubaudit.stats`.

    Returns:
        Field name to its one-sentence description as plain text; fields without one are left out.
    """
    if cls not in _READ:
        _READ[cls] = _read(cls)
    return _READ[cls]


def _read(cls: type[Any]) -> dict[str, str]:
    schema = TypeAdapter(cls).json_schema(mode="serialization")
    if "properties" not in schema:  # a class that holds itself is given by reference
        schema = schema["$defs"][cls.__name__]
    return {
        name: str(field["description"]).replace("`", "")
        for name, field in schema["properties"].items()
        if "description" in field
    }


def describe(cls: type[Any], key: str) -> str:
    """The description of one field, e.g. `describe(PrismBound, "gamma")`.

    Raises:
        KeyError: If the field does not exist or has no description.
    """
    return descriptions(cls)[key]
