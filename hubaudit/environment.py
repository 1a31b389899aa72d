"""Where an audit ran: everything about the machine that can move a figure."""

from __future__ import annotations

import platform
from importlib import metadata

import torch

from hubaudit.version import __version__

__all__ = ["compute_key", "environment"]

_PACKAGES = ("torch", "transformers", "numpy", "scipy", "bitsandbytes", "gguf", "llama-cpp-python", "huggingface_hub")


def environment(device: torch.device) -> dict[str, str]:
    """Python, packages, platform, device and threads, as text."""
    found = {"python": platform.python_version(), "platform": platform.platform(), "hubaudit": __version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {**found, **compute_key(device)}


def compute_key(device: torch.device) -> dict[str, str]:
    """What bfloat16 results depend on besides the weights and the batches."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
    return {
        "device": device.type,
        "device_name": name,
        "threads": str(torch.get_num_threads()),
        "torch": torch.__version__,
        "transformers": metadata.version("transformers"),
    }
