from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hubaudit.collect import Plan
from hubaudit.collect.forward import forward_batch
from hubaudit.collect.precision import computed_in
from hubaudit.collect.score import score_options
from hubaudit.collect.shared_prefix import SharedPrefixCheck, check_shared_prefix
from hubaudit.errors import NonFiniteError
from hubaudit.load import LoadedModel, ModelSource, load_model


def literal_log_likelihood(model: LoadedModel, ids: tuple[int, ...], targets: tuple[int, ...]) -> float:
    """The definition: one text alone, the model's own logits."""
    with torch.inference_mode():
        logits = model.model(input_ids=torch.tensor([ids])).logits[0, -len(targets) :].double()
    return float(torch.log_softmax(logits, -1)[range(len(targets)), list(targets)].sum())


def prefix_check(model: LoadedModel, plan: Plan) -> SharedPrefixCheck:
    return check_shared_prefix(
        plan,
        lambda sequences, shared: forward_batch(model, sequences, plan.layers, shared=shared),
        head=model.head,
        dtype=model.dtype,
    )


@pytest.mark.parametrize("shared", [True, False])
def test_log_likelihoods_equal_the_definition(
    tiny_model: LoadedModel, tiny_plan: Callable[..., Plan], shared: bool
) -> None:
    plan = tiny_plan()
    for shard in range(len(plan.shards)):
        for batch in plan.shard_batches(shard):
            output = forward_batch(tiny_model, batch, plan.layers, shared=shared)
            scores = score_options(output.features, batch, tiny_model.head)
            options = [scored for sequence in batch for scored in sequence.scored]
            for scored, value in zip(options, scores.log_likelihood, strict=True):
                option = plan.tasks[scored.task].items[scored.item].options[scored.option]
                expected = literal_log_likelihood(tiny_model, option.input_ids, option.target_ids)
                # float32 sums in another order
                assert value == pytest.approx(expected, abs=2e-4)


def test_hidden_states_are_those_of_the_last_token(tiny_model: LoadedModel, tiny_plan: Callable[..., Plan]) -> None:
    plan = tiny_plan()
    texts = plan.prompt_texts()
    with torch.inference_mode():
        expected = [
            tiny_model.model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[1][0, -1]
            for ids in texts
        ]
    seen = 0
    for sequence in plan.sequences:
        if sequence.prompts:
            hidden = forward_batch(tiny_model, [sequence], plan.layers).hidden
            for row, (index, _) in enumerate(sequence.prompts):
                torch.testing.assert_close(hidden[row, 0], expected[index], atol=1e-4, rtol=1e-4)
                seen += 1
    assert seen == len(texts)


def test_padding_and_company_change_nothing(tiny_model: LoadedModel, tiny_plan: Callable[..., Plan]) -> None:
    sequences = [sequence for sequence in tiny_plan().sequences if sequence.scored]
    together = forward_batch(tiny_model, sequences, ()).features
    alone = torch.cat([forward_batch(tiny_model, [sequence], ()).features for sequence in sequences])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)


def test_the_shared_prefix_is_measured(tiny_model: LoadedModel, tiny_plan: Callable[..., Plan]) -> None:
    check = prefix_check(tiny_model, tiny_plan())
    assert check.allowed
    assert check.max_difference < 1e-4
    assert "computed once" in check.note


def test_a_model_that_ignores_the_mask_keeps_the_plain_path(
    tiny_model: LoadedModel, tiny_plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = tiny_model.model.forward

    def without_mask(**inputs: object) -> object:
        kept = ("input_ids", "use_cache")
        return forward(**{name: inputs[name] for name in kept})

    monkeypatch.setattr(tiny_model.model, "forward", without_mask)
    check = prefix_check(tiny_model, tiny_plan())
    assert not check.allowed
    assert "every text runs in full" in check.note


def test_non_finite_activations_name_the_block(tiny_model: LoadedModel, tiny_plan: Callable[..., Plan]) -> None:
    with torch.no_grad():
        tiny_model.model.model.layers[1].mlp.down_proj.weight[0, 0] = float("nan")
    with pytest.raises(NonFiniteError, match=r"NaN or infinite from decoder block 1 on; try --dtype bfloat16"):
        forward_batch(tiny_model, tiny_plan().sequences[:2], (0, 1))


def test_another_dtype_leaves_the_weights_as_they_were(tiny_model: LoadedModel, tiny_plan: Callable[..., Plan]) -> None:
    sequences = tiny_plan().sequences[:3]
    before = {name: parameter.clone() for name, parameter in tiny_model.model.named_parameters()}
    plain = forward_batch(tiny_model, sequences, (0,))
    with computed_in(tiny_model, torch.bfloat16):
        rough = forward_batch(tiny_model, sequences, (0,))
    assert rough.features.dtype == torch.bfloat16
    difference = (rough.features.float() - plain.features).norm() / plain.features.norm()
    assert 1e-4 < difference < 0.1
    for name, parameter in tiny_model.model.named_parameters():
        assert torch.equal(parameter, before[name])
    again = forward_batch(tiny_model, sequences, (0,))
    assert torch.equal(again.features, plain.features)


def test_a_bfloat16_model_computes_branches_in_float32(tiny_base: Path, tiny_plan: Callable[..., Plan]) -> None:
    model = load_model(ModelSource("tiny", "dense", tiny_base), dtype="bfloat16", device="cpu")
    sequences = tiny_plan().sequences
    assert any(sequence.branches for sequence in sequences)
    with computed_in(model, torch.float32):
        fine = forward_batch(model, sequences, (0,))
        assert prefix_check(model, tiny_plan()).max_difference < 1e-4
    rough = forward_batch(model, sequences, (0,))
    assert (fine.features.dtype, rough.features.dtype) == (torch.float32, torch.bfloat16)
    assert model.dtype == "bfloat16"
    assert (rough.features.float() - fine.features).norm() < 0.1 * fine.features.norm()
    model.close()


def test_a_model_that_refuses_the_mask_keeps_the_plain_path(
    tiny_model: LoadedModel, tiny_plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = tiny_model.model.forward

    def strict(*, attention_mask: object = None, **inputs: object) -> object:
        if attention_mask is not None:
            raise ValueError("expected a mask of two dimensions")
        return forward(**inputs)

    monkeypatch.setattr(tiny_model.model, "forward", strict)
    check = prefix_check(tiny_model, tiny_plan())
    assert not check.allowed
    assert "does not take the mask" in check.note
