"""Translation and attenuation: the paper's construction, verdicts, false alarms, every weak case and error."""

from __future__ import annotations

import json
import math

import numpy as np
import numpy.typing as npt
import pytest

from hubaudit.errors import InputError
from hubaudit.stats.auroc import paired_auroc
from hubaudit.stats.translation_attenuation import REMEDIES, TranslationAttenuation, remedy, translation_attenuation

Array = npt.NDArray[np.float64]

KEYS = [
    "translation",
    "translation_ci_low",
    "translation_ci_high",
    "attenuation",
    "attenuation_ci_low",
    "attenuation_ci_high",
    "slope",
    "intercept",
    "residual_sd",
    "r2",
    "auroc_base",
    "auroc_variant",
    "auroc_delta",
    "delong_p",
    "accuracy_base",
    "accuracy_fixed",
    "accuracy_refit_threshold",
    "accuracy_refit_probe",
    "recovered_by_threshold",
    "recovered_by_probe",
    "verdict",
    "n",
]


class Construction:
    """reference/NOTES.md, "Translation and attenuation": class 0 ~ N(0, I), class 1 ~ N(1.335 v, I), d = 64."""

    def __init__(self, n: int = 1200, d: int = 64, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.v = np.eye(d)[0]
        self.labels = np.arange(n) % 2

        def draw() -> Array:
            return rng.standard_normal((n, d)) + 1.335 * self.labels[:, None] * self.v

        fit, self.base = draw(), draw()
        means = [fit[self.labels == k].mean(axis=0) for k in (0, 1)]
        self.w = (means[1] - means[0]) / np.linalg.norm(means[1] - means[0])
        self.threshold = float((means[0] + means[1]) @ self.w / 2)
        scores = self.base @ self.w
        deviations = np.concatenate([scores[self.labels == k] - scores[self.labels == k].mean() for k in (0, 1)])
        self.within_sd = math.sqrt(float(deviations @ deviations) / (n - 2))

    def attenuate(self, gain: float) -> Array:
        return self.base - (1 - gain) * np.outer(self.base @ self.v, self.v)

    def audit(self, features: Array, *, offset: float = 0.0) -> TranslationAttenuation:
        return translation_attenuation(
            features @ self.w - self.threshold + offset,
            self.base @ self.w - self.threshold,
            self.labels,
            base_features=self.base,
            variant_features=features,
        )


@pytest.fixture(scope="module")
def construction() -> Construction:
    return Construction()


def test_identity_is_none(construction: Construction) -> None:
    result = construction.audit(construction.base)
    assert result.verdict == "none"
    assert (result.translation, result.attenuation, result.auroc_delta, result.delong_p) == (0.0, 0.0, 0.0, 1.0)
    assert (result.slope, result.intercept, result.residual_sd, result.r2) == (1.0, 0.0, 0.0, 1.0)
    assert result.accuracy_base == result.accuracy_fixed
    assert result.accuracy_base == pytest.approx(0.735, abs=0.03)
    assert "nothing to recover" in result.reasons["recovered_by_threshold"]


def test_offset_is_a_translation(construction: Construction) -> None:
    result = construction.audit(construction.base, offset=1.875 * construction.within_sd)
    assert result.verdict == "translation"
    assert result.translation == pytest.approx(1.875, abs=1e-9)
    assert result.auroc_variant == result.auroc_base  # to the last bit
    assert (result.delong_p, result.attenuation) == (1.0, pytest.approx(0.0, abs=1e-9))
    # NOTES.md: .735 -> .550; one draw has an sd of .012.
    assert result.accuracy_base == pytest.approx(0.735, abs=0.03)
    assert result.accuracy_fixed == pytest.approx(0.550, abs=0.03)
    # NOTES.md: refitting the threshold recovers all of a translation.
    assert result.recovered_by_threshold == pytest.approx(1.0, abs=0.05)
    assert result.origin is None


@pytest.mark.parametrize("gain", [0.5, 0.35, 0.25, 0.2])
def test_shrunken_signal_is_an_attenuation(construction: Construction, gain: float) -> None:
    result = construction.audit(construction.attenuate(gain))
    assert result.verdict == "attenuation"
    assert result.auroc_delta < 0
    assert result.delong_p is not None
    assert result.delong_p < 1e-6
    # The threshold brings back a part, the refit probe much more: the two remedies differ.
    assert result.recovered_by_threshold is not None
    assert result.recovered_by_probe is not None
    assert 0.2 < result.recovered_by_threshold < 0.6
    assert result.recovered_by_probe > result.recovered_by_threshold + 0.15
    # It was attenuated about the origin of the features, where the score is minus the threshold.
    assert result.origin == pytest.approx(-construction.threshold, abs=0.15)


def test_auroc_moves_by_up_to_13_points(construction: Construction) -> None:
    # NOTES.md: by up to .13 at a gain of .2.
    assert construction.audit(construction.attenuate(0.2)).auroc_delta == pytest.approx(-0.13, abs=0.03)


def test_both_together(construction: Construction) -> None:
    result = construction.audit(construction.attenuate(0.4), offset=1.0)
    assert result.verdict == "both"
    assert result.recovered_by_probe is not None
    assert result.recovered_by_probe > 0.6


def make_scores(
    n_neg: int, n_pos: int, *, shift: float, gain: float, noise: float, seed: int
) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], [n_neg, n_pos])
    unit = rng.standard_normal(n_neg + n_pos)
    variant = unit + shift + (2.5 * gain) * labels + noise * rng.standard_normal(len(unit))
    return variant, unit + 2.5 * labels, labels


