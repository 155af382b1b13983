"""Is a model miscalibrated, by how much, or is it noise?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_count, check_sample_weight
from focalibrate.metrics._cells import BINS, Cells, EventBins, top_cells, two_class_cells
from focalibrate.metrics._intervals import gap_interval, rms_interval
from focalibrate.metrics._noise import binned_floors, classwise_floor, smooth_floor
from focalibrate.metrics._null import draw_residuals, finest, finest_variance, scale_statistic
from focalibrate.metrics._power import detectable_rms
from focalibrate.metrics._random import generator
from focalibrate.metrics._rows import read, top_label
from focalibrate.metrics.interval import ConfidenceInterval, NoiseFloor

ALPHA = 0.05
TOO_COARSE = 0.1
"""If only errors larger than this could be found, there are too few rows to judge."""

CalibrationVerdict = Literal[
    "miscalibrated", "no evidence of miscalibration", "too few rows to judge"
]


@dataclass(frozen=True)
class PositiveAssessment:
    """Calibration of the probability of class 1, for two classes."""

    gap: ConfidenceInterval
    """mean P(class 1) minus the frequency of class 1"""
    rms: ConfidenceInterval
    p_value: float


@dataclass(frozen=True)
class Assessment:
    """What the data show about calibration, and what they cannot show."""

    n: int
    """rows"""
    effective_n: float
    """effective number of rows"""
    n_classes: int
    gap: ConfidenceInterval
    """mean confidence minus accuracy; positive is overconfident"""
    rms: ConfidenceInterval
    """root-mean-square calibration error of the top label, without the bias of noise"""
    p_value: float
    """chance that a calibrated model looks at least this bad"""
    noise_floor: Mapping[str, NoiseFloor]
    """median and 95 % quantile of each calibration error if the model were calibrated"""
    detectable: float
    """root-mean-square error that the test would find with probability 0.8"""
    positive: PositiveAssessment | None = None
    """for two classes: the probability of class 1, which `p_value` covers too"""
    has_certain_error: bool = False
    """whether a prediction made with a confidence of exactly 1 is wrong: a calibrated model
    has none, so that the p-value is as small as it can be"""

    @property
    def direction(self) -> Literal["overconfident", "underconfident"] | None:
        """Direction of the mean error of the confidence; None if its interval includes 0."""
        if not self.gap.excludes_zero:
            return None
        return "overconfident" if self.gap.estimate > 0 else "underconfident"

    @property
    def verdict(self) -> CalibrationVerdict:
        """The finding in a few words."""
        if self.p_value < ALPHA:
            return "miscalibrated"
        if not self.detectable <= TOO_COARSE:
            return "too few rows to judge"
        return "no evidence of miscalibration"

    @property
    def _hides_more(self) -> bool:
        """Whether errors of both signs cancel in the gap."""
        return self.rms.low > 1.5 * abs(self.gap.estimate)

    @property
    def summary(self) -> str:
        """The finding as a sentence."""
        rows = f"{self.n:,} row{'' if self.n == 1 else 's'}"
        if self.verdict == "miscalibrated":
            found = f"miscalibrated ({p_text(self.p_value)})"
            typical = (
                f"typically off by {_points(self.rms.estimate)} (95 % interval "
                f"{100 * self.rms.low:.1f} to {100 * self.rms.high:.1f})"
            )
            certain = "a prediction made with 100 % confidence is wrong"
            if self.has_certain_error and self.direction is None:
                return f"{found}: {certain}"
            if self.direction is None:
                found += ", too high for some predictions and too low for others"
                # An estimate of 0 beside a small p-value would read as a contradiction.
                return found if self.rms.estimate == 0.0 else f"{found}, {typical}"
            found += f", {self.direction} by {_points(abs(self.gap.estimate))}"
            found += f" on average, {typical}" if self._hides_more else ""
            return f"{found}; {certain}" if self.has_certain_error else found
        if self.verdict == "too few rows to judge":
            if not self.detectable < 0.5:
                verb = "reveals" if self.n == 1 else "reveal"
                return f"too few rows to judge: {rows} {verb} hardly any error"
            return (
                f"too few rows to judge: {rows} would reveal only an error of about "
                f"{_points(self.detectable)} or more"
            )
        return (
            f"no evidence of miscalibration: {rows} would reveal an error of about "
            f"{_points(self.detectable)} or more"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON; an undefined number is None."""
        record = asdict(self)
        record["noise_floor"] = {
            name: {"median": floor.median, "q95": floor.q95}
            for name, floor in self.noise_floor.items()
        }
        record["detectable"] = None if math.isnan(self.detectable) else self.detectable
        record |= {"direction": self.direction, "verdict": self.verdict, "summary": self.summary}
        return record


