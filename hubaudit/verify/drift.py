"""The bound and the divergence: identities between their figures."""

from __future__ import annotations

import itertools
import math

from hubaudit.report.schema import Report, VariantReport
from hubaudit.stats.divergence import Divergence
from hubaudit.stats.prism_bound import PrismBound
from hubaudit.verify.check import Checks

__all__ = ["check_drift"]

EPS = 2.0**-52


def check_drift(report: Report, variant: VariantReport, checks: Checks) -> None:
    """Check the bound and the divergence of every task of a variant.

    Args:
        report: The whole report.
        variant: One of its variants.
        checks: Where the statements go.
    """
    tasks = {task.name: task for task in report.tasks}
    for name, bound in variant.prism_bound.items():
        here = checks.at(f"{checks.where}, {name}")
        _bound(bound, here)
        block = variant.divergence.get(name)
        if block is not None and bound.kl is not None:
            here.near("KL of the bound = KL of the divergence", bound.kl, block.kl)
        if name in tasks and bound.bound is not None:
            here.same("items of the bound = items of the task", bound.n_items, tasks[name].n_items)
        if block is not None and bound.bound is not None:
            here.same("tokens of the bound = tokens of the divergence", bound.n_tokens, block.n_tokens)
        here.same("weights = the audit's", bound.weights, report.settings.get("weights", bound.weights))
        if report.settings.get("alignment") is not None:
            here.same("alignment = the audit's", bound.alignment, report.settings["alignment"])
        if bound.k_feat_case is not None:
            case = "pairwise" if report.base.head.softcap is None else "with_zero"
            here.same("K_feat's case follows from the soft cap", bound.k_feat_case, case)
    for name, rotated in variant.prism_bound_procrustes.items():
        here = checks.at(f"{checks.where}, {name}, rotated")
        _bound(rotated, here)
        here.same("alignment of the rotated bound", rotated.alignment, "procrustes")
        plain = variant.prism_bound.get(name)
        if plain is not None:
            here.at_most("D under the best rotation is at most D", rotated.d_mean_square, plain.d_mean_square)
            here.near("omega under the best rotation = its nuclear form", rotated.omega, plain.omega_nuclear)
    for name, block in variant.divergence.items():
        here = checks.at(f"{checks.where}, {name}")
        _divergence(block, here)
        if name in tasks:
            here.same("tokens and non-finite ones add up", block.n_tokens + block.n_nonfinite, tasks[name].n_tokens)


def _bound(block: PrismBound, checks: Checks) -> None:
    checks.near("K_pred = sqrt 2", block.k_pred, math.sqrt(2))
    delta, gamma, drift = block.delta, block.gamma, block.d_mean_square
    scale, shape, base, variant = block.scale, block.shape, block.rho_base, block.rho_variant
    if delta is not None and gamma is not None:
        checks.near("bound = delta + gamma", block.bound, delta + gamma)
        checks.at_most("gamma is not negative", -gamma, 0.0)
    if delta is not None and block.k_feat is not None and drift is not None:
        checks.near("delta = K_feat sqrt(D)", delta, block.k_feat * math.sqrt(max(drift, 0.0)))
    if scale is not None and shape is not None and drift is not None:
        checks.near("D = scale + shape", drift, scale + shape)
    if scale is not None and base is not None and variant is not None:
        # A difference of two numbers with rounding of their own.
        apart, size = abs(base - variant), base + variant
        checks.near(
            "scale = (rho_base - rho_variant)^2", scale, apart**2, tol=8 * EPS * size * apart + (8 * EPS * size) ** 2
        )
        if shape is not None and block.omega is not None:
            expected = 2 * base * variant * (1 - block.omega)
            checks.near("shape = 2 rho rho (1 - omega)", shape, expected, tol=8 * EPS * base * variant)
    checks.at_most("omega is at most its nuclear form", block.omega, block.omega_nuclear)
    for name in ("omega_nuclear", "omega_frobenius", "cka"):
        checks.between(f"{name} is at most 1", getattr(block, name), 0.0, 1.0 + 1e-6)
    checks.near("the nuclear form is at least the Frobenius form", _excess(block), 0.0)
    _risks(block, checks)
    if scale is not None and shape is not None and block.k_feat is not None and gamma is not None:
        parts = {
            "scale": block.k_feat * math.sqrt(max(scale, 0.0)),
            "shape": block.k_feat * math.sqrt(max(shape, 0.0)),
            "head": gamma,
        }
        largest = max(parts, key=lambda axis: parts[axis]) if any(parts.values()) else None
        checks.same("dominant axis = the largest part", block.dominant_axis, largest)


def _excess(block: PrismBound) -> float:
    """By how much the Frobenius norm exceeds the nuclear norm, which no matrix allows."""
    if block.omega_frobenius is None or block.omega_nuclear is None:
        return 0.0
    excess = block.omega_frobenius - block.omega_nuclear
    return excess if excess > 1e-6 else 0.0


def _risks(block: PrismBound, checks: Checks) -> None:
    gap, features, head = block.risk_gap, block.gap_features, block.gap_head
    base, variant, hybrid = block.risk_base, block.risk_variant, block.risk_hybrid
    if gap is None or features is None or head is None or base is None or variant is None or hybrid is None:
        return
    # Means of differences in the block, differences of means here.
    tol = 64 * EPS * (abs(base) + abs(variant) + abs(hybrid))
    checks.near("gap = risk_variant - risk_base", gap, variant - base, tol=tol)
    checks.near("gap_features = risk_hybrid - risk_base", features, hybrid - base, tol=tol)
    checks.near("gap_head = risk_variant - risk_hybrid", head, variant - hybrid, tol=tol)
    checks.near("gap = gap_features + gap_head", gap, features + head, tol=tol)
    checks.at_most("|gap| is at most the certificate", abs(gap), block.logratio_bound)
    checks.at_most("the certificate is at most the bound", block.logratio_bound, block.bound)
    checks.at_most("KL is at most the certificate", block.kl, block.logratio_bound)
    larger = None if features == 0 == head else "features" if abs(features) >= abs(head) else "head"
    checks.same("dominant gap = the larger part", block.dominant_gap, larger)


def _divergence(block: Divergence, checks: Checks) -> None:
    order = ("kl_median", "kl_p90", "kl_p99", "kl_max")
    for lower, upper in itertools.pairwise(order):
        checks.at_most(f"{lower} is at most {upper}", getattr(block, lower), getattr(block, upper))
    checks.at_most("mean KL is at most the largest", block.kl, block.kl_max)
    checks.between("KL is not negative", block.kl, 0.0, None)
    checks.between("the KL's standard error is not negative", block.kl_se, 0.0, None)
    for name in ("top1_agreement", "extra_mass_base", "extra_mass_variant"):
        checks.between(f"{name} is a share", getattr(block, name), 0.0, 1.0)
    if block.gold_delta_p_mean is not None:
        checks.at_most("|mean| is at most the RMS", abs(block.gold_delta_p_mean), block.gold_delta_p_rms)
    checks.between("the RMS is at most 1", block.gold_delta_p_rms, 0.0, 1.0)
