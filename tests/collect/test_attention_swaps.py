"""Swaps of attention projections: against explicit loops, exact controls, and models without attention weights."""

from __future__ import annotations

import copy
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from hubaudit.attention import PARTS, compare_attention, gold_plan
from hubaudit.collect.attention import attention_kl
from hubaudit.errors import VariantError
from hubaudit.hub.source import ModelSource
from hubaudit.load import load_model
from hubaudit.load.swap import projection_shapes, swapped
from hubaudit.stats.sensitivity import SwapSums, sensitivity_ratio
from hubaudit.tasks.tokens import ScoredOption, TokenizedItem, TokenizedTask

sys.path.insert(0, str(Path(__file__).parents[1] / "load"))
from tiny_models import VOCABULARY, tiny_model


def task(n_items: int = 5) -> TokenizedTask:
    """Items of different lengths with two targets each, and a wrong option that must not run."""
    rng = np.random.default_rng(0)
    items = []
    for at in range(n_items):
        ids = tuple(int(one) for one in rng.integers(3, VOCABULARY, 6 + 2 * at))
        gold = ScoredOption(ids[:-1], ids[-2:])
        items.append(TokenizedItem(str(at), (ScoredOption((5, 6), (7,)), gold), ("a", "b"), (1, 1), 1, None))
    return TokenizedTask("tiny", "multiple_choice", "here", "acc", tuple(items))


def saved(tmp_path: Path, model: Any, name: str) -> ModelSource:
    folder = tmp_path / name
    model.save_pretrained(folder)
    return ModelSource(str(folder), "dense", folder, None, None, None)


def pair(tmp_path: Path, model_type: str = "llama", **overrides: Any) -> tuple[Any, Any, ModelSource, ModelSource]:
    """A tiny model and the same with noise on all weights of its blocks."""
    base = tiny_model(model_type, num_hidden_layers=3, **overrides) if model_type != "gpt2" else tiny_model("gpt2")
    variant = copy.deepcopy(base)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in variant.named_parameters():
            if parameter.dim() == 2 and (".layers." in name or ".h." in name):
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.02)
    return base, variant, saved(tmp_path, base, "base"), saved(tmp_path, variant, "variant")


def opened(source: ModelSource) -> Any:
    return load_model(source, dtype="float32", device="cpu")


def test_figures_equal_an_explicit_loop(tmp_path: Path) -> None:
    base, variant, source, other = pair(tmp_path)
    found = compare_attention(opened(source), other, gold_plan([task()], batch_tokens=64))
    base.set_attn_implementation("eager")
    for layer, part in [(1, "q"), (2, "v"), (None, "k"), (0, "o")]:
        mixed = copy.deepcopy(base)
        with torch.no_grad():
            for at in range(3) if layer is None else [layer]:
                mine, theirs = (model.model.layers[at].self_attn for model in (mixed, variant))
                getattr(mine, f"{part}_proj").weight.copy_(getattr(theirs, f"{part}_proj").weight)
        attention, logits, dots = 0.0, 0.0, np.zeros(3)
        positions = tokens = 0
        for item in task().items:
            ids = torch.tensor([item.options[1].input_ids])
            with torch.no_grad():
                one, two = (model(ids, output_attentions=True, output_hidden_states=True) for model in (base, mixed))
            for block_p, block_q in zip(one.attentions, two.attentions, strict=True):
                for head in range(4):
                    for query in range(ids.shape[1]):
                        for key in range(query + 1):
                            p, q = float(block_p[0, head, query, key]), float(block_q[0, head, query, key])
                            attention += p * math.log(p / q) / 4 / 3
            positions += ids.shape[1]
            p, q = (entry.logits[0, -2:].double().log_softmax(-1) for entry in (one, two))
            logits += float((p.exp() * (p - q)).sum())
            x, y = (entry.hidden_states[-1][0, -2:].double() for entry in (one, two))
            dots += [float((x * x).sum()), float((y * y).sum()), float((x * y).sum())]
            tokens += 2
        rows = found.overall if layer is None else found.rows
        row = next(entry for entry in rows if entry.layer == layer and entry.projection == part)
        assert row.attention_kl.value == pytest.approx(attention / positions, rel=2e-3, abs=1e-9)
        assert row.kl.value == pytest.approx(logits / tokens, rel=1e-3, abs=1e-9)
        assert row.one_minus_omega.value == pytest.approx(1 - dots[2] / math.sqrt(dots[0] * dots[1]), rel=1e-3)
    assert found.n_items == 5
    assert found.n_positions == positions
    assert found.n_tokens == 10