def test_definitions_in_plain_loops() -> None:
    variant, base, labels = make_scores(20, 30, shift=0.4, gain=0.7, noise=0.3, seed=1)
    result = translation_attenuation(variant, base, labels, threshold=1.0)

    def mean(values: list[float]) -> float:
        return sum(values) / len(values)

    def d_prime(scores: Array) -> tuple[float, float, float]:
        groups = [[s for s, y in zip(scores.tolist(), labels, strict=True) if y == k] for k in (0, 1)]
        squares = sum((s - mean(group)) ** 2 for group in groups for s in group)
        sd = math.sqrt(squares / (len(labels) - 2))
        return mean(groups[0]), sd, (mean(groups[1]) - mean(groups[0])) / sd

    (low, sd, d_base), (moved, _, d_variant) = d_prime(base), d_prime(variant)
    assert result.translation == pytest.approx((moved - low) / sd, abs=1e-12)
    assert result.attenuation == pytest.approx(1 - d_variant / d_base, abs=1e-12)
    n, x, y = 50, base.tolist(), variant.tolist()
    slope = sum((a - mean(x)) * (b - mean(y)) for a, b in zip(x, y, strict=True)) / sum((a - mean(x)) ** 2 for a in x)
    intercept = mean(y) - slope * mean(x)
    rest = [b - intercept - slope * a for a, b in zip(x, y, strict=True)]
    assert (result.slope, result.intercept) == pytest.approx((slope, intercept), abs=1e-12)
    assert result.residual_sd == pytest.approx(math.sqrt(sum(r * r for r in rest) / (n - 2)), abs=1e-12)
    assert result.r2 == pytest.approx(1 - sum(r * r for r in rest) / sum((b - mean(y)) ** 2 for b in y), abs=1e-12)
    right = [(s > 1.0) == (k == 1) for s, k in zip(x, labels, strict=True)]
    assert result.accuracy_base == pytest.approx(sum(right) / n, abs=1e-15)
    areas = paired_auroc(variant, base, labels)
    assert (result.auroc_base, result.auroc_variant, result.delong_p) == (areas.base, areas.variant, areas.p)


def test_row_permutation_changes_only_what_folds_and_resamples_touch() -> None:
    variant, base, labels = make_scores(40, 60, shift=0.4, gain=0.7, noise=0.3, seed=1)
    order = np.random.default_rng(0).permutation(100)
    one = translation_attenuation(variant, base, labels).to_dict()
    other = translation_attenuation(variant[order], base[order], labels[order]).to_dict()
    for key in ("translation", "attenuation", "slope", "intercept", "residual_sd", "r2", "d_prime_base", "origin"):
        assert other[key] == pytest.approx(one[key], abs=1e-12)
    for key in ("auroc_base", "auroc_variant", "accuracy_base", "accuracy_fixed", "verdict", "n"):
        assert other[key] == one[key]
    assert other["delong_p"] == pytest.approx(one["delong_p"], rel=1e-12)


