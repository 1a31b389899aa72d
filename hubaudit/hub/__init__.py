"""Repo ids -> pinned references and files on this machine."""

from hubaudit.hub.expand import expand_variants
from hubaudit.hub.resolve import resolve_base, resolve_variant

__all__ = ["expand_variants", "resolve_base", "resolve_variant"]
