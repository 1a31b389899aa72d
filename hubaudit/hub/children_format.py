"""How a repo stores its weights, told from file names, config and tags; pure, nothing is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["FORMATS", "StoredFormat", "recognise"]

FORMATS: dict[str, str | None] = {
    "gguf": None,
    "gptq": None,
    "awq": None,
    "bitsandbytes": None,
    "compressed-tensors": None,
    "fp8": None,
    "lora": None,
    "safetensors": None,
    "mlx": "MLX weights run in Apple's mlx only; audit the repo they were converted from",
    "exl2": "EXL2 weights run in ExLlamaV2 only",
    "exl3": "EXL3 weights run in ExLlamaV3 only",
    "onnx": "ONNX graphs hold no weights that transformers can load",
    "openvino": "OpenVINO weights run in OpenVINO only",
    "coreml": "Core ML models run on Apple devices only",
    "tflite": "LiteRT and MediaPipe files run in their own runtimes only",
    "tensorrt": "TensorRT engines run on one kind of GPU only",
    "ctranslate2": "CTranslate2 weights run in CTranslate2 only",
    "mlc": "MLC weights run in MLC only",
    "llamafile": "a llamafile is a program; publish the GGUF file in it",
    "pickle": "it has pickled weights only, which could run code when loaded; ask its author for safetensors",
    "flax": "it has Flax or TensorFlow weights only; ask its author for safetensors",
    "none": "it has no weights",
    "unknown": "its storage format is not one that hubaudit knows",
}
"""Every format by name; a text says why it cannot be loaded."""

_METHODS = {
    "gptq": "gptq",
    "awq": "awq",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "compressed_tensors": "compressed-tensors",
    "fp8": "fp8",
    "exl2": "exl2",
    "exl3": "exl3",
    "mlx": "mlx",
}
_BY_SUFFIX = (
    (("openvino_model.xml", "openvino_language_model.xml"), "openvino"),
    ((".onnx",), "onnx"),
    ((".mlmodelc", ".mlpackage", "model.mlmodel", "weight.bin"), "coreml"),
    ((".tflite", ".task", ".litertlm"), "tflite"),
    ((".engine", ".plan"), "tensorrt"),
    ((".llamafile",), "llamafile"),
)
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_FLAX = (".msgpack", ".h5")
_WIDTHS = {"float32": 32, "float16": 16, "bfloat16": 16}


@dataclasses.dataclass(frozen=True)
class StoredFormat:
    """How a repo stores its weights."""

    name: str
    """One of `FORMATS`, or a quantization method of its own."""
    bits: float | None
    """Bits of a quantized weight without its scales; of plain weights their width."""
    reason: str | None
    """Why hubaudit cannot load it, if so."""


def recognise(
    names: Collection[str],
    config: Mapping[str, Any],
    *,
    tags: Collection[str] = (),
    quantize_config: Mapping[str, Any] | None = None,
) -> StoredFormat:
    """Tell the format of a repo that is no GGUF repo.

    Args:
        names: Its files.
        config: Its config.json; empty if it has none.
        tags: Its tags.
        quantize_config: quantize_config.json (GPTQ) or quant_config.json (AWQ), where config.json does not say.
    """
    top = {name.lower() for name in names if "/" not in name}
    lowered = {tag.lower() for tag in tags}
    if any(name.startswith("adapter_model.") for name in top) or "adapter_config.json" in top:
        return _adapter(top)
    tensors = any(name.endswith(".safetensors") for name in top)
    quantization = _mapping(config.get("quantization_config"))
    method = _text(quantization.get("quant_method"))
    if not method and quantize_config:
        quantization, method = quantize_config, _text(quantize_config.get("quant_method")) or "gptq"
    if not method and ("mlx" in lowered or ("quantization" in config and tensors)):
        return StoredFormat("mlx", _bits(_mapping(config.get("quantization")) or quantization), FORMATS["mlx"])
    for name in ("exl2", "exl3"):
        if method == name or (not method and name in lowered):
            return StoredFormat(name, _bits(quantization), FORMATS[name])
    if "mlc-chat-config.json" in top:
        return StoredFormat("mlc", None, FORMATS["mlc"])
    if not tensors:
        return _without_safetensors(top, names)
    if method:
        return _quantized(method, quantization)
    if "config.json" not in top:
        return StoredFormat("unknown", None, "it has no config.json, so it is no model of transformers")
    text = _mapping(config.get("text_config"))
    width = _text(config.get("dtype") or config.get("torch_dtype") or text.get("dtype") or text.get("torch_dtype"))
    return StoredFormat("safetensors", _WIDTHS.get(width), None)


def _adapter(top: set[str]) -> StoredFormat:
    if "adapter_config.json" not in top:
        return StoredFormat("lora", None, "it has no adapter_config.json, so it is no adapter of PEFT")
    if "adapter_model.safetensors" in top:
        return StoredFormat("lora", None, None)
    if any(name.startswith("adapter_model.") for name in top):
        return StoredFormat("lora", None, FORMATS["pickle"])
    return StoredFormat("lora", None, FORMATS["none"])


def _without_safetensors(top: set[str], names: Collection[str]) -> StoredFormat:
    everywhere = [name.lower() for name in names]
    for suffixes, name in _BY_SUFFIX:
        if any(entry.endswith(suffixes) for entry in everywhere):
            return StoredFormat(name, None, FORMATS[name])
    if "model.bin" in top and top & {"vocabulary.json", "vocabulary.txt", "shared_vocabulary.json"}:
        return StoredFormat("ctranslate2", None, FORMATS["ctranslate2"])
    if any(entry.endswith(_PICKLES) for entry in everywhere):
        return StoredFormat("pickle", None, FORMATS["pickle"])
    if any(entry.endswith(_FLAX) for entry in everywhere):
        return StoredFormat("flax", None, FORMATS["flax"])
    if any(entry.endswith(".safetensors") for entry in everywhere):
        return StoredFormat("unknown", None, "its weights lie in subfolders; download one and pass the folder")
    return StoredFormat("none", None, FORMATS["none"])


def _quantized(method: str, quantization: Mapping[str, Any]) -> StoredFormat:
    name = _METHODS.get(method)
    if name is None:
        shown = (
            "".join(char for char in method if char.isascii() and (char.isalnum() or char in "-_."))[:24] or "unknown"
        )
        return StoredFormat(shown, _bits(quantization), f"weights quantized by {shown} cannot be loaded by hubaudit")
    bits = _bits(quantization)
    if name == "bitsandbytes":
        bits = 4 if quantization.get("load_in_4bit") or quantization.get("_load_in_4bit") else 8
    elif name == "fp8":
        bits = 8
    elif name == "compressed-tensors":
        groups = _mapping(quantization.get("config_groups")).values()
        found = [_bits(_mapping(_mapping(group).get("weights"))) for group in groups]
        bits = next((value for value in found if value is not None), bits)
    return StoredFormat(name, bits, FORMATS[name])


def _bits(quantization: Mapping[str, Any]) -> float | None:
    for key in ("bits", "w_bit", "num_bits", "nbits", "weight_bits"):
        value = quantization.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 64:
            return float(value)
    return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value.lower() if isinstance(value, str) else ""
