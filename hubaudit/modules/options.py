"""Options of the metrics, checked for their type before an estimator sees them."""

from __future__ import annotations

import numbers
import operator
from typing import Any

from hubaudit.errors import InputError

__all__ = ["as_number", "as_whole"]


def as_number(name: str, value: Any) -> float:
    """Read a real number; ranges are the estimator's business.

    Args:
        name: The option's name, for the message.
        value: A Python or numpy number; True and False are none.

    Raises:
        InputError: If it is no real number.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError(f"expected {name} as a number, got {value!r}; leave it out for the default")
    return float(value)


def as_whole(name: str, value: Any) -> int:
    """Read a whole number of at least 0.

    Args:
        name: The option's name, for the message.
        value: A Python or numpy integer.

    Raises:
        InputError: If it is none, or negative.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        whole = operator.index(value)
    except TypeError:
        whole = -1
    if whole < 0:
        raise InputError(f"expected {name} as a whole number from 0, got {value!r}; leave it out for the default")
    return whole
