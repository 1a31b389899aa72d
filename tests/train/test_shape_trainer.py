"""The regularizer as a Trainer runs it, on a tiny Llama."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from hubaudit.errors import InputError, VariantError
from hubaudit.stats.head import Head
from hubaudit.stats.moments import PrismMoments
from hubaudit.stats.prism_bound import prism_bound
from hubaudit.train import ReplayTrainer, ShapeRegularizer, ShapeTrainer, omega
from hubaudit.train.base_state import STATE_FILE
from hubaudit.train.penalty import reference_features
from hubaudit.train.reference import read_reference
from tests.tiny_llama import byte_tokenizer, save_tiny_llama

REFERENCE = ["The capital of France is Paris.", "Water boils at one hundred degrees.", "Two and two are four."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_tiny_llama(tmp_path_factory.mktemp("tiny"), byte_tokenizer())


@pytest.fixture
def model(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def _data(n=16, length=12):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 260, (n, length), generator=generator)
    return [{"input_ids": row, "labels": row, "attention_mask": torch.ones_like(row)} for row in ids]


def _arguments(out, **options):
    defaults = {
        "output_dir": str(out),
        "max_steps": 4,
        "per_device_train_batch_size": 4,
        "learning_rate": 5e-3,
        "save_strategy": "no",
        "report_to": [],
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 7,
    }
    return TrainingArguments(**(defaults | options))


def _trainer(model, out, *, kind=ShapeTrainer, arguments=None, **options):
    if kind is not Trainer:
        options = {"reference": REFERENCE, "processing_class": byte_tokenizer()} | options
    return kind(model=model, args=_arguments(out, **(arguments or {})), train_dataset=_data(), **options)


def _with_adapters(model, **options):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", **options)
    torch.manual_seed(3)
    return peft.get_peft_model(model, config)


def _weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def _same(one, other, **tolerance):
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], **(tolerance or {"rtol": 0, "atol": 0}), msg=name)


@pytest.mark.parametrize("alignment", ["identity", "procrustes"])
def test_omega_is_that_of_prism_bound(alignment):
    rng = np.random.default_rng(0)
    base = rng.standard_normal((40, 6))
    now = 1.3 * base + 0.3 * rng.standard_normal((40, 6))
    moments = PrismMoments(6)
    moments.update(base, now)
    expected = prism_bound(moments, Head(np.eye(6)), alignment=alignment).omega
    assert float(omega(torch.tensor(base), torch.tensor(now), alignment)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alignment", ["identity", "procrustes"])
def test_gradient_of_omega_by_finite_differences(alignment):
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    now = torch.randn(9, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: omega(base, z, alignment), (now,), eps=1e-6, atol=1e-7)


def test_gradient_through_the_model_by_finite_differences(tmp_path):
    """What the trainer adds to a weight's gradient is the slope of lambda (1 - Omega) in that weight."""
    # GPT-2 computes its norms in the model's dtype, Llama in float32, which is too coarse for differences.
    torch.manual_seed(0)
    options = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 1}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=260, **options)).double().eval()
    trainer = _trainer(model, tmp_path, shape_lambda=2.5)
    base = trainer._base_state(model)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))

    def penalty() -> float:
        with torch.no_grad():
            return 2.5 * float(trainer.penalty(model, trainer._reference, base))

    trainer._add_penalty(model, base)
    for name in ("transformer.h.0.attn.c_attn.weight", "transformer.h.1.mlp.c_proj.weight", "transformer.ln_f.weight"):
        weight = model.get_parameter(name)
        place = (0,) * weight.dim()
        with torch.no_grad():
            weight[place] += 1e-5
            above = penalty()
            weight[place] -= 2e-5
            below = penalty()
            weight[place] += 1e-5
        assert weight.grad[place].item() == pytest.approx((above - below) / 2e-5, rel=1e-5, abs=1e-9), name


def test_lambda_0_is_the_plain_trainer(model, tmp_path):
    plain, shaped = copy.deepcopy(model), copy.deepcopy(model)
    _trainer(plain, tmp_path / "plain", kind=Trainer).train()
    _trainer(shaped, tmp_path / "shape", shape_lambda=0).train()
    _same(_weights(plain), _weights(shaped))


def test_regularized_features_stay_closer(model, tmp_path):
    drift = {}
    for strength in (0.0, 20.0):
        trainer = _trainer(copy.deepcopy(model), tmp_path / str(strength), shape_lambda=strength)
        trainer.train()
        drift[strength] = trainer.gating_signals().sets[0].shape_drift.value
    assert drift[20.0] < 0.7 * drift[0.0]


