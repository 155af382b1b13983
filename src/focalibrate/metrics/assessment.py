"""Is a model miscalibrated, by how much, or is it noise?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from focalibrate._array import Array
from focalibrate._check import check_count
from focalibrate.metrics.binning import FineIndex, divided, equal_width_edges
from focalibrate.metrics.cells import class_cells
from focalibrate.metrics.interval import Interval, NoiseFloor, record_of
from focalibrate.metrics.noise_floor import classwise_floor, noise_floors
from focalibrate.metrics.null import (
    DrawnTest,
    EventTest,
    draw_residuals,
    generator,
    indicator,
    scale_test,
)
from focalibrate.metrics.residuals import (
    BINS,
    SCALES,
    Residuals,
    calibration_line,
    event_cells,
    gap_interval,
    rms_interval,
)
from focalibrate.metrics.rows import EventKind, read_event
from focalibrate.metrics.words import ALPHA, Direction, details, finding, headline, side_of

TOO_COARSE = 0.1
"""If only errors larger than this could be found, there are too few rows to judge."""

CalibrationVerdict = Literal[
    "miscalibrated", "no evidence of miscalibration", "too few rows to judge"
]
TestName = Literal["bins", "line", "classes"]
TestedClass = tuple[int | None, Residuals]
"""number of a class, and its rows in order of its probability"""


@dataclass(frozen=True)
class ClassFinding:
    """The class whose probabilities are off most, of more than two."""

    index: int | None
    """None: the classes beyond the 20 most frequent, taken together"""
    name: str
    mean_probability: float
    observed_rate: float
    gap: Interval
    """mean probability minus observed rate"""
    p_value: float
    """of this class by itself, as if no other had been tested"""


@dataclass(frozen=True, kw_only=True)
class EventFinding:
    """What is found about the probabilities of an event, for all rows and for a group of them."""

    n: int
    """rows"""
    event: EventKind
    """what the probabilities are of: the ``"top label"``, the ``"positive class"``, or being
    ``"correct"``"""
    mean_probability: float
    """mean probability of the event; of the top label: mean confidence"""
    observed_rate: float
    """how often it happened; of the top label: accuracy"""
    gap: Interval
    """mean probability minus observed rate"""
    rms: Interval
    """root-mean-square calibration error, without the bias of noise"""
    p_value: float
    """chance that a calibrated model looks at least this bad in all tests together; nan where
    nothing is tested"""
    detectable: float
    """root-mean-square error of the event that the test would find with probability 0.8"""
    n_draws: int = 1999
    """outcomes drawn for the tests: no p-value is below ``1 / (n_draws + 1)``"""


def verdict_of(p_value: float, detectable: float) -> CalibrationVerdict:
    """Return the finding in a few words."""
    if p_value < ALPHA:
        return "miscalibrated"
    if not detectable <= TOO_COARSE:
        return "too few rows to judge"
    return "no evidence of miscalibration"


@dataclass(frozen=True, kw_only=True)
class Assessment(EventFinding):
    """What the data show about the calibration of one event, and what they cannot show.

    The event is that class 1 is the label (two classes), that the predicted class is (more
    classes), or that an answer given with a confidence is right.
    """

    effective_n: float
    """effective number of rows"""
    n_classes: int
    class_name: str | None
    """name of the positive class, where it is known"""
    p_values: Mapping[TestName, float]
    """of each test by itself: ``"bins"``, the event in 1 to 32 bins; ``"line"``, slope and
    intercept (not for the top label); ``"classes"``, the probabilities of all classes"""
    noise_floor: Mapping[str, NoiseFloor]
    """median and 95 % quantile of each calibration error if the model were calibrated"""
    slope: Interval | None = None
    """of the calibration line in log-odds; below 1: probabilities are too extreme. None where
    there is no finite line"""
    intercept: Interval | None = None
    """of the same line"""
    intercept_at_slope_1: Interval | None = None
    """with the slope fixed at 1 (calibration in the large); below 0: too high"""
    worst_class: ClassFinding | None = None
    """for more than two classes: the one whose probabilities are off most"""
    has_certain_error: bool = False
    """whether something called certain did not happen, or something called impossible did: a
    calibrated model has no such row, so that the p-value is as small as it can be"""
    n_clusters: int | None = None
    """clusters of dependent rows; with fewer than 50 nothing is tested and p-values are nan"""
    correlation: float | None = None
    """of the rows of a cluster"""

    @property
    def ratio(self) -> float | None:
        """Mean probability over observed rate; None if the event never happened."""
        return self.mean_probability / self.observed_rate if self.observed_rate > 0 else None

    @property
    def direction(self) -> Direction | None:
        """Direction of the mean error; None if its interval includes 0.

        A confidence is ``"overconfident"`` or ``"underconfident"``; the probability of a class is
        ``"too high"`` or ``"too low"``.
        """
        if not self.gap.excludes_zero:
            return None
        return side_of(self.gap, "top label" if self.event == "correct" else self.event)

    @property
    def verdict(self) -> CalibrationVerdict:
        """The finding in a few words."""
        return verdict_of(self.p_value, self.detectable)

    @property
    def event_name(self) -> str:
        """The positive class as it is called in sentences."""
        return "class 1" if self.class_name is None else self.class_name

    @property
    def tested(self) -> tuple[str, ...]:
        """What was tested, in words."""
        own = {
            "top label": "the confidence of the predicted class",
            "positive class": f"the probabilities of {self.event_name}",
            "correct": "the confidence",
        }[self.event]
        return (own, "the probabilities of all classes") if "classes" in self.p_values else (own,)

    @property
    def headline(self) -> str:
        """The finding without its numbers, as the beginning of a sentence."""
        return headline(self)

    @property
    def details(self) -> str:
        """The numbers behind the headline, to be read after it."""
        return details(self)

    @property
    def summary(self) -> str:
        """The finding as one or two sentences."""
        return finding(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON; an undefined number is None."""
        return record_of(self) | {
            "p_values": {n: None if math.isnan(p) else p for n, p in self.p_values.items()},
            "noise_floor": {name: floor._asdict() for name, floor in self.noise_floor.items()},
            "ratio": self.ratio,
            "direction": self.direction,
            "verdict": self.verdict,
            "tested": list(self.tested),
            "headline": self.headline,
            "details": self.details,
            "summary": self.summary,
        }


