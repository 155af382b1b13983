"""Pictures for notebooks (needs matplotlib): reliability, criterion grid, simplex map.

Each function draws on the Axes given, or on a new figure, and returns the Axes. Colours are
those of Okabe and Ito and of cividis, which people who confuse red and green can tell apart.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from focalibrate._array import Array, Floats, array_of, to_numpy
from focalibrate._check import column_names, labels_for
from focalibrate.calibrate import Calibrator, FitReport
from focalibrate.metrics import Cells, corp
from focalibrate.metrics.corp import ReliabilityCurve
from focalibrate.report.criterion import CriterionGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes


COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6e6e6e", "#000000")
BLUE, ORANGE, GREY = COLORS[0], COLORS[1], COLORS[6]


CRITERION_NAMES = {"nll": "NLL", "ece": "ECE", "adaptive_ece": "AdaECE", "focal": "focal loss"}
FEW_ROWS = 10
"""Blocks at the ends of a curve with fewer rows are dots."""
N_BARS = 20
"""Bars of the histogram above a curve."""
Z_95 = 1.959964
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
"""Corners of the three-class simplex."""
SIMPLEX_STEPS = 15
"""Arrows start at multiples of 1/15: none lies on an edge, and one at the centre."""


@dataclass(eq=False)
class ReliabilityDisplay:
    """A reliability diagram as an object, with the doors of scikit-learn's displays.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=500)
        >>> display = ReliabilityDisplay.from_predictions(rng.uniform(size=500) < p, p, name="a")
        >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
        ('probability', 'frequency')
    """

    curve: ReliabilityCurve
    counts: Cells
    """examples per bar of the histogram above the curve"""
    axis_names: tuple[str, str]
    name: str | None = None
    """of the model, for the legend"""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Array,
        *,
        klass: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the diagram of a fitted classifier with `predict_proba` and `classes_`.

        Args:
            estimator: the classifier.
            X: features of the examples to evaluate.
            y: their labels, as `estimator.classes_` names them.
            klass: see `reliability_diagram`.
            name: of the model, for the legend. Default: the class of `estimator`.
            ax: where to draw; a new figure when left out.
        """
        classes = [str(c) for c in estimator.classes_]
        labels = np.array([classes.index(str(label)) for label in to_numpy(array_of(y))])
        if isinstance(klass, str):
            klass = classes.index(klass)
        probs = to_numpy(estimator.predict_proba(X))
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(labels, probs, klass=klass, name=name, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: Array,
        y_prob: Array,
        *,
        pos_label: object = None,
        klass: int | str | None = None,
        name: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw the diagram of probabilities; labels come first, as in scikit-learn.

        Args:
            y_true: labels ``[N]``.
            y_prob: probabilities ``[N, K]``, or ``[N]`` of class 1.
            pos_label: the label that class 1 of two has in `y_true`, where that is not 1.
            klass: see `reliability_diagram`.
            name: of the model, for the legend.
            ax: where to draw; a new figure when left out.
        """
        if pos_label is not None:
            y_true = np.asarray(to_numpy(array_of(y_true)) == pos_label)
            if len(array_of(y_prob).shape) != 1 or not y_true.any():
                raise ValueError(
                    f"`pos_label` must be one of the labels, with probabilities [N] of it; got "
                    f"{pos_label!r}. Leave it out for probabilities of every class."
                )
        names = column_names(y_prob)
        if isinstance(klass, str):
            if names is None or klass not in names:
                raise ValueError(f"`klass` must be a column of the probabilities, got {klass!r}.")
            klass = list(names).index(klass)
        labels = labels_for(y_prob, y_true, None)
        probs = array_of(y_prob)
        n_classes = 2 if len(probs.shape) == 1 else probs.shape[-1]
        is_top = klass is None and n_classes > 2
        event = 1 if klass is None else klass
        display = cls(
            corp(probs, labels, event="top label" if is_top else event).curve,
            _table_of(probs, labels, None if is_top else event),
            ("confidence", "accuracy") if is_top else ("probability", "frequency"),
            name,
        )
        return display.plot(ax)

    def plot(self, ax: "Axes | None" = None) -> Self:
        """Draw on `ax`, or on a new figure; `ax_` and `figure_` are what was drawn on."""
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        _draw_curve(ax, self.curve, self.name)
        x, y = self.axis_names
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=x, ylabel=y, aspect="equal")
        ax.legend(loc="upper left", frameon=False, fontsize="small")
        _note(ax, f"N = {self.curve.weight.sum():,.0f}")
        _counts(ax, self.counts)
        return self


def reliability_diagram(
    probs: Array, labels: Array, ax: "Axes | None" = None, *, klass: int | str | None = None
) -> "Axes":
    """Draw how often events happen against their predicted probability, without bins (CORP).

    The curve is an isotonic regression of the outcomes on the probabilities, as on the page. On
    the diagonal the probabilities are calibrated; below it they are too high. The curve of a
    calibrated model would stay inside the grey band in 95 % of samples. The number of examples
    is drawn above.

    Args:
        probs: probabilities ``[N, K]``, or ``[N]`` of class 1; arrays or data frames.
        labels: class indices ``[N]``, or names of the columns of a data frame.
        ax: where to draw; a new figure when left out. The counts get an inset above it.
        klass: the class whose probability is drawn, by position or by column name. Default:
            class 1 of two classes, the predicted class of more.

    Returns:
        The Axes of the diagram.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet(np.ones(3), size=500)
        >>> reliability_diagram(probs, rng.integers(3, size=500)).get_xlabel()
        'confidence'
    """
    return ReliabilityDisplay.from_predictions(labels, probs, klass=klass, ax=ax).ax_


def _table_of(probs: Array, labels: Array, klass: int | None) -> Cells:
    """Return the bars above a curve: of the top label, or of one class."""
    if klass is None:
        return Cells.of_top_label(probs, labels, bins=N_BARS)
    p = to_numpy(probs)
    values = p[:, klass] if p.ndim > 1 else p if klass == 1 else 1.0 - p
    return Cells.of(values, to_numpy(labels) == klass, bins=N_BARS)


def _draw_curve(ax: "Axes", curve: ReliabilityCurve, name: str | None) -> None:
    ax.fill_between(
        curve.band_probability,
        curve.band_low,
        curve.band_high,
        color=GREY,
        alpha=0.25,
        linewidth=0,
        label="calibrated model, 95 % band",
    )
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    # Each block is two corners of half its weight. A line to the few rows at an end would look
    # like a large error, so they are dots.
    large = np.flatnonzero(2.0 * curve.weight >= FEW_ROWS)
    line = slice(large[0], large[-1] + 1) if len(large) else slice(None)
    lone = np.ones(len(curve.weight), dtype=bool)
    lone[line] = False
    p, y = curve.probability, curve.frequency
    ax.plot(p[line], y[line], color=BLUE, linewidth=1.8, label=name or "observed")
    ax.plot(p[lone], y[lone], "o", color=BLUE, markersize=3, fillstyle="none")


def binned_diagram(table: Cells, ax: "Axes | None" = None) -> "Axes":
    r"""Draw accuracy against confidence, bin by bin, with the number of examples above.

    Each bar is the accuracy in a bin; the point at the bin's mean confidence has the 95 % Wilson
    interval of that accuracy. On the diagonal the model is calibrated; below it,
    overconfident.

    Args:
        table: of top labels (`Cells.of`), or of one class
            (`Cells.of_confidence`); equal-mass bins by its `equal_mass`.
        ax: where to draw; a new figure when left out. The counts get an inset above it.

    Returns:
        The Axes of the diagram.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet(np.ones(3), size=500)
        >>> table = Cells.of_top_label(probs, rng.integers(3, size=500), bins=10)
        >>> binned_diagram(table).get_xlabel()
        'confidence'
    """
    if table.n == 0:
        raise ValueError("`table` must hold at least one example, got an empty one.")
    ax = _axes(ax)
    filled = table.weight > 0
    left, width = table.edges[:-1][filled], np.diff(table.edges)[filled]
    confidence, accuracy = table.confidence[filled], table.accuracy[filled]
    low, high = wilson_interval(accuracy, table.weight[filled])
    ax.bar(
        left,
        accuracy,
        width,
        align="edge",
        color=BLUE,
        alpha=0.35,
        edgecolor=BLUE,
        label="accuracy",
    )
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, label="calibrated")
    ax.errorbar(
        confidence,
        accuracy,
        yerr=np.clip([accuracy - low, high - accuracy], 0, None),
        fmt="o",
        color=ORANGE,
        markersize=4,
        linewidth=1,
        label="mean confidence, 95 % interval",
    )
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    ax.legend(loc="upper left", frameon=False, fontsize="small")
    _note(ax, f"ECE {100 * table.ece():.2f} %\nN = {table.n:,}")
    _counts(ax, table)
    return ax


def _note(ax: "Axes", text: str) -> None:
    box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none"}
    ax.text(0.97, 0.03, text, transform=ax.transAxes, ha="right", bbox=box)


def _counts(ax: "Axes", table: Cells) -> None:
    filled = table.weight > 0
    left, width, count = (
        table.edges[:-1][filled],
        np.diff(table.edges)[filled],
        table.weight[filled],
    )
    top = ax.inset_axes((0.0, 1.03, 1.0, 0.18))
    top.bar(left, count, width, align="edge", color=GREY, alpha=0.6)
    top.set(xlim=(0, 1), xticks=[], yticks=[count.max()], ylabel="count")
    top.spines[["top", "right"]].set_visible(False)


def wilson_interval(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    r"""Return the 95 % Wilson interval of a share of `n` examples.

    .. math:: \frac{p + z^2/2n \pm z\sqrt{p(1-p)/n + z^2/4n^2}}{1 + z^2/n}, \qquad z = 1.96
    """
    z = Z_95**2 / n
    middle = (share + z / 2) / (1 + z)
    half = np.sqrt(z * share * (1 - share) + z**2 / 4) / (1 + z)
    return middle - half, middle + half


def temperature_grid(report: FitReport | CriterionGrid, ax: "Axes | None" = None) -> "Axes":
    r"""Draw a fit's criterion at every :math:`\gamma` and T tried, with the best of each row.

    The rows are the exponents in order, evenly spaced whatever their values. The line joins the
    best temperature of each row, the star is the best of all. A fit over temperatures alone is
    drawn as a curve.

    Args:
        report: of a calibrator that ``fit_focal_temperature(..., whole_grid=True)`` or
            `fit_temperature` found on a grid; or a `focalibrate.report.criterion_grid`.
        ax: where to draw; a new figure when left out.

    Returns:
        The Axes.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from focalibrate.calibrate import fit_focal_temperature
        >>> rng = np.random.default_rng(0)
        >>> truth = 2 * rng.normal(size=(500, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit_focal_temperature(2 * truth, labels, criterion="ece", whole_grid=True)
        >>> temperature_grid(found.report).get_xlabel()
        'temperature T'
    """
    temperatures, gammas, values = _grid_of(report)
    name = CRITERION_NAMES.get(report.criterion, report.criterion)
    ax = _axes(ax)
    ax.set_xlabel("temperature T")
    if gammas is None:
        best = int(np.nanargmin(values[0]))
        ax.plot(temperatures, values[0], color=BLUE)
        ax.plot(temperatures[best], values[0, best], marker="*", markersize=12, color=ORANGE)
        ax.set_ylabel(name)
        return ax
    from matplotlib.colors import LogNorm

    positive = values[values > 0]  # nan is not; a perfect 0 takes the darkest colour
    norm = LogNorm(positive.min(), positive.max(), clip=True) if positive.size else None
    rows = np.arange(len(gammas))
    mesh = ax.pcolormesh(
        temperatures, rows, values, shading="nearest", cmap="cividis", norm=norm, rasterized=True
    )
    tried = rows[~np.isnan(values).all(axis=1)]
    ridge = np.nanargmin(values[tried], axis=1)
    ax.plot(temperatures[ridge], tried, "o-", color="white", markersize=3, linewidth=1)
    best_row = int(np.argmin(values[tried, ridge]))
    star = (temperatures[ridge[best_row]], tried[best_row])
    ax.plot(*star, marker="*", markersize=14, color=ORANGE, markeredgecolor="white")
    every = -(-len(rows) // 12)
    ax.set_yticks(rows[::every], [f"{g:g}" for g in gammas[::every]])
    ax.set_ylabel("exponent γ")
    ax.figure.colorbar(mesh, ax=ax, label=name)
    return ax


def _grid_of(report: FitReport | CriterionGrid) -> tuple[Floats, Floats | None, Floats]:
    if isinstance(report, CriterionGrid):
        return np.array(report.temperatures), np.array(report.gammas), report.values
    if report.grid is None or report.temperatures is None:
        raise ValueError(
            f"`report` must hold a grid, but that of {report.method!r} by {report.criterion!r} "
            "has none. Fit with a binned criterion, or with `temperatures`."
        )
    gammas = None if report.gammas is None else np.array(report.gammas)
    return np.array(report.temperatures), gammas, report.grid


def simplex_map(calibrator: Calibrator, ax: "Axes | None" = None) -> "Axes":
    """Draw where a calibrator moves the probabilities of three classes, as arrows.

    Args:
        calibrator: any that takes three classes.
        ax: where to draw; a new figure when left out.

    Returns:
        The Axes, with the classes at the corners of an equilateral triangle.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from focalibrate.calibrate import PosteriorRecovery
        >>> simplex_map(PosteriorRecovery(gamma=2.0)).get_title()
        'posterior recovery: gamma=2'
    """
    raw = simplex_points(SIMPLEX_STEPS)
    calibrated = to_numpy(calibrator.probs(np.log(raw)))
    rise = calibrated.max(axis=1) - raw.max(axis=1)
    start, move = raw @ CORNERS, (calibrated - raw) @ CORNERS
    ax = _axes(ax)
    ax.plot(*CORNERS[[0, 1, 2, 0]].T, color="black", linewidth=1)
    for middle in (CORNERS + np.roll(CORNERS, 1, axis=0)) / 2:  # where two classes tie
        ax.plot(*np.stack([CORNERS.mean(axis=0), middle]).T, color=GREY, linewidth=0.7, alpha=0.6)
    for label, color, chosen in (
        ("more confident", BLUE, rise > 1e-9),
        ("less confident", ORANGE, rise < -1e-9),
    ):
        if chosen.any():
            _arrows(ax, start[chosen], move[chosen], color=color, label=label)
    ax.plot(*start[np.abs(rise) <= 1e-9].T, ".", color=GREY, markersize=3)
    for k, (x, y) in enumerate(CORNERS):
        below = k < 2
        ax.annotate(
            f"class {k}",
            (x, y),
            xytext=(0, -4 if below else 4),
            textcoords="offset points",
            ha="center",
            va="top" if below else "bottom",
        )
    ax.set(aspect="equal", xlim=(-0.08, 1.08), ylim=(-0.1, 0.98), title=calibrator.describe())
    ax.legend(loc="upper left", frameon=False, fontsize="small")
    ax.set_axis_off()
    return ax


def simplex_points(steps: int) -> Floats:
    """Return the points inside the three-class simplex whose entries are multiples of 1/steps."""
    i, j = np.meshgrid(np.arange(1, steps), np.arange(1, steps), indexing="ij")
    inside = i + j < steps
    counts = np.stack([i[inside], j[inside], steps - i[inside] - j[inside]], axis=1)
    points: Floats = counts / steps
    return points


def _arrows(ax: "Axes", start: Floats, move: Floats, *, color: str, label: str) -> None:
    ax.quiver(
        *start.T,
        *move.T,
        angles="xy",
        scale_units="xy",
        scale=1,
        width=0.0035,
        headwidth=5,
        headlength=5,
        color=color,
        label=label,
    )


def _axes(ax: Any) -> "Axes":
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Pictures need matplotlib. Install it: `pip install matplotlib`."
        ) from error
    return plt.subplots(layout="constrained")[1] if ax is None else ax
