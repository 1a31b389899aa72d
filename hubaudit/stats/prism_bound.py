"""PRISM: an upper bound on the risk gap, split into scale, shape and head, beside what the gap really is."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hubaudit.errors import HubAuditError, InputError
from hubaudit.stats.alignment import Alignment, check_rotation, procrustes
from hubaudit.stats.arrays import Float64
from hubaudit.stats.gamma import K_PRED, check_same_vocabulary, head_discrepancy, why_no_gamma
from hubaudit.stats.head import Head
from hubaudit.stats.item_contributions import ItemContributions, item_contributions
from hubaudit.stats.joint_alignment import joint
from hubaudit.stats.k_feat import k_feat as k_feat_of
from hubaudit.stats.k_feat import k_feat_case
from hubaudit.stats.logits import RowStatistics
from hubaudit.stats.moments import PrismMoments
from hubaudit.stats.prism_result import PrismBound
from hubaudit.stats.weights import RowWeights, check_row_weights, item_index

__all__ = [
    "ItemContributions",
    "PrismBound",
    "PrismMoments",
    "align",
    "delta_from_axes",
    "item_contributions",
    "prism_bound",
    "undefined_prism_bound",
]

_OMEGA_TOLERANCE = 1e-9


def prism_bound(
    moments: PrismMoments,
    base_head: Head,
    variant_head: Head | None = None,
    *,
    rows: RowStatistics | None = None,
    row_weights: Any = None,
    item_ids: Sequence[Any] | npt.NDArray[Any] | None = None,
    weights: RowWeights = "item",
    alignment: str | npt.ArrayLike | Alignment = "identity",
    k_feat: float | None = None,
) -> PrismBound:
    """The bound `|risk_P - risk_T| <= delta + gamma`, its axes, and what it hides.

    Args:
        moments: Moments of base and variant features of the same tokens, updated with `row_weights`.
        base_head: The base's head.
        variant_head: The variant's head, of the same tokens (see `Head.narrow`); None where it is the base's.
        rows: Figures of each row from `row_statistics`, in any order of batches but in that of `row_weights`;
            None leaves the risks, the KL divergence and the certificate undefined. Rows that are not finite are
            left out, as they must have been from the moments.
        row_weights: Weights of the rows, (n,), the very ones that the moments have seen; None for equal weights.
        item_ids: Item of each row, (n,); None makes each row an item.
        weights: What `row_weights` stand for: checked where `item_ids` are given, and reported.
        alignment: `identity`, `procrustes`, `joint`, an orthogonal W, (d, d), or what `align` found before.
        k_feat: The head's constant from `k_feat(base_head)`, to compute it once for many variants.

    Returns:
        All figures; one that is undefined is None and has its reason in `reasons`. `risk_hybrid` always takes the
        variant's features as they are (W = I), as they would be if only the head were exchanged.

    Raises:
        InputError: If widths, vocabularies or row counts do not fit, the weights are not those of the moments, W
            is not orthogonal, or the alignment's name is unknown.

    Source:
        PRISM, theorem 1, Eq. (2)-(5), (9), (37); DESIGN.md, section 3.

    Example:
        >>> head = Head([[1.0, 0.0], [0.0, 1.0]])
        >>> moments = PrismMoments(2)
        >>> moments.update([[3.0, 4.0]], [[3.0, 3.0]])
        >>> result = prism_bound(moments, head)
        >>> round(result.bound, 6), result.d_mean_square, result.dominant_axis
        (1.414214, 1.0, 'scale')
    """
    variant_head = base_head if variant_head is None else variant_head
    _check_heads(moments, base_head, variant_head)
    constant = k_feat_of(base_head) if k_feat is None else float(k_feat)
    if not isinstance(alignment, Alignment):
        alignment = align(alignment, moments, base_head, variant_head, k_feat=constant)
    rotation = alignment.rotation
    row_weights, n_items = _checked_weights(moments, rows, row_weights, item_ids, weights)

    reasons: dict[str, str] = {}
    axes = _axes(moments, rotation, reasons)
    delta = constant * math.sqrt(axes["d_mean_square"])
    gamma = None
    if reason := why_no_gamma(base_head, variant_head):
        reasons |= dict.fromkeys(("gamma", "bound", "dominant_axis"), reason)
    else:
        gamma = head_discrepancy(moments, base_head, variant_head, rotation=rotation)
    return PrismBound(
        bound=None if gamma is None else delta + gamma,
        delta=delta,
        gamma=gamma,
        dominant_axis=None if gamma is None else _dominant_axis(constant, axes, gamma, reasons),
        k_feat=constant,
        k_feat_case=k_feat_case(base_head),
        k_pred=K_PRED,
        alignment=alignment.name,
        weights=weights,
        n_items=n_items,
        n_tokens=moments.n_rows,
        **axes,
        **_similarities(moments, reasons),
        **_risks(rows, row_weights, reasons),
        reasons=reasons,
    )


def undefined_prism_bound(
    reason: str,
    *,
    n_items: int = 0,
    n_tokens: int = 0,
    weights: RowWeights = "item",
    alignment: str = "identity",
) -> PrismBound:
    """The block for two models that cannot be compared this way, such as models of different hidden width.

    Args:
        reason: Why, in words that a reader of the report can use.
        n_items: Items there are.
        n_tokens: Scored positions there are.
        weights: What would have counted the same.
        alignment: The alignment that was asked for.

    Returns:
        Every figure None, with `reason` for each.

    Example:
        >>> undefined_prism_bound("the variant's hidden state is 576 wide, the base's 960").bound is None
        True
    """
    stated = {"k_pred", "alignment", "weights", "n_items", "n_tokens", "reasons"}
    undefined = [field.name for field in dataclasses.fields(PrismBound) if field.name not in stated]
    return PrismBound(
        **dict.fromkeys(undefined),
        k_pred=K_PRED,
        alignment=alignment,
        weights=weights,
        n_items=n_items,
        n_tokens=n_tokens,
        reasons=dict.fromkeys(undefined, reason),
    )


def delta_from_axes(k_feat: float, rho_base: float, rho_variant: float, omega: float) -> float:
    """The features' part of the bound from the axes as papers and reports print them.

    Args:
        k_feat: Largest distance between two rows of the base's head.
        rho_base: RMS norm of the base's features.
        rho_variant: RMS norm of the variant's features.
        omega: Their similarity under the alignment, at most 1.

    Returns:
        delta, in nats per token.

    Raises:
        InputError: If omega exceeds 1 or a length is negative: no features have such axes.

    Source:
        PRISM, Eq. (4).

    Example:
        >>> delta_from_axes(2.0, 3.0, 4.0, 1.0)
        2.0
    """
    if not (omega <= 1 + _OMEGA_TOLERANCE and min(k_feat, rho_base, rho_variant) >= 0):
        raise InputError(
            f"expected lengths of at least 0 and omega of at most 1, got K_feat {k_feat}, rho {rho_base} and "
            f"{rho_variant}, omega {omega}; check the order of the arguments"
        )
    return k_feat * math.sqrt((rho_base - rho_variant) ** 2 + 2 * rho_base * rho_variant * (1 - omega))


def align(
    alignment: str | npt.ArrayLike,
    moments: PrismMoments,
    base_head: Head,
    variant_head: Head,
    *,
    k_feat: float,
) -> Alignment:
    """Find the orthogonal W that a bound is computed under.

    Args:
        alignment: `identity`, `procrustes`, `joint`, or an orthogonal W, (d, d).
        moments: The moments of both models' features.
        base_head: The base's head.
        variant_head: The variant's head.
        k_feat: The constant of the base's head, which weighs features against heads in `joint`.

    Returns:
        W and its name, to pass on to `prism_bound` and `item_contributions`.

    Raises:
        InputError: If W is not orthogonal, the name is unknown, or widths or vocabularies do not fit.
    """
    _check_heads(moments, base_head, variant_head)
    if not isinstance(alignment, str):
        return Alignment("custom", check_rotation(alignment, moments.d))
    if alignment == "identity":
        return Alignment(alignment, None)
    if alignment == "procrustes":
        # Without any drift the identity is a minimiser, and the one that leaves the head alone.
        rotation = procrustes(moments.cross_variant_base) if moments.d_mean_square > 0 else None
        return Alignment(alignment, rotation)
    if alignment == "joint":
        return Alignment(alignment, joint(moments, base_head, variant_head, k_feat=k_feat))
    raise InputError(
        f"expected alignment 'identity', 'procrustes', 'joint' or an orthogonal matrix, got {alignment!r}; "
        "use 'identity' unless the variant's features may be rotated"
    )


def _check_heads(moments: PrismMoments, base_head: Head, variant_head: Head) -> None:
    for head, name in ((base_head, "base"), (variant_head, "variant")):
        if head.width != moments.d:
            raise InputError(
                f"expected a {name} head of the features' width {moments.d}, got {head.width}; give the head that "
                "these features enter, or report the bound as undefined"
            )
    check_same_vocabulary(base_head, variant_head)


def _checked_weights(
    moments: PrismMoments,
    rows: RowStatistics | None,
    row_weights: Any,
    item_ids: Sequence[Any] | npt.NDArray[Any] | None,
    weights: RowWeights,
) -> tuple[Float64, int]:
    """Weights of the finite rows that add up to 1, and the number of items, checked against the moments."""
    n_rows = moments.n_rows if rows is None else len(rows)
    values = check_row_weights(row_weights, n_rows)
    index = item_index(item_ids, n_rows)
    _check_kind(values, index, weights)
    kept = np.ones(n_rows, dtype=np.bool_) if rows is None else rows.finite
    values, index = values[kept], index[kept]
    if rows is None and row_weights is None:
        return values / values.sum(), len(np.unique(index))
    # The effective number of rows tells one set of weights from another, whatever they add up to.
    effective, seen = values.sum() ** 2 / (values @ values), moments.weight**2 / moments.weight_squared
    if len(values) != moments.n_rows or not math.isclose(effective, seen, rel_tol=1e-6):
        raise InputError(
            f"expected the rows and weights that the moments have seen ({moments.n_rows} rows, {seen:.6g} effective), "
            f"got {len(values)} finite rows, {effective:.6g} effective; update the moments with these very weights"
        )
    return values / values.sum(), len(np.unique(index))


def _check_kind(values: Float64, index: npt.NDArray[np.int64], weights: RowWeights) -> None:
    """Raise InputError unless the weights are what their name says."""
    sizes, totals = np.bincount(index), np.bincount(index, weights=values)
    expected = totals.mean() / sizes[index] if weights == "item" else np.full(len(values), values.mean())
    if weights not in ("item", "token") or not np.allclose(values, expected, rtol=1e-6, atol=0):
        raise InputError(
            f"expected row weights that give every {weights} the same total, got others; make them with "
            f"row_weights_of(item_ids, n_rows, weights={weights!r}), weights 'item' or 'token'"
        )


def _axes(moments: PrismMoments, rotation: Float64 | None, reasons: dict[str, str]) -> dict[str, Any]:
    drift, scale = moments.aligned_mean_square(rotation), moments.scale
    rho_base, rho_variant = moments.rho_base, moments.rho_variant
    shape, product = drift - scale, rho_base * rho_variant
    omega = None
    if product > 0:
        omega = 1 - shape / (2 * product)
        if omega > 1 + _OMEGA_TOLERANCE:
            raise HubAuditError(
                f"expected omega of at most 1, got {omega!r}; the moments contradict each other, please report it"
            )
    else:
        reasons["omega"] = "the base's or the variant's features are all zero"
    return {
        "rho_base": rho_base,
        "rho_variant": rho_variant,
        "scale": scale,
        "shape": shape,
        "omega": omega,
        "d_mean_square": drift,
    }


def _similarities(moments: PrismMoments, reasons: dict[str, str]) -> dict[str, Any]:
    """Omega's nuclear and Frobenius forms and linear CKA (PRISM, appendix B; CKA on centred features)."""
    values: dict[str, Any] = dict.fromkeys(("omega_nuclear", "omega_frobenius", "cka"))
    if (product := moments.rho_base * moments.rho_variant) > 0:
        # Through D at the best alignment, and not as a sum of singular values: then no drift gives exactly 1.
        best = min(moments.d_mean_square, moments.aligned_mean_square(procrustes(moments.cross_variant_base)))
        values["omega_nuclear"] = 1 - (best - moments.scale) / (2 * product)
        values["omega_frobenius"] = float(np.linalg.norm(moments.cross_variant_base) / product)
    else:
        zero = "the base's or the variant's features are all zero"
        reasons |= dict.fromkeys(("omega_nuclear", "omega_frobenius"), zero)
    base, variant, cross = (float(np.linalg.norm(moment)) for moment in moments.centred())
    if base > 0 and variant > 0:
        values["cka"] = (cross / base) * (cross / variant)
    else:
        reasons["cka"] = "the base's or the variant's features are the same in every row"
    return values


