"""Folders of safetensors: what loads, what is refused before anything big is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import VOCABULARY, logits_of, save_tiny

from hubaudit.errors import InputError, ModelFileError, VariantError
from hubaudit.load import BaseContext, LoadedModel, ModelSource, load_model


def load(folder: Path, *, dtype: str = "float32", trust_remote_code: bool = False) -> LoadedModel:
    source = ModelSource(str(folder), "dense", folder)
    return load_model(source, base=None, dtype=dtype, device="cpu", trust_remote_code=trust_remote_code)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tiny(tmp_path / "model", "llama")
    return tmp_path / "model"


def edit_config(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize("model_type", ["llama", "qwen3_moe", "gemma2", "gpt2"])
def test_logits_are_the_models_own(model_type: str, tmp_path: Path) -> None:
    source = save_tiny(tmp_path, model_type)
    loaded = load(tmp_path)
    torch.testing.assert_close(logits_of(loaded.model), logits_of(source), rtol=0, atol=1e-6)
    assert (loaded.format, loaded.engine, loaded.dtype) == ("safetensors", "torch", "float32")
    assert len(loaded.layers) == 2
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())


@pytest.mark.parametrize(("stored", "bits"), [(torch.float32, 32), (torch.bfloat16, 16)])
def test_size_is_what_the_files_hold_whatever_the_dtype(stored: torch.dtype, bits: int, tmp_path: Path) -> None:
    source = save_tiny(tmp_path, "llama", dtype=stored, tie_word_embeddings=True)
    loaded = load(tmp_path, dtype="bfloat16")
    n_parameters = sum(parameter.numel() for parameter in source.parameters())
    assert loaded.dtype == "bfloat16"
    assert loaded.quantized_fraction == 0
    assert loaded.bits_per_weight == bits
    assert loaded.size_bytes == n_parameters * bits // 8
    assert loaded.weight_error is None


def test_another_file_beside_the_weights_does_not_count(folder: Path) -> None:
    """Mistral's repos hold the same weights a second time, as consolidated.safetensors."""
    size = load(folder).size_bytes
    save_file({"other": torch.zeros(5000, dtype=torch.bfloat16)}, folder / "consolidated.safetensors")
    assert load(folder).size_bytes == size


