"""Where a model runs and in which dtype."""

from __future__ import annotations

import re

import torch

from hubaudit.errors import InputError

__all__ = ["cpu_multiplies_bfloat16", "dtype_name", "resolve_device", "resolve_dtype"]

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def resolve_device(device: str) -> torch.device:
    """The device that `auto`, `cpu`, `cuda` or `cuda:N` names on this machine.

    Raises:
        InputError: If it is none of these, or a GPU that is not there.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return torch.device("cpu")
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if match is None:
        raise InputError(f"--device: expected auto, cpu, cuda or cuda:N, got {device}.")
    count, index = torch.cuda.device_count(), int(match[1] or 0)
    if index >= count:
        raise InputError(f"--device {device}: expected one of {count} CUDA devices here. Use --device auto or cpu.")
    return torch.device("cuda", index)


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """The dtype that a name stands for.

    `auto` is bfloat16 where the device multiplies it in hardware; otherwise float16 on a GPU, and float32 on a
    CPU, where emulated bfloat16 is 4 to 7 times slower than float32.

    Raises:
        InputError: If the name is not known.
    """
    if dtype == "auto":
        if device.type == "cuda":
            return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        return torch.bfloat16 if cpu_multiplies_bfloat16() else torch.float32
    if dtype not in _DTYPES:
        raise InputError(f"--dtype: expected auto, {', '.join(_DTYPES)}, got {dtype}.")
    return _DTYPES[dtype]


def cpu_multiplies_bfloat16() -> bool:
    """Whether this CPU has instructions for products of bfloat16 numbers."""
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def dtype_name(dtype: torch.dtype) -> str:
    """`bfloat16` for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")
