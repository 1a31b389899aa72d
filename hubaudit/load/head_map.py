"""The map from a model's features to its logits, measured on the model itself.

Architectures scale and cap their logits under a dozen names, and some divide where others multiply. So no
name is looked up. Two rows of random tokens go through the model; in the second, known numbers are put in
place of the head's output, and the logits that come out show the map. In the first, features and logits
must agree with it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import nn

from hubaudit.errors import NonFiniteError, VariantError
from hubaudit.load.model import HeadCheck
from hubaudit.load.non_finite import first_non_finite
from hubaudit.load.structure import decoder_layers, output_module, text_config
from hubaudit.stats.head import Head

__all__ = ["measure_head"]

_N_POSITIONS = 16
_SEED = 20
_N_SMALL = 64
_BLOCK_ROWS = 8192
# Far above every cap in use (10 to 100), and below float16's largest number (65504).
_LARGE = 16384.0


def measure_head(model: nn.Module, *, quantized: bool) -> tuple[Head, HeadCheck]:
    """Build the head of a model and check it against the model's own logits.

    Args:
        model: A causal language model in eval mode whose output module has a dense weight.
        quantized: Whether that weight is stored quantized; noted in the head.

    Returns:
        The head, sharing the model's memory, and how well it agrees on 16 random tokens.

    Raises:
        NonFiniteError: If features or logits of the probe hold NaN or infinity.
        VariantError: If the logits are no scaled or soft-capped linear map of the head's input.
    """
    module = output_module(model)
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    embeddings = model.get_input_embeddings().weight  # type: ignore[operator]  # torch types methods as modules
    probe = _run_probe(model, module, weight, n_tokens=min(len(weight), len(embeddings)))
    scale, softcap = _fit_map(model, probe, rounding=4 * _eps(weight.dtype))
    bias = getattr(module, "bias", None)
    head = Head(
        weight=weight.detach(),
        bias=bias.detach() if isinstance(bias, torch.Tensor) else None,
        scale=scale,
        softcap=softcap,
        tied=bool(embeddings.data_ptr() == weight.data_ptr()),
        quantized=quantized,
    )
    return head, _check(model, probe, head)


@dataclasses.dataclass(frozen=True)
class _Probe:
    """What one forward pass showed."""

    features: torch.Tensor
    """(positions, d) inputs of the head."""
    logits: torch.Tensor
    """(positions, V) the model's own, float32."""
    planted: torch.Tensor
    """Numbers put in place of the head's output: small ones, then a large one and its half; float64."""
    seen: torch.Tensor
    """The logits that came out in their places, float64."""


def _probe_tokens(model: nn.Module, n_tokens: int) -> torch.Tensor:
    """(2, positions) random token ids, the same for every model of a vocabulary."""
    generator = torch.Generator().manual_seed(_SEED)
    weight = output_module(model).weight
    assert isinstance(weight, torch.Tensor)
    return torch.randint(n_tokens, (2, _N_POSITIONS), generator=generator).to(weight.device)


def _run_probe(model: nn.Module, module: nn.Module, weight: torch.Tensor, *, n_tokens: int) -> _Probe:
    tokens = _probe_tokens(model, n_tokens)
    generator = torch.Generator().manual_seed(_SEED)
    # Small, so that a cap hardly bends them, and of many mantissas, so that rounding averages out.
    small = (0.5 + 0.5 * torch.rand(_N_SMALL, generator=generator)) / 64
    calls: list[tuple[torch.Tensor, torch.Tensor]] = []

    def plant(_module: nn.Module, inputs: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
        values = output.clone()
        row = values[-1].zero_().view(-1)
        count = min(_N_SMALL, row.numel() - 2)
        row[:count] = small[:count].to(row)
        row[count], row[count + 1] = _LARGE, _LARGE / 2
        calls.append((inputs[0].detach()[0], row[: count + 2].double()))
        return values

    handle = module.register_forward_hook(plant)
    try:
        with torch.inference_mode():
            logits = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=False).logits.float()
    finally:
        handle.remove()
    if len(calls) != 1:
        raise VariantError(
            f"{type(model).__name__}: expected one call of the output head for a forward pass, got {len(calls)}. "
            "This architecture computes its logits in another way and cannot be audited."
        )
    features, planted = calls[0]
    assert isinstance(module.weight, torch.Tensor)
    expected = (2, _N_POSITIONS, len(weight))
    if logits.shape != expected or features.shape[:-1] != expected[1:2]:
        raise VariantError(
            f"{type(model).__name__}: expected logits of the shape {expected}, one a row of the head, got "
            f"{tuple(logits.shape)}. This architecture cannot be audited."
        )
    return _Probe(features, logits[0], planted, logits[1].reshape(-1)[: len(planted)].double())


