"""One entry for every format: pick the loader, run it, give one kind of error."""

from __future__ import annotations

from hubaudit.errors import InputError
from hubaudit.load.memory import memory_guard
from hubaudit.load.model import BaseContext, LoadedModel, ModelSource

__all__ = ["load_model"]


def load_model(
    source: ModelSource,
    *,
    base: BaseContext | None = None,
    dtype: str = "auto",
    device: str = "auto",
    trust_remote_code: bool = False,
) -> LoadedModel:
    """Load a base or a variant and check its head map against its own logits.

    Args:
        source: Files and format.
        base: What a GGUF variant is built from; other formats do not use it.
        dtype: `auto` (as `resolve_dtype` says), `bfloat16`, `float16` or `float32`.
        device: `auto` (the GPU if there is one), `cpu`, `cuda` or `cuda:N`.
        trust_remote_code: Whether Python code in the model's folder may run.

    Raises:
        InputError: If an option is not one of the above, or remote code is needed and not asked for.
        MissingExtraError: If the format needs a package that is not installed.
        ModelFileError: If the files are missing, broken or do not fit the base.
        VariantError: If the model loads but its logits are not a map of its head's input.
        OutOfMemoryError: If the model does not fit.
    """
    from hubaudit.load.placement import resolve_device, resolve_dtype

    torch_device = resolve_device(device)
    torch_dtype = resolve_dtype(dtype, torch_device)
    with memory_guard(f"the model {source.spec}"):
        if source.kind == "dense":
            from hubaudit.load.dense import load_dense

            return load_dense(source, dtype=torch_dtype, device=torch_device, trust_remote_code=trust_remote_code)
        if source.kind == "lora":
            from hubaudit.load.lora import load_lora

            return load_lora(source, dtype=torch_dtype, device=torch_device, trust_remote_code=trust_remote_code)
        if source.kind == "rtn":
            from hubaudit.load.rtn import load_rtn

            return load_rtn(source, dtype=torch_dtype, device=torch_device, trust_remote_code=trust_remote_code)
        if source.kind == "bnb":
            from hubaudit.load.bnb import load_bnb

            return load_bnb(source, dtype=torch_dtype, device=torch_device, trust_remote_code=trust_remote_code)
        if source.kind == "gguf":
            if base is None:
                raise InputError(
                    f"{source.spec} is a GGUF file: expected a base whose config.json it is built from, got "
                    "none. Name the base model, or expand the file with hubaudit.load.gguf_base.expand_gguf."
                )
            from hubaudit.load.gguf import load_gguf

            return load_gguf(
                source, base=base, dtype=torch_dtype, device=torch_device, trust_remote_code=trust_remote_code
            )
    raise InputError(f"{source.spec}: expected the kind dense, gguf, bnb, rtn or lora, got {source.kind}.")
