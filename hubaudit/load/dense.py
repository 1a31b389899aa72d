"""A folder of safetensors, dense or quantized with bitsandbytes beforehand."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hubaudit.errors import ModelFileError, VariantError
from hubaudit.load.assemble import assemble
from hubaudit.load.folder import EXPANSION_MARKER, check_weights, first_line, read_config
from hubaudit.load.memory import is_out_of_memory
from hubaudit.load.model import LoadedModel, ModelSource
from hubaudit.load.quiet import quiet_transformers
from hubaudit.load.sizes import StoredSize, count_parameters

__all__ = ["described_parameters", "load_dense", "quantization_of", "read_folder_model"]


def load_dense(
    source: ModelSource, *, dtype: torch.dtype, device: torch.device, trust_remote_code: bool = False
) -> LoadedModel:
    """Load a folder of safetensors through `AutoModelForCausalLM`.

    Raises:
        InputError: If the model needs code from its repo.
        MissingExtraError: If it is quantized with bitsandbytes, which is not installed.
        ModelFileError: If files are missing, pickled, truncated, or do not fill the model exactly.
        VariantError: If it is quantized in a way that this version cannot load.
    """
    config = read_config(source.path, trust_remote_code=trust_remote_code)
    if isinstance(mlx := getattr(config, "quantization", None), dict) and "group_size" in mlx:
        raise VariantError(
            f"{source.spec}: these are MLX weights, which run in Apple's mlx only; audit the repo they were made from"
        )
    quantization = quantization_of(source.path, config)
    method = str(getattr(quantization.get("quant_method"), "value", quantization.get("quant_method")))
    if method == "bitsandbytes":
        from hubaudit.load.bnb_folder import load_bnb_folder

        return load_bnb_folder(source, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    if method in ("gptq", "awq"):
        from hubaudit.load.packed_folder import load_packed_folder

        return load_packed_folder(source, config, quantization, dtype=dtype, device=device)
    if method in ("compressed-tensors", "fp8"):
        from hubaudit.load.dequantized_folder import load_dequantized_folder

        return load_dequantized_folder(source, config, quantization, method=method, dtype=dtype, device=device)
    if quantization:
        raise VariantError(
            f"{source.spec}: expected plain weights or a known quantization, got quant_method {method[:40]}. "
            "This version cannot load it; give another variant of the same model."
        )
    weights = check_weights(source.path)
    model = read_folder_model(source.path, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    n_parameters = count_parameters(model)
    size = StoredSize(n_parameters, 0, n_parameters * weights.bits_per_element)
    notes = expansion_notes(source.path)
    return assemble(source, model, file_format="safetensors", dtype=dtype, device=device, size=size, notes=notes)


def expansion_notes(folder: Path) -> list[str]:
    """Where a folder's weights come from, if `expand_gguf` wrote it: the base of a report must say so."""
    marker = folder / EXPANSION_MARKER
    try:
        origin = json.loads(marker.read_text(encoding="utf-8"))
        return [f"The weights are the {origin['dtype'].removeprefix('torch.')} expansion of {origin['file']}."]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def quantization_of(folder: Path, config: Any) -> dict[str, Any]:
    """The settings in config.json, else those in the file beside it; empty for plain weights."""
    from hubaudit.load.packed_folder import read_quantize_config

    quantization = getattr(config, "quantization_config", None)
    if not quantization:
        return read_quantize_config(folder) or {}
    values: dict[str, Any] = dict(quantization if isinstance(quantization, dict) else quantization.to_dict())
    # Folders of 2023 name no method but carry bitsandbytes' switches.
    if values.get("quant_method") is None and (values.get("load_in_8bit") or values.get("load_in_4bit")):
        values["quant_method"] = "bitsandbytes"
    return values


def read_folder_model(
    folder: Path,
    *,
    dtype: torch.dtype,
    device: torch.device,
    trust_remote_code: bool = False,
    quantization_config: Any = None,
) -> torch.nn.Module:
    """The model of a folder, every parameter filled from its safetensors.

    Raises:
        ModelFileError: If the files cannot be read, or leave a parameter unset, or hold others.
    """
    from transformers import AutoModelForCausalLM

    check_size(folder, trust_remote_code=trust_remote_code)
    options: dict[str, Any] = {} if device.type == "cpu" else {"device_map": {"": device}}
    if quantization_config is not None:
        options["quantization_config"] = quantization_config
    return _loaded(
        folder,
        lambda: AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are an error below, with their names
            **options,
        ),
    )


def filled_model(folder: Path, config: Any, tensors: dict[str, torch.Tensor], *, dtype: torch.dtype) -> torch.nn.Module:
    """A model of a configuration, every parameter filled from tensors under the names that files have.

    Raises:
        ModelFileError: If the tensors leave a parameter unset, or have another shape.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    check_size(folder)
    return _loaded(
        folder,
        lambda: MODEL_FOR_CAUSAL_LM_MAPPING[type(config)].from_pretrained(
            None,
            config=config,
            state_dict=tensors,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        ),
    )


def check_size(folder: Path, *, trust_remote_code: bool = False) -> None:
    """Refuse a configuration that asks for far more memory than the weights could fill.

    Raises:
        ModelFileError: If there is not a bit in the files for each parameter that config.json describes.
    """
    try:
        n_parameters = described_parameters(
            read_config(folder, trust_remote_code=trust_remote_code), trust_remote_code=trust_remote_code
        )
    except Exception:  # what is wrong with the configuration is said where the model is loaded
        return
    n_bits = 8 * check_weights(folder).n_bytes
    if n_parameters > n_bits:
        raise ModelFileError(
            f"{folder}: config.json describes {n_parameters:,} parameters, but the weights are {n_bits // 8:,} bytes. "
            "Check that config.json and the weights belong together."
        )


def described_parameters(config: Any, *, trust_remote_code: bool = False) -> int:
    """Parameters of the model that a configuration describes; nothing is allocated."""
    from transformers import AutoModelForCausalLM

    plain = copy.deepcopy(config)
    plain.quantization_config = None
    with torch.device("meta"), quiet_transformers():
        return count_parameters(AutoModelForCausalLM.from_config(plain, trust_remote_code=trust_remote_code))


def _loaded(folder: Path, load: Callable[[], tuple[Any, dict[str, Any]]]) -> torch.nn.Module:
    """The model that a call of transformers gives, if the weights filled every parameter of it."""
    try:
        with quiet_transformers():
            model, info = load()
    except Exception as exc:  # every architecture fails in its own way on files that do not fit
        if is_out_of_memory(exc):
            raise
        raise ModelFileError(
            f"{folder}: expected a causal language model that transformers can load, got: {first_line(exc)}. "
            "Check that config.json and the weights belong together."
        ) from exc
    if info["missing_keys"]:
        name = sorted(info["missing_keys"])[0]
        raise ModelFileError(
            f"{folder}: expected every parameter of {type(model).__name__} in the safetensors, "
            f"{len(info['missing_keys'])} are missing, as {name}. Download the model again."
        )
    if info["mismatched_keys"]:
        name, got, expected = sorted(info["mismatched_keys"])[0]
        raise ModelFileError(
            f"{folder}: expected tensor {name} of shape {list(expected)} by config.json, got {list(got)}. Check that "
            "config.json and the weights belong together."
        )
    assert isinstance(model, torch.nn.Module)
    return model
