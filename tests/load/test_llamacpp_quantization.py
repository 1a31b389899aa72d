"""Per-tensor errors of GGUF types against llama.cpp's own quantize-then-expand, called in its library."""

from __future__ import annotations

import ctypes
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.torch import load_file
from tiny_models import save_tiny, tiny_model, write_gguf

from hubaudit.hub import resolve_base, resolve_variant
from hubaudit.load.projection_names import place_of
from hubaudit.structure import compare_structure

llama_cpp = pytest.importorskip("llama_cpp", reason="needs llama-cpp-python: pip install 'hubaudit[llamacpp]'")
pytestmark = pytest.mark.llamacpp

TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
SIZES = {"hidden_size": 256, "intermediate_size": 512}


def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        *[ctypes.c_int64] * 3,
        ctypes.c_void_p,
    ]
    return lib


def quantize(values: np.ndarray, kind: gguf.GGMLQuantizationType) -> np.ndarray:
    """As llama.cpp writes it, (rows, bytes)."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    if kind == gguf.GGMLQuantizationType.F32:
        return values
    rows, columns = values.shape
    block, size = gguf.GGML_QUANT_SIZES[kind]
    made = np.zeros((rows, columns // block * size), dtype=np.uint8)
    written = library().ggml_quantize_chunk(int(kind), values.ctypes.data, made.ctypes.data, 0, rows, columns, None)
    assert written == made.nbytes
    return made


def expand(stored: np.ndarray, kind: gguf.GGMLQuantizationType, shape: tuple[int, ...]) -> np.ndarray:
    """As llama.cpp reads it."""
    made = np.zeros(shape, dtype=np.float32)
    name = kind.name.replace("Q", "q", 1)
    call = getattr(library(), f"dequantize_row_{name}")
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    call(stored.ctypes.data, made.ctypes.data, made.size)
    return made


@pytest.mark.parametrize("kind", TYPES)
def test_errors_are_those_of_llamacpp(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path / "base", "llama", **SIZES)
    base = resolve_base(str(tmp_path / "base"))
    monkeypatch.setattr(gguf.quants, "quantize", quantize)
    file = write_gguf(tmp_path / "variant.gguf", tiny_model("llama", **SIZES), kind=kind)
    block = compare_structure(base, resolve_variant(str(file), base))
    stored = load_file(base.path / "model.safetensors")
    number = gguf.GGMLQuantizationType[kind]
    compared = 0
    for name, tensor in stored.items():
        place = place_of(name)
        if place is None or place.layer is None:
            continue
        weight = tensor.numpy()
        # llama.cpp turns the rows of q and k; each row is quantized by itself, so its error stays.
        expanded = expand(quantize(weight, number), number, weight.shape)
        error = np.linalg.norm(expanded.astype(np.float64) - weight)
        (row,) = (r for r in block.rows if (r.layer, r.projection) == (place.layer, place.parts[0]))
        assert row.difference.relative_error == pytest.approx(error / np.linalg.norm(weight.astype(float)), rel=1e-6)
        assert row.difference.max_error == pytest.approx(np.abs(expanded - weight).max(), rel=1e-6)
        compared += 1
    assert compared == 14
