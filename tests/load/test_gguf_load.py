"""GGUF variants: every number in its place, and a clear refusal of what does not fit."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from tiny_models import ARCHITECTURES, VOCABULARY, gguf_tensors, logits_of, save_tiny, tiny_model, write_gguf

from hubaudit.errors import InputError, ModelFileError
from hubaudit.load import BaseContext, LoadedModel, ModelSource, load_model
from hubaudit.load.gguf_file import open_gguf
from hubaudit.load.gguf_fill import fill


def load(path: Path, folder: Path, dtype: str = "float32") -> LoadedModel:
    base = BaseContext.from_folder(folder)
    return load_model(ModelSource(str(path), "gguf", path), base=base, dtype=dtype, device="cpu")


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(model.state_dict()) | dict(model.named_buffers())


@pytest.mark.parametrize("model_type", ARCHITECTURES)
def test_unquantized_files_give_back_their_source(model_type: str, tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "base", model_type)
    loaded = load(write_gguf(tmp_path / "m.gguf", source), tmp_path / "base")
    ours, theirs = state(loaded.model), state(source)
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        # Gemma's norms are stored plus one, which costs half a unit in the last place of 1.3.
        torch.testing.assert_close(ours[name], values, rtol=0, atol=2e-7 if "norm" in name else 0)
    torch.testing.assert_close(logits_of(loaded.model), logits_of(source), rtol=0, atol=1e-5)
    assert loaded.quantized_fraction == 0
    assert loaded.bits_per_weight == 32
    assert loaded.format == "gguf:F32"


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16"])
def test_quantized_weights_are_those_of_the_gguf_package(kind: str, tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "base", "qwen2")
    loaded = load(write_gguf(tmp_path / "m.gguf", source, kind=kind), tmp_path / "base")
    number = gguf.GGMLQuantizationType[kind]
    ours = state(loaded.model)
    for name, values in source.named_parameters():
        if values.dim() == 2:
            stored = gguf.quants.quantize(values.detach().numpy(), number)
            expected = torch.from_numpy(np.array(gguf.quants.dequantize(stored, number)))
            assert torch.equal(ours[name], expected), name
    assert loaded.format == f"gguf:{kind}"
    assert loaded.head.quantized == (kind.startswith("Q"))


def test_sizes_by_hand(tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "base", "llama", tie_word_embeddings=True)
    loaded = load(write_gguf(tmp_path / "m.gguf", source, kind="Q4_0"), tmp_path / "base")
    matrices = 96 * 64 + 2 * (64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3)  # embedding; q o, k v, gate up down
    vectors = 5 * 64  # two norms a layer and the last
    assert loaded.quantized_fraction == pytest.approx(matrices / (matrices + vectors), abs=1e-12)
    # Q4_0: 32 weights in 16 bytes and a float16 scale, 4.5 bits; vectors 32 bits.
    bits = matrices * 4.5 + vectors * 32
    assert loaded.bits_per_weight == pytest.approx(bits / (matrices + vectors), abs=1e-12)
    assert loaded.size_bytes == bits / 8


@pytest.mark.parametrize("kind", [kind.name for kind in gguf.GGMLQuantizationType])
def test_every_type_that_the_package_expands(kind: str, tmp_path: Path) -> None:
    """Random blocks of each type, more than one chunk of them, against the package's own expansion."""
    number = gguf.GGMLQuantizationType[kind]
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[number]
    shape = (1030, 256)
    rng = np.random.default_rng(0)
    raw = rng.integers(256, size=(shape[0], shape[1] // block_size * block_bytes), dtype=np.uint8)
    try:
        with np.errstate(all="ignore"):
            expected = np.array(gguf.quants.dequantize(raw, number)).reshape(shape)
    except NotImplementedError:
        expected = None
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("a.weight", raw, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if expected is None:
        if kind == "F64":  # torch reads it although the package does not
            with np.errstate(all="ignore"):
                expected = raw.view(np.float64).astype(np.float32).reshape(shape)
        else:
            with pytest.raises(ModelFileError, match=f"expands for tensor a.weight, got {kind}"):
                open_gguf(tmp_path / "m.gguf")
            return
    target = torch.empty(shape)
    fill([(open_gguf(tmp_path / "m.gguf").tensors["a.weight"], target, None)])
    np.testing.assert_array_equal(target.numpy(), expected)


def test_float32_is_rounded_once_to_the_models_dtype(tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "base", "llama")
    loaded = load(write_gguf(tmp_path / "m.gguf", source), tmp_path / "base", dtype="bfloat16")
    assert loaded.dtype == "bfloat16"
    for name, values in source.named_parameters():
        assert torch.equal(state(loaded.model)[name], values.to(torch.bfloat16)), name


def test_a_file_without_head_is_tied_whatever_the_base_is(tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "base", "llama", tie_word_embeddings=False)
    path = write_gguf(tmp_path / "m.gguf", source, kinds={"token_embd.weight": "Q8_0"}, drop=("output.weight",))
    loaded = load(path, tmp_path / "base")
    assert loaded.head.tied
    assert loaded.head.quantized
    assert torch.equal(loaded.head.weight, loaded.model.get_input_embeddings().weight)
    assert any("tied to the embeddings, unlike" in note for note in loaded.notes)


def test_a_separate_quantized_head_on_a_tied_base(tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "base", "llama", tie_word_embeddings=True)
    head = np.random.default_rng(3).normal(size=(VOCABULARY, 64)).astype(np.float32)
    path = write_gguf(tmp_path / "m.gguf", source, extra={"output.weight": head}, kinds={"output.weight": "Q4_0"})
    loaded = load(path, tmp_path / "base")
    assert not loaded.head.tied
    assert loaded.head.quantized
    number = gguf.GGMLQuantizationType.Q4_0
    expected = gguf.quants.dequantize(gguf.quants.quantize(head, number), number)
    np.testing.assert_array_equal(loaded.head.weight.numpy(), expected)
    assert torch.equal(loaded.model.get_input_embeddings().weight, source.get_input_embeddings().weight)
    assert loaded.quantized_fraction == pytest.approx(head.size / sum(p.numel() for p in loaded.model.parameters()))


def test_an_unquantized_head_beside_quantized_layers(tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "base", "llama")
    kinds = {"output.weight": "F16", "token_embd.weight": "F16"}
    assert not load(write_gguf(tmp_path / "m.gguf", source, kind="Q4_0", kinds=kinds), tmp_path / "base").head.quantized


@pytest.mark.parametrize("n_rows", [VOCABULARY + 32, VOCABULARY - 3])
def test_the_files_vocabulary_rows_are_kept(n_rows: int, tmp_path: Path) -> None:
    save_tiny(tmp_path / "base", "llama", tie_word_embeddings=True)
    source = tiny_model("llama", tie_word_embeddings=True, vocab_size=n_rows)
    loaded = load(write_gguf(tmp_path / "m.gguf", source), tmp_path / "base")
    assert loaded.head.weight.shape == (n_rows, 64)
    assert torch.equal(loaded.head.weight, source.get_input_embeddings().weight)
    assert any(f"has {n_rows} rows, the base's {VOCABULARY}" in note for note in loaded.notes)


def test_a_padding_token_outside_the_files_rows(tmp_path: Path) -> None:
    save_tiny(tmp_path / "base", "llama", tie_word_embeddings=True, pad_token_id=VOCABULARY - 1)
    source = tiny_model("llama", tie_word_embeddings=True, vocab_size=VOCABULARY - 4)
    assert load(write_gguf(tmp_path / "m.gguf", source), tmp_path / "base").head.n_rows == VOCABULARY - 4


def test_rope_scaling_comes_from_the_base(tmp_path: Path) -> None:
    """Llama 3: the file says it in `rope_freqs`, which transformers' own loader drops (TRAPS 7)."""
    rope = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    source = save_tiny(tmp_path / "base", "llama", rope_parameters=rope)
    plain = tiny_model("llama")
    freqs = {"rope_freqs.weight": np.ones(8, dtype=np.float32)}
    loaded = load(write_gguf(tmp_path / "m.gguf", source, extra=freqs), tmp_path / "base")
    assert torch.equal(logits_of(loaded.model), logits_of(source))
    assert not torch.allclose(logits_of(plain), logits_of(source), atol=1e-3)  # scaling does change the logits


def test_shards_are_one_model(tmp_path: Path) -> None:
    source = save_tiny(tmp_path / "base", "llama")
    names = sorted(gguf_tensors(source))
    parts = [tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
    write_gguf(parts[0], source, drop=tuple(names[7:]))
    write_gguf(parts[1], source, drop=tuple(names[:7]))
    for part in parts:
        assert torch.equal(logits_of(load(part, tmp_path / "base").model), logits_of(source))


class TestRefusals:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("base")
        save_tiny(folder, "llama")
        return folder

    def test_no_base(self, tmp_path: Path) -> None:
        source = ModelSource("m.gguf", "gguf", tmp_path / "m.gguf")
        with pytest.raises(InputError, match="expected a base"):
            load_model(source, base=None, device="cpu")

    def test_another_architecture(self, folder: Path, tmp_path: Path) -> None:
        path = write_gguf(tmp_path / "m.gguf", tiny_model("qwen2"))
        with pytest.raises(ModelFileError, match="model type is llama, got the architecture qwen2"):
            load(path, folder)

    def test_an_unknown_architecture(self, folder: Path, tmp_path: Path) -> None:
        path = write_gguf(tmp_path / "m.gguf", tiny_model("llama"), architecture="t5")
        with pytest.raises(ModelFileError, match=r"put back in place \(.*llama.*\), got t5"):
            load(path, folder)

    def test_a_missing_tensor(self, folder: Path, tmp_path: Path) -> None:
        path = write_gguf(tmp_path / "m.gguf", tiny_model("llama"), drop=("blk.1.ffn_up.weight",))
        with pytest.raises(ModelFileError, match=r"blk\.1\.ffn_up\.weight of shape \[96, 64\] .* got none"):
            load(path, folder)

    def test_an_unexpected_tensor(self, folder: Path, tmp_path: Path) -> None:
        extra = {"blk.0.attn_q.bias": np.zeros(64, dtype=np.float32)}
        path = write_gguf(tmp_path / "m.gguf", tiny_model("llama"), extra=extra)
        with pytest.raises(ModelFileError, match=r"got blk\.0\.attn_q\.bias of shape \[64\]"):
            load(path, folder)

    @pytest.mark.parametrize(
        ("overrides", "message"),
        [
            ({"intermediate_size": 128}, r"blk\.0\.ffn_gate\.weight .* \[96, 64\], got the shape \[128, 64\]"),
            ({"hidden_size": 128}, r"got the shape \[\d+, 128\]"),
            ({"num_hidden_layers": 3}, r"got blk\.2\.attn_k\.weight"),
            ({"num_hidden_layers": 1}, r"blk\.1\.attn_k\.weight .* got none"),
            ({"num_key_value_heads": 4}, r"blk\.0\.attn_k\.weight .*\[32, 64\], got the shape \[64, 64\]"),
        ],
    )
    def test_another_size(self, overrides: dict[str, int], message: str, folder: Path, tmp_path: Path) -> None:
        path = write_gguf(tmp_path / "m.gguf", tiny_model("llama", **overrides))
        with pytest.raises(ModelFileError, match=message):
            load(path, folder)

    def test_a_file_that_is_no_language_model(self, folder: Path, tmp_path: Path) -> None:
        path = write_gguf(tmp_path / "mmproj.gguf", tiny_model("llama"), drop=("token_embd.weight",))
        with pytest.raises(ModelFileError, match=r"expected tensor token_embd\.weight"):
            load(path, folder)
