"""Where a model runs and in which dtype."""

from __future__ import annotations

import re

import torch

from hubaudit.errors import InputError

__all__ = ["dtype_name", "resolve_device", "resolve_dtype"]

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
    """The dtype that a name stands for; `auto` is bfloat16, or float16 on a GPU that lacks it.

    Raises:
        InputError: If the name is not known.
    """
    if dtype == "auto":
        if device.type == "cuda" and not torch.cuda.is_bf16_supported():
            return torch.float16
        return torch.bfloat16
    if dtype not in _DTYPES:
        raise InputError(f"--dtype: expected auto, {', '.join(_DTYPES)}, got {dtype}.")
    return _DTYPES[dtype]


def dtype_name(dtype: torch.dtype) -> str:
    """`bfloat16` for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")