def assess(
    probs: Array | None = None,
    labels: Array | None = None,
    *,
    confidence: Array | None = None,
    correct: Array | None = None,
    event: int | Literal["top label"] | None = None,
    class_names: Sequence[str] | None = None,
    sample_weight: Array | None = None,
    copies: bool = False,
    cluster: Array | None = None,
    seed: int | np.random.Generator = 0,
    n_draws: int = 1999,
) -> Assessment:
    r"""Return whether probabilities are miscalibrated, by how much, and what noise alone does.

    For two classes the event is class 1, whose probability is never folded at one half; for more
    classes, that the predicted class is right; or that an answer with a `confidence` is
    `correct`. With its probability :math:`c_i`, outcome :math:`y_i` and residual
    :math:`r_i = c_i - y_i`:

    - **gap**: the mean of :math:`r` with a normal interval.
    - **rms**: the root-mean-square calibration error over 15 bins of equal mass, or
      bins of two rows where there are fewer than 30. The noise
      of the bins is subtracted, and the interval comes from the noncentral chi-square law,
      which, unlike the bootstrap, is also valid at 0.
    - **slope, intercept**: of the logistic regression of :math:`y` on
      :math:`\operatorname{logit} c`, 1 and 0 if calibrated, with robust intervals.
    - **p_value**: several tests as one, against outcomes drawn from the predictions themselves.
      The event in :math:`B = 1, 2, 4, \dots, 32` bins of equal mass at once,

      .. math:: \max_B \frac{\sum_b S_b^2 / V_b - m_B}{s_B}, \qquad
                S_b = \sum_{i \in b} r_i,\quad V_b = \sum_{i \in b} c_i (1 - c_i)

      (:math:`m_B, s_B`: mean and standard deviation of the sum over the draws); for a class or
      a confidence, also the score test of slope and intercept; for more than two classes, also
      the largest of the same statistic of the probabilities of each class (the 20 most
      frequent, the others together). The smallest of their p-values is ranked among those of
      the draws, so that calibrated models are rejected in 5 % of cases.
    - **noise_floor**: ECE, AdaECE, MCE, classwise ECE and smooth ECE of a calibrated model
      with these predictions. A measured ECE below its 95 % quantile can be noise.
    - **detectable**: the root-mean-square error that the test finds with probability 0.8.

    Args:
        probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
        labels: class indices ``[N]``.
        confidence: instead of `probs`: the probability that an answer is right, ``[N]``.
        correct: instead of `labels`: whether it is, ``[N]``; 0, 1, or between (a tie is 0.5).
        event: ``"top label"``, or the class whose probability is assessed. Default: class 1 of
            two classes, the top label of more.
        class_names: names of the classes, for the sentences. Default: the columns of a data
            frame.
        sample_weight: weights ``[N]``. A weight says how much a row counts; uncertainty follows
            the effective sample size :math:`(\sum w)^2 / \sum w^2`.
        copies: whether weights are numbers of identical, independent rows instead.
        cluster: names of the clusters ``[N]``: rows of one (tries at a question, boxes of an
            image, visits of a patient) are dependent. Outcomes are then drawn by a Gaussian copula
            whose correlation is estimated, row by row, and errors are cluster-robust.
        seed: random seed of the draws, or a `numpy.random.Generator`.
        n_draws: outcomes drawn from the predictions; the smallest p-value is
            ``1 / (n_draws + 1)``.

    Returns:
        `Assessment`.

    Numerics:
        Float64. Draws are made on about 512 cells of neighbouring rows, not on rows. Rows
        of equal probability are treated alike, so the order of the rows does not matter. The
        classes are drawn independently of each other, which makes their test slightly cautious.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=2000)
        >>> y = (rng.uniform(size=2000) < p).astype(int)
        >>> result = assess(p, y)
        >>> result.verdict, round(result.detectable, 2)
        ('no evidence of miscalibration', 0.03)
        >>> assess(np.sqrt(p), y, class_names=["ok", "fraud"]).headline
        'Probabilities of fraud are too high'

    References:
        Dimitriadis, Gneiting, Jordan (2021), *Stable reliability diagrams for probabilistic
        classifiers*, on drawing outcomes from the predictions; Kumar, Liang, Ma (2019),
        *Verified Uncertainty Calibration*, on squared errors without bias; Cox (1958), *Two
        further applications of a model for binary regression*; Westfall & Young (1993),
        *Resampling-based multiple testing*, on the smallest p-value.
    """
    check_count(n_draws, name="n_draws", minimum=19)
    rows = read_event(
        probs,
        labels,
        confidence=confidence,
        correct=correct,
        event=event,
        class_names=class_names,
        sample_weight=sample_weight,
        copies=copies,
        cluster=cluster,
    )
    classwise = None
    if rows.probs is not None:
        cell_of = FineIndex(equal_width_edges(BINS))
        assert rows.labels is not None  # noqa: S101  (they come with the probabilities)
        found = class_cells(rows.probs, rows.labels, cell_of, rows.weights, copies=rows.copies)
        classwise = classwise_floor(found)
    return assess_cells(
        rows.cells(),
        event=rows.kind,
        class_name=rows.name,
        n_classes=rows.n_classes,
        classes=rows.by_class() if rows.kind == "top label" else (),
        class_names=rows.class_names,
        classwise=classwise,
        rng=generator(seed),
        n_draws=n_draws,
    )