@pytest.mark.parametrize("batches", [2, 4])
def test_accumulation_equals_one_large_batch(model, tmp_path, batches):
    """The penalty counts once an optimizer step, however many batches that has."""
    whole, parts = copy.deepcopy(model), copy.deepcopy(model)
    _trainer(whole, tmp_path / "a", shape_lambda=5.0, arguments={"per_device_train_batch_size": 8}).train()
    small = {"per_device_train_batch_size": 8 // batches, "gradient_accumulation_steps": batches}
    trainer = _trainer(parts, tmp_path / "b", shape_lambda=5.0, arguments=small)
    trainer.train()
    _same(_weights(whole), _weights(parts), rtol=1e-4, atol=1e-5)
    assert len([entry for entry in trainer.state.log_history if "one_minus_omega" in entry]) == 4


def test_the_logged_loss_is_the_objective(model, tmp_path):
    trainer = _trainer(copy.deepcopy(model), tmp_path / "a", shape_lambda=5.0, arguments={"max_steps": 2})
    trainer.train()
    plain = _trainer(copy.deepcopy(model), tmp_path / "b", kind=Trainer, arguments={"max_steps": 2})
    plain.train()
    first, second = (entry for entry in trainer.state.log_history if "loss" in entry)
    assert first["one_minus_omega"] == pytest.approx(0, abs=1e-6)
    assert first["loss"] == pytest.approx(plain.state.log_history[0]["loss"], rel=1e-5)
    assert second["one_minus_omega"] > 1e-5
    assert second["loss"] == pytest.approx(plain.state.log_history[1]["loss"] + 5 * second["one_minus_omega"], rel=1e-4)


def test_evaluation_has_no_penalty(model, tmp_path):
    trainer = _trainer(model, tmp_path, shape_lambda=5.0, eval_dataset=_data(4))
    trainer.train()
    plain = Trainer(model=model, args=_arguments(tmp_path / "b"), eval_dataset=_data(4))
    assert trainer.evaluate()["eval_loss"] == pytest.approx(plain.evaluate()["eval_loss"], rel=1e-6)


def test_adapters_are_the_drift_and_dropout_is_none(model, tmp_path):
    adapted = _with_adapters(model, lora_dropout=0.5)
    trainer = _trainer(adapted, tmp_path, shape_lambda=1.0, arguments={"max_steps": 3})
    trainer.train()
    history = [entry["one_minus_omega"] for entry in trainer.state.log_history if "one_minus_omega" in entry]
    assert history[0] == pytest.approx(0, abs=1e-6)
    assert history[-1] > 0
    with adapted.disable_adapter(), torch.no_grad():
        expected = reference_features(adapted.eval(), trainer._reference)
    torch.testing.assert_close(trainer._base.features, expected)
    assert not any(parameter.grad is not None for parameter in model.parameters() if not parameter.requires_grad)


@pytest.mark.parametrize("adapters", [False, True])
def test_resuming_ends_where_one_run_does(folder, tmp_path, adapters):
    def fresh():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        return _with_adapters(model) if adapters else model

    arguments = {"save_strategy": "steps", "save_steps": 2}
    whole = fresh()
    _trainer(whole, tmp_path / "whole", shape_lambda=5.0, arguments=arguments).train()
    cut = _trainer(fresh(), tmp_path / "cut", shape_lambda=5.0, arguments=arguments)
    cut.train()
    resumed = fresh()
    _trainer(resumed, tmp_path / "cut", shape_lambda=5.0, arguments=arguments).train(
        resume_from_checkpoint=str(tmp_path / "cut" / "checkpoint-2")
    )
    _same(_weights(whole), _weights(resumed), rtol=1e-5, atol=1e-6)
    assert (tmp_path / "cut" / STATE_FILE).is_file()


def test_resuming_without_the_base_is_refused(folder, tmp_path):
    arguments = {"save_strategy": "steps", "save_steps": 2}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    _trainer(model, tmp_path, arguments=arguments).train()
    checkpoint = str(tmp_path / "checkpoint-2")
    with pytest.raises(InputError, match="another reference set"):
        _trainer(model, tmp_path, reference=["Other."]).train(resume_from_checkpoint=checkpoint)
    (tmp_path / STATE_FILE).write_bytes(b"broken")
    with pytest.raises(InputError, match="cannot be read"):
        _trainer(model, tmp_path).train(resume_from_checkpoint=checkpoint)
    (tmp_path / STATE_FILE).unlink()
    with pytest.raises(InputError, match="is missing"):
        _trainer(model, tmp_path).train(resume_from_checkpoint=checkpoint)


def test_bfloat16_autocast_keeps_the_penalty_in_float32(model, tmp_path):
    trainer = _trainer(_with_adapters(model), tmp_path, shape_lambda=1.0, arguments={"bf16": True, "max_steps": 3})
    trainer.train()
    history = [entry["one_minus_omega"] for entry in trainer.state.log_history if "one_minus_omega" in entry]
    # Same passes, same rounding: nothing has drifted before the first step; after it, less than bfloat16's step of 1.
    assert history[0] == 0
    assert 0 < history[1] < 2**-8
    z = torch.randn(8, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert omega(z.detach().bfloat16(), z.bfloat16()).dtype == torch.float32


def test_gradient_checkpointing_changes_nothing(model, tmp_path):
    plain, checkpointed = copy.deepcopy(model), copy.deepcopy(model)
    _trainer(plain, tmp_path / "a", shape_lambda=5.0).train()
    _trainer(checkpointed, tmp_path / "b", shape_lambda=5.0, arguments={"gradient_checkpointing": True}).train()
    _same(_weights(plain), _weights(checkpointed), rtol=1e-4, atol=1e-5)


def test_replay_trains_on_the_reference_set(model, tmp_path):
    losses = {}
    for strength in (0.0, 1.0):
        trainer = _trainer(copy.deepcopy(model), tmp_path / str(strength), kind=ReplayTrainer, replay_lambda=strength)
        trainer.train()
        losses[strength] = trainer.gating_signals().forgetting.value
    assert losses[1.0] < losses[0.0]
    logged = [entry["reference_loss"] for entry in trainer.state.log_history if "reference_loss" in entry]
    assert len(logged) == 4
    assert logged[-1] < logged[0]


def test_the_mixin_goes_before_another_trainer(model, tmp_path):
    class Doubling(Trainer):
        def compute_loss(self, *args, **kwargs):
            return 2 * super().compute_loss(*args, **kwargs)

    class Shaped(ShapeRegularizer, Doubling):
        pass

    trainer = _trainer(model, tmp_path, kind=Shaped, shape_lambda=1.0, arguments={"max_steps": 1})
    plain = Trainer(model=copy.deepcopy(model), args=_arguments(tmp_path / "b", max_steps=1), train_dataset=_data())
    trainer.train()
    plain.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(2 * plain.state.log_history[0]["loss"], rel=1e-5)


def test_signals_of_sets_are_printed_with_intervals(model, tmp_path):
    trainer = _trainer(_with_adapters(model), tmp_path, shape_lambda=0)
    trainer.train()
    signals = trainer.gating_signals({"facts": REFERENCE, "numbers": ["One and one are two.", "Ten is 10.", "Six: 6"]})
    assert [entry.name for entry in signals.sets] == ["facts", "numbers"]
    assert signals.shape_drift.value == pytest.approx(np.mean([entry.shape_drift.value for entry in signals.sets]))
    assert signals.shape_drift.ci_low < signals.shape_drift.value < signals.shape_drift.ci_high
    own = trainer.gating_signals().sets[0]
    assert own.shape_drift.value == pytest.approx(signals.sets[0].shape_drift.value, rel=1e-6)
    text = str(signals)
    assert "mean of sets" in text
    assert f"{signals.shape_drift.value:.4g} (" in text
    with pytest.raises(InputError, match="at least one set"):
        trainer.gating_signals({})


def test_signals_without_adapters_know_the_reference_set_only(model, tmp_path):
    trainer = _trainer(model, tmp_path, shape_lambda=0)
    with pytest.raises(InputError, match="call train"):
        trainer.gating_signals()
    with pytest.raises(InputError, match="need a model with adapters"):
        trainer.gating_signals({"facts": REFERENCE})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": []}, "an empty one"),
        ({"reference": "a text"}, "one text"),
        ({"reference": [""]}, r"reference\[0\]: expected tokens, got none"),
        ({"reference": [[]]}, r"reference\[0\]: expected tokens, got none"),
        ({"reference": [[1, 260]]}, "0 to 259, got 260"),
        ({"reference": [[1, -2]]}, "expected token ids"),
        ({"reference": [[0.5]]}, "expected token ids"),
        ({"processing_class": None}, "needs a tokenizer"),
        ({"reference_max_tokens": 0}, "reference_max_tokens"),
        ({"shape_lambda": -1}, "at least 0, got -1"),
        ({"shape_lambda": float("nan")}, "finite"),
        ({"shape_lambda": float("inf")}, "finite"),
        ({"shape_lambda": None}, "finite"),
        ({"alignment": "joint"}, "identity, procrustes"),
        ({"kind": ReplayTrainer, "reference": [[5]]}, "at least two tokens"),
    ],
)
def test_bad_input(model, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        _trainer(model, tmp_path, **options)


def test_a_model_without_a_head_is_refused(tmp_path):
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        vocab_size=260, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4
    )
    trainer = _trainer(LlamaModel(config), tmp_path)
    with pytest.raises(VariantError, match="head"):
        trainer.train()


def test_reference_is_padded_on_the_right_and_cut():
    reference = read_reference([[5, 6, 7], [8]], None, vocabulary=9, max_tokens=2)
    assert reference.input_ids.tolist() == [[5, 6], [8, 0]]
    assert reference.attention_mask.tolist() == [[1, 1], [1, 0]]
    assert reference.labels.tolist() == [[5, 6], [8, -100]]
    assert reference.n_tokens == 3
    assert reference.digest != read_reference([[5, 6], [8, 0]], None, vocabulary=9).digest
