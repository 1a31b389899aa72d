"""Hidden states of the contrast prompts -> directions and monitor of one variant."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError
from hubaudit.report.schema import Monitor
from hubaudit.stats.direction_floor import DirectionFloor, direction_floor
from hubaudit.stats.translation_attenuation import TranslationAttenuation, translation_attenuation

__all__ = ["Probe", "base_probe", "compare_directions", "compare_monitor", "read_probe"]

Float32 = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Probe:
    """A linear monitor: `s = h . direction - threshold`."""

    direction: npt.NDArray[np.float64]
    threshold: float
    layer: int
    """Decoder block whose output it reads."""
    name: str
    fitted_on: npt.NDArray[np.bool_]
    """(prompts,) those that the probe was fitted on: they are not scored."""


def base_probe(hidden: Float32, labels: npt.NDArray[np.int64], layers: tuple[int, ...], layer: int) -> Probe:
    """The base's own probe: unit difference of means, threshold midway, fitted on every second prompt of a class.

    Args:
        hidden: (prompts, layers, width) of the base.
        labels: (prompts,) 1 for class A, 0 for class B.
        layers: Decoder blocks in the order of `hidden`.
        layer: Which of them to read.
    """
    fitted = np.zeros(len(labels), dtype=bool)
    for value in (0, 1):
        fitted[np.flatnonzero(labels == value)[::2]] = True
    states = hidden[:, layers.index(layer)].astype(np.float64)
    mean_a = states[fitted & (labels == 1)].mean(axis=0)
    mean_b = states[fitted & (labels == 0)].mean(axis=0)
    length = float(np.linalg.norm(mean_a - mean_b))
    direction = (mean_a - mean_b) / (length if length > 0 else 1.0)
    threshold = float(direction @ (mean_a + mean_b) / 2)
    return Probe(direction, threshold, layer, "difference of means of the base, half of the prompts", fitted)


def read_probe(path: Path, *, width: int, n_layers: int, n_prompts: int) -> Probe:
    """Read a saved probe.

    Args:
        path: A safetensors file with `direction` (width,), `threshold` (1,) and `layer` (1,).
        width: Width of the base's hidden state.
        n_layers: Decoder blocks of the base.
        n_prompts: Prompts of the contrast set, all of which are scored.

    Raises:
        InputError: If the file is no such probe or does not fit the base.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
        direction = np.asarray(tensors["direction"], dtype=np.float64).ravel()
        threshold = float(np.asarray(tensors["threshold"], dtype=np.float64).ravel()[0])
        layer = int(np.asarray(tensors["layer"]).ravel()[0])
    except (OSError, SafetensorError, KeyError, IndexError, TypeError, ValueError) as exc:
        raise InputError(
            f"{path}: expected a safetensors file with the tensors direction, threshold and layer ({exc})"
        ) from exc
    if direction.shape != (width,) or not np.isfinite(direction).all() or not np.isfinite(threshold):
        raise InputError(f"{path}: expected a finite direction of width {width}, got shape {direction.shape}")
    if not 0 <= layer < n_layers:
        raise InputError(f"{path}: expected a layer from 0 to {n_layers - 1}, got {layer}")
    return Probe(direction, threshold, layer, str(path), np.zeros(n_prompts, dtype=bool))


def compare_directions(
    base: Float32,
    variant: Float32,
    labels: npt.NDArray[np.int64],
    layers: tuple[int, ...],
    *,
    theta0_degrees: dict[int, float],
    seed: int,
) -> dict[int, DirectionFloor]:
    """The direction block of every layer; the hidden states are (prompts, layers, width)."""
    return {
        layer: direction_floor(
            variant[:, index], base[:, index], labels, theta0_degrees=theta0_degrees[layer], seed=seed
        )
        for index, layer in enumerate(layers)
    }


def compare_monitor(
    probe: Probe,
    base: Float32,
    variant: Float32,
    labels: npt.NDArray[np.int64],
    layers: tuple[int, ...],
    *,
    seed: int,
) -> tuple[TranslationAttenuation, Monitor]:
    """Decision values of base and variant on the prompts that the probe was not fitted on."""
    index = layers.index(probe.layer)
    scored = ~probe.fitted_on
    features = [hidden[scored, index].astype(np.float64) for hidden in (base, variant)]
    scores = [states @ probe.direction - probe.threshold for states in features]
    kept = labels[scored]
    block = translation_attenuation(
        scores[1], scores[0], kept, threshold=0.0, base_features=features[0], variant_features=features[1], seed=seed
    )
    monitor = Monitor(
        layer=probe.layer,
        probe=probe.name,
        labels=kept.tolist(),
        base_scores=scores[0].tolist(),
        variant_scores=scores[1].tolist(),
    )
    return block, monitor