def assess_cells(
    fine: Residuals,
    *,
    event: EventKind,
    class_name: str | None = None,
    n_classes: int,
    classes: Sequence[TestedClass] = (),
    class_names: Sequence[str] | None = None,
    classwise: NoiseFloor | None,
    rng: np.random.Generator,
    n_draws: int,
) -> Assessment:
    """Return what `assess` does from cells in order of the event's probability.

    `fine` has one cell per row, or sums over narrow cells; `classes` are tested too, but not with
    clusters.
    """
    line = calibration_line(fine)
    test = EventTest.of(fine, event, n_draws=n_draws, rng=rng)
    sums, drawn, worst = test.cells.sums, test.drawn, None
    # drawn class by class, they reject calibrated models too often in clusters
    if classes and test.correlation is None:
        of_classes, worst = classes_test(classes, drawn.shape[1], rng, class_names)
        test = replace(test, tests=[*test.tests, of_classes])
    floors = noise_floors(test.cells, drawn)
    inflation = 1.0
    if test.correlation is not None:
        total = drawn.sum(axis=0)
        inflation = max(float(np.mean(total**2)) / max(float(sums.variance.sum()), 1e-300), 1e-9)
    if classwise is not None:
        wider = math.sqrt(max(1.0, inflation))
        floors["classwise_ece"] = NoiseFloor(wider * classwise.median, wider * classwise.q95)
    certain = (sums.variance == 0.0) & (np.abs(sums.residual) > 1e-9)
    names: list[TestName] = ["bins"] if event == "top label" else ["bins", "line"]
    if worst is not None:
        names.append("classes")
    each = [one.p_value if test.is_judged else math.nan for one in test.tests]
    return Assessment(
        **vars(finding_of(test, event, rng)),
        effective_n=sums.effective_rows / inflation,
        n_classes=n_classes,
        class_name=class_name,
        p_values=dict(zip(names, each, strict=True)),
        noise_floor=floors,
        slope=None if line is None else line.slope,
        intercept=None if line is None else line.intercept,
        intercept_at_slope_1=None if line is None else line.intercept_at_slope_1,
        worst_class=worst,
        has_certain_error=bool(certain.any()),
        n_clusters=fine.n_clusters,
        correlation=test.correlation,
    )


