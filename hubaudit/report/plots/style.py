"""How every plot looks: colours that the colour-blind can tell apart, and files without a date.

Figures are made without pyplot, so no state is left behind. In SVG every colour is a CSS variable of the page
around it, so a plot follows the page into dark mode; in PNG the same colours stand on white.
"""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hubaudit.report.text import clean, clip

__all__ = [
    "BLUE",
    "CSS_VARIABLES",
    "GREEN",
    "GREY",
    "GRID",
    "INK",
    "MUTED",
    "ORANGE",
    "PAPER",
    "PINK",
    "SERIES",
    "SKY",
    "VERMILLION",
    "figure",
    "label",
    "panels",
    "png",
    "style",
    "svg",
    "tidy",
]

# Okabe and Ito, "Color Universal Design" (2008); yellow is left out, since it does not show on white.
ORANGE, SKY, GREEN = "#e69f00", "#56b4e9", "#009e73"
BLUE, VERMILLION, PINK = "#0072b2", "#d55e00", "#cc79a7"
INK, MUTED, GREY, GRID, PAPER = "#1f2328", "#59636e", "#c9d1d9", "#e4e8ec", "#fefefe"

CSS_VARIABLES = {
    ORANGE: "--orange",
    SKY: "--sky",
    GREEN: "--green",
    BLUE: "--blue",
    VERMILLION: "--vermillion",
    PINK: "--pink",
    INK: "--ink",
    MUTED: "--muted",
    GREY: "--grey",
    GRID: "--grid",
    PAPER: "--paper",
}
"""Colour to the CSS variable that takes its place in SVG."""

SERIES: tuple[tuple[str, bool], ...] = tuple(
    (colour, filled) for filled in (True, False) for colour in (BLUE, ORANGE, GREEN, VERMILLION, SKY, PINK, MUTED)
)
"""Colour and fill of the first, second, ... variant; then they repeat, and labels tell them apart."""

_RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "hubaudit",
}
# matplotlib's settings are one global table, so only one plot at a time is drawn or written.
_LOCK = threading.RLock()


@contextmanager
def style() -> Iterator[None]:
    """Draw with our settings, whatever the user's matplotlibrc says, and leave theirs as they were."""
    with _LOCK, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that lays itself out."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def panels(count: int, *, width: float, height: float, least_width: float = 2.4) -> tuple[Figure, list[Axes]]:
    """Small multiples with common scales.

    Args:
        count: Panels, at least one.
        width: Width of the figure in inches.
        height: Height of one panel in inches.
        least_width: Least width of one panel in inches; it sets how many stand in a row.
    """
    columns = max(1, min(count, int(width / least_width)))
    lines = -(-count // columns)
    made = figure(width, height * lines + 0.35)
    grid = made.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    axes = list(grid.flat)
    for spare in axes[count:]:
        spare.set_axis_off()
    for index in range(max(0, count - columns), count):  # the lowest panel of each column, also above a gap
        axes[index].tick_params(labelbottom=True)
    return made, axes[:count]


def tidy(axes: Axes, title: str, *, limit: int = 32) -> None:
    """A panel's title at its left edge, shortened to `limit` characters, and no tick marks."""
    axes.set_title(label(title, limit), loc="left", fontweight="bold")
    axes.tick_params(length=0)


def label(text: str, limit: int = 32) -> str:
    """Text for a plot: short, and without mathematics, which a dollar sign would start."""
    return clip(clean(text), limit).replace("$", r"\$")


def png(made: Figure, *, dpi: int = 150) -> bytes:
    """The figure as PNG; the same figure gives the same bytes."""
    return _save(made, "png", dpi=dpi, metadata={"Software": None})


def svg(made: Figure, *, name: str, alt: str, css_class: str) -> str:
    """The figure as an `<svg>` element to stand in a page.

    Args:
        made: The figure.
        name: Prefix of the element's ids, unique in the page.
        alt: What the plot shows, for those who do not see it.
        css_class: Class of the element.

    Returns:
        Markup in which every colour is a CSS variable and every font the page's own.
    """
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    text = _save(made, "svg", transparent=True, metadata=nothing).decode("utf-8")
    text = text[text.index("<svg") :]
    _, _, rest = text.partition(">")
    size = re.search(r'viewBox="([^"]+)"', text)
    box = size[1] if size else "0 0 100 100"
    rest = re.sub(r"<!--.*?-->\s*", "", rest, flags=re.DOTALL)
    rest = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', rest)
    rest = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", rest)
    rest = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', rest)
    rest = re.sub(r"(font: [^;\"]*?[\d.]+px) [^;\"]+", r"\1 var(--sans)", rest)
    for colour, variable in CSS_VARIABLES.items():
        rest = rest.replace(f": {colour}", f": var({variable})")
    head = f'<svg class="{css_class}" viewBox="{box}" role="img" aria-label="{_attribute(alt)}">'
    return head + rest.strip()


def _save(made: Figure, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with style(), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; that is no reason to fail an audit.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        made.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


def _attribute(text: str) -> str:
    pairs: Sequence[tuple[str, str]] = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"))
    for char, entity in pairs:
        text = text.replace(char, entity)
    return text
