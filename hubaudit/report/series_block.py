"""A run's checkpoints as one series: how far each drifted, and what it forgot."""

from __future__ import annotations

from pydantic import Field

from hubaudit.report.block import Block

__all__ = ["Series", "SeriesPoint"]


class SeriesPoint(Block):
    """One checkpoint on one task."""

    step: int
    """Training step, from the name of the folder or revision."""
    spec: str
    """The checkpoint's reference, as in `variants`."""
    bound: float | None
    """Upper bound of the absolute risk gap, nats per token; needs no labels."""
    omega: float | None
    """Similarity of the features to the base's; 1 means no change of shape."""
    risk_gap: float | None
    """Risk of the checkpoint minus risk of the base, nats per token: what it forgot, negative where it gained."""
    kl: float | None
    """Mean KL divergence from the base, nats per token."""
    correctness_agreement: float | None
    """Share of the base's right answers that are kept, or null where the task has no answers."""


class Series(Block):
    """The checkpoints of one run on one task, in order of steps."""

    name: str
    """Folder or repo that the checkpoints belong to."""
    task: str
    """Name of the task."""
    points: list[SeriesPoint]
    """One entry a checkpoint."""
    n: int
    """Checkpoints with a bound and a risk gap."""
    spearman: float | None
    """Rank correlation over the steps of the bound with the absolute risk gap, -1 to 1."""
    p_value: float | None
    """Its two-sided permutation p-value. Steps of one run depend on each other: it is too small for such a claim."""
    reasons: dict[str, str] = Field(default_factory=dict)
    """Why a figure is null."""
