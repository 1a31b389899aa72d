"""K_feat: how fast cross-entropy through a head can change with the features, exactly, over the whole vocabulary."""

from __future__ import annotations

from typing import Literal

from hubaudit.stats.diameter import diameter, largest_norm
from hubaudit.stats.head import Head

__all__ = ["KFeatCase", "k_feat", "k_feat_case"]

KFeatCase = Literal["pairwise", "with_zero"]
"""`pairwise` for a plain head; `with_zero` for a soft-capped one, where the zero vector counts as a row."""


def k_feat(head: Head) -> float:
    """The largest distance between two rows of a head, exact, without sampling.

    The bias has no part in it: it does not multiply the features. Under a soft cap each row enters the gradient
    with a factor of its own in (0, 1], so the pairwise argument no longer closes; the diameter of the rows together
    with the zero vector bounds it.

    Args:
        head: The base's head, restricted to the common tokens (`Head.narrow`) if the variant has others.

    Returns:
        max_jk |h_j - h_k| with the head's scale folded in, in nats per unit of feature drift; under a soft cap at
        least max_j |h_j|. 0 for one row without a cap.

    Raises:
        InputError: If a weight is NaN or infinite; the row is named.

    Source:
        PRISM, Eq. (16)-(17); the soft-cap case: DESIGN.md, section 3.

    Example:
        >>> k_feat(Head([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
        5.0
    """
    value = diameter(head.weight)[0]
    if k_feat_case(head) == "with_zero":
        value = max(value, largest_norm(head.weight)[0])
    return abs(head.scale) * value


def k_feat_case(head: Head) -> KFeatCase:
    """Which of the two cases `k_feat` takes for this head."""
    return "pairwise" if head.softcap is None else "with_zero"