def assess(
    probs: Array,
    labels: Array,
    *,
    sample_weight: Array | None = None,
    seed: int | np.random.Generator = 0,
    n_draws: int = 999,
) -> Assessment:
    r"""Return whether probabilities are miscalibrated, by how much, and what noise alone does.

    With confidence :math:`c_i`, correctness :math:`y_i` and residual :math:`r_i = c_i - y_i`:

    - **gap**: the mean of :math:`r` with a normal interval.
    - **rms**: the root-mean-square calibration error over 15 bins of equal mass. The noise
      of the bins is subtracted, and the interval comes from the noncentral chi-square law,
      which, unlike the bootstrap, is also valid at 0.
    - **p_value**: of a test on :math:`B = 1, 2, 4, \dots, 32` bins of equal mass at once,

      .. math:: \max_B \frac{\sum_b S_b^2 / V_b - B}{\sqrt{2B}}, \qquad
                S_b = \sum_{i \in b} r_i,\quad V_b = \sum_{i \in b} c_i (1 - c_i)

      compared with outcomes drawn from the predictions themselves. One bin finds a
      constant offset, many find a local one. For two classes the probability of class 1 is
      looked at as well as the confidence, in one test.
    - **noise_floor**: ECE, AdaECE, MCE, classwise ECE and smooth ECE of a calibrated model
      with these predictions. A measured ECE below its 95 % quantile can be noise.
    - **detectable**: the root-mean-square error that the test finds with probability 0.8.

    Args:
        probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
        labels: class indices ``[N]``.
        sample_weight: weights ``[N]``. Whole numbers count repeated rows; other weights
            scale rows, and uncertainty follows the effective sample size
            :math:`(\sum w)^2 / \sum w^2`.
        seed: random seed of the draws, or a `numpy.random.Generator`.
        n_draws: outcomes drawn from the predictions; the smallest p-value is
            ``1 / (n_draws + 1)``.

    Returns:
        `Assessment`.

    Numerics:
        Float64. Draws are made on about 512 cells of neighbouring rows, not on rows. Rows
        of equal confidence are treated alike, so the order of the rows does not matter.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=2000)
        >>> y = (rng.uniform(size=2000) < p).astype(int)
        >>> result = assess(p, y)
        >>> result.verdict, round(result.detectable, 2)
        ('no evidence of miscalibration', 0.03)

    References:
        Dimitriadis, Gneiting, Jordan (2021), *Stable reliability diagrams for probabilistic
        classifiers*, on drawing outcomes from the predictions; Kumar, Liang, Ma (2019),
        *Verified Uncertainty Calibration*, on squared errors without bias.
    """
    check_count(n_draws, name="n_draws", minimum=19)
    rows, y = read(probs, labels, binary=np.ndim(probs) == 1)
    weights = None
    if sample_weight is not None:
        weights = check_sample_weight(sample_weight, n_rows=len(rows))
        counts = weights > 0
        if not counts.all():
            rows, y, weights = rows[counts], y[counts], weights[counts]
    cells, views = cells_of(rows, y, weights)
    return assess_cells(
        cells,
        views,
        n_classes=rows.shape[1],
        classwise=classwise_floor(rows, weights),
        rng=generator(seed),
        n_draws=n_draws,
    )