def finding_of(
    test: EventTest, event: EventKind, rng: np.random.Generator, *, least_rows: int = 0
) -> EventFinding:
    """Return what was found; with fewer than `least_rows` nothing is tested."""
    sums = test.cells.sums
    n, mass = round(float(sums.rows.sum())), float(sums.weight.sum())
    is_tested = n >= least_rows and test.is_judged
    gap, rms = _intervals(test)
    return EventFinding(
        n=n,
        event=event,
        mean_probability=float(sums.probability.sum()) / mass,
        observed_rate=float(sums.outcome.sum()) / mass,
        gap=gap,
        rms=rms,
        p_value=test.p_value if is_tested else math.nan,
        detectable=test.detectable(rng) if is_tested else math.nan,
        n_draws=test.drawn.shape[1],
    )


def _intervals(test: EventTest) -> tuple[Interval, Interval]:
    """Return the intervals of the gap and of the root-mean-square error."""
    cells, drawn = test.cells, test.drawn
    bins = cells.binned(cells.bin, BINS)
    if test.correlation is None:
        return gap_interval(cells.sums), rms_interval(bins)
    whole = cells.binned(np.zeros(len(cells.rank), dtype=np.intp), 1)
    gap = gap_interval(whole._replace(variance=np.array([np.mean(drawn.sum(axis=0) ** 2)])))
    noise = indicator(cells.bin, BINS) @ drawn
    bins = bins._replace(variance=np.mean(noise**2, axis=1))
    # bins share clusters: their errors are correlated, and count as fewer
    scaled = divided(1.0, np.sqrt(bins.weight))[:, None] * noise
    spread = scaled @ scaled.T / noise.shape[1]
    square = float(np.sum(spread**2))
    freedom = None if square <= 0.0 else float(np.trace(spread)) ** 2 / square
    return gap, rms_interval(bins, freedom=freedom)


def classes_test(
    classes: Sequence[TestedClass],
    n_draws: int,
    rng: np.random.Generator,
    names: Sequence[str] | None,
) -> tuple[DrawnTest, ClassFinding]:
    """Test the probabilities of all classes at once, and name the one that is off most.

    The classes are drawn independently of each other, though a row has one label only. Simulated
    calibrated models with 3 to 100 classes are rejected in 4 to 8 % (`tests/unit/metrics`).
    """
    null, worst, place = np.full(n_draws, -np.inf), None, 0
    for i, (_, fine) in enumerate(classes):
        event = event_cells(fine, n_cells=SCALES)
        test = scale_test(event, draw_residuals(event, n_draws, rng))
        np.maximum(null, test.null, out=null)
        if worst is None or test.seen > worst.seen:
            worst, place = test, i
    assert worst is not None  # noqa: S101  (there are classes)
    index, fine = classes[place]
    name = "the less frequent classes"
    if index is not None:
        name = f"class {index}" if names is None else names[index]
    mass = float(fine.weight.sum())
    return DrawnTest(worst.seen, null), ClassFinding(
        index,
        name,
        float(fine.probability.sum()) / mass,
        float(fine.outcome.sum()) / mass,
        gap_interval(fine),
        worst.p_value,
    )
