"""The head map is measured on the model, and a model that has another map is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from tiny_models import tiny_model
from transformers import AutoModel, LlamaConfig, LlamaForCausalLM

from hubaudit.errors import NonFiniteError, VariantError
from hubaudit.load.head_map import measure_head

CASES = {
    "llama": (1.0, None),
    "cohere": (0.0625, None),
    "granite": (0.125, None),  # logits_scaling divides by 8
    "gemma2": (1.0, 7.0),
    "phi": (1.0, None),
    "gptj": (1.0, None),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("model_type", CASES)
def test_scale_cap_and_bias(model_type: str, dtype: torch.dtype) -> None:
    model = tiny_model(model_type).to(dtype)
    head, check = measure_head(model, quantized=False)
    assert (head.scale, head.softcap) == CASES[model_type]
    assert (head.bias is not None) == (model_type in ("phi", "gptj"))
    assert check.max_abs_difference <= check.tolerance
    assert check.n_positions == 16
    assert head.weight.data_ptr() == model.get_output_embeddings().weight.data_ptr()


@pytest.mark.parametrize("tied", [True, False])
def test_tied_or_not_is_read_from_the_memory(tied: bool) -> None:
    model = tiny_model("llama", tie_word_embeddings=tied)
    assert measure_head(model, quantized=True)[0].tied == tied
    assert measure_head(model, quantized=True)[0].quantized


CONFIG = LlamaConfig(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)


class _Mapped(LlamaForCausalLM):
    """A model that does something to its logits that no configuration entry tells."""

    def _after(self, logits: torch.Tensor) -> torch.Tensor:
        return logits

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = super().forward(*args, **kwargs)
        output.logits = self._after(output.logits)
        return output


def _custom(after: Any) -> Any:
    kind = type("_Custom", (_Mapped,), {"_after": after})
    torch.manual_seed(0)
    return kind(CONFIG).eval()


def test_constants_that_stand_in_no_configuration() -> None:
    model = _custom(lambda self, logits: 3.7 * torch.tanh(logits * 0.317 / 3.7))
    head, _ = measure_head(model, quantized=False)
    assert head.scale == pytest.approx(0.317, rel=1e-6)
    assert head.softcap == pytest.approx(3.7, rel=1e-6)


def test_a_constant_is_found_to_better_than_bfloat16_rounding() -> None:
    model = _custom(lambda self, logits: logits * 0.317).to(torch.bfloat16)
    # One rounding is up to .2 %; 64 of them average out.
    assert measure_head(model, quantized=False)[0].scale == pytest.approx(0.317, rel=1e-3)


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (lambda self, logits: logits + 0.5, "scaled or capped"),
        (lambda self, logits: torch.where((logits.abs() > 0.05) & (logits.abs() < 9), 2 * logits, logits), "more than"),
        (lambda self, logits: logits.square(), "scaled or capped"),
        (lambda self, logits: torch.log_softmax(logits, dim=-1), "scaled or capped|more than a scale|slope"),
        (lambda self, logits: logits * 0, "slope of 0"),
        (lambda self, logits: torch.cat([logits, logits], dim=-1), r"shape \(2, 16, 96\), one a row of the head"),
        (lambda self, logits: logits.flip(-1), "."),
    ],
)
def test_other_maps_are_refused(after: Any, message: str) -> None:
    with pytest.raises(VariantError, match=message):
        measure_head(_custom(after), quantized=False)


def test_a_head_that_is_not_called_is_refused() -> None:
    class Bypass(_Mapped):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            output = self.model(kwargs["input_ids"])
            output.logits = output.last_hidden_state @ self.lm_head.weight.T
            return output

    with pytest.raises(VariantError, match="got 0"):
        measure_head(Bypass(CONFIG).eval(), quantized=False)


def test_the_tolerance_would_see_a_wrong_head() -> None:
    """In bfloat16 a head off by 5 % must not pass as rounding."""
    model = tiny_model("llama").to(torch.bfloat16)
    head, check = measure_head(model, quantized=False)
    features: list[torch.Tensor] = []
    model.get_output_embeddings().register_forward_pre_hook(lambda _m, args: features.append(args[0]))
    tokens = torch.randint(96, (2, 8), generator=torch.Generator().manual_seed(20))
    own = model(input_ids=tokens).logits.float().flatten(0, 1).detach()
    wrong = dataclasses.replace(head, weight=head.weight.float() * 1.05)
    assert (wrong.logits(features[0].flatten(0, 1)) - own).abs().max() > check.tolerance


def test_damaged_weights_are_non_finite() -> None:
    model = tiny_model("llama")
    with torch.no_grad():
        model.model.layers[0].mlp.up_proj.weight[3, 3] = float("nan")
    with pytest.raises(NonFiniteError, match="NaN or infinite"):
        measure_head(model, quantized=False)


def test_an_encoder_has_no_head() -> None:
    with pytest.raises(VariantError, match="with an output head, got none"):
        measure_head(AutoModel.from_config(CONFIG), quantized=False)
