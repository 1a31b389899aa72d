"""The plot of quality against size: which points, which lines, and names that do not overlap."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text
from report_example import model

from hubaudit.report.plots import drawn, size_plot
from hubaudit.report.plots.size import apart, has_size, size_points
from hubaudit.report.plots.style import style, svg
from hubaudit.report.schema import Report

_NAMES = "Q8_0 Q6_K Q5_K_M Q5_K_S Q5_0 Q4_K_L Q4_K_M Q4_K_S Q4_0 IQ4_NL IQ4_XS Q3_K_L Q3_K_M IQ3_M Q2_K"
QUANTS = _NAMES.split()


@pytest.fixture
def quants(report: Report) -> Report:
    """Fifteen quants of one repo, most of them nearly of one size."""
    first = report.variants[0]
    report.variants = []
    for place, name in enumerate(QUANTS):
        variant = first.model_copy(deep=True)
        variant.spec = f"org/tiny-GGUF:{name}"
        variant.model = model(variant.spec, 100_000_000 - 200_000 * place, 4.5, head=True)
        report.variants.append(variant)
    report.variants[0].model.size_bytes = 300_000_000
    return report


def series(axes: Any) -> list[tuple[list[float], list[float]]]:
    """The drawn curves: lines with a marker."""
    return [
        (list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if line.get_marker() not in ("None", "")
    ]


def test_every_point_of_three_panels(report: Report) -> None:
    made = size_plot(report)
    kl, kept, bound = made.axes
    variants = [variant for variant in report.variants if variant.model is not None and variant.divergence]
    for axes, value in (
        (kl, lambda variant, task: variant.divergence[task].kl),
        (kept, lambda variant, task: variant.correctness_agreement[task].correctness_agreement),
        (bound, lambda variant, task: variant.prism_bound[task].bound),
    ):
        points = {point for x, y in series(axes) for point in zip(x, y, strict=True)}
        expected = {
            (variant.model.size_bytes, value(variant, task.name)) for variant in variants for task in report.tasks
        }
        # A variant that failed has no figure to draw.
        assert points == {(x, y) for x, y in expected if y is not None}
    assert kl.get_yscale() == bound.get_yscale() == "log"
    assert kept.get_yscale() == "linear"
    assert kl.get_xscale() == "log"
    low, high = kl.get_xlim()
    assert all(low < point.n_bytes < high for point in size_points(report))


def test_lines_join_the_quants_of_one_repo_only(report: Report) -> None:
    joined = [x for x, _ in series(size_plot(report).axes[0]) if len(x) > 1]
    of_the_repo = sorted(
        variant.model.size_bytes for variant in report.variants if variant.spec.startswith("org/tiny-135M-GGUF")
    )
    assert joined == [of_the_repo] * len(report.tasks)


def test_intervals_of_kept_answers(report: Report) -> None:
    kept = size_plot(report).axes[1]
    block = report.variants[0].correctness_agreement["arc"]
    n_bytes = report.variants[0].model.size_bytes
    assert ([n_bytes] * 2, [block.ci_low, block.ci_high]) in [
        (list(line.get_xdata()), list(line.get_ydata())) for line in kept.lines
    ]


@pytest.mark.parametrize("width", [8.0, 3.7])
def test_names_of_close_sizes_do_not_overlap(quants: Report, width: float) -> None:
    made = size_plot(quants, width=width)
    with style():
        made.canvas.draw()
    whole = made.bbox
    names = [text for text in made.axes[0].texts if isinstance(text, Text)]
    boxes = sorted((text.get_window_extent() for text in names), key=lambda box: box.x0)
    assert {text.get_text() for text in names} == set(QUANTS)
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert all(box.x0 >= 0 and box.x1 <= whole.x1 and box.y1 <= whole.y1 for box in boxes)
    # No name and no line to it stands in the panel.
    panel = made.axes[0].get_window_extent()
    assert all(box.y0 > panel.y1 for box in boxes)


def test_places_apart() -> None:
    assert apart([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    # Two at one place move by half the distance each.
    assert apart([0.5, 0.5], 0.2) == pytest.approx([0.4, 0.6])
    assert apart([0.0, 0.0, 0.01], 0.2) == pytest.approx([0.0, 0.2, 0.4])
    assert apart([1.0, 1.0], 0.2) == pytest.approx([0.8, 1.0])
    assert apart([0.3], 0.2) == pytest.approx([0.3])
    crowded = apart([0.5] * 11, 0.3)
    assert crowded == pytest.approx(list(np.linspace(0, 1, 11)))


def test_three_sizes_are_needed(quants: Report) -> None:
    assert has_size(quants)
    assert "size" in {plot.name for plot in drawn(quants)}
    quants.variants = quants.variants[:3]
    assert has_size(quants)
    quants.variants[2].model.size_bytes = quants.variants[1].model.size_bytes
    assert not has_size(quants)
    assert "size" not in {plot.name for plot in drawn(quants)}
    quants.variants = quants.variants[:2]
    assert not has_size(quants)


def test_variants_without_figures_or_model_are_left_out(quants: Report) -> None:
    quants.variants[3].model = None
    quants.variants[4].divergence = {}
    quants.variants[4].prism_bound = {}
    quants.variants[4].correctness_agreement = {}
    assert {3, 4}.isdisjoint(point.variant for point in size_points(quants))
    assert len(made_names(quants)) == len(QUANTS) - 2


def made_names(report: Report) -> list[str]:
    return [text.get_text() for text in size_plot(report).axes[0].texts]


def test_a_report_with_one_figure_has_one_panel(quants: Report) -> None:
    for variant in quants.variants:
        variant.prism_bound = {}
        variant.correctness_agreement = {}
    (axes,) = size_plot(quants).axes
    assert axes.get_ylabel() == "KL, nats"


def test_sizes_in_a_narrow_range_still_have_ticks(quants: Report) -> None:
    for place, variant in enumerate(quants.variants):
        variant.model.size_bytes = 104_000_000 + place
    made = size_plot(quants)
    markup = svg(made, name="p", alt="", css_class="plot")
    assert "104 MB" in markup


def test_the_alt_text_lists_the_smallest_first(report: Report) -> None:
    alt = next(plot.alt for plot in drawn(report) if plot.name == "size")
    assert alt.startswith("KL, kept answers and bound against size. rtn:3@g128 on arc: 62.0 MB, KL 0.204, kept 80.1%;")
