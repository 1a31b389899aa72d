"""Optional packages that a format needs."""

from __future__ import annotations

import importlib.util

from hubaudit.errors import MissingExtraError

__all__ = ["require"]


def require(module: str, *, extra: str, what: str) -> None:
    """Check that an optional package is installed.

    Args:
        module: Its import name.
        extra: The extra of hubaudit that installs it.
        what: What needs it, as the message begins.

    Raises:
        MissingExtraError: If it is not installed; the message holds the command that installs it.
    """
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(
            f"{what}: expected the package {module}, which is not installed. Run: pip install 'hubaudit[{extra}]'"
        )