def _dominant_axis(k_feat: float, axes: dict[str, Any], gamma: float, reasons: dict[str, str]) -> str | None:
    parts = {
        "scale": k_feat * math.sqrt(axes["scale"]),
        # Without shape drift the difference of D and scale is rounding, of either sign.
        "shape": k_feat * math.sqrt(max(axes["shape"], 0.0)),
        "head": gamma,
    }
    if not any(parts.values()):
        reasons["dominant_axis"] = "there is no drift on any axis"
        return None
    return max(parts, key=lambda axis: parts[axis])


def _risks(rows: RowStatistics | None, weights: Float64, reasons: dict[str, str]) -> dict[str, Any]:
    names = ("logratio_bound", "kl", "risk_base", "risk_variant", "risk_hybrid", "risk_gap", "gap_features")
    values: dict[str, Any] = dict.fromkeys((*names, "gap_head", "dominant_gap"))
    if rows is None:
        reasons |= dict.fromkeys(values, "no logits were computed: neither labels nor row statistics were given")
        return values
    rows = rows.take(rows.finite)
    values["kl"] = float(weights @ rows.kl)
    values["logratio_bound"] = float(max(weights @ rows.max_log_ratio, weights @ rows.max_neg_log_ratio))
    if rows.logp_base is None or rows.logp_variant is None or rows.logp_hybrid is None:
        undefined = [key for key, value in values.items() if value is None]
        reasons |= dict.fromkeys(undefined, "no labels were given")
        return values
    features, head = rows.logp_base - rows.logp_hybrid, rows.logp_hybrid - rows.logp_variant
    values["risk_base"] = -float(weights @ rows.logp_base)
    values["risk_variant"] = -float(weights @ rows.logp_variant)
    values["risk_hybrid"] = -float(weights @ rows.logp_hybrid)
    # Means of differences, not differences of means: a model against itself gives exactly 0.
    values["risk_gap"] = float(weights @ (rows.logp_base - rows.logp_variant))
    values["gap_features"], values["gap_head"] = float(weights @ features), float(weights @ head)
    if values["gap_features"] or values["gap_head"]:
        values["dominant_gap"] = "features" if abs(values["gap_features"]) >= abs(values["gap_head"]) else "head"
    else:
        reasons["dominant_gap"] = "neither the features nor the head change the risk"
    return values
