"""The base of every statistic's result: named numbers, and a reason wherever one is undefined."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

__all__ = ["Result"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """A frozen set of named figures.

    Subclasses are frozen keyword-only dataclasses. The string under each field is its description: the
    report's JSON Schema and the pages show it. A field that is undefined is None, and `reasons` says why.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"use_attribute_docstrings": True, "extra": "ignore"}

    # The schema's builder reads docstrings of a class's own fields only, hence the same text in the metadata.
    reasons: dict[str, str] = dataclasses.field(
        default_factory=dict, metadata={"description": "For each figure that is null, why it is undefined."}
    )
    """For each figure that is null, why it is undefined."""

    def to_dict(self) -> dict[str, Any]:
        """The figures as builtin Python values, fields in declaration order, `reasons` last."""
        values = dataclasses.asdict(self)
        values["reasons"] = values.pop("reasons")
        return values