def test_same_seed_same_result() -> None:
    scores = make_scores(40, 60, shift=0.4, gain=0.7, noise=0.3, seed=1)
    assert translation_attenuation(*scores, seed=3) == translation_attenuation(*scores, seed=3)
    assert translation_attenuation(*scores, seed=3) != translation_attenuation(*scores, seed=4)


def test_float16_lists_and_large_means() -> None:
    variant, base, labels = make_scores(40, 60, shift=0.4, gain=0.7, noise=0.3, seed=1)
    halves = [np.asarray(x, dtype=np.float16) for x in (variant, base)]
    from_lists = translation_attenuation([float(x) for x in halves[0]], [float(x) for x in halves[1]], labels.tolist())
    assert translation_attenuation(*halves, labels) == from_lists
    far = translation_attenuation(variant + 1e6, base + 1e6, labels, threshold=1e6)
    near = translation_attenuation(variant, base, labels)
    # 1e6 leaves ten digits of each score.
    assert far.translation == pytest.approx(near.translation, rel=1e-8)
    assert far.attenuation_ci_low == pytest.approx(near.attenuation_ci_low, rel=1e-6)


def test_margins_decide_the_verdict() -> None:
    scores = make_scores(300, 300, shift=0.5, gain=0.8, noise=0.1, seed=2)
    assert translation_attenuation(*scores).verdict == "both"
    assert translation_attenuation(*scores, translation_margin=1.0).verdict == "attenuation"
    assert translation_attenuation(*scores, attenuation_margin=0.5).verdict == "translation"
    assert translation_attenuation(*scores, translation_margin=1.0, attenuation_margin=0.5).verdict == "none"


def test_negative_shift_is_a_translation_too() -> None:
    assert (
        translation_attenuation(*make_scores(300, 300, shift=-0.5, gain=1.0, noise=0.1, seed=2)).verdict
        == "translation"
    )


def test_grown_separation_is_no_attenuation_but_noted() -> None:
    result = translation_attenuation(*make_scores(300, 300, shift=0.0, gain=1.5, noise=0.1, seed=2))
    assert result.verdict == "none"
    assert result.attenuation is not None
    assert result.attenuation < 0
    assert "separates the classes better" in result.notes["attenuation"]


def test_what_a_small_sample_cannot_rule_out_is_noted() -> None:
    result = translation_attenuation(*make_scores(12, 12, shift=0.0, gain=1.0, noise=0.6, seed=3))
    assert result.verdict == "none"
    assert "is not ruled out" in result.notes["verdict"]


def test_a_loss_within_the_noise_is_noted() -> None:
    # One negative of twenty crosses the threshold.
    base = np.concatenate([np.linspace(-3, -0.1, 20), np.linspace(0.1, 3, 20)])
    variant = base + np.where(np.arange(40) == 19, 0.2, 0.0)
    result = translation_attenuation(variant, base, np.repeat([0, 1], 20))
    assert result.accuracy_fixed == result.accuracy_base - 1 / 40
    assert result.recovered_by_threshold is not None
    assert "within the noise" in result.notes["recovered_by_threshold"]


@pytest.mark.parametrize(("n_neg", "n_pos"), [(2, 2), (7, 30)])
def test_few_items_have_estimates_but_no_intervals(n_neg: int, n_pos: int) -> None:
    result = translation_attenuation(*make_scores(n_neg, n_pos, shift=1.0, gain=0.5, noise=0.1, seed=4))
    assert math.isfinite(result.translation)
    for key in ("translation_ci_low", "translation_ci_high", "attenuation_ci_low", "attenuation_ci_high", "verdict"):
        assert getattr(result, key) is None
        assert "fewer than 8 items in a class" in result.reasons[key]


def test_base_that_separates_nothing() -> None:
    rng = np.random.default_rng(0)
    base = rng.standard_normal(60)
    result = translation_attenuation(base + 1.0 + 0.1 * rng.standard_normal(60), base, np.arange(60) % 2)
    assert (result.attenuation_ci_low, result.verdict) == (None, None)
    assert "cannot be told from 0" in result.reasons["verdict"]
    assert result.translation_ci_low is not None
    level = translation_attenuation([0.0, 1, 2, 3], [0.0, 2, 0, 2], [0, 0, 1, 1])
    assert level.attenuation is None
    assert "no separation to lose" in level.reasons["attenuation"]