def test_control_is_exactly_zero_and_the_base_is_left_as_it_was(tmp_path: Path) -> None:
    _, _, source, other = pair(tmp_path)
    model = opened(source)
    before = {name: value.clone() for name, value in model.model.state_dict().items()}
    found = compare_attention(model, other, gold_plan([task()], batch_tokens=64))
    assert found.control.attention_kl.value == found.control.kl.value == found.control.one_minus_omega.value == 0
    assert all(torch.equal(value, before[name]) for name, value in model.model.state_dict().items())
    assert all("forward" not in vars(layer) for layer in model.layers)
    assert found.notes
    assert "eager" in found.notes[0]
    assert len(found.rows) == 12
    assert {row.projection for row in found.overall} == set(PARTS)


def test_every_variant_is_told_how_attention_ran(tmp_path: Path) -> None:
    _, _, source, other = pair(tmp_path)
    model, plan = opened(source), gold_plan([task()], batch_tokens=64)
    first, second = (compare_attention(model, other, plan) for _ in range(2))
    assert first.notes == second.notes == ["Attention ran as eager: sdpa computes no attention weights."]


def test_v_and_o_leave_the_attention_of_the_last_block(tmp_path: Path) -> None:
    _, _, source, other = pair(tmp_path)
    found = compare_attention(opened(source), other, gold_plan([task()], batch_tokens=64))
    last = {row.projection: row.attention_kl.value for row in found.rows if row.layer == 2}
    assert last["v"] == last["o"] == 0
    assert last["q"]
    assert last["k"]
    assert found.ratio["kl"].value
    assert found.ratio["kl"].ci_low
    assert found.ratio["kl"].n == 5


@pytest.mark.parametrize("model_type", ["gpt2", "phi3", "qwen2"])
def test_fused_and_transposed_projections(tmp_path: Path, model_type: str) -> None:
    base, variant, source, other = pair(tmp_path, model_type)
    found = compare_attention(opened(source), other, gold_plan([task()], batch_tokens=64))
    assert not found.not_swapped
    assert all(row.kl.value for row in found.rows)
    # q, k, v and o of all blocks together are the variant's attention.
    shapes = projection_shapes(variant, PARTS)
    assert {part for _, part in shapes} == set(PARTS)
    zeros = {key: torch.zeros(shape) for key, shape in shapes.items()}
    with swapped(base, zeros):
        changed = [name for name, value in base.named_parameters() if value.dim() == 2 and not value.any()]
    assert changed
    assert all("attn" in name for name in changed)
    assert all(value.any() for value in base.parameters())


def test_a_block_that_lost_heads_is_left_out_with_the_reason(tmp_path: Path) -> None:
    _, _, source, _ = pair(tmp_path)
    shorter = saved(tmp_path, tiny_model("llama", num_hidden_layers=2), "pruned")
    found = compare_attention(opened(source), shorter, gold_plan([task()], batch_tokens=64))
    assert len(found.rows) == 8
    assert "pruned" in found.not_swapped["q of block 2"]


def test_models_without_attention_say_so(tmp_path: Path) -> None:
    config = AutoConfig.for_model(
        "mamba", vocab_size=VOCABULARY, hidden_size=16, state_size=4, num_hidden_layers=2, intermediate_size=32
    )
    source = saved(tmp_path, AutoModelForCausalLM.from_config(config), "mamba")
    with pytest.raises(VariantError, match="attention|projections"):
        compare_attention(opened(source), source, gold_plan([task()], batch_tokens=64))


def test_divergence_of_weights_that_do_not_add_up() -> None:
    p = torch.tensor([[[[0.5, 0.5], [1.0, 0.0]]]])
    assert attention_kl(p, p).eq(0).all()
    q = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])
    expected = [0.5 * math.log(2) + 0.5 * math.log(0.5 / 0.75), math.log(2)]
    assert attention_kl(p, q)[0].tolist() == pytest.approx(expected)
    assert (attention_kl(p, q.bfloat16() * 1.01) > 0).all()


def test_ratio_covers_what_it_should() -> None:
    """400 draws of 16 items whose KLs vary by a log-sd of .8: the interval holds the true ratio of 3."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        size = rng.lognormal(0, 0.8, 16)
        made = []
        for scale in (2.0, 1.0, 0.5, 0.5):
            kl = scale * size * rng.lognormal(-0.045, 0.3, 16)
            ones = np.ones(16)
            made.append(SwapSums(kl, ones, kl, ones, ones, ones, ones))
        found = sensitivity_ratio(made[:2], made[2:], "kl")
        assert found.ci_low is not None
        assert found.ci_high is not None
        hits += found.ci_low <= 3 <= found.ci_high
    assert 0.90 <= hits / 400 <= 0.98
