"""Charts of experiments: descriptions that need no library, drawn by matplotlib."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator
from focalibrate.report.plot import COLORS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from focalibrate_papers.engine import Interval

MARKERS = "os^Dv<>P"
LETTERS = 40
"""Most names written horizontally below a panel; more are written vertically."""
Style = Literal["line", "points", "line and points", "dashed", "bars"]
_STYLE = {
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}
_Numbers: TypeAlias = Sequence[float] | NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Series:
    """Numbers to draw; with `low` and `high` a band about a line, error bars elsewhere."""

    x: _Numbers | Sequence[str]
    y: _Numbers
    label: str = ""
    style: Style = "line"
    low: _Numbers | None = None
    high: _Numbers | None = None
    color: int | None = None
    """place in `COLORS`; the next unused one when None"""

    @classmethod
    def of_intervals(
        cls, x: _Numbers | Sequence[str], found: "Sequence[Interval]", label: str = "", **look: Any
    ) -> "Series":
        """Return estimates with their intervals, as points unless `look` says otherwise."""
        y, low, high = ([getattr(i, end) for i in found] for end in ("estimate", "low", "high"))
        return cls(x, y, label, **{"style": "points", "low": low, "high": high} | look)

    @classmethod
    def over_seeds(
        cls, x: _Numbers | Sequence[str], table: NDArray[np.float64], label: str = "", **look: Any
    ) -> "Series":
        """Return the means of a table ``[x, seeds]``, from the smallest to the largest value."""
        ends = {"low": table.min(axis=1), "high": table.max(axis=1)}
        return cls(x, table.mean(axis=1), label, **{"style": "line and points"} | ends | look)


@dataclass(frozen=True, eq=False)
class Panel:
    """A pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    is_square: bool = False


@dataclass(frozen=True, eq=False)
class ArrowPanel:
    """Where a calibrator moves the probabilities of three classes."""

    title: str
    calibrator: Calibrator


@dataclass(frozen=True, eq=False)
class SimplexPanel:
    """A number over the probabilities of three classes, in colour with contour lines."""

    title: str
    probs: NDArray[np.floating]
    """``[N, 3]``"""
    values: NDArray[np.floating]
    """``[N]``"""
    label: str
    levels: int | Sequence[float] = 12
    """how many contour lines, or at which values"""


@dataclass(frozen=True, eq=False)
class Chart:
    """One figure of a page."""

    name: str
    """of its file"""
    caption: str
    panels: Sequence[Panel | ArrowPanel | SimplexPanel]
    columns: int = 3
    size: tuple[float, float] = (3.6, 3.0)
    """width and height of a panel, in inches"""


def chart_picture(chart: Chart) -> bytes:
    """Return the chart as a WebP picture, the same bytes each time."""
    out = io.BytesIO()
    draw_chart(chart).savefig(out, format="webp", dpi=100, pil_kwargs={"quality": 60, "method": 6})
    return out.getvalue()


def draw_chart(chart: Chart) -> "Figure":
    """Return the chart as a figure of matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(chart.columns, len(chart.panels))
    n_rows = -(-len(chart.panels) // columns)
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        width, height = chart.size
        layout = ConstrainedLayoutEngine(hspace=0.07)  # or a title touches the label above it
        figure = Figure(figsize=(width * columns, height * n_rows), layout=layout)
        for i, panel in enumerate(chart.panels):
            _draw(figure.add_subplot(n_rows, columns, i + 1), panel)
    return figure


def _draw(ax: "Axes", panel: Panel | ArrowPanel | SimplexPanel) -> None:
    if isinstance(panel, Panel):
        _draw_panel(ax, panel)
        return
    from focalibrate.report.plot import CORNERS, simplex_map

    if isinstance(panel, ArrowPanel):
        simplex_map(panel.calibrator, ax)
    else:
        x, y = (np.asarray(panel.probs) @ CORNERS).T
        drawn = ax.tripcolor(
            x, y, panel.values, shading="gouraud", cmap="cividis", rasterized=True
        )
        ax.tricontour(x, y, panel.values, levels=panel.levels, colors="white", linewidths=0.5)
        ax.figure.colorbar(drawn, ax=ax, label=panel.label, shrink=0.8)
        ax.set_aspect("equal")
        ax.set_axis_off()
    ax.set_title(panel.title)


def _draw_panel(ax: "Axes", panel: Panel) -> None:
    used = 0
    for series in panel.series:
        color = COLORS[(used if series.color is None else series.color) % len(COLORS)]
        marker = MARKERS[(used if series.color is None else series.color) % len(MARKERS)]
        used += series.color is None
        _draw_series(ax, series, color, marker)
    ax.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.log_x:
        ax.set_xscale("log")
    if panel.log_y:
        ax.set_yscale("log")
    names = {x for series in panel.series for x in series.x if isinstance(x, str)}
    if sum(len(name) + 2 for name in names) > LETTERS:
        ax.tick_params(axis="x", rotation=90, labelsize=6.5)
    if panel.is_square:
        ax.set_aspect("equal")
    if any(series.label for series in panel.series):
        ax.legend(fontsize="small")


def _draw_series(ax: "Axes", series: Series, color: str, marker: str) -> None:
    y = np.asarray(series.y, dtype=np.float64)
    kind: dict[str, Any] = {"color": color, "label": series.label or None}
    spread = None
    if series.low is not None and series.high is not None:
        low, high = np.asarray(series.low, np.float64), np.asarray(series.high, np.float64)
        spread = np.stack([np.maximum(y - low, 0.0), np.maximum(high - y, 0.0)])
    if series.style == "bars":
        ax.bar(series.x, y, yerr=spread, capsize=2, **kind)
        return
    if series.style == "points":
        ax.errorbar(series.x, y, yerr=spread, fmt=marker, markersize=4, capsize=2, **kind)
        return
    form = {"line": "-", "dashed": "--", "line and points": f"{marker}-"}[series.style]
    ax.plot(series.x, y, form, markersize=4, linewidth=1.3, **kind)
    if series.low is not None and series.high is not None:
        ax.fill_between(series.x, series.low, series.high, color=color, alpha=0.2)
