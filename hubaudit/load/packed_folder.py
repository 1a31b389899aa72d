"""A folder of GPTQ or AWQ weights, expanded to dense ones."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from pathlib import Path
from typing import Any

import torch

from hubaudit.errors import ModelFileError, VariantError
from hubaudit.load.assemble import assemble
from hubaudit.load.dense import filled_model, read_folder_model
from hubaudit.load.folder import check_weights, first_line, read_tensors
from hubaudit.load.model import LoadedModel, ModelSource
from hubaudit.load.packed_weights import PackedLayer, check_gptq, expand_awq, expand_gptq
from hubaudit.load.sizes import StoredSize, count_parameters
from hubaudit.load.structure import output_module

__all__ = ["PackedSettings", "load_packed_folder", "packed_layer", "read_quantize_config"]

QUANTIZE_CONFIG = "quantize_config.json"
_MAX_CONFIG_BYTES = 1 << 20
_GPTQ_BITS = (2, 3, 4, 8)
_HEADS = ("lm_head", "embed_out")
_PACKED = ("qweight", "qzeros", "scales", "g_idx")
_NOTE = "The packed weights were expanded to dense ones; products are those of dense matrices."


def read_quantize_config(folder: Path) -> dict[str, Any] | None:
    """The settings that GPTQ tools write beside config.json, with their method; None without the file.

    Raises:
        ModelFileError: If the file is no JSON object.
    """
    file = folder / QUANTIZE_CONFIG
    if not file.is_file():
        return None
    try:
        if file.stat().st_size > _MAX_CONFIG_BYTES:
            raise ValueError(f"a file of {file.stat().st_size:,} bytes")
        content = json.loads(file.read_text(encoding="utf-8"))
        return {"quant_method": "gptq", **content}
    except (OSError, ValueError, TypeError) as exc:
        raise ModelFileError(f"{file}: expected a JSON object, got: {first_line(exc)}; download it again") from exc


def load_packed_folder(
    source: ModelSource,
    config: Any,
    quantization: dict[str, Any],
    *,
    dtype: torch.dtype,
    device: torch.device,
    native: bool | None = None,
) -> LoadedModel:
    """Load GPTQ (2, 3, 4 and 8 bit, any grouping, both zero conventions) or AWQ (4 bit, GEMM) weights.

    GPTQ weights stay packed where GPTQModel and optimum are installed and the device is a GPU; otherwise they are
    expanded to dense ones. A quantized head is always expanded with all else: the head must be a matrix.

    Args:
        source: The folder.
        config: The model's configuration, as read from it.
        quantization: Its quantization settings.
        dtype: Of activations and expanded weights.
        device: Where it runs.
        native: Whether GPTQModel multiplies the packed weights; None decides as above.

    Raises:
        ModelFileError: If the files are broken, or do not fit together.
        VariantError: If the settings name a form that is not read.
    """
    settings = PackedSettings.of(source, quantization)
    check_weights(source.path)
    dense: dict[str, torch.Tensor] = {}
    packed: dict[str, dict[str, torch.Tensor]] = {}
    n_bits = 0
    for name, tensor in read_tensors(source.path):
        stem, _, ending = name.rpartition(".")
        n_bits += 8 * tensor.numel() * tensor.element_size()
        if ending in _PACKED:
            packed.setdefault(stem, {})[ending] = tensor
        else:
            dense[name] = tensor
    if not packed:
        raise ModelFileError(f"{source.spec}: expected packed weights (*.qweight), got none; download the model again")
    notes = [_NOTE]
    if settings.method == "gptq" and (_can_run_packed(device) if native is None else native):
        layers = [packed_layer(source, stem, tensors) for stem, tensors in packed.items()]
        loaded = _load_packed(source, settings, layers, n_bits, dtype=dtype, device=device)
        if isinstance(loaded, LoadedModel):
            return loaded
        notes.append(loaded)
    quantized = set(packed)
    n_quantized = 0
    for stem in sorted(quantized):
        # One layer at a time: what is expanded lets its packed tensors go.
        weight = settings.expand(packed_layer(source, stem, packed.pop(stem))).to(dtype)
        n_quantized += weight.numel()
        dense[f"{stem}.weight"] = weight
    config.quantization_config = None
    model = filled_model(source.path, config, dense, dtype=dtype)
    head = output_module(model)
    return assemble(
        source,
        model,
        file_format=settings.label,
        dtype=dtype,
        device=device,
        size=StoredSize(count_parameters(model), n_quantized, n_bits),
        head_quantized=any(module is head and name in quantized for name, module in model.named_modules()),
        notes=notes,
    )


def _can_run_packed(device: torch.device) -> bool:
    installed = all(importlib.util.find_spec(name) is not None for name in ("gptqmodel", "optimum"))
    return installed and device.type == "cuda"


def _load_packed(
    source: ModelSource,
    settings: PackedSettings,
    layers: list[PackedLayer],
    n_bits: int,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> LoadedModel | str:
    """The model with its packed layers run by GPTQModel, through transformers; or why that does not work.

    Shapes and groups are checked before any kernel sees them.
    """
    if settings.layers_differ or any(layer.name.split(".")[0] in _HEADS for layer in layers):
        # transformers 5.24 would leave a quantized head at random.
        return "GPTQModel was not used: the head is quantized, or layers differ in their settings."
    n_quantized = 0
    for layer in layers:
        n_inputs = len(check_gptq(layer, bits=settings.bits, group_size=settings.group_size))
        n_quantized += n_inputs * int(layer.scales.shape[1])
    try:
        model = read_folder_model(source.path, dtype=dtype, device=device)
    except ModelFileError as exc:
        return f"GPTQModel was not used: {first_line(exc)}"
    return assemble(
        source,
        model,
        file_format=settings.label,
        engine="gptqmodel",
        dtype=dtype,
        device=device,
        size=StoredSize(count_parameters(model) + n_quantized, n_quantized, n_bits),
    )


@dataclasses.dataclass(frozen=True)
class PackedSettings:
    """How a folder's weights are packed."""

    method: str
    bits: int
    group_size: int
    zeros_less_one: bool
    layers_differ: bool = False
    """Whether the settings name others for some layers (GPTQModel's `dynamic`)."""

    @classmethod
    def of(cls, source: ModelSource, values: dict[str, Any]) -> PackedSettings:
        """Read them from the quantization's settings, as config.json holds them.

        Raises:
            ModelFileError: If they contradict each other.
            VariantError: If they name a form that is not read.
        """
        method = str(getattr(values.get("quant_method"), "value", values.get("quant_method"))).lower()
        bits, group_size = values.get("bits", values.get("w_bit")), values.get("group_size", values.get("q_group_size"))
        group_size = -1 if group_size is None else group_size
        if not (isinstance(bits, int) and isinstance(group_size, int)) or isinstance(bits, bool) or group_size < -1:
            raise ModelFileError(
                f"{source.spec}: expected whole bits and group_size in the quantization's settings, got {bits!r} and "
                f"{group_size!r}; download config.json again"
            )
        if method == "awq":
            version = str(getattr(values.get("version"), "value", values.get("version", "gemm"))).lower()
            if bits != 4 or version != "gemm":
                raise VariantError(
                    f"{source.spec}: expected AWQ of 4 bits in GEMM form, got {bits} bits, {version[:20]}; "
                    "this version cannot load it"
                )
            return cls("awq", bits, group_size, False)
        if bits not in _GPTQ_BITS:
            raise VariantError(f"{source.spec}: expected GPTQ of 2, 3, 4 or 8 bits, got {bits}; it cannot be loaded")
        form = str(getattr(values.get("checkpoint_format"), "value", values.get("checkpoint_format") or "gptq")).lower()
        if form not in ("gptq", "gptq_v2"):
            raise VariantError(
                f"{source.spec}: expected the checkpoint format gptq or gptq_v2, got {form[:40]}; it cannot be loaded"
            )
        return cls("gptq", bits, group_size, form == "gptq", bool(values.get("dynamic")))

    @property
    def label(self) -> str:
        """`gptq:4@g128`."""
        return f"{self.method}:{self.bits}" + (f"@g{self.group_size}" if self.group_size > 0 else "")

    def expand(self, layer: PackedLayer) -> torch.Tensor:
        """The dense matrix of a layer, (outputs, inputs), float32."""
        if self.method == "awq":
            return expand_awq(layer, group_size=self.group_size)
        bits, group_size = self.bits, self.group_size
        if self.layers_differ:
            bits, group_size = _of_layer(layer)
        return expand_gptq(layer, bits=bits, group_size=group_size, zeros_less_one=self.zeros_less_one)


