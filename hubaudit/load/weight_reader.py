"""The weights of a model one tensor at a time, as dense matrices, from any format and without building the model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hubaudit.errors import InputError, ModelFileError, VariantError
from hubaudit.load.dense import quantization_of
from hubaudit.load.extras import require
from hubaudit.load.folder import check_weights, first_line, read_config, weight_files
from hubaudit.load.model import ModelSource
from hubaudit.load.projection_names import Place, is_stored_transposed, place_of

__all__ = ["Weights", "open_weights"]

_PACKED = ("qweight", "qzeros", "scales", "g_idx")
_BNB_4BIT = "quant_state.bitsandbytes__"
_BNB_OPTIONS = ("int8", "nf4", "fp4")
_ADAPTER = "base_model.model."
_UNREAD_ADAPTER = ("use_dora", "rank_pattern", "alpha_pattern", "fan_in_fan_out", "target_parameters")

Read = Callable[[], torch.Tensor]
Change = Callable[[torch.Tensor, Place], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Weights:
    """The stored tensors of a model, under the names that its safetensors have."""

    config: Any
    """The text configuration, which says how fused tensors are split."""
    readers: dict[str, Read]
    """Reads a tensor, dense, in the shape that safetensors hold; its own copy, in any float dtype."""


def open_weights(source: ModelSource, base: ModelSource) -> Weights:
    """Open a model's weights; only headers are read.

    Args:
        source: The base itself, or a variant.
        base: The base: what is made on the spot and adapters start from it, GGUF files take its configuration.

    Raises:
        InputError: If an option is malformed.
        MissingExtraError: If the format needs a package that is not installed.
        ModelFileError: If files are missing or broken.
        VariantError: If the format cannot be read tensor by tensor.
    """
    if source.kind == "gguf":
        return _gguf(source, base)
    if source.kind == "lora":
        return _lora(source, base)
    if source.kind in ("rtn", "bnb"):
        plain = _folder(base)
        change = _rtn(source, plain.config) if source.kind == "rtn" else _bnb(source, plain.config)
        # What stands outside of the blocks keeps its precision, as in an audit.
        return Weights(plain.config, {name: _changed(name, read, change) for name, read in plain.readers.items()})
    return _folder(source)


def _changed(name: str, read: Read, change: Change) -> Read:
    place = place_of(name)
    return read if place is None or place.layer is None else lambda: change(read(), place)


def _rtn(source: ModelSource, config: Any) -> Change:
    from hubaudit.load.rtn import RtnSpec, round_parts_
    from hubaudit.load.weight_error import WeightError

    spec = RtnSpec.parse(source.option)

    def change(weight: torch.Tensor, place: Place) -> torch.Tensor:
        round_parts_(weight, place, config, spec, WeightError())
        return weight

    return change


def _bnb(source: ModelSource, config: Any) -> Change:
    option = source.option or ""
    if option not in _BNB_OPTIONS:
        raise InputError(f"bnb:{option}: expected one of bnb:{', bnb:'.join(_BNB_OPTIONS)}.")
    require("bitsandbytes", extra="bnb", what=source.spec)
    from hubaudit.load.bnb import expand_4bit, expand_int8
    from hubaudit.load.weight_error import WeightError

    def change(weight: torch.Tensor, place: Place) -> torch.Tensor:
        turned = is_stored_transposed(place, config)
        matrix = weight.T if turned else weight
        expanded = expand_int8(matrix) if option == "int8" else expand_4bit(matrix, option, WeightError())
        return expanded.T if turned else expanded

    return change


# ---- folders ----------------------------------------------------------------------------------------------


def _folder(source: ModelSource) -> Weights:
    config = read_config(source.path)
    check_weights(source.path)
    stored = _stored(source.path)
    settings = quantization_of(source.path, config)
    text = config.get_text_config()
    method = str(getattr(settings.get("quant_method"), "value", settings.get("quant_method")))
    if not settings:
        return Weights(text, stored)
    if method in ("gptq", "awq"):
        return Weights(text, _packed(source, settings, stored))
    if method == "bitsandbytes":
        require("bitsandbytes", extra="bnb", what=source.spec)
        return Weights(text, _saved_bnb(stored))
    raise VariantError(
        f"{source.spec}: expected plain, GPTQ, AWQ or bitsandbytes weights, got {method[:40]}, which is not read "
        "tensor by tensor; audit it without --structure"
    )


def _stored(folder: Path) -> dict[str, Read]:
    from safetensors import safe_open

    def reader(file: Path, name: str) -> Read:
        def read() -> torch.Tensor:
            with safe_open(file, framework="pt") as opened:
                tensor = opened.get_tensor(name)
            assert isinstance(tensor, torch.Tensor)
            return tensor.clone()  # not a view of the mapped file, which would be written to

        return read

    readers = {}
    for file in weight_files(folder):
        with safe_open(file, framework="pt") as opened:
            readers.update({name: reader(file, name) for name in opened.keys()})  # noqa: SIM118 - it is no dict
    return readers


def _packed(source: ModelSource, values: dict[str, Any], stored: dict[str, Read]) -> dict[str, Read]:
    from hubaudit.load.packed_folder import PackedSettings, packed_layer

    settings = PackedSettings.of(source, values)
    readers: dict[str, Read] = {}
    packed: dict[str, dict[str, Read]] = {}
    for name, read in stored.items():
        stem, _, ending = name.rpartition(".")
        if ending in _PACKED:
            packed.setdefault(stem, {})[ending] = read
        else:
            readers[name] = read

    def expanded(stem: str, parts: dict[str, Read]) -> Read:
        return lambda: settings.expand(packed_layer(source, stem, {key: read() for key, read in parts.items()}))

    return readers | {f"{stem}.weight": expanded(stem, parts) for stem, parts in packed.items()}


def _saved_bnb(stored: dict[str, Read]) -> dict[str, Read]:
    readers: dict[str, Read] = {}
    for name in stored:
        if not name.endswith(".weight"):
            continue
        more = {key.removeprefix(f"{name}."): read for key, read in stored.items() if key.startswith(f"{name}.")}
        scale = stored.get(f"{name.removesuffix('weight')}SCB")
        if any(key.startswith(_BNB_4BIT) for key in more):
            readers[name] = _reader_4bit(stored[name], more)
        elif scale is not None:
            readers[name] = _reader_int8(stored[name], scale)
        else:
            readers[name] = stored[name]
    return readers


def _reader_4bit(read: Read, more: dict[str, Read]) -> Read:
    def expanded() -> torch.Tensor:
        from bitsandbytes.functional import QuantState

        from hubaudit.load.bnb import dequantize_4bit

        state = QuantState.from_dict({key: part() for key, part in more.items()}, device=torch.device("cpu"))
        return dequantize_4bit(read(), state)

    return expanded


def _reader_int8(read: Read, scale: Read) -> Read:
    return lambda: read().float() * scale().float()[:, None] / 127


# ---- GGUF and adapters ------------------------------------------------------------------------------------


def _gguf(source: ModelSource, base: ModelSource) -> Weights:
    require("gguf", extra="gguf", what=source.spec)
    from hubaudit.load.gguf import adapted, allocate
    from hubaudit.load.gguf_arch import architecture_for
    from hubaudit.load.gguf_file import TensorInfo, open_gguf
    from hubaudit.load.gguf_fill import fill
    from hubaudit.load.gguf_names import EMBEDDING_TENSOR, HEAD_TENSOR, match_tensors

    file = open_gguf(source.path)
    config = read_config(base.path).get_text_config()
    architecture = architecture_for(file.architecture, config.model_type, file_name=file.paths[0].name)
    embedding = file.tensors.get(EMBEDDING_TENSOR)
    if embedding is None:
        raise ModelFileError(f"{source.spec}: expected tensor {EMBEDDING_TENSOR}, got none; use a whole model's file")
    config, _ = adapted(config, n_rows=embedding.shape[0], tied=HEAD_TENSOR not in file.tensors)
    # On the meta device: names and shapes, no memory.
    targets = match_tensors(allocate(config, torch.float32, torch.device("meta")), file, architecture, config)

    def reader(info: TensorInfo, shape: torch.Size) -> Read:
        def read() -> torch.Tensor:
            whole = torch.empty(shape, dtype=torch.float32)
            fill([(info, whole, architecture.restorer(info.name, config))])
            return whole

        return read

    readers: dict[str, Read] = {}
    for tensor, target in targets.items():
        name = target.parameter_name
        # The halves of fused experts, which have no place of their own.
        name = f"{name}/{tensor}" if name in readers else name
        readers[name] = reader(file.tensors[tensor], target.view.shape)
    return Weights(config, readers)


def _lora(source: ModelSource, base: ModelSource) -> Weights:
    from hubaudit.load.lora import read_adapter_config, read_adapter_weights

    settings, tensors = read_adapter_config(source), read_adapter_weights(source)
    unread = [key for key in _UNREAD_ADAPTER if settings.get(key)]
    if unread:
        raise VariantError(
            f"{source.spec}: expected a plain LoRA adapter, got {unread[0]}; merge it with merge_and_unload() and "
            "give the folder"
        )
    plain = _folder(base)
    readers = dict(plain.readers)
    alpha, rank = settings.get("lora_alpha", 8), settings.get("r", 8)
    if not all(isinstance(value, int | float) and value > 0 for value in (alpha, rank)):
        raise ModelFileError(f"{source.spec}: expected numbers in r and lora_alpha; download the adapter again")
    scale = alpha / (math.sqrt(rank) if settings.get("use_rslora") else rank)
    for name, tensor in tensors.items():
        stem = name.removeprefix(_ADAPTER)
        if stem.endswith(".lora_A.weight"):
            target = stem.replace(".lora_A.weight", ".weight")
            other = tensors.get(name.replace(".lora_A.weight", ".lora_B.weight"))
            if target not in readers or other is None:
                raise VariantError(f"{source.spec}: expected {target[:120]} in the base, got none; is this its base?")
            readers[target] = _reader_lora(source, plain.readers[target], tensor, other, scale)
        elif stem in readers:
            readers[stem] = tensor.clone
    return Weights(plain.config, readers)


def _reader_lora(source: ModelSource, read: Read, down: torch.Tensor, up: torch.Tensor, scale: float) -> Read:
    def merged() -> torch.Tensor:
        weight = read().float()
        try:
            return weight.addmm_(up.float(), down.float(), alpha=scale)
        except RuntimeError as exc:
            raise VariantError(f"{source.spec}: the adapter does not fit its base: {first_line(exc)}") from exc

    return merged
