"""Two ways a decision variable fails in a variant: its scores moved (translation) or its signal shrank.

A ranking statistic such as AUROC is blind to the first and does not name the second; they need different remedies.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hubaudit.errors import InputError
from hubaudit.stats.auroc import paired_auroc
from hubaudit.stats.refit import compare_accuracies
from hubaudit.stats.result import Result
from hubaudit.stats.scores import check_features, check_labels, check_scores
from hubaudit.stats.separation import Drift, measure_drift

__all__ = ["TranslationAttenuation", "remedy", "translation_attenuation"]

Vector = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MIN_PER_CLASS = 8
"""Items a class needs for an interval; below this no interval tried kept its level."""

REMEDIES = {
    "none": "Nothing to repair: no shift and no loss of separation beyond the margins was found at this n.",
    "translation": "Recalibrate the threshold on a few labelled items of the variant; the probe itself still works.",
    "attenuation": "Refit the probe on the variant's own activations; moving the threshold brings back a part at best.",
    "both": "Refit the probe on the variant's own activations, which also sets a new threshold.",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslationAttenuation(Result):
    """What happened to a decision variable between base and variant."""

    translation: float
    """Shift of the negative class's mean score, in the base's within-class SDs."""
    translation_ci_low: float | None
    """Lower end of the 95 % bootstrap-t interval of the shift."""
    translation_ci_high: float | None
    """Upper end of the 95 % bootstrap-t interval of the shift."""
    attenuation: float | None
    """Share of the class separation d' that was lost: 1 - d'(variant) / d'(base); below 0 means it grew."""
    attenuation_ci_low: float | None
    """Lower end of the 95 % bootstrap Fieller interval of the lost share."""
    attenuation_ci_high: float | None
    """Upper end of the 95 % bootstrap Fieller interval of the lost share."""
    slope: float
    """Least-squares slope of variant scores on base scores; reported, decides nothing."""
    intercept: float
    """Least-squares intercept, in score units; it mixes translation and attenuation."""
    residual_sd: float
    """Standard deviation of the residuals about that line, divisor n - 2, in score units."""
    r2: float
    """Share of the variance of the variant's scores that the line explains."""
    auroc_base: float
    """Area under the ROC curve of the base's scores."""
    auroc_variant: float
    """Area under the ROC curve of the variant's scores."""
    auroc_delta: float
    """Variant area minus base area."""
    delong_p: float | None
    """Two-sided DeLong p value for equal areas."""
    accuracy_base: float
    """Accuracy of the base's scores at the threshold, over all items."""
    accuracy_fixed: float
    """Accuracy of the variant's scores at the same threshold, over all items."""
    accuracy_refit_threshold: float
    """Accuracy of the variant's scores over all items, each judged by a threshold refit without it."""
    accuracy_refit_probe: float | None
    """Accuracy of the variant's features over all items, each judged by a probe refit without it."""
    recovered_by_threshold: float | None
    """Share of the lost accuracy that refitting the threshold brings back; outside 0 to 1 where it overshoots."""
    recovered_by_probe: float | None
    """Share of the lost accuracy that refitting the probe brings back; outside 0 to 1 where it overshoots."""
    verdict: str | None
    """One of none, translation, attenuation, both: what lies beyond its margin with its whole interval."""
    n: int
    """Items scored by both models."""
    n_negative: int
    """Items of class 0."""
    n_positive: int
    """Items of class 1."""
    d_prime_base: float
    """Class separation of the base's scores, in its own within-class SDs."""
    d_prime_variant: float
    """Class separation of the variant's scores, in its own within-class SDs."""
    translation_margin: float
    """Shift below which nothing is called, in base within-class SDs."""
    attenuation_margin: float
    """Lost share of the separation below which nothing is called."""
    threshold: float
    """Decision threshold of the base, in score units; above it an item is put into class 1."""
    n_refit: int
    """Items behind each refit; a recovered share from fewer items would be smaller."""
    origin: float | None
    """Score that stays where it was when the class means are joined by a line: what the attenuation scales about."""
    accuracy_base_refit_probe: float | None
    """Accuracy of the base's features with the probe refit the same way: what this many items can give at all."""
    accuracy_refit_mean_difference: float | None
    """Accuracy of the variant's features with the plain difference of class means refit instead of the probe."""
    notes: dict[str, str] = dataclasses.field(default_factory=dict)
    """For figures that are defined but need care: what to keep in mind."""


def remedy(verdict: str | None) -> str | None:
    """What to do about a verdict.

    Args:
        verdict: A verdict of `translation_attenuation`, or None.

    Returns:
        One sentence, or None where there is no verdict.

    Raises:
        InputError: If there is no such verdict.
    """
    if verdict is None:
        return None
    if verdict not in REMEDIES:
        raise InputError(f"expected one of {', '.join(REMEDIES)}, got {verdict!r}; pass the result's own verdict")
    return REMEDIES[verdict]


