"""Where the folders lie that ship beside the package: metrics, spaces and card templates."""

from __future__ import annotations

from pathlib import Path

from hubaudit.errors import InputError

__all__ = ["BUNDLED", "bundled"]

BUNDLED = ("metrics", "model_cards", "spaces")
"""The folders of the repository's root that the wheel holds as `hubaudit/_bundled/<name>`."""

_PACKAGE = Path(__file__).resolve().parent


def bundled(name: str) -> Path:
    """Find one of the folders that ship with hubaudit.

    An installed wheel holds them inside the package; in a checkout they lie beside it. The wheel's copy is
    asked first, because what lies beside an installed package belongs to others.

    Args:
        name: One of `BUNDLED`.

    Returns:
        The folder, which exists.

    Raises:
        InputError: If the name is unknown, or the installation lacks the folder.

    Example:
        >>> bundled("model_cards").name
        'model_cards'
    """
    if name not in BUNDLED:
        raise InputError(f"no bundled folder {name!r}; expected one of {', '.join(BUNDLED)}")
    for folder in (_PACKAGE / "_bundled" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise InputError(
        f"hubaudit's folder {name!r} is missing from this installation ({_PACKAGE}); "
        "reinstall hubaudit from a wheel or work in a complete checkout"
    )
