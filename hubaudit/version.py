"""The installed version."""

from __future__ import annotations

from importlib import metadata

__all__ = ["__version__"]

try:
    __version__ = metadata.version("hubaudit")
except metadata.PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0+unknown"
