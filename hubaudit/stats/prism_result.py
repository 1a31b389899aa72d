"""The figures of the PRISM bound and what each of them is."""

from __future__ import annotations

import dataclasses

from hubaudit.stats.result import Result

__all__ = ["PrismBound"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrismBound(Result):
    """An upper bound on the risk gap between two models, its three axes, and the gap itself.

    T is the base, P the variant; differences are variant minus base. Every mean uses the same row weights.
    """

    bound: float | None
    """Upper bound of the absolute risk gap, delta + gamma, in nats per token."""
    delta: float | None
    """The features' part of the bound, K_feat times the root mean square drift of the features, in nats per token."""
    gamma: float | None
    """The head's part of the bound, sqrt(2) times the RMS change of the logits by the head alone, in nats per token."""
    rho_base: float | None
    """Root mean square norm of the base's features."""
    rho_variant: float | None
    """Root mean square norm of the variant's features."""
    scale: float | None
    """Scale axis: squared difference of the two RMS norms, in squared feature units."""
    shape: float | None
    """Shape axis: mean square drift of the features minus the scale axis, in squared feature units."""
    omega: float | None
    """Cosine-like similarity of the two models' features under the alignment; 1 means no shape drift. Never clamped."""
    omega_nuclear: float | None
    """The largest omega that any orthogonal alignment reaches; dimensionless."""
    omega_frobenius: float | None
    """Frobenius-form similarity of the features, for comparison only; dimensionless."""
    cka: float | None
    """Linear centred kernel alignment of the features, for comparison only; 0 to 1."""
    k_feat: float | None
    """Largest distance between two rows of the base's head: how many nats one unit of feature drift can cost."""
    k_feat_case: str | None
    """`pairwise`: the distance between two rows; `with_zero`: the zero vector counts as a row (soft-capped heads)."""
    k_pred: float
    """Lipschitz constant of cross-entropy in the logits, sqrt(2) for every model."""
    alignment: str
    """Orthogonal map of the variant's features before comparing: `identity`, `procrustes`, `joint` or `custom`."""
    weights: str
    """What counts the same: every `item` (then its tokens evenly), or every `token`."""
    n_items: int
    """Number of items."""
    n_tokens: int
    """Number of scored token positions."""
    dominant_axis: str | None
    """The largest part of the bound: `scale`, `shape` (K_feat times the root of each) or `head` (gamma)."""
    dominant_gap: str | None
    """The larger part of the risk gap in absolute value: `features` or `head`."""
    logratio_bound: float | None
    """The largest risk gap that any labels could give on these positions, in nats per token; needs no labels."""
    kl: float | None
    """Mean KL divergence of the variant's from the base's distribution, KL(base || variant), in nats per token."""
    risk_base: float | None
    """Cross-entropy of the base, in nats per token."""
    risk_variant: float | None
    """Cross-entropy of the variant, in nats per token."""
    risk_hybrid: float | None
    """Cross-entropy of the variant's features, not aligned, through the base's head, in nats per token."""
    risk_gap: float | None
    """Risk of the variant minus risk of the base, in nats per token."""
    gap_features: float | None
    """Part of the risk gap that the features make: hybrid risk minus the base's risk, in nats per token."""
    gap_head: float | None
    """Part of the risk gap that the head makes: the variant's risk minus hybrid risk, in nats per token."""
    d_mean_square: float | None
    """D, the mean square drift of the features under the alignment: scale + shape, in squared feature units."""