def test_layers_output_the_hidden_state(folder: Path) -> None:
    loaded = load(folder)
    seen: list[torch.Tensor] = []

    def keep(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> None:
        seen.append(output)

    loaded.layers[0].register_forward_hook(keep)
    states = loaded.model(input_ids=torch.arange(5)[None], output_hidden_states=True).hidden_states
    assert torch.equal(seen[0], states[1])


def test_close_frees_model_and_head(folder: Path) -> None:
    loaded = load(folder)
    loaded.close()
    assert not hasattr(loaded, "model")
    assert not hasattr(loaded, "head")
    assert loaded.layers == []


class TestRefusals:
    def test_no_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ModelFileError, match="expected a model's folder, got none"):
            load(tmp_path / "missing")

    def test_no_config(self, folder: Path) -> None:
        (folder / "config.json").unlink()
        with pytest.raises(ModelFileError, match=r"expected a config\.json, got none"):
            load(folder)

    @pytest.mark.parametrize("text", ["", "{", "[1]", '{"model_type": "llama", "hidden_size": "wide"}'])
    def test_malformed_config(self, text: str, folder: Path) -> None:
        (folder / "config.json").write_text(text)
        with pytest.raises(ModelFileError):
            load(folder)

    def test_unknown_model_type(self, folder: Path) -> None:
        edit_config(folder, model_type="no_such_model")
        with pytest.raises(ModelFileError, match=r"that the installed transformers knows .* 'no_such_model'"):
            load(folder)

    def test_code_from_the_repo(self, folder: Path) -> None:
        edit_config(folder, model_type="own", auto_map={"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"})
        (folder / "code.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
        with pytest.raises(InputError, match=r"run Python code from the repo .* --trust-remote-code"):
            load(folder)
        with pytest.raises(InputError, match="refused"):
            BaseContext.from_folder(folder)
        assert not (folder / "ran").exists()

    def test_code_beside_a_known_model_type_does_not_run(self, folder: Path) -> None:
        edit_config(folder, auto_map={"AutoConfig": "code.C", "AutoModelForCausalLM": "code.M"})
        (folder / "code.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
        assert load(folder).format == "safetensors"
        assert not (folder / "ran").exists()

    def test_pickled_weights(self, folder: Path) -> None:
        torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
        with pytest.raises(ModelFileError, match=r"pickled weights.*save_pretrained"):
            load(folder)

    def test_gguf_in_the_folder(self, folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "m.Q4_0.gguf")
        with pytest.raises(ModelFileError, match=r"Give the path of one of them, as .*m\.Q4_0\.gguf"):
            load(folder)

    def test_no_weights(self, folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        with pytest.raises(ModelFileError, match="got no weights"):
            load(folder)

    def test_truncated_weights(self, folder: Path) -> None:
        file = folder / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-100])
        with pytest.raises(ModelFileError, match="truncated"):
            load(folder)

    @pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\x10" + bytes(30)])
    def test_weights_that_are_no_safetensors(self, content: bytes, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(content)
        with pytest.raises(ModelFileError, match="expected a safetensors file"):
            load(folder)

    def test_a_missing_shard(self, tmp_path: Path) -> None:
        model = save_tiny(tmp_path / "one", "llama")
        model.save_pretrained(tmp_path / "model", max_shard_size="100KB")
        assert load(tmp_path / "model").format == "safetensors"
        shard = sorted((tmp_path / "model").glob("*.safetensors"))[1]
        shard.unlink()
        with pytest.raises(ModelFileError, match=rf"{shard.name} is missing"):
            load(tmp_path / "model")

    def test_a_missing_tensor(self, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        del tensors["model.layers.1.mlp.up_proj.weight"]
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelFileError, match=r"1 are missing, as model\.layers\.1\.mlp\.up_proj\.weight"):
            load(folder)

    def test_another_shape(self, folder: Path) -> None:
        edit_config(folder, vocab_size=VOCABULARY + 1)
        with pytest.raises(ModelFileError, match=r"of shape \[97, 64\] by config\.json, got \[96, 64\]"):
            load(folder)

    def test_a_configuration_far_larger_than_the_weights(self, folder: Path) -> None:
        edit_config(folder, num_hidden_layers=500, hidden_size=16384, intermediate_size=65536)
        with pytest.raises(ModelFileError, match=r"config.json describes [\d,]{14,} parameters, but the weights are"):
            load(folder)

    def test_mlx(self, folder: Path) -> None:
        edit_config(folder, quantization={"bits": 4, "group_size": 64})
        with pytest.raises(VariantError, match="run in Apple's mlx only"):
            load(folder)

    @pytest.mark.parametrize("method", ["hqq", "aqlm"])
    def test_other_quantizations(self, method: str, folder: Path) -> None:
        edit_config(folder, quantization_config={"quant_method": method, "bits": 4})
        with pytest.raises(VariantError, match=f"got quant_method {method}"):
            load(folder)

    @pytest.mark.parametrize(("option", "value"), [("dtype", "int4"), ("device", "tpu"), ("device", "cuda:99")])
    def test_options(self, option: str, value: str, folder: Path) -> None:
        with pytest.raises(InputError, match=value):
            load_model(ModelSource("m", "dense", folder), **{"dtype": "auto", "device": "cpu", option: value})

    def test_an_encoder_decoder(self, tmp_path: Path) -> None:
        from transformers import T5Config, T5ForConditionalGeneration

        config = T5Config(vocab_size=64, d_model=32, d_ff=32, num_layers=1, num_heads=2, d_kv=8)
        T5ForConditionalGeneration(config).save_pretrained(tmp_path)
        with pytest.raises(ModelFileError, match="expected a causal language model"):
            load(tmp_path)


def test_a_copy_of_the_folder_is_the_same_model(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    assert torch.equal(logits_of(load(folder).model), logits_of(load(tmp_path / "copy").model))


def test_a_configuration_of_absurd_depth_is_refused(tiny_base: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_base, tmp_path / "deep")
    config = json.loads((tmp_path / "deep" / "config.json").read_text())
    (tmp_path / "deep" / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 10**7}))
    with pytest.raises(ModelFileError, match="at most 2000 layers, config.json says 10000000"):
        load_model(ModelSource("deep", "dense", tmp_path / "deep"), dtype="float32", device="cpu")
