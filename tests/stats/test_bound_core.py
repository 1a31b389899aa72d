"""Bound, certificate, K_feat and divergence against their literal definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import orthogonal_procrustes
from scipy.stats import ortho_group

from hubaudit.errors import InputError
from hubaudit.stats.divergence import divergence
from hubaudit.stats.head import Head
from hubaudit.stats.k_feat import k_feat
from hubaudit.stats.logits import RowStatistics, row_statistics
from hubaudit.stats.moments import PrismMoments
from hubaudit.stats.prism_bound import PrismBound, align, item_contributions, prism_bound

RNG = np.random.default_rng(11)


def log_softmax(v: np.ndarray) -> np.ndarray:
    return v - v.max() - math.log(np.exp(v - v.max()).sum())


def literal_logits(head: Head, z: np.ndarray) -> np.ndarray:
    bias = 0.0 if head.bias is None else np.asarray(head.bias, dtype=np.float64)
    raw = head.scale * (np.asarray(head.weight, dtype=np.float64) @ z + bias)
    return raw if head.softcap is None else head.softcap * np.tanh(raw / head.softcap)


def problem(n: int = 40, d: int = 7, v: int = 23, **head: Any) -> tuple[Any, ...]:
    z = RNG.standard_normal((n, d)) * 3
    z_variant = z + 0.3 * RNG.standard_normal((n, d))
    weight = RNG.standard_normal((v, d))
    base = Head(weight, **head)
    variant = Head(weight + 0.05 * RNG.standard_normal((v, d)), **head)
    return z, z_variant, base, variant, RNG.integers(v, size=n), RNG.integers(10, size=n)


def measured(
    z: Any, z_variant: Any, base: Head, variant: Head, labels: Any, items: Any, **options: Any
) -> tuple[PrismBound, RowStatistics, np.ndarray]:
    counts = np.bincount(items, minlength=items.max() + 1)
    weight = 1.0 / (len(np.unique(items)) * counts[items])
    moments = PrismMoments(z.shape[1])
    moments.update(z, z_variant, weight)
    rows = row_statistics(z, z_variant, base, variant, labels)
    bound = prism_bound(moments, base, variant, rows=rows, row_weights=weight, item_ids=items, **options)
    return bound, rows, weight


HEADS = [
    {},
    {"scale": 0.3},
    {"bias": RNG.standard_normal(23)},
    {"softcap": 2.0},
    {"softcap": 4.0, "scale": 1.7, "bias": RNG.standard_normal(23)},
]


@pytest.mark.parametrize("head", HEADS)
def test_every_row_equals_the_definition(head: dict[str, Any]) -> None:
    z, z_variant, base, variant, labels, _ = problem(**head)
    rows = row_statistics(z, z_variant, base, variant, labels)
    for i in range(len(z)):
        p = log_softmax(literal_logits(base, z[i]))
        q = log_softmax(literal_logits(variant, z_variant[i]))
        hybrid = log_softmax(literal_logits(base, z_variant[i]))
        # float64 in, float64 through
        assert rows.kl[i] == pytest.approx(float((np.exp(p) * (p - q)).sum()), abs=1e-12)
        assert rows.logp_base[i] == pytest.approx(p[labels[i]], abs=1e-12)
        assert rows.logp_variant[i] == pytest.approx(q[labels[i]], abs=1e-12)
        assert rows.logp_hybrid[i] == pytest.approx(hybrid[labels[i]], abs=1e-12)
        assert rows.max_log_ratio[i] == pytest.approx((p - q).max(), abs=1e-12)
        assert rows.max_neg_log_ratio[i] == pytest.approx((q - p).max(), abs=1e-12)
        assert bool(rows.top1_equal[i]) == (p.argmax() == q.argmax())


@pytest.mark.parametrize("head", HEADS)
def test_gap_certificate_and_bound_are_in_order(head: dict[str, Any]) -> None:
    for _ in range(20):
        bound, rows, weight = measured(*problem(**head))
        assert abs(bound.risk_gap) <= bound.logratio_bound + 1e-12
        assert bound.logratio_bound <= bound.bound + 1e-12
        assert bound.gap_features + bound.gap_head == pytest.approx(bound.risk_gap, abs=1e-12)
        assert bound.risk_base == pytest.approx(-float(weight @ rows.logp_base), abs=1e-12)
        assert bound.scale + bound.shape == pytest.approx(bound.d_mean_square, rel=1e-12)


def test_a_capped_head_needs_the_zero_vector() -> None:
    # All rows close together and far from zero, one coordinate saturated: the gradient's factors differ by token.
    weight = np.array([[10.0, 0.0], [10.0, 0.2]])
    base = Head(weight, softcap=1.0)
    z, z_variant = np.array([[0.2, 1.0]]), np.array([[0.1, 1.0]])
    bound, _, _ = measured(z, z_variant, base, base, np.array([1]), np.array([0]))
    pairwise = k_feat(Head(weight)) * math.sqrt(bound.d_mean_square)
    assert bound.k_feat_case == "with_zero"
    assert bound.logratio_bound <= bound.bound

    worst = 0.0
    for first in np.linspace(0.01, 0.6, 60):
        a, b = np.array([[first, 60.0]]), np.array([[first - 0.005, 60.0]])
        one, _, _ = measured(a, b, base, base, np.array([0]), np.array([0]))
        assert one.logratio_bound <= one.bound
        worst = max(worst, one.logratio_bound / (k_feat(Head(weight)) * math.sqrt(one.d_mean_square)))
    assert pairwise > 0
    assert worst > 1  # the plain diameter would have been no bound


@pytest.mark.parametrize("kind", ["random", "clustered", "duplicated", "equal_norms", "one_row", "bfloat16"])
def test_k_feat_is_the_brute_force_maximum(kind: str) -> None:
    points = RNG.standard_normal((400, 12))
    if kind == "clustered":
        points = np.repeat(RNG.standard_normal((8, 12)) * 3, 50, axis=0) + 0.01 * points
    elif kind == "duplicated":
        points = np.repeat(points[:7], 40, axis=0)
    elif kind == "equal_norms":
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    elif kind == "one_row":
        points = points[:1]
    weight: Any = points
    if kind == "bfloat16":
        weight = torch.from_numpy(points).to(torch.bfloat16)
        points = weight.double().numpy()
    brute = max(float(np.linalg.norm(points - row, axis=1).max()) for row in points)
    assert k_feat(Head(weight)) == pytest.approx(brute, rel=1e-12)
    assert k_feat(Head(weight, scale=-2.0)) == pytest.approx(2 * brute, rel=1e-12)


def test_axes_equal_the_definition() -> None:
    z, z_variant, base, variant, labels, items = problem()
    bound, _, weight = measured(z, z_variant, base, variant, labels, items)
    rho = [math.sqrt(float(weight @ (x**2).sum(axis=1))) for x in (z, z_variant)]
    omega = float((weight[:, None] * z * z_variant).sum()) / (rho[0] * rho[1])
    assert bound.rho_base == pytest.approx(rho[0], rel=1e-12)
    assert bound.omega == pytest.approx(omega, rel=1e-12)
    assert bound.scale == pytest.approx((rho[0] - rho[1]) ** 2, rel=1e-9)
    residual = z_variant @ (np.asarray(base.weight) - np.asarray(variant.weight)).T
    assert bound.gamma == pytest.approx(math.sqrt(2 * float(weight @ (residual**2).sum(axis=1))), rel=1e-10)


def test_a_bias_enters_gamma_as_a_feature_that_is_one() -> None:
    z, z_variant, _, _, labels, items = problem()
    weight = RNG.standard_normal((23, 7))
    base, variant = Head(weight, bias=np.zeros(23)), Head(weight, bias=RNG.standard_normal(23))
    bound, _, _ = measured(z, z_variant, base, variant, labels, items)
    assert bound.gamma == pytest.approx(math.sqrt(2) * float(np.linalg.norm(np.asarray(variant.bias))), rel=1e-10)


def test_shards_in_any_order_agree_to_1e_9() -> None:
    z = RNG.standard_normal((500, 16)) + 1e3
    z_variant = z + 1e-3 * RNG.standard_normal((500, 16))
    weight = RNG.uniform(0.1, 1, 500)
    whole = PrismMoments(16)
    whole.update(z, z_variant, weight)
    parts = []
    for chunk in np.array_split(RNG.permutation(500), 7):
        part = PrismMoments(16)
        part.update(z[chunk], z_variant[chunk], weight[chunk])
        parts.append(part)
    merged = PrismMoments(16)
    for part in parts:
        merged.merge(part)
    for name in ("rho_base", "rho_variant", "d_mean_square", "scale"):
        assert getattr(merged, name) == pytest.approx(getattr(whole, name), rel=1e-9)


def test_procrustes_equals_scipy_and_undoes_a_rotation() -> None:
    z = RNG.standard_normal((60, 6))
    rotation, _ = np.linalg.qr(RNG.standard_normal((6, 6)))
    moments = PrismMoments(6)
    moments.update(z, z @ rotation)
    weight = RNG.standard_normal((9, 6))
    bound = prism_bound(moments, Head(weight), Head(weight @ rotation), alignment="procrustes")
    assert bound.bound == pytest.approx(0, abs=1e-6)
    expected, _ = orthogonal_procrustes(z @ rotation, z)
    np.testing.assert_allclose(expected, rotation.T, atol=1e-12)


def test_joint_alignment_is_never_worse_and_finds_planted_rotations() -> None:
    z = RNG.standard_normal((200, 8)) * np.linspace(3, 0.3, 8)
    weight = RNG.standard_normal((30, 8)) * np.linspace(0.3, 3, 8)
    one, _ = np.linalg.qr(np.eye(8) + 0.4 * RNG.standard_normal((8, 8)))
    other, _ = np.linalg.qr(np.eye(8) + 0.4 * RNG.standard_normal((8, 8)))
    moments = PrismMoments(8)
    moments.update(z, z @ one)
    base, variant = Head(weight), Head(weight @ other)
    bounds = {
        name: prism_bound(moments, base, variant, alignment=name).bound for name in ("identity", "procrustes", "joint")
    }
    assert bounds["joint"] <= min(bounds["identity"], bounds["procrustes"]) * (1 + 1e-9)


@pytest.mark.parametrize(("d", "v"), [(24, 200), (48, 600)])
def test_joint_alignment_weighs_two_independent_rotations(d: int, v: int) -> None:
    z, weight = RNG.standard_normal((8 * d, d)), RNG.standard_normal((v, d))
    of_features, of_head = ortho_group.rvs(d, size=2, random_state=np.random.default_rng(d))
    moments = PrismMoments(d)
    moments.update(z, z @ of_features)
    base, variant = Head(weight), Head(weight @ of_head)
    constant = k_feat(base)
    bounds = {
        name: prism_bound(moments, base, variant, alignment=name, k_feat=constant).bound
        for name in ("identity", "procrustes", "joint")
    }
    assert bounds["joint"] <= 0.7 * min(bounds["identity"], bounds["procrustes"])
    # An orthogonal W of its own, and the same bound when it is given back as a matrix.
    found = align("joint", moments, base, variant, k_feat=constant)
    again = prism_bound(moments, base, variant, alignment=found.rotation, k_feat=constant)
    assert (again.bound, again.alignment) == (pytest.approx(bounds["joint"], rel=1e-9), "custom")


@pytest.mark.parametrize("rotated", [False, True])
def test_item_contributions_add_up_to_the_drift(rotated: bool) -> None:
    z, z_variant, base, variant, labels, items = problem()
    z_variant[items == 4] += 5.0
    rotation = ortho_group.rvs(7, random_state=np.random.default_rng(1)) if rotated else None
    alignment = "identity" if rotation is None else rotation
    bound, _, weight = measured(z, z_variant, base, variant, labels, items, alignment=alignment)
    parts = item_contributions(z, z_variant, items, rotation=rotation)
    moved = z_variant if rotation is None else z_variant @ rotation
    for item, contribution in zip(parts.item_ids, parts.contribution, strict=True):
        rows = items == item
        expected = float(weight[rows] @ ((z - moved) ** 2).sum(axis=1)[rows])
        assert contribution == pytest.approx(expected, rel=1e-12)
    assert parts.contribution.sum() == pytest.approx(bound.d_mean_square, rel=1e-9)
    assert rotated or parts.largest(1)[0][0] == 4
    with pytest.raises(InputError, match="same tokens"):
        item_contributions(z, z_variant[:-1], items)


def test_divergence_is_clustered_by_item() -> None:
    z, z_variant, base, variant, labels, items = problem(n=60)
    rows = row_statistics(z, z_variant, base, variant, labels)
    block = divergence(rows, items)
    assert block.kl == pytest.approx(float(rows.kl.mean()), rel=1e-12)
    assert block.kl_max == rows.kl.max()
    change = np.exp(rows.logp_variant) - np.exp(rows.logp_base)
    assert block.gold_delta_p_mean == pytest.approx(float(change.mean()), rel=1e-9)
    assert block.gold_delta_p_rms == pytest.approx(math.sqrt(float((change**2).mean())), rel=1e-9)
    together = divergence(rows, np.zeros(60))
    assert together.kl_se is None
    assert "kl_se" in together.reasons


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z, zv, w: (z[:0], zv[:0], w), "at least one"),
        (lambda z, zv, w: (z, zv[:-1], w), "same"),
        (lambda z, zv, w: (np.where(z == z[3, 2], np.nan, z), zv, w), "row 3"),
        (lambda z, zv, w: (z, zv, w[:, :-1]), "width"),
    ],
)
def test_bad_input_is_named(change: Any, message: str) -> None:
    z, z_variant, base, _, labels, _ = problem()
    a, b, weight = change(z, z_variant, np.asarray(base.weight))

    def compute() -> None:
        moments = PrismMoments(7)
        moments.update(a, b)
        prism_bound(moments, Head(weight))
        row_statistics(a, b, Head(weight), labels=labels[: len(a)])

    with pytest.raises(InputError, match=message):
        compute()
