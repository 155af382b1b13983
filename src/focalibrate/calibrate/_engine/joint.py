r"""The gamma and temperature that together minimise the mean log loss."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate._engine.blocks import Workers, thin_rows
from focalibrate.calibrate._engine.focal_derivatives import loss_derivatives
from focalibrate.calibrate._engine.grid import GridEvaluator, RowIndex
from focalibrate.calibrate._engine.joint_descent import (
    JointMinimum,
    along_bound,
    minimum_at,
    nelder_mead,
    newton,
)
from focalibrate.calibrate._engine.joint_loss import DIFFERENCE, JointLoss, quadratic
from focalibrate.calibrate._input import ScoredRows
from focalibrate.calibrate.compressed import read_rows
from focalibrate.calibrate.row_stream import RowStream

START_GAMMAS = (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
START_TEMPERATURES = 9
START_MARGIN = math.log(1.6)
SAMPLE_ENTRIES = 2**27
"""Most logits in a sample of rows that are streamed."""
LOOK_ROWS, SAMPLE_ROWS = 1024, 4096
"""Rows of the coarse look, and of the sample that shows the valleys and the way down each: evenly
spaced, taken only if there are at least twice as many."""
NARROW_MARGIN, NEARLY = math.log(1.1), 0.002
"""A minimum at the least gamma, seen on a sample, is looked for within this margin of log T on all
rows, unless its loss there is higher than the lowest by more."""
WORTH = 0.01
"""A valley that the coarse look shows to be higher than the lowest by more is not followed."""
SHORT_STEP = 0.3
"""Largest distance of a part's minimum from that of all rows: in log T, and in gamma relative to
1 + gamma."""
SAME = 0.05
"""Minima whose gammas differ by less, relative to 1 + gamma, are one."""


def minimise_jointly(
    evaluate: GridEvaluator, temperature: float, gammas: tuple[float, float]
) -> JointMinimum:
    r"""Return the minimum over gamma, within `gammas`, and every T.

    A coarse look from :math:`T = T_0` to the ray :math:`T = (1+\gamma)\,T_0`, along which the
    confidence of a binary classifier hardly changes, then Newton's method in :math:`\gamma` and
    :math:`\log T`, both on a sample first; where that fails Nelder-Mead. The loss may have a
    second valley, at negative gamma: each that the look shows is followed to its bottom. T is
    relative to the temperature :math:`T_0` of plain scaling, so that scaling the logits scales
    T and nothing else.

    Args:
        evaluate: the mean log loss.
        temperature: the best :math:`T_0` at ``gamma = 0``.
        gammas: least and largest gamma.
    """
    n_rows = evaluate.rows.n_rows
    look, sample = (
        JointLoss([_thinned(evaluate, n)], temperature)
        if n_rows >= 2 * n
        else JointLoss([evaluate], temperature, is_all=True)
        for n in (LOOK_ROWS, SAMPLE_ROWS)
    )
    return _lowest(JointLoss([evaluate], temperature), look, sample, gammas)


def minimise_jointly_in_passes(
    stream: RowStream, workers: Workers, temperature: float, gammas: tuple[float, float]
) -> JointMinimum:
    """Return the same for rows that every pass reads again."""
    most = SAMPLE_ENTRIES // stream.n_classes

    def of(rows: ScoredRows) -> GridEvaluator:
        return GridEvaluator(read_rows(rows), "nll", 1, workers)

    def sample(n_rows: int) -> JointLoss:
        if stream.n_rows < 2 * n_rows:
            return JointLoss(batches, temperature, is_all=True)
        thin = thin_rows(stream.n_rows, at_most=min(n_rows, most))
        return JointLoss([of(stream.thinned(thin))], temperature)

    batches = _Again(lambda: map(of, stream.batches()))
    look, more = sample(LOOK_ROWS), sample(SAMPLE_ROWS)
    return _lowest(JointLoss(batches, temperature), look, more, gammas)


@dataclass(frozen=True)
class _Again:
    """Can be iterated over any number of times; each time begins with a new iterator."""

    begin: Callable[[], Iterator[GridEvaluator]]

    def __iter__(self) -> Iterator[GridEvaluator]:
        return self.begin()


def _lowest(
    loss: JointLoss, look: JointLoss, sample: JointLoss, gammas: tuple[float, float]
) -> JointMinimum:
    starts = _coarse_minima(look, sample, gammas)
    minima: list[JointMinimum] = []
    on_bound: list[Floats] = []
    seen: list[Floats] = []
    for start in starts:
        if start[0] == gammas[0] < gammas[1]:  # Newton may leave the bound for another valley
            on_bound.append(along_bound(sample, start, START_MARGIN))
        near = start if sample.is_all else newton(sample, start, gammas)
        near = start if near is None else near
        if any(_is_same(near, other) for other in seen):
            continue  # two starts in one valley
        seen.append(near)
        x = newton(loss, near, gammas)
        if x is not None:
            minima.append(minimum_at(loss, x, gammas))
    if not minima:
        minima = [nelder_mead(loss, x, gammas) for x in starts]
    for x in on_bound:
        if float(loss.at(*x[:, None])[0, 0]) <= min(m.loss for m in minima) + NEARLY:
            minima.append(minimum_at(loss, along_bound(loss, x, NARROW_MARGIN), gammas))
    best = min(minima, key=lambda m: m.loss)
    return replace(best, n_evaluations=loss.n_evaluations)


def _thinned(evaluate: GridEvaluator, at_most: int) -> GridEvaluator:
    rows = evaluate.rows
    return GridEvaluator(
        rows.take(thin_rows(rows.n_rows, at_most=at_most)), "nll", 1, evaluate.workers
    )


def _is_same(a: Floats, b: Floats) -> bool:
    return bool(abs(a[0] - b[0]) <= SAME * (1.0 + abs(b[0])))


def _coarse_minima(
    look: JointLoss, profile: JointLoss, gammas: tuple[float, float]
) -> list[Floats]:
    """Return the best point of every valley that a coarse look shows, the lowest first.

    The sample finds a temperature for each gamma; the valleys are those of more rows, as a small
    sample may well miss the deeper of two.
    """
    starts = sorted({min(max(g, gammas[0]), gammas[1]) for g in START_GAMMAS})
    points = []
    for gamma in starts:
        # From no change of T, as where confidence is low, to that of a binary classifier.
        ends = sorted([0.0, math.log(max(1.0 + gamma, 0.5))])
        log_ts = np.linspace(ends[0] - START_MARGIN, ends[1] + START_MARGIN, START_TEMPERATURES)
        log_t = float(log_ts[look.at(gamma, log_ts)[0].argmin()])
        points.append((float(profile.at(gamma, [log_t])[0, 0]), gamma, log_t))
    values = [math.inf, *(value for value, _, _ in points), math.inf]
    valleys = [
        point
        for point, before, after in zip(points, values[:-2], values[2:], strict=True)
        if before >= point[0] < after
    ]
    lowest = min(point[0] for point in valleys)
    return [np.array(point[1:]) for point in sorted(valleys) if point[0] <= lowest + WORTH]


def minima_of_parts(
    evaluate: GridEvaluator,
    parts: Sequence[RowIndex],
    gamma: float,
    temperature: float,
    gammas: tuple[float, float],
) -> list[tuple[float, float] | None]:
    """Return gamma and T of each part's minimum near that of all rows; None where none is found.

    The first Newton step of every part is taken from derivatives that all of them share; each
    then continues by itself.
    """
    rows = evaluate.rows
    start = np.array([min(max(gamma, gammas[0] + DIFFERENCE), gammas[1] - DIFFERENCE), 0.0])
    shared = loss_derivatives(rows, float(start[0]), temperature, evaluate.workers)
    found: list[tuple[float, float] | None] = []
    for part in parts:
        some = GridEvaluator(rows.take(part), "nll", 1, evaluate.workers)
        loss = JointLoss([some], temperature)
        counts = np.ones(some.rows.n_rows) if some.rows.counts is None else some.rows.counts
        known = None if shared is None else quadratic(shared[:, part] @ (counts / counts.sum()))
        x = newton(loss, start, gammas, known=known)
        if x is None or max(abs(x[0] - gamma) / (1.0 + gamma), abs(x[1])) > SHORT_STEP:
            found.append(None)
        else:
            found.append(_clipped(x, temperature, gammas))
    return found


def _clipped(x: Floats, temperature: float, gammas: tuple[float, float]) -> tuple[float, float]:
    gamma = min(max(float(x[0]), gammas[0]), gammas[1])
    return gamma, temperature * math.exp(float(x[1]))
