"""The direction and the monitor: closed forms, rules, and what the stored decision values give again."""

from __future__ import annotations

import functools
import math

from hubaudit.errors import InputError
from hubaudit.report.schema import Report, VariantReport
from hubaudit.stats.direction_floor import DirectionFloor
from hubaudit.stats.direction_null import floor_half_split, floor_independent, paper_verdict
from hubaudit.stats.translation_attenuation import TranslationAttenuation, translation_attenuation
from hubaudit.verify.check import Checks

__all__ = ["check_direction", "check_monitor"]

LEVEL = 0.05
THETA0_DEGREES = 5.0
# What the pipeline computes from features that the report does not hold.
FROM_FEATURES = (
    "accuracy_refit_probe",
    "recovered_by_probe",
    "accuracy_base_refit_probe",
    "accuracy_refit_mean_difference",
)


def check_direction(report: Report, variant: VariantReport, checks: Checks) -> None:
    """Check the direction block of every layer of a variant.

    Args:
        report: The whole report.
        variant: One of its variants.
        checks: Where the statements go.
    """
    for layer, block in variant.direction_floor.items():
        here = checks.at(f"{checks.where}, layer {layer}")
        if report.contrast is not None:
            here.same("n_a = prompts of class A", block.n_a, report.contrast.n_a)
            here.same("n_b = prompts of class B", block.n_b, report.contrast.n_b)
            here.same("the layer was read", layer in report.contrast.layers, True)
        if report.compute_floor is not None:
            angle = report.compute_floor.direction_degrees.get(layer) or 0.0
            here.near("theta0 = max(5, the floor's angle)", block.theta0_degrees, max(THETA0_DEGREES, angle))
        here.same("d = the base's width", block.d, report.base.head.width)
        _separation(block, here)
        _null(block, here)
        _calibrated(block, here)


def _separation(block: DirectionFloor, checks: Checks) -> None:
    n, d, rho = block.n_per_class, block.d, block.rho
    checks.near("n_per_class = harmonic mean", n, 2 * block.n_a * block.n_b / (block.n_a + block.n_b))
    if rho is None or block.kappa is None:
        return
    checks.near("rho_per_sqrt_d = rho / sqrt(d)", block.rho_per_sqrt_d, rho / math.sqrt(d))
    checks.near("kappa = n rho^2 / d", block.kappa, n * rho**2 / d)
    checks.near("floor_half_split = 1/(1+4/kappa)", block.floor_half_split, floor_half_split(block.kappa))
    checks.near("floor_independent = 1/(1+2/kappa)", block.floor_independent, floor_independent(block.kappa))
    if block.n_a == block.n_b and block.rho_naive is not None:
        naive = block.rho_naive**2
        checks.near("rho^2 = rho_naive^2 - 2d/n", rho**2, naive - 2 * d / block.n_a, rel=1e-6, tol=1e-9 * naive)


def _null(block: DirectionFloor, checks: Checks) -> None:
    mean, spread = block.own_null_mean, block.own_null_sd
    for name in ("cosine", "own_null_mean", "base_null_mean"):
        checks.between(f"{name} is a cosine", getattr(block, name), -1.0, 1.0)
    for name in ("own_null_sd", "base_null_sd", "subspace_gain"):
        checks.between(f"{name} is not negative", getattr(block, name), 0.0, None)
    if mean is None or spread is None:
        return
    checks.near("resolution = 2 own_null_sd", block.resolution, 2 * spread)
    if block.cosine is not None:
        checks.same("verdict = the paper's rule", block.verdict, paper_verdict(block.cosine, mean, spread))


def _calibrated(block: DirectionFloor, checks: Checks) -> None:
    cosine, low, high = block.corrected_cosine, block.ci_low, block.ci_high
    if cosine is not None:
        checks.near("rotation = acos(corrected cosine)", block.rotation_degrees, _degrees(cosine), tol=1e-6)
    if low is None or high is None:
        return
    checks.at_most("ci_low is at most ci_high", low, high)
    checks.near("rotation_degrees_low = acos(ci_high)", block.rotation_degrees_low, _degrees(high), tol=1e-6)
    checks.near("rotation_degrees_high = acos(ci_low)", block.rotation_degrees_high, _degrees(low), tol=1e-6)
    checks.same("rotation_detected = (ci_high < 1)", block.rotation_detected, high < 1.0)
    if block.rotation_p is not None:
        checks.between("rotation_p is a probability", block.rotation_p, 0.0, 1.0)
        checks.same("rotation_p < .05 exactly where detected", block.rotation_p < LEVEL, high < 1.0)
    edge = math.cos(math.radians(block.theta0_degrees))
    verdict = "rotation" if high < edge else "preserved" if low > edge else "inconclusive"
    checks.same("calibrated verdict from the interval", block.calibrated_verdict, verdict)


def _degrees(cosine: float) -> float:
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))


def check_monitor(report: Report, variant: VariantReport, checks: Checks) -> None:
    """Compute the monitor's figures again from the decision values that the report holds.

    Args:
        report: The whole report.
        variant: One of its variants.
        checks: Where the statements go.
    """
    block, monitor = variant.translation_attenuation, variant.monitor
    if block is None:
        return
    checks = checks.at(f"{checks.where}, monitor")
    if monitor is None:
        checks.skip("figures from the decision values", "the report holds no decision values")
        return
    try:
        again = _again(
            tuple(monitor.variant_scores),
            tuple(monitor.base_scores),
            tuple(monitor.labels),
            block.translation_margin,
            block.attenuation_margin,
            report.seed,
        )
    except InputError as exc:
        checks.same("the decision values can be compared", str(exc), "")
        return
    for name, value in again.to_dict().items():
        if name not in (*FROM_FEATURES, "reasons", "notes"):
            checks.near(f"{name} from the decision values", getattr(block, name), value, rel=1e-8)
    # The audit's own margins are the defaults; another one would change the verdict's meaning.
    checks.near("the margin of translation is the audit's", block.translation_margin, 0.1)
    checks.near("the margin of attenuation is the audit's", block.attenuation_margin, 0.05)
    if report.contrast is not None:
        checks.same("the monitor's layer is the audit's", monitor.layer, report.contrast.monitor_layer)
    _recovered(block, checks)


@functools.lru_cache(maxsize=64)
def _again(
    variant: tuple[float, ...],
    base: tuple[float, ...],
    labels: tuple[int, ...],
    translation_margin: float,
    attenuation_margin: float,
    seed: int,
) -> TranslationAttenuation:
    return translation_attenuation(
        variant,
        base,
        labels,
        translation_margin=translation_margin,
        attenuation_margin=attenuation_margin,
        seed=seed,
    )


def _recovered(block: TranslationAttenuation, checks: Checks) -> None:
    for name in ("accuracy_refit_probe", "accuracy_base_refit_probe", "accuracy_refit_mean_difference"):
        value = getattr(block, name)
        checks.between(f"{name} is a share", value, 0.0, 1.0)
        if value is not None:
            checks.near(f"{name} is a whole number of items", value * block.n, round(value * block.n), tol=1e-6)
    lost = block.accuracy_base - block.accuracy_fixed
    if block.accuracy_refit_probe is not None:
        share = (block.accuracy_refit_probe - block.accuracy_fixed) / lost if lost > 0 else None
        checks.near("recovered_by_probe from the accuracies", block.recovered_by_probe, share)
