"""`hubaudit structure`: what is read without a model equals the loaded model's own weights, in every format."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from hubaudit.cli import app
from hubaudit.errors import VariantError
from hubaudit.hub import resolve_base, resolve_variant
from hubaudit.load import BaseContext, ModelSource, load_model
from hubaudit.load.projection_names import Place, place_of, split
from hubaudit.load.weight_reader import open_weights
from hubaudit.structure import compare_structure

sys.path.insert(0, str(Path(__file__).parent / "load"))
from tiny_models import save_tiny, tiny_model, write_gguf

FIXTURES = Path(__file__).parent / "load" / "fixtures"


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("model.layers.11.self_attn.k_proj.weight", Place(11, ("k",))),
        ("h.0.attn.c_attn.weight", Place(0, ("q", "k", "v"))),
        ("transformer.h.0.attn.c_proj.weight", Place(0, ("o",))),
        ("transformer.h.0.mlp.c_proj.weight", Place(0, ("down",))),
        ("gpt_neox.layers.4.attention.dense.weight", Place(4, ("o",))),
        ("gpt_neox.layers.4.mlp.dense_4h_to_h.weight", Place(4, ("down",))),
        ("model.layers.2.mlp.gate_up_proj.weight", Place(2, ("gate", "up"))),
        ("model.layers.2.block_sparse_moe.experts.7.w2.weight", Place(2, ("down",), 7)),
        ("model.embed_tokens.weight", Place(None, ("embeddings",))),
        ("lm_head.weight", Place(None, ("head",))),
        ("model.layers.2.input_layernorm.weight", None),
        ("backbone.layers.3.mixer.in_proj.weight", None),
        ("model.layers.2.self_attn.q_proj.bias", None),
    ],
)
def test_places(name: str, place: Place | None) -> None:
    assert place_of(name) == place


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    folder = tmp_path_factory.mktemp("structure") / "base"
    save_tiny(folder, "llama")
    return resolve_base(str(folder))


def weights_of(source: ModelSource, base: ModelSource) -> dict[str, np.ndarray]:
    """As a loaded model has them, by our label."""
    model = load_model(source, base=BaseContext.from_folder(base.path), dtype="float32", device="cpu")
    found = {}
    for name, parameter in model.model.named_parameters():
        place = place_of(name)
        if place is not None:
            for part, matrix in split(parameter.detach(), place, model.model.config).items():
                found[f"{place.layer} {part}"] = matrix.double().numpy()
    return found


def check(source: ModelSource, base: ModelSource, *, rel: float = 1e-6) -> None:
    before, after = weights_of(base, base), weights_of(source, base)
    block = compare_structure(base, source)
    assert {f"{row.layer} {row.projection}" for row in block.rows} == set(before) & set(after)
    for row in block.rows:
        key = f"{row.layer} {row.projection}"
        error = np.linalg.norm(after[key] - before[key])
        assert row.difference.relative_error == pytest.approx(error / np.linalg.norm(before[key]), rel=rel, abs=1e-12)
        assert row.difference.max_error == pytest.approx(np.abs(after[key] - before[key]).max(), rel=rel, abs=1e-12)
    errors = sum(np.linalg.norm(after[key] - before[key]) ** 2 for key in before)
    norms = sum(np.linalg.norm(before[key]) ** 2 for key in before)
    assert block.relative_error == pytest.approx((errors / norms) ** 0.5, rel=rel)
    assert set(block.not_compared) <= {"transformer.wpe.weight"}, "positions are no projection"


@pytest.mark.parametrize("spec", ["rtn:3@g32", "bnb:nf4"])
def test_made_on_the_spot(spec: str, base: ModelSource) -> None:
    if spec.startswith("bnb"):
        pytest.importorskip("bitsandbytes")
    check(resolve_variant(spec, base), base)


@pytest.mark.parametrize("spec", ["rtn:3@g32", "rtn:3@g32,v=6,down=4", "bnb:nf4", "bnb:int8"])
@pytest.mark.parametrize("model_type", ["gpt2", "phi3", "gpt_neox"])
def test_made_on_the_spot_from_fused_and_transposed_weights(spec: str, model_type: str, tmp_path: Path) -> None:
    if spec.startswith("bnb"):
        pytest.importorskip("bitsandbytes")
    save_tiny(tmp_path, model_type)
    source = resolve_base(str(tmp_path))
    variant = resolve_variant(spec, source)
    if spec == "bnb:int8":
        found = {row.projection: row.difference.relative_error for row in compare_structure(source, variant).rows}
        assert 0 < found["o"] < 0.02
        return
    check(variant, source)


def test_int8_is_within_half_a_step_of_each_row(base: ModelSource) -> None:
    pytest.importorskip("bitsandbytes")
    block = compare_structure(base, resolve_variant("bnb:int8", base))
    stored = load_file(base.path / "model.safetensors")
    for row in block.rows:
        name = next(n for n in stored if (p := place_of(n)) and (p.layer, p.parts[0]) == (row.layer, row.projection))
        step = stored[name].abs().amax() / 127
        assert row.difference.max_error <= (0 if row.layer is None else 0.51 * step)


def test_another_folder(base: ModelSource, tmp_path: Path) -> None:
    save_tiny(tmp_path / "other", "llama", seed=1)
    check(resolve_variant(str(tmp_path / "other"), base), base)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_gguf_is_quantize_then_expand(kind: str, base: ModelSource, tmp_path: Path) -> None:
    file = tmp_path / "variant.gguf"
    write_gguf(file, tiny_model("llama"), kind=kind)
    block = compare_structure(base, resolve_variant(str(file), base))
    stored = load_file(base.path / "model.safetensors")
    number = gguf.GGMLQuantizationType[kind]
    for name in ("model.layers.1.mlp.up_proj.weight", "model.layers.0.self_attn.v_proj.weight"):
        weight = stored[name].numpy()
        expanded = gguf.quants.dequantize(gguf.quants.quantize(weight, number), number)
        (row,) = (r for r in block.rows if (r.layer, r.projection) == (place_of(name).layer, place_of(name).parts[0]))
        expected = np.linalg.norm(expanded.astype(float) - weight) / np.linalg.norm(weight.astype(float))
        assert row.difference.relative_error == pytest.approx(expected, rel=1e-6)
    check(resolve_variant(str(file), base), base)


@pytest.mark.parametrize(
    "folder", sorted(path for path in FIXTURES.glob("gptq_*") if path.is_dir()), ids=lambda p: p.name
)
def test_packed_folders_are_read_as_they_are_loaded(folder: Path) -> None:
    source = ModelSource("g", "dense", folder)
    model = load_model(source, dtype="float32", device="cpu")
    readers = open_weights(source, source).readers
    for name, parameter in model.model.named_parameters():
        if name in readers and parameter.dim() == 2:
            torch.testing.assert_close(readers[name]().float(), parameter.detach().float(), rtol=1e-6, atol=1e-7)


def test_fused_projections_are_split(tmp_path: Path) -> None:
    for model_type in ("phi3", "gpt_neox", "gpt2"):
        save_tiny(tmp_path / model_type, model_type)
        save_tiny(tmp_path / f"{model_type}-other", model_type, seed=2)
        source = resolve_base(str(tmp_path / model_type))
        check(resolve_variant(str(tmp_path / f"{model_type}-other"), source), source)
        block = compare_structure(source, source)
        assert {"q", "k", "v", "o"} <= {row.projection for row in block.rows}


def test_heads_in_turn_are_gathered(tmp_path: Path) -> None:
    config = save_tiny(tmp_path, "gpt_neox").config
    fused = load_file(tmp_path / "model.safetensors")["gpt_neox.layers.0.attention.query_key_value.weight"]
    parts = split(fused, Place(0, ("q", "k", "v")), config)
    width = config.hidden_size // config.num_attention_heads
    for head in range(config.num_attention_heads):
        for at, part in enumerate("qkv"):
            start = (3 * head + at) * width
            assert torch.equal(parts[part][head * width : (head + 1) * width], fused[start : start + width])


def test_an_adapter(base: ModelSource, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(base.path),
        LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "down_proj"]),
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.normal_(0, 0.1)
    model.save_pretrained(tmp_path)
    block = compare_structure(base, resolve_variant(str(tmp_path), base))
    assert {row.projection for row in block.rows if row.difference.relative_error} == {"q", "down"}
    check(resolve_variant(str(tmp_path), base), base, rel=1e-4)


def test_a_saved_bitsandbytes_folder(base: ModelSource, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    for name, options in (
        ("4bit", {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}),
        ("8bit", {"load_in_8bit": True}),
    ):
        settings = BitsAndBytesConfig(**options)
        AutoModelForCausalLM.from_pretrained(base.path, quantization_config=settings, device_map="cpu").save_pretrained(
            tmp_path / name
        )
        source = resolve_variant(str(tmp_path / name), base)
        block = compare_structure(base, source)
        error = {"4bit": (0.05, 0.15), "8bit": (0.001, 0.02)}[name]
        inside = [row.difference.relative_error for row in block.rows if row.layer is not None]
        assert all(error[0] < value < error[1] for value in inside), inside


def test_pruned_layers_and_unknown_tensors_are_named(base: ModelSource, tmp_path: Path) -> None:
    save_tiny(tmp_path / "pruned", "llama", num_hidden_layers=1)
    tensors = load_file(tmp_path / "pruned" / "model.safetensors")
    tensors["model.layers.0.mixer.in_proj.weight"] = torch.zeros(4, 4)
    save_file(tensors, tmp_path / "pruned" / "model.safetensors", metadata={"format": "pt"})
    block = compare_structure(base, resolve_variant(str(tmp_path / "pruned"), base))
    assert {row.layer for row in block.rows} == {0, None}
    assert block.not_compared["model.layers.1.self_attn.q_proj.weight"] == "the variant has no q in decoder block 1"
    assert "no projection" in block.not_compared["model.layers.0.mixer.in_proj.weight"]


def test_a_model_without_projections_is_refused(tmp_path: Path) -> None:
    save_tiny(tmp_path, "llama")
    save_file({"backbone.layers.0.mixer.in_proj.weight": torch.ones(2, 2)}, tmp_path / "model.safetensors")
    source = resolve_base(str(tmp_path))
    with pytest.raises(VariantError, match="state-space model has none"):
        compare_structure(source, source)


def test_a_tied_head_meets_the_other_sides_own(base: ModelSource, tmp_path: Path) -> None:
    save_tiny(tmp_path, "llama", tie_word_embeddings=True)
    source = resolve_base(str(tmp_path))
    assert "head" not in {row.projection for row in compare_structure(source, source).rows}
    assert "head" in {row.projection for row in compare_structure(base, source).rows}


def test_command(base: ModelSource, tmp_path: Path) -> None:
    def run(*more: str) -> Any:
        return CliRunner().invoke(app, ["structure", str(base.path), "rtn:3@g32", *more])

    shown = run("--quiet", "--json", "--plot", str(tmp_path / "heat.png"))
    assert shown.exit_code == 0, shown.output
    (block,) = json.loads(shown.stdout).values()
    assert len(block["rows"]) == 2 * 7 + 2
    assert (tmp_path / "heat.png").read_bytes().startswith(b"\x89PNG")
    table = run()
    assert "relative error of all" in table.stdout
    failed = run("rtn:99")
    assert failed.exit_code == 4
    assert "relative error of all" in failed.stdout
    assert "rtn:99: expected rtn:BITS" in failed.stderr


def test_shape_mismatch_is_a_reason(base: ModelSource, tmp_path: Path) -> None:
    shutil.copytree(base.path, tmp_path / "wide")
    tensors = load_file(base.path / "model.safetensors")
    tensors["lm_head.weight"] = torch.zeros(128, 64)
    save_file(tensors, tmp_path / "wide" / "model.safetensors", metadata={"format": "pt"})
    block = compare_structure(base, resolve_variant(str(tmp_path / "wide"), base))
    assert block.not_compared["lm_head.weight"] == "expected the base's shape [96, 64], got [128, 64]"