def _fit_map(model: nn.Module, probe: _Probe, *, rounding: float) -> tuple[float, float | None]:
    """Scale and soft cap of the map from the head's raw output to the logits."""
    raw, seen = probe.planted, probe.seen
    slope = float(seen[:-2] @ raw[:-2] / (raw[:-2] @ raw[:-2]))
    if not math.isfinite(slope) or slope == 0:
        raise VariantError(
            f"{type(model).__name__}: expected logits that grow with the head's output, got a slope of {slope}. "
            "This architecture cannot be audited."
        )
    candidates = _config_numbers(model)
    top, below = float(seen[-2]), float(seen[-1])
    if abs(top - slope * _LARGE) <= rounding * abs(slope * _LARGE):
        return _nearest(slope, candidates, rounding), None
    if not (math.isfinite(top) and top > 0 and abs(top - below) <= rounding * top):
        raise VariantError(
            f"{type(model).__name__}: expected logits scaled or capped as c * tanh(v / c), got {below:.6g} and "
            f"{top:.6g} for head outputs of {_LARGE / 2:.0f} and {_LARGE:.0f}. This architecture cannot be audited."
        )
    softcap = _nearest(top, candidates, rounding)
    straight = softcap * torch.atanh(seen[:-2] / softcap)
    slope = float(straight @ raw[:-2] / (raw[:-2] @ raw[:-2]))
    return _nearest(slope, candidates, rounding), softcap


def _config_numbers(model: nn.Module) -> list[float]:
    """1, and every number of the configuration with its inverse: what a measured constant may be exactly."""
    values = [
        float(v)
        for v in text_config(model).to_dict().values()
        if isinstance(v, int | float) and not isinstance(v, bool)
    ]
    usable = [value for value in values if math.isfinite(value) and value != 0]
    return [1.0, *usable, *(1 / value for value in usable)]


def _nearest(measured: float, candidates: list[float], rounding: float) -> float:
    """The candidate that the measured value is a rounding of, else the measured value."""
    best = min(candidates, key=lambda candidate: abs(candidate - measured))
    return best if abs(best - measured) <= rounding * abs(measured) else measured


def _check(model: nn.Module, probe: _Probe, head: Head) -> HeadCheck:
    n_bad = int((~torch.isfinite(probe.logits)).sum()) + int((~torch.isfinite(probe.features)).sum())
    if n_bad:
        tokens = _probe_tokens(model, len(head.weight))
        where = first_non_finite(decoder_layers(model), lambda: model(input_ids=tokens, use_cache=False))
        raise NonFiniteError(
            f"{type(model).__name__}: expected finite features and logits on a probe batch, got {n_bad} values that "
            f"are NaN or infinite, from {where} on. Try --dtype bfloat16 or float32; if they remain, the weights "
            "are damaged."
        )
    difference = _largest_difference(head, probe)
    tolerance = _tolerance(probe, head, model)
    if difference > tolerance:
        raise VariantError(
            f"{type(model).__name__}: expected head(features) to equal the model's logits to {tolerance:.3g}, got a "
            f"difference of {difference:.3g} on {_N_POSITIONS} probe tokens. This architecture puts more than a scale "
            "or a soft cap behind its head and cannot be audited."
        )
    return HeadCheck(
        max_abs_difference=difference,
        tolerance=tolerance,
        n_positions=_N_POSITIONS,
        scale=head.scale,
        softcap=head.softcap,
    )


def _largest_difference(head: Head, probe: _Probe) -> float:
    """Over blocks of the vocabulary, so that no float32 copy of the whole head is made."""
    largest = 0.0
    for start in range(0, head.n_rows, _BLOCK_ROWS):
        stop = min(start + _BLOCK_ROWS, head.n_rows)
        bias = None if head.bias is None else head.bias[start:stop]
        block = dataclasses.replace(head, weight=head.weight[start:stop], bias=bias)
        largest = max(largest, float((block.logits(probe.features) - probe.logits[:, start:stop]).abs().max()))
    return largest


def _tolerance(probe: _Probe, head: Head, model: nn.Module) -> float:
    """What rounding explains, in logits.

    The model rounds the product, the scaled value and each step of the cap to its dtype, half a unit in
    the last place each time: at most 2 eps of the largest logit. Sums of d products in float32, in
    whatever order, add at most 2^-20 of the product of norms.
    """
    eps = _eps(model.dtype)
    norms = float(probe.features.float().norm(dim=1).max()) * float(torch.linalg.vector_norm(head.weight, dim=1).max())
    return float(2 * eps * float(probe.logits.abs().max()) + 2.0**-20 * abs(head.scale) * norms)


def _eps(dtype: Any) -> float:
    return float(torch.finfo(dtype).eps)
