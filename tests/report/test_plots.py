"""Plots: what is drawn, with which data, in files that never change."""

# ruff: noqa: RUF001 - the pages use the typographic minus, dash and multiplication sign

from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from report_example import fill

from hubaudit.report.plots import (
    PLOTS,
    axes_plot,
    bound_plot,
    direction_plot,
    drawn,
    flips_plot,
    monitor_plot,
    save_plots,
)
from hubaudit.report.plots.style import CSS_VARIABLES, png, svg
from hubaudit.report.schema import Report
from hubaudit.stats.prism_bound import PrismBound


def texts(made: Figure) -> str:
    return " ".join(text.get_text() for axes in made.axes for text in axes.texts)


def test_all_plots_of_the_example(report: Report) -> None:
    assert [plot.name for plot in drawn(report)] == [plot.name for plot in PLOTS]


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
def test_no_data_no_plot(plot: object, report: Report) -> None:
    report.variants, report.ranking, report.series = report.variants[-1:], {}, []
    assert drawn(report) == []


def test_bound_plot_puts_every_point_where_it_belongs(report: Report) -> None:
    made = bound_plot(report)
    (axes,) = made.axes
    assert axes.get_xscale() == axes.get_yscale() == "log"
    expected = {
        (abs(block.risk_gap), block.bound)
        for variant in report.variants
        for block in variant.prism_bound.values()
        if block.bound is not None
    }
    lines = [line for line in axes.lines if len(line.get_xdata()) == 1 and line.get_marker() != "_"]
    assert {(line.get_xdata()[0], line.get_ydata()[0]) for line in lines} == expected
    certificates = [line for line in axes.lines if line.get_marker() == "_"]
    assert len(certificates) == len(expected)
    (diagonal,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == list(axes.get_xlim())
    assert all(axes.get_ylim()[0] <= y <= axes.get_ylim()[1] for _, y in expected)


def test_a_variant_equal_to_the_base_has_no_place_on_a_logarithmic_axis(report: Report) -> None:
    for block in report.variants[0].prism_bound:
        report.variants[0].prism_bound[block] = fill(
            PrismBound, bound=0.0, delta=0.0, gamma=0.0, scale=0.0, shape=0.0, k_feat=9.9, risk_gap=0.0,
            logratio_bound=0.0, k_pred=1.4, alignment="identity", weights="item", n_items=1, n_tokens=1,
        )  # fmt: skip
    report.variants, report.ranking, report.series = report.variants[:1], {}, []
    assert {"bound", "axes"}.isdisjoint(plot.name for plot in drawn(report))
    assert len(save_plots_bytes(report)) == 4


def save_plots_bytes(report: Report) -> list[bytes]:
    return [png(plot.draw(report)) for plot in drawn(report)]


def test_axes_plot_stacks_to_the_bound_in_the_ratio_of_the_squares(report: Report) -> None:
    made = axes_plot(report)
    block = report.variants[0].prism_bound["arc"]
    bars = [patch for patch in made.axes[0].patches if patch.get_alpha() is None][:3]
    scale, shape, gamma = (bar.get_width() for bar in bars)
    assert scale + shape + gamma == pytest.approx(1, abs=1e-12)
    assert scale / shape == pytest.approx(block.scale / block.shape, rel=1e-12)
    assert gamma == pytest.approx(block.gamma / block.bound, rel=1e-12)
    assert (scale + shape) * block.bound == pytest.approx(block.k_feat * np.sqrt(block.scale + block.shape))
    assert f"{block.bound:.2f} shape" in texts(made)


def test_flips_plot_adds_up_to_all_items(report: Report) -> None:
    made = flips_plot(report)
    block = report.variants[6].correctness_agreement["arc"]
    row = [patch for patch in made.axes[0].patches if round(patch.get_y() + patch.get_height() / 2) == 6]
    widths = [bar.get_width() for bar in row]
    assert sum(widths) == pytest.approx(1, abs=1e-12)
    assert widths[:3] == [
        pytest.approx(count / block.n) for count in (block.regressions, block.recoveries, block.wrong_to_other_wrong)
    ]
    assert widths[3] == pytest.approx(block.same_answer_rate)
    assert "−15 +10 ~17" in texts(made)


def test_direction_plot_has_a_panel_a_variant_with_band_and_intervals(report: Report) -> None:
    made = direction_plot(report)
    panels = [axes for axes in made.axes if axes.has_data()]
    assert len(panels) == 8
    layers = report.variants[0].direction_floor
    cosine = next(line for line in panels[0].lines if len(line.get_xdata()) == len(layers))
    assert list(cosine.get_xdata()) == sorted(layers)
    assert list(cosine.get_ydata()) == [layers[layer].cosine for layer in sorted(layers)]
    band = panels[0].collections[0].get_paths()[0].vertices
    first = layers[3]
    assert band[:, 1].max() <= max(block.own_null_mean + 2 * block.own_null_sd for block in layers.values()) + 1e-12
    assert first.own_null_mean - 2 * first.own_null_sd in band[:, 1]
    intervals = [tuple(path.vertices[:, 1]) for path in panels[0].collections[1].get_paths()]
    assert intervals == [(first.ci_low, first.ci_high)]


def test_direction_plot_of_one_layer(report: Report) -> None:
    for variant in report.variants:
        variant.direction_floor = {layer: block for layer, block in variant.direction_floor.items() if layer == 15}
    assert png(direction_plot(report)).startswith(b"\x89PNG")


def test_monitor_plot_shows_scores_line_and_thresholds(report: Report) -> None:
    made = monitor_plot(report)
    panels = [axes for axes in made.axes if axes.has_data()]
    variant = report.variants[7]
    points = [line for line in panels[7].lines if line.get_marker() in ("o", "^")]
    assert sum(len(line.get_xdata()) for line in points) == len(variant.monitor.labels)
    assert {(line.get_xdata()[0], line.get_ydata()[0]) for line in points} <= set(
        zip(variant.monitor.base_scores, variant.monitor.variant_scores, strict=True)
    )
    slope = variant.translation_attenuation.slope
    x, y = next(line.get_data() for line in panels[7].lines if line.get_linewidth() == 1.6)
    assert (y[1] - y[0]) / (x[1] - x[0]) == pytest.approx(slope)
    assert sum(line.get_color() == "#009e73" for line in panels[7].lines) == 2


def test_monitor_of_another_length_is_left_out(report: Report) -> None:
    report.variants[0].monitor.labels.pop()
    assert len([axes for axes in monitor_plot(report).axes if axes.has_data()]) == 7


def test_files_are_the_same_bytes_without_a_date(report: Report, tmp_path: Path) -> None:
    report.variants = report.variants[:3]
    first = save_plots(report, tmp_path / "a")
    second = save_plots(report, tmp_path / "b")
    assert [path.name for path in first] == [f"{plot.name}.png" for plot in PLOTS]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        with Image.open(one) as image:
            assert image.width == 1200
            assert not {"Software", "Date", "Creation Time"} & set(image.info)


def test_plots_of_an_earlier_report_are_removed_and_others_kept(report: Report, tmp_path: Path) -> None:
    report.variants, report.ranking, report.series = report.variants[:1], {}, []
    save_plots(report, tmp_path)
    (tmp_path / "mine.png").write_bytes(b"mine")
    for variant in report.variants:
        variant.monitor = None
    save_plots(report, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "axes.png",
        "bound.png",
        "direction.png",
        "flips.png",
        "mine.png",
        "structure.png",
    ]


def test_users_settings_neither_matter_nor_change(report: Report) -> None:
    plain = png(flips_plot(report))
    before = dict(mpl.rcParams)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.dpi": 30}):
        assert png(flips_plot(report)) == plain
    assert dict(mpl.rcParams) == before


def test_names_with_dollars_and_foreign_scripts(report: Report) -> None:
    report.variants = report.variants[:2]
    for index, variant in enumerate(report.variants):
        variant.spec = f"$x_{index}$ 模型"
    for plot in drawn(report):
        made = plot.draw(report, width=3.7)
        assert png(made).startswith(b"\x89PNG")
        markup = svg(made, name="p", alt='a "quoted" <alt>', css_class="plot")
        assert 'aria-label="a &quot;quoted&quot; &lt;alt&gt;"' in markup
    assert "$x_0$ 模型" in svg(flips_plot(report), name="p", alt="", css_class="plot")


def test_alt_texts_follow_the_figures(report: Report) -> None:
    alts = {plot.name: plot.alt for plot in drawn(report)}
    assert "the bound holds at 16 of 16 points" in alts["bound"]
    assert "Q4_0 on arc: 15 lost, 10 gained, 17 moved of 256" in alts["flips"]
    report.variants = report.variants * 2
    assert "; and 12 more." in next(plot.alt for plot in drawn(report) if plot.name == "flips")


def test_colours_are_told_apart_in_grey_and_by_css() -> None:
    assert len(set(CSS_VARIABLES.values())) == len(CSS_VARIABLES)
    with Image.open(io.BytesIO(png(Figure(figsize=(1, 1))))) as image:
        assert image.size == (150, 150)