def translation_attenuation(
    variant_scores: npt.ArrayLike,
    base_scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    threshold: float = 0.0,
    base_features: Any = None,
    variant_features: Any = None,
    translation_margin: float = 0.1,
    attenuation_margin: float = 0.05,
    seed: int = 0,
) -> TranslationAttenuation:
    """Tell a moved decision variable from a weakened one.

    Accuracies are cross-fitted: the items are dealt into 5 folds (fewer where a class has fewer than 5 items),
    stratified by class; a threshold or probe is fit on four folds and judges the fifth. So every accuracy is over
    the same items, all of them, and no refit ever sees an item that it judges. A refit threshold lies midway
    between the class means. A refit probe is a ridge-shrunken linear discriminant with that threshold; the
    plain difference of means, the estimator of the paper, stands beside it, because it misses a direction that was
    attenuated together with its noise.

    A component is called when its whole 95 % interval lies beyond its margin. Of 4,000 simulated audits a cell
    (benchmarks/results/coverage_translation.json) at most 2.3 % called something where only private noise was added,
    and 3.5 % with an effect of just the margin. The intervals cover 93.6 to 95.4 % for Gaussian scores, 32 to 512
    items a class; with 32 a class of heavy-tailed or skewed scores as little as 92 %.

    Args:
        variant_scores: The variant's decision values, (n,), higher means class 1.
        base_scores: The base's decision values of the same items, (n,).
        labels: Classes, (n,), 0 or 1, at least two items of each.
        threshold: Decision threshold in score units; 0 where it is already subtracted.
        base_features: The base's activations, (n, d), for `accuracy_base_refit_probe`.
        variant_features: The variant's activations, (n, d), for refitting the probe.
        translation_margin: Shift, in base within-class SDs, that does not matter, > 0.
        attenuation_margin: Lost share of d' that does not matter, > 0.
        seed: Seed of the bootstrap and of the folds.

    Returns:
        Estimates with intervals, accuracies, the verdict; `remedy` words what to do about it. With fewer than 8
        items in a class, intervals and verdict are None.

    Raises:
        InputError: If lengths differ, a value is not finite (the row is named), a label is neither 0 nor 1, a
            class has fewer than two items, scores are constant within both classes, a margin is not positive, or the
            threshold is not finite.

    Source:
        Cosine Similarity Is Not Evidence, section 6; definitions in this project's design, checked against the
        construction that reference/NOTES.md describes.
    """
    positive = check_labels(labels, at_least=2)
    n, n_positive = len(positive), int(positive.sum())
    base = check_scores(base_scores, n, "base scores")
    variant = check_scores(variant_scores, n, "variant scores")
    _check_spread(base, variant, positive)
    if not (translation_margin > 0.0 and attenuation_margin > 0.0):
        raise InputError(
            f"expected margins above 0, got {translation_margin} and {attenuation_margin}; give the changes that "
            "do not matter to you"
        )
    if not math.isfinite(threshold):
        raise InputError(f"expected a finite threshold, got {threshold}; give it in the units of the scores")
    features = [
        None if values is None else check_features(values, n, name)
        for values, name in ((base_features, "base features"), (variant_features, "variant features"))
    ]
    drift = measure_drift(base, variant, positive, seed=seed)
    enough = min(n_positive, n - n_positive) >= MIN_PER_CLASS
    verdict = _judge(drift, translation_margin, attenuation_margin) if enough else None
    shift_low, shift_high = drift.translation_interval if enough else (None, None)
    lost_low, lost_high = (drift.attenuation_interval if enough else None) or (None, None)
    line = _fit_line(base, variant)
    areas = paired_auroc(variant, base, positive)
    accuracies = compare_accuracies(
        base,
        variant,
        positive,
        threshold=threshold,
        base_features=features[0],
        variant_features=features[1],
        seed=seed,
    )
    origin = _origin(base, variant, positive) if verdict in ("attenuation", "both") else None
    result = TranslationAttenuation(
        translation=drift.translation,
        translation_ci_low=shift_low,
        translation_ci_high=shift_high,
        attenuation=drift.attenuation,
        attenuation_ci_low=lost_low,
        attenuation_ci_high=lost_high,
        slope=line.slope,
        intercept=line.intercept,
        residual_sd=line.residual_sd,
        r2=line.r2,
        auroc_base=areas.base,
        auroc_variant=areas.variant,
        auroc_delta=areas.delta,
        delong_p=areas.p,
        accuracy_base=accuracies.base,
        accuracy_fixed=accuracies.fixed,
        accuracy_refit_threshold=accuracies.refit_threshold,
        accuracy_refit_probe=accuracies.refit_probe,
        recovered_by_threshold=accuracies.recovered_by_threshold,
        recovered_by_probe=accuracies.recovered_by_probe,
        verdict=verdict,
        n=n,
        n_negative=n - n_positive,
        n_positive=n_positive,
        d_prime_base=drift.d_prime_base,
        d_prime_variant=drift.d_prime_variant,
        translation_margin=translation_margin,
        attenuation_margin=attenuation_margin,
        threshold=threshold,
        n_refit=accuracies.n_refit,
        origin=origin,
        accuracy_base_refit_probe=accuracies.base_refit_probe,
        accuracy_refit_mean_difference=accuracies.refit_mean_difference,
    )
    return dataclasses.replace(result, reasons=_reasons(result), notes=_notes(result, accuracies.loss_p))