def test_every_contract_key_is_there_and_every_null_has_a_reason() -> None:
    for result in (
        translation_attenuation(*make_scores(20, 20, shift=0.0, gain=1.0, noise=0.1, seed=1)),
        translation_attenuation(*make_scores(3, 3, shift=0.0, gain=1.0, noise=0.1, seed=1)),
        translation_attenuation([0.0, 1, 2, 3], [0.0, 2, 0, 2], [0, 0, 1, 1]),
        translation_attenuation([4.0, 3, 2, 1], [1.0, 2, 3, 4], [0, 0, 1, 1]),
    ):
        values = result.to_dict()
        assert set(KEYS) <= set(values)
        assert {key for key, value in values.items() if value is None} == set(values["reasons"])
        assert json.loads(json.dumps(values, allow_nan=False)) == values


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (([1, 2, 3], [1, 2, 3, 4], [0, 0, 1, 1]), r"expected variant scores of shape \(4,\), one a label, got \(3,\)"),
        (([1, 2, 3, 4], [1, 2], [0, 0, 1, 1]), r"expected base scores of shape \(4,\)"),
        (([], [], []), "expected labels of shape"),
        (([1, 2, 3], [1, 2, 3], [0, 1, 1]), "expected at least 2 items of each class, got 1 of class 0"),
        (([1, 2, 3, 4], [1, 2, 3, 4], [1, 1, 1, 1]), "got 0 of class 0 and 4 of class 1"),
        (([1, math.nan, 3, 4], [1, 2, 3, 4], [0, 0, 1, 1]), "expected finite variant scores, got nan in row 1"),
        (([1, 2, 3, 4], [1, 2, 3, math.inf], [0, 0, 1, 1]), "expected finite base scores, got inf in row 3"),
        (([5, 5, 5, 5], [1, 2, 3, 4], [0, 0, 1, 1]), "expected variant scores that vary within a class"),
        (([1, 2, 3, 4], [0, 0, 1, 1], [0, 0, 1, 1]), "expected base scores that vary within a class"),
        (([1, 2, 3, 4], [1, 2, 3, 4], [0, 0, 1, 2]), "expected labels 0 or 1, got 2 in row 3"),
    ],
)
def test_bad_scores(scores: tuple[list[float], list[float], list[int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        translation_attenuation(*scores)


def test_bad_options() -> None:
    scores = make_scores(10, 10, shift=0.0, gain=1.0, noise=0.1, seed=1)
    with pytest.raises(InputError, match=r"expected margins above 0, got 0.0 and 0.05"):
        translation_attenuation(*scores, translation_margin=0.0)
    with pytest.raises(InputError, match=r"expected variant features of shape \(20, d\), got \(19, 3\)"):
        translation_attenuation(*scores, variant_features=np.zeros((19, 3)))
    with pytest.raises(InputError, match=r"expected finite base features, got NaN or infinity in row 0"):
        translation_attenuation(*scores, base_features=np.full((20, 3), np.nan))
    with pytest.raises(InputError, match="expected a finite threshold, got nan"):
        translation_attenuation(*scores, threshold=math.nan)


def test_every_verdict_has_its_remedy() -> None:
    assert set(REMEDIES) == {"none", "translation", "attenuation", "both"}
    assert "threshold" in (remedy("translation") or "")
    assert "Refit the probe" in (remedy("attenuation") or "")
    assert remedy(None) is None
    with pytest.raises(InputError, match="expected one of none, translation, attenuation, both, got 'moved'"):
        remedy("moved")


def false_alarms(n: int, *, noise: float, audits: int) -> float:
    verdicts = [
        translation_attenuation(*make_scores(n, n, shift=0.0, gain=1.0, noise=noise, seed=seed), seed=seed).verdict
        for seed in range(audits)
    ]
    return float(np.mean([verdict != "none" for verdict in verdicts]))


def test_private_noise_alone_is_seldom_called() -> None:
    # The full grid is benchmarks/coverage_translation.py.
    assert false_alarms(64, noise=0.1, audits=100) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("n", [32, 64, 128])
def test_false_alarms_at_the_null(n: int) -> None:
    assert false_alarms(n, noise=0.1, audits=2000) <= 0.01
    # Private noise of .3 SD costs 4.2 % of d', just inside the margin of 5 %.
    assert false_alarms(n, noise=0.3, audits=2000) <= 0.05
