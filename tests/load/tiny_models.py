"""Tiny random models of many architectures, and GGUF files written from them by code of the tests' own.

The writer shares nothing with the loader: names are spelled out, and rearrangements are stated forward,
as llama.cpp's `convert_hf_to_gguf.py` makes them. (Beside these tests, 33 model types were written once by
that converter itself, from the sdist of llama-cpp-python 0.3.36, and came back number for number.)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

VOCABULARY = 96
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": False,
}
SPECIFIC: dict[str, dict[str, Any]] = {
    "qwen3": {"head_dim": 16},
    "gemma": {"head_dim": 16},
    "gemma2": {"head_dim": 16, "query_pre_attn_scalar": 16, "final_logit_softcapping": 7.0},
    "cohere": {"logit_scale": 0.0625},
    "granite": {"logits_scaling": 8.0},
    "phi": {"num_key_value_heads": 4},
    "qwen3_moe": {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
}


def tiny_model(model_type: str, *, seed: int = 0, **overrides: Any) -> Any:
    """A float32 model whose weights are all drawn at random, vectors around .3 so that norms matter."""
    if model_type in ("gptj", "gpt2"):
        options: dict[str, Any] = {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}
        options |= {"rotary_dim": 8} if model_type == "gptj" else {}
    else:
        options = COMMON | SPECIFIC.get(model_type, {})
    config = AutoConfig.for_model(model_type, **(options | overrides))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
            if parameter.dim() == 1:
                parameter.add_(0.3)
    return model.eval()


def save_tiny(folder: Path, model_type: str, *, dtype: torch.dtype = torch.float32, **overrides: Any) -> Any:
    """Save a tiny model as a Hugging Face folder and return it."""
    model = tiny_model(model_type, **overrides).to(dtype)
    model.save_pretrained(folder)
    return model


def logits_of(model: Any, *, n_tokens: int = 12, seed: int = 1) -> torch.Tensor:
    """Logits for two rows of random tokens."""
    tokens = torch.randint(VOCABULARY - 4, (2, n_tokens), generator=torch.Generator().manual_seed(seed))
    with torch.inference_mode():
        return model(input_ids=tokens).logits.float()


_NAMES = {
    r"model\.embed_tokens\.(\w+)": r"token_embd.\1",
    r"model\.norm\.(\w+)": r"output_norm.\1",
    r"model\.final_layernorm\.(\w+)": r"output_norm.\1",
    r"lm_head\.(\w+)": r"output.\1",
    r"model\.layers\.(\d+)\.input_layernorm\.(\w+)": r"blk.\1.attn_norm.\2",
    r"model\.layers\.(\d+)\.self_attn\.([qkv])_proj\.(\w+)": r"blk.\1.attn_\2.\3",
    r"model\.layers\.(\d+)\.self_attn\.([qk])_norm\.(\w+)": r"blk.\1.attn_\2_norm.\3",
    r"model\.layers\.(\d+)\.self_attn\.(?:o_proj|dense)\.(\w+)": r"blk.\1.attn_output.\2",
    r"model\.layers\.(\d+)\.mlp\.(gate|up|down)_proj\.(\w+)": r"blk.\1.ffn_\2.\3",
    r"model\.layers\.(\d+)\.mlp\.fc1\.(\w+)": r"blk.\1.ffn_up.\2",
    r"model\.layers\.(\d+)\.mlp\.fc2\.(\w+)": r"blk.\1.ffn_down.\2",
    r"model\.layers\.(\d+)\.mlp\.gate\.(\w+)": r"blk.\1.ffn_gate_inp.\2",
    r"model\.layers\.(\d+)\.mlp\.experts\.down_proj": r"blk.\1.ffn_down_exps.weight",
    r"model\.layers\.(\d+)\.post_attention_layernorm\.(\w+)": r"blk.\1.ffn_norm.\2",
}
_NAMES_GEMMA2 = {
    r"model\.layers\.(\d+)\.post_attention_layernorm\.(\w+)": r"blk.\1.post_attention_norm.\2",
    r"model\.layers\.(\d+)\.pre_feedforward_layernorm\.(\w+)": r"blk.\1.ffn_norm.\2",
    r"model\.layers\.(\d+)\.post_feedforward_layernorm\.(\w+)": r"blk.\1.post_ffw_norm.\2",
}
ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "granite": "granite",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "cohere": "command-r",
    "phi": "phi2",
}


def gguf_tensors(model: Any) -> dict[str, np.ndarray]:
    """A model's tensors under GGUF names, rearranged as llama.cpp's converter does, float32."""
    config = model.config
    names = _NAMES | (_NAMES_GEMMA2 if config.model_type == "gemma2" else {})
    tensors: dict[str, np.ndarray] = {}
    for name, parameter in model.named_parameters():
        values = parameter.detach().float().numpy()
        if name.endswith("experts.gate_up_proj"):
            block = name.split(".")[2]
            half = values.shape[1] // 2
            tensors[f"blk.{block}.ffn_gate_exps.weight"] = values[:, :half]
            tensors[f"blk.{block}.ffn_up_exps.weight"] = values[:, half:]
            continue
        matches = [(pattern, new) for pattern, new in names.items() if re.fullmatch(pattern, name)]
        assert len(matches) == 1, name
        tensors[re.sub(*matches[0], name)] = _rearranged(name, values, config)
    return tensors


def _rearranged(name: str, values: np.ndarray, config: Any) -> np.ndarray:
    if config.model_type in ("llama", "mistral", "granite") and (match := re.search(r"\.([qk])_proj\.", name)):
        heads = config.num_attention_heads if match[1] == "q" else config.num_key_value_heads
        halves = values.reshape(heads, 2, len(values) // heads // 2, *values.shape[1:])
        return halves.swapaxes(1, 2).reshape(values.shape)
    if config.model_type in ("gemma", "gemma2") and name.endswith("norm.weight"):
        return values + 1
    return values


def write_gguf(
    path: Path,
    model: Any,
    *,
    kind: str = "F32",
    kinds: dict[str, str] | None = None,
    drop: tuple[str, ...] = (),
    extra: dict[str, np.ndarray] | None = None,
    architecture: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> Path:
    """Write a model as GGUF.

    Args:
        path: The file.
        model: A tiny model.
        kind: Tensor type of matrices; vectors stay F32.
        kinds: Other types for single tensors.
        drop: Tensors to leave out.
        extra: Tensors to add or replace, float32.
        architecture: If not the model's own.
        metadata: More entries: strings, numbers, lists.
    """
    writer = gguf.GGUFWriter(path, architecture or ARCHITECTURES[model.config.model_type])
    writer.add_block_count(model.config.num_hidden_layers)
    add = {list: writer.add_array, str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}
    for key, value in (metadata or {}).items():
        add[type(value)](key, value)
    for name, values in (gguf_tensors(model) | (extra or {})).items():
        if name in drop:
            continue
        chosen = (kinds or {}).get(name, kind if values.ndim > 1 else "F32")
        number = gguf.GGMLQuantizationType[chosen]
        contiguous = np.ascontiguousarray(values, dtype=np.float32)
        writer.add_tensor(name, gguf.quants.quantize(contiguous, number), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