def assess_cells(
    cells: Cells,
    views: Sequence[EventBins],
    *,
    n_classes: int,
    classwise: NoiseFloor | None,
    rng: np.random.Generator,
    n_draws: int,
) -> Assessment:
    """Return what `assess` does from cells and the closed-form floor of classwise ECE."""
    drawn = draw_residuals(cells, n_draws, rng)
    test = multi_scale_test(cells, views, drawn)
    top = views[0]
    floors = binned_floors(cells, top, drawn)
    if classwise is not None:
        floors["classwise_ece"] = classwise
    floors["smooth_ece"] = smooth_floor(cells, top, drawn)
    seen = seen_by(cells, top)
    return Assessment(
        n=round(float(cells.rows.sum())),
        effective_n=cells.effective_rows,
        n_classes=n_classes,
        gap=gap_interval(seen),
        rms=rms_interval(seen.binned(top.bin, BINS)),
        p_value=test.p_value,
        noise_floor=floors,
        detectable=detectable_rms(cells, views, test.drawn, test.critical),
        positive=None if len(views) == 1 else _positive(cells, views[1], test.view_p_values[1]),
        has_certain_error=bool(((cells.variance == 0.0) & (np.abs(cells.residual) > 1e-9)).any()),
    )


@dataclass(frozen=True, eq=False)
class ScaleTest:
    """The multi-scale test: its p-value, and what the power statement needs."""

    p_value: float
    view_p_values: Sequence[float]
    """of each view by itself"""
    critical: float
    drawn: Sequence[Floats]
    """for each view the drawn residual sums in the finest bins, ``[SCALES, D]``"""


def cells_of(
    rows: NDArray[Any], labels: NDArray[np.intp], weights: Floats | None
) -> tuple[Cells, list[EventBins]]:
    """Return the cells of probabilities ``[N, K]``, and the views that are tested."""
    if rows.shape[1] == 2:
        positive = rows[:, 1].astype(np.float64)
        cells, top, view = two_class_cells(positive, labels.astype(np.float64), weights)
        return cells, [top, view]
    confidence, correct = top_label(rows, labels)
    cells, top = top_cells(confidence, correct.astype(np.float64), weights)
    return cells, [top]


def multi_scale_test(cells: Cells, views: Sequence[EventBins], drawn: Floats) -> ScaleTest:
    """Return the test of `cells` against draws ``[M, D]`` of a calibrated model."""
    sums = [finest(view, drawn) for view in views]
    variances = [finest_variance(view, cells) for view in views]
    null = [scale_statistic(s, v) for s, v in zip(sums, variances, strict=True)]
    seen = [
        float(scale_statistic(finest(view, cells.residual)[:, None], v)[0])
        for view, v in zip(views, variances, strict=True)
    ]
    joint = np.max(null, axis=0)
    return ScaleTest(
        p_value=exceedance(joint, max(seen)),
        view_p_values=[exceedance(x, t) for x, t in zip(null, seen, strict=True)],
        critical=float(np.quantile(joint, 1.0 - ALPHA)),
        drawn=sums,
    )


def exceedance(null: Floats, seen: float) -> float:
    """Return ``(1 + #{null >= seen}) / (1 + draws)``; equal up to rounding counts as equal."""
    if math.isinf(seen):
        return 1.0 / (1 + len(null))
    reached = np.count_nonzero(null >= seen - 1e-9 * max(1.0, abs(seen)))
    return float((1 + reached) / (1 + len(null)))


def p_text(p: float) -> str:
    """Return a p-value as text: "p ≤ .001", "p = .03"."""
    if p <= 0.001:
        return "p ≤ .001"
    digits = 3 if p < 0.1 else 2
    return "p = " + f"{p:.{digits}f}".lstrip("0")


def _positive(cells: Cells, view: EventBins, p_value: float) -> PositiveAssessment:
    return PositiveAssessment(
        gap_interval(cells), rms_interval(cells.binned(view.bin, BINS)), p_value
    )


def seen_by(cells: Cells, view: EventBins) -> Cells:
    """Return the cells with the outcomes of `view`, so that residuals add up."""
    is_same = view.sign > 0
    return Cells(
        cells.rows,
        cells.weight,
        cells.spread,
        np.where(is_same, cells.probability, cells.weight - cells.probability),
        np.where(is_same, cells.outcome, cells.weight - cells.outcome),
        cells.square,
        cells.variance,
    )


def _points(value: float) -> str:
    return f"{100 * value:.2f} points" if value < 0.00995 else f"{100 * value:.1f} points"
