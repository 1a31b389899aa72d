"""LoRA adapters: merged into the base by peft, as their users run them."""

from __future__ import annotations

import json
from typing import Any

import torch

from hubaudit.errors import ModelFileError, VariantError
from hubaudit.load.assemble import assemble
from hubaudit.load.dense import read_folder_model
from hubaudit.load.extras import require
from hubaudit.load.folder import check_weights, first_line, read_config
from hubaudit.load.memory import is_out_of_memory
from hubaudit.load.model import LoadedModel, ModelSource
from hubaudit.load.quiet import quiet_transformers
from hubaudit.load.sizes import StoredSize, count_parameters

__all__ = ["load_lora", "read_adapter_config", "read_adapter_weights"]

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_MAX_CONFIG_BYTES = 1 << 20
_LARGEST_UNSEEN = 512
# What decides an adapter's effect. Everything else in the file concerns training, or would import code and weights
# that the file names; it is not read.
_USED = (
    "r", "lora_alpha", "target_modules", "exclude_modules", "bias", "use_rslora", "use_dora", "modules_to_save",
    "fan_in_fan_out", "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern", "lora_bias",
    "target_parameters", "trainable_token_indices",
)  # fmt: skip
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "lm_head.weight", "embed_out.weight")


def load_lora(
    source: ModelSource, *, dtype: torch.dtype, device: torch.device, trust_remote_code: bool = False
) -> LoadedModel:
    """Load the base of a LoRA adapter and merge the adapter into it.

    Modules that the adapter brings whole (`modules_to_save`) replace the base's; where it brings embeddings of
    another length, the base is resized first. The merge is peft's own, in the model's dtype.

    Raises:
        MissingExtraError: If peft is not installed.
        ModelFileError: If the adapter's files are missing, pickled or broken.
        VariantError: If it is no LoRA adapter, or does not fit the base.
    """
    require("peft", extra="lora", what=source.spec)
    if source.base_path is None:
        raise VariantError(f"{source.spec}: expected a base for the adapter, got none; name the base first")
    settings = read_adapter_config(source)
    tensors = read_adapter_weights(source)
    base_config = read_config(source.base_path, trust_remote_code=trust_remote_code)
    if getattr(base_config, "quantization_config", None):
        raise VariantError(
            f"{source.spec}: an adapter can be merged into plain weights only, but the base is quantized; "
            "audit it against the unquantized base"
        )
    _check_ranks(source, settings, tensors)
    stored = check_weights(source.base_path)
    model = read_folder_model(source.base_path, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    notes = [f"The adapter (rank {settings.get('r')}) was merged into the base by peft {_peft_version()}."]
    notes += _resize(model, tensors)
    try:
        with quiet_transformers():
            merged, trained = _merge(model, settings, tensors)
    except Exception as exc:  # peft checks in its own ways
        if is_out_of_memory(exc):
            raise
        raise VariantError(
            f"{source.spec}: expected an adapter that fits the base, but peft says: {first_line(exc)}; "
            "check that it was trained on this base"
        ) from exc
    adapter_bits = 8 * (source.path / WEIGHTS).stat().st_size
    n_parameters = count_parameters(merged)
    size = StoredSize(n_parameters, 0, n_parameters * stored.bits_per_element + adapter_bits)
    notes.append(f"It trains {trained:,} numbers, {adapter_bits / 8e6:.1f} MB beside the base.")
    return assemble(source, merged, file_format="lora", dtype=dtype, device=device, size=size, notes=notes)


def read_adapter_config(source: ModelSource) -> dict[str, Any]:
    """What decides an adapter's effect, from its adapter_config.json.

    Raises:
        ModelFileError: If the file is missing or broken.
        VariantError: If it is no LoRA adapter.
    """
    file = source.path / CONFIG
    try:
        if file.stat().st_size > _MAX_CONFIG_BYTES:
            raise ValueError(f"a file of {file.stat().st_size:,} bytes")
        content = json.loads(file.read_text(encoding="utf-8"))
        kind = str(content["peft_type"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelFileError(
            f"{source.spec}: expected an {CONFIG} that names its peft_type, got: {first_line(exc)}; "
            "download the adapter again"
        ) from exc
    if kind != "LORA":
        raise VariantError(
            f"{source.spec}: expected a LoRA adapter, got peft_type {kind[:40]}; merge it yourself with "
            "merge_and_unload() and audit the folder"
        )
    return {key: content[key] for key in _USED if content.get(key) is not None}


def _check_ranks(source: ModelSource, settings: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """Refuse ranks that the tensors do not have: memory is taken by the ranks that the file states."""
    found = [min(tensor.shape) for name, tensor in tensors.items() if "lora_" in name and tensor.dim() >= 2]
    patterns = settings.get("rank_pattern", {})
    stated = [settings.get("r", 8), *(patterns.values() if isinstance(patterns, dict) else [patterns])]
    largest = max(found, default=0)
    for rank in stated:
        # Where no tensor has a rank, the adapter only brings whole modules, and its matrices stay small.
        if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= max(largest, _LARGEST_UNSEEN):
            raise VariantError(
                f"{source.spec}: expected ranks from 1 to {max(largest, _LARGEST_UNSEEN)} by its tensors, got "
                f"{str(rank)[:40]} in {CONFIG}; the two do not belong together"
            )


def read_adapter_weights(source: ModelSource) -> dict[str, torch.Tensor]:
    """An adapter's tensors by name.

    Raises:
        ModelFileError: If they are missing, pickled or broken.
        VariantError: If one holds NaN or infinity.
    """
    from safetensors.torch import load_file

    file = source.path / WEIGHTS
    if not file.is_file():
        raise ModelFileError(
            f"{source.spec}: expected the adapter's weights in {WEIGHTS}, got none; pickled ones are refused, save "
            "the adapter again with safe_serialization"
        )
    try:
        tensors: dict[str, torch.Tensor] = load_file(file)
    except Exception as exc:  # safetensors' own error has no public base
        raise ModelFileError(f"{source.spec}: {WEIGHTS} is broken ({first_line(exc)}); download it again") from exc
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise VariantError(f"{source.spec}: the adapter's tensor {name[:120]} holds NaN or infinity")
    return tensors


def _resize(model: Any, tensors: dict[str, torch.Tensor]) -> list[str]:
    """Give the embeddings as many rows as the adapter brings."""
    rows = {tensor.shape[0] for name, tensor in tensors.items() if name.endswith(_EMBEDDINGS) and tensor.dim() == 2}
    have = int(model.get_input_embeddings().weight.shape[0])
    if len(rows) != 1 or rows == {have}:
        return []
    (wanted,) = rows
    with quiet_transformers():
        model.resize_token_embeddings(wanted, mean_resizing=False)
    return [f"The adapter's embeddings have {wanted} rows, the base's {have}; the base was resized."]


def _merge(model: Any, settings: dict[str, Any], tensors: dict[str, torch.Tensor]) -> tuple[torch.nn.Module, int]:
    """The base with the adapter in its weights, and the number of trained numbers."""
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

    # Zeros for a start: another initialisation could run a decomposition of every weight.
    wrapped = get_peft_model(model, LoraConfig(**settings, task_type="CAUSAL_LM", inference_mode=True))
    outcome: Any = set_peft_model_state_dict(wrapped, tensors)
    if outcome.unexpected_keys:
        raise ValueError(f"{len(outcome.unexpected_keys)} tensors have no place, as {outcome.unexpected_keys[0][:120]}")
    unset = [name for name in outcome.missing_keys if "lora_" in name or "modules_to_save" in name]
    if unset:
        raise ValueError(f"{len(unset)} tensors are missing, as {unset[0][:120]}")
    merged = wrapped.merge_and_unload(safe_merge=True)
    assert isinstance(merged, torch.nn.Module)
    return merged, sum(tensor.numel() for tensor in tensors.values())


def _peft_version() -> str:
    import peft

    return str(peft.__version__)
