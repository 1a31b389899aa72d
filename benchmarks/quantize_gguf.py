"""A GGUF file in another type by llama.cpp's own quantizer, which alone writes K-quants and IQ types.

    python benchmarks/quantize_gguf.py SOURCE.gguf TARGET.gguf Q4_K_M

Needs `pip install 'hubaudit[llamacpp]'`. A source of quantized tensors is expanded and rounded once more.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path

from hubaudit.errors import InputError, ModelFileError
from hubaudit.load.llamacpp_library import library, said

__all__ = ["quantize_gguf"]


def quantize_gguf(source: Path, target: Path, ftype: str) -> Path:
    """Write `target` from `source` as `llama-quantize` would.

    Args:
        source: A GGUF file of any types; F32, F16 or BF16 lose nothing before the rounding.
        target: Written under another name first, so that it is whole or absent.
        ftype: As in `LLAMA_FTYPE_MOSTLY_...`: `Q4_K_M`, `Q2_K`, `IQ4_XS`, `Q8_0`, `F16`, or `F32`.

    Returns:
        `target`.

    Raises:
        MissingExtraError: If llama-cpp-python is not installed.
        InputError: If llama.cpp has no such type.
        ModelFileError: If it cannot read or write the files; the message holds its last error.
    """
    llama = library(f"quantizing {source.name}")
    prefix = re.compile("LLAMA_FTYPE_(MOSTLY|ALL)_")
    names = {prefix.sub("", name): name for name in dir(llama) if prefix.match(name)}
    if ftype not in names:
        raise InputError(f"expected one of {', '.join(sorted(names))}, got {ftype}; name a type of llama.cpp")
    options = llama.llama_model_quantize_default_params()
    options.ftype = getattr(llama, names[ftype])
    options.nthread = os.cpu_count() or 1
    options.allow_requantize = True
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    if llama.llama_model_quantize(os.fsencode(source), os.fsencode(partial), ctypes.byref(options)):
        partial.unlink(missing_ok=True)
        raise ModelFileError(
            f"{source}: expected llama.cpp to write it as {ftype}, it failed ({said()}). Check the file and the disk."
        )
    partial.replace(target)
    return target


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    print(quantize_gguf(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
