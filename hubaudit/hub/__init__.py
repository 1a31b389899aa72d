"""Repo ids -> pinned references and files on this machine."""

from hubaudit.hub.resolve import resolve_base, resolve_variant

__all__ = ["resolve_base", "resolve_variant"]
