"""Small files of real layout for the tests' Hub: GGUF by the gguf package, safetensors by safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import safetensors.numpy

VOCABULARY, WIDTH, LAYERS = 4096, 64, 2
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCABULARY,
    "dtype": "bfloat16",
}


def config(**changes: Any) -> str:
    return json.dumps(CONFIG | changes)


def safetensors_bytes(tensors: dict[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """A file of zeros: dtype and shape by name."""
    return safetensors.numpy.save({name: np.zeros(shape, dtype) for name, (dtype, shape) in tensors.items()})


def plain_model(**changes: tuple[str, tuple[int, ...]]) -> bytes:
    return safetensors_bytes({"model.embed_tokens.weight": ("float16", (VOCABULARY, WIDTH)), **changes})


def gguf_bytes(
    folder: Path,
    *,
    head: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.Q8_0,
    tied: bool = False,
    vocabulary: int = VOCABULARY,
    width: int = WIDTH,
    token: str = "token-{}",
    **metadata: str,
) -> bytes:
    """A GGUF file with a tokenizer of 4096 tokens, as llama.cpp's converter lays it out."""
    path = folder / "made.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type("model")
    writer.add_block_count(LAYERS)
    for key, value in metadata.items():
        writer.add_string(key, value)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([token.format(index) for index in range(vocabulary)])
    writer.add_token_types([1] * vocabulary)
    writer.add_token_merges([f"left{index} right{index}" for index in range(vocabulary)])
    writer.add_bos_token_id(1)
    embedding = gguf.quants.quantize(np.zeros((vocabulary, width), np.float32), head)
    for name in ("token_embd.weight", "output.weight")[: 1 if tied else 2]:
        writer.add_tensor(name, embedding, raw_dtype=head)
    writer.add_tensor("output_norm.weight", np.zeros(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def card(base: str | list[str] | None, relation: str | None = "quantized", **more: Any) -> str:
    """A card's front matter; JSON is YAML."""
    data = {key: value for key, value in {"base_model": base, "base_model_relation": relation}.items() if value}
    return f"---\n{json.dumps(data | more)}\n---\n"
