"""One checked statement about a report: it holds, does not hold, or could not be checked."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

__all__ = ["Check", "Checks"]

REL = 1e-9
"""Relative difference that the order of additions explains in double precision, with room."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
    """One statement."""

    name: str
    """What must hold, in a line."""
    where: str
    """Variant, task or layer that it is about."""
    status: Literal["ok", "does not hold", "skipped"]
    """The outcome."""
    expected: str = ""
    """What follows from the other figures."""
    got: str = ""
    """What the report says."""
    tolerance: str = ""
    """How far both may lie apart."""
    reason: str = ""
    """Why it was skipped."""


class Checks:
    """Collects statements about one place of the report."""

    def __init__(self, where: str, found: list[Check] | None = None) -> None:
        """Add to `found`, or to a new list."""
        self.where = where
        self.found: list[Check] = [] if found is None else found

    def at(self, where: str) -> Checks:
        """The same list, another place."""
        return Checks(where, self.found)

    def near(self, name: str, got: Any, expected: Any, *, rel: float = REL, tol: float = 1e-12) -> None:
        """Two numbers agree within `max(tol, rel * their size)`; two nulls agree."""
        if not isinstance(got, int | float) or not isinstance(expected, int | float):
            self.same(name, got, expected)
            return
        limit = max(tol, rel * max(abs(got), abs(expected)))
        held = math.isfinite(got) and abs(got - expected) <= limit
        self._add(name, held, expected, got, f"{limit:.1g}")

    def same(self, name: str, got: Any, expected: Any) -> None:
        """Two values are equal."""
        self._add(name, got == expected, expected, got, "exact")

    def at_most(self, name: str, got: float | None, limit: float | None, *, rel: float = 1e-6) -> None:
        """A number is not larger than another; nothing is said where one is null."""
        if got is None or limit is None:
            return
        slack = max(1e-9, rel * abs(limit))
        self._add(name, got <= limit + slack, f"at most {limit:.10g}", got, f"{slack:.1g}")

    def between(self, name: str, got: float | None, low: float | None, high: float | None) -> None:
        """A number lies in a range; a null end is open."""
        if got is None or (low is None and high is None):
            return
        held = (low is None or got >= low - 1e-9) and (high is None or got <= high + 1e-9)
        shown = f"{'' if low is None else f'{low:.10g}'} to {'' if high is None else f'{high:.10g}'}"
        self._add(name, held, shown, got, "1e-09")

    def skip(self, name: str, reason: str) -> None:
        """It could not be checked."""
        self.found.append(Check(name=name, where=self.where, status="skipped", reason=reason))

    def fields(self, name: str, got: dict[str, Any], expected: dict[str, Any], *, rel: float = REL) -> None:
        """Every leaf of two nested values agrees: one statement where all do, else one for each that does not."""
        wrong = list(differences(got, expected, rel=rel))
        if not wrong:
            self._add(name, True, "", "", f"relative {rel:.0e}")
        for path, is_value, wanted in wrong:
            self._add(f"{name}: {path}", False, wanted, is_value, f"relative {rel:.0e}")

    def _add(self, name: str, held: bool, expected: Any, got: Any, tolerance: str) -> None:
        status: Literal["ok", "does not hold"] = "ok" if held else "does not hold"
        self.found.append(
            Check(
                name=name,
                where=self.where,
                status=status,
                expected=_shown(expected),
                got=_shown(got),
                tolerance=tolerance,
            )
        )


def differences(got: Any, expected: Any, *, rel: float, path: str = "") -> list[tuple[str, Any, Any]]:
    """Leaves in which two nested values of JSON differ.

    Args:
        got: Objects, lists and leaves.
        expected: The same.
        rel: Numbers may differ by this share of their size, and by 1e-12.
        path: Where both stand.

    Returns:
        Path, got and expected of every leaf that differs.
    """
    if isinstance(got, dict) and isinstance(expected, dict):
        keys = [*expected, *(key for key in got if key not in expected)]
        return [
            one
            for key in keys
            for one in differences(
                got.get(key, "(missing)"), expected.get(key, "(missing)"), rel=rel, path=f"{path}.{key}".lstrip(".")
            )
        ]
    if isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        pairs = enumerate(zip(got, expected, strict=True))
        return [one for i, (a, b) in pairs for one in differences(a, b, rel=rel, path=f"{path}[{i}]")]
    if _is_number(got) and _is_number(expected):
        near = abs(got - expected) <= max(1e-12, rel * max(abs(got), abs(expected)))
        return [] if near else [(path, got, expected)]
    return [] if got == expected and type(got) is type(expected) else [(path, got, expected)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = f"{value:.12g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