def _check_spread(base: Vector, variant: Vector, positive: Mask) -> None:
    for name, values in (("base scores", base), ("variant scores", variant)):
        if np.ptp(values[positive]) == 0.0 and np.ptp(values[~positive]) == 0.0:
            raise InputError(
                f"expected {name} that vary within a class, got a single value in each; check the probe's "
                "direction and the features behind it"
            )


def _judge(drift: Drift, translation_margin: float, attenuation_margin: float) -> str | None:
    """Call what lies beyond its margin with its whole interval; None where no ratio is bounded."""
    if drift.attenuation_interval is None:
        return None
    low, high = drift.translation_interval
    moved = low > translation_margin or high < -translation_margin
    weaker = drift.attenuation_interval[0] > attenuation_margin
    if moved and weaker:
        return "both"
    return "translation" if moved else "attenuation" if weaker else "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Line:
    slope: float
    intercept: float
    residual_sd: float
    r2: float


def _fit_line(base: Vector, variant: Vector) -> _Line:
    x, y = base - base.mean(), variant - variant.mean()
    slope = float(x @ y / (x @ x))
    residual = y - slope * x
    return _Line(
        slope=slope,
        intercept=float(variant.mean() - slope * base.mean()),
        residual_sd=float(np.sqrt(residual @ residual / (len(x) - 2))),
        r2=float(1.0 - residual @ residual / (y @ y)),
    )


def _origin(base: Vector, variant: Vector, positive: Mask) -> float | None:
    """Fixed point of the line through (base mean, variant mean) of the two classes."""
    base_low, base_high = base[~positive].mean(), base[positive].mean()
    low, high = variant[~positive].mean(), variant[positive].mean()
    gain = (high - low) / (base_high - base_low)
    return None if gain == 1.0 else float((low - gain * base_low) / (1.0 - gain))


def _reasons(result: TranslationAttenuation) -> dict[str, str]:
    """Why each figure that is None is undefined."""
    few = f"fewer than {MIN_PER_CLASS} items in a class, where no interval keeps its level"
    unbounded = "the base's own class separation cannot be told from 0, so no ratio to it can be bounded"
    small = min(result.n_negative, result.n_positive) < MIN_PER_CLASS
    no_loss = "the variant loses no accuracy at the base's threshold, so there is nothing to recover"
    no_features = "no variant features were given, so no probe can be refit"
    why = {
        "translation_ci_low": few,
        "translation_ci_high": few,
        "attenuation": "the base's class means are equal, so there is no separation to lose",
        "attenuation_ci_low": few if small else unbounded,
        "attenuation_ci_high": few if small else unbounded,
        "delong_p": "the estimated variance of the difference is 0 although the areas differ",
        "accuracy_refit_probe": no_features,
        "recovered_by_threshold": no_loss,
        "recovered_by_probe": no_features if result.accuracy_refit_probe is None else no_loss,
        "verdict": few if small else unbounded,
        "origin": "no attenuation was called, so there is nothing that it scales about",
        "accuracy_base_refit_probe": "no base features were given",
        "accuracy_refit_mean_difference": no_features,
    }
    return {name: text for name, text in why.items() if getattr(result, name) is None}


def _notes(result: TranslationAttenuation, loss_p: float) -> dict[str, str]:
    """What a reader of the defined figures should keep in mind."""
    notes = {}
    low, high = result.attenuation_ci_low, result.attenuation_ci_high
    shift_low, shift_high = result.translation_ci_low, result.translation_ci_high
    if high is not None and high < -result.attenuation_margin:
        notes["attenuation"] = "the variant separates the classes better than the base"
    if low is not None and high is not None and low <= result.attenuation_margin < high:
        notes["verdict"] = f"at this n an attenuation of up to {high:.2f} is not ruled out"
    elif shift_low is not None and shift_high is not None:
        reach = max(-shift_low, shift_high)
        called = result.verdict in ("translation", "both")
        if not called and reach > result.translation_margin:
            notes["verdict"] = f"at this n a shift of up to {reach:.2f} SD is not ruled out"
    if result.recovered_by_threshold is not None and loss_p > 0.05:
        notes["recovered_by_threshold"] = (
            f"the loss of accuracy itself is within the noise of this n (McNemar p = {loss_p:.2f})"
        )
    return notes
