"""What every block of the report has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Block"]


class Block(BaseModel):
    """A part of the report: unknown keys of later versions are ignored, docstrings become descriptions."""

    model_config = ConfigDict(extra="ignore", use_attribute_docstrings=True, ser_json_inf_nan="null")