def _of_layer(layer: PackedLayer) -> tuple[int, int]:
    """Bits and group size of one layer, from its own shapes: names in `dynamic` are patterns of the repo's owner."""
    outputs, words = layer.scales.shape[-1], layer.qzeros.shape[-1]
    bits = 32 * words // outputs if outputs else 0
    if bits not in _GPTQ_BITS:
        raise ModelFileError(
            f"{layer.name[:120]}: expected zeros of 2, 3, 4 or 8 bits, got {words} words for {outputs} outputs; "
            "download the model again"
        )
    return bits, layer.qweight.shape[0] * 32 // bits // max(1, layer.scales.shape[0])


def packed_layer(source: ModelSource, stem: str, tensors: dict[str, torch.Tensor]) -> PackedLayer:
    """The packed layer that tensors make up.

    Raises:
        ModelFileError: If one is missing.
    """
    missing = {"qweight", "qzeros", "scales"} - set(tensors)
    if missing:
        raise ModelFileError(
            f"{source.spec}: expected {stem[:120]}.{sorted(missing)[0]} beside {stem[:120]}.{sorted(tensors)[0]}, got "
            "none; download the model again"
        )
    return PackedLayer(stem, tensors["qweight"], tensors["qzeros"], tensors["scales"], tensors.get("g_idx"))
