"""Where a variant's drift comes from, in one sentence: the engine that ran it, and its weights."""

from __future__ import annotations

from hubaudit.report.engine import engine_sentence
from hubaudit.report.schema import VariantReport
from hubaudit.report.structure import structure_sentence

__all__ = ["cause_sentence"]


def cause_sentence(variant: VariantReport) -> str | None:
    """What the report knows of causes; None where neither llama.cpp ran nor weights were compared."""
    said = [text for text in (engine_sentence(variant), structure_sentence(variant)) if text is not None]
    return "; ".join(said) or None
