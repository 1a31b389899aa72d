"""What a visitor may ask of the machine that serves the page."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from hubaudit.errors import InputError
from hubaudit.settings import default_cache_dir

__all__ = ["Limits"]

_CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one server; each has an environment variable, `HUBAUDIT_SPACE_` and its name in capitals."""

    max_parameters: int = 1_500_000_000
    max_memory_bytes: int = 0
    """What a model in the dtype that it runs in, and 500 MB, must fit into; 0 for 80 % of what there is."""
    max_items: int = 200
    """Items a task and prompts a class."""
    max_variants: int = 6
    max_seconds: int = 1800
    """Of one audit, from its first step; what is finished by then is kept."""
    max_waiting: int = 8
    """Audits that wait behind the running one."""
    max_upload_bytes: int = 20_000_000
    max_download_bytes: int = 10_000_000_000
    """Weights of the chosen variants together."""
    max_disk_bytes: int = 20_000_000_000
    """Of evidence, and on a Space of downloaded models, each, between two audits."""
    max_stored: int = 2000
    """Audits that are kept; the oldest leave first."""

    @classmethod
    def from_environment(cls) -> Limits:
        """The defaults, changed by the environment.

        Raises:
            InputError: If a variable is no whole number.
        """
        given = {}
        for field in dataclasses.fields(cls):
            name = f"HUBAUDIT_SPACE_{field.name.upper()}"
            if text := os.environ.get(name):
                if not text.isdigit():
                    raise InputError(f"{name} must be a whole number, but got {text!r}")
                given[field.name] = int(text)
        return cls(**given)

    @property
    def memory_bytes(self) -> int:
        """Memory for one audit."""
        return self.max_memory_bytes or int(0.8 * _memory_here())

    def refusal(self, n_parameters: int, itemsize: int) -> str | None:
        """Why a model of that size does not run here; None where it does."""
        needed = n_parameters * itemsize + 500_000_000
        if n_parameters > self.max_parameters:
            return (
                f"The base has {n_parameters / 1e6:,.0f} million parameters; this page runs models of up to "
                f"{self.max_parameters / 1e6:,.0f} million."
            )
        if needed > self.memory_bytes:
            return f"The base needs {needed / 1e9:.1f} GB of memory; this page has {self.memory_bytes / 1e9:.1f} GB."
        return None


def store_folder() -> Path:
    """Where audits are kept: `HUBAUDIT_SPACE_STORE`, a Space's persistent disk, or the user's cache."""
    if given := os.environ.get("HUBAUDIT_SPACE_STORE"):
        return Path(given)
    persistent = Path("/data")
    if os.environ.get("SPACE_ID") and os.access(persistent, os.W_OK):
        return persistent / "hubaudit"
    return default_cache_dir() / "space"


def _memory_here() -> int:
    """Bytes that this machine, or the container that it is, gives."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(total, int(_CGROUP.read_text()))
    except (OSError, ValueError):
        return total
