"""`--fail-on`: a finding's id, or a comparison on a key of the report, decides the exit code."""

from __future__ import annotations

import dataclasses
import difflib
import operator
import re
from typing import Any

from hubaudit.errors import InputError
from hubaudit.findings import FINDINGS
from hubaudit.report.schema import Report, VariantReport

__all__ = ["Gate", "parse_gate"]

_COMPARISON = re.compile(
    r"\s*(?:(?P<block>[a-z_]+)\.)?(?P<key>[a-z_0-9]+)\s*(?P<sign><=|>=|==|<|>)\s*(?P<value>\S+)\s*"
)
_SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}
_BLOCKS = ("correctness_agreement", "prism_bound", "divergence", "direction_floor", "translation_attenuation")


@dataclasses.dataclass(frozen=True)
class Gate:
    """One condition under which the exit code is 1."""

    text: str
    finding: str | None = None
    block: str | None = None
    key: str | None = None
    sign: str = "=="
    value: float = 0.0

    def fired(self, report: Report) -> list[str]:
        """Where the condition holds.

        Returns:
            One line for each variant (and task or layer) that it holds for; empty when it does not hold.
        """
        lines = []
        for variant in report.variants:
            if self.finding is not None:
                lines += [f"{variant.spec}: {one.text}" for one in variant.findings if one.id == self.finding]
            else:
                lines += [
                    f"{variant.spec}: {where}.{self.key} is {value:.6g}"
                    for where, value in _figures(variant, self.block, str(self.key))
                    if _SIGNS[self.sign](value, self.value)
                ]
        if self.finding is not None:
            lines += [one.text for one in report.findings if one.id == self.finding]
        return lines


def parse_gate(text: str) -> Gate:
    """Read a condition.

    Args:
        text: A finding's id, or `key<number`, `block.key>=number`.

    Returns:
        The condition.

    Raises:
        InputError: If it is neither, or the key is in no block of the report.
    """
    if text in FINDINGS:
        return Gate(text, finding=text)
    match = _COMPARISON.fullmatch(text)
    if match is None:
        raise InputError(
            f"--fail-on {text!r}: expected a comparison as in correctness_agreement<0.95, or one of the findings "
            f"{', '.join(FINDINGS)}"
        )
    try:
        value = float(match["value"])
    except ValueError as exc:
        raise InputError(
            f"--fail-on {text!r}: expected a number after {match['sign']}, got {match['value']!r}"
        ) from exc
    known = {block: _keys(block) for block in _BLOCKS}
    block, key = match["block"], match["key"]
    if block is not None and block not in known:
        raise InputError(f"--fail-on {text!r}: expected a block among {', '.join(known)}, got {block!r}")
    if not any(key in keys for name, keys in known.items() if block in (None, name)):
        near = difflib.get_close_matches(key, sorted(set().union(*known.values())), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "the keys are in report.schema.json"
        raise InputError(f"--fail-on {text!r}: no block of the report has a key {key!r}; {hint}")
    return Gate(text, block=block, key=key, sign=match["sign"], value=value)


def _keys(block: str) -> set[str]:
    from hubaudit.stats.correctness_agreement import CorrectnessAgreement
    from hubaudit.stats.direction_floor import DirectionFloor
    from hubaudit.stats.divergence import Divergence
    from hubaudit.stats.prism_bound import PrismBound
    from hubaudit.stats.translation_attenuation import TranslationAttenuation

    results: dict[str, Any] = {
        "correctness_agreement": CorrectnessAgreement,
        "prism_bound": PrismBound,
        "divergence": Divergence,
        "direction_floor": DirectionFloor,
        "translation_attenuation": TranslationAttenuation,
    }
    return {field.name for field in dataclasses.fields(results[block])}


def _figures(variant: VariantReport, block: str | None, key: str) -> list[tuple[str, float]]:
    """Every number of that name in a variant's blocks, with where it stands."""
    found = []
    for name in _BLOCKS if block is None else (block,):
        content = getattr(variant, name)
        cells = content.items() if isinstance(content, dict) else [("", content)]
        for where, cell in cells:
            value = getattr(cell, key, None) if cell is not None else None
            if isinstance(value, int | float):
                found.append((f"{name}.{where}".rstrip("."), float(value)))
    return found
