r"""The gamma and temperature that minimise the mean log loss together."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._stable.roots import minimum
from focalibrate.calibrate._engine.blocks import Workers, thin_rows
from focalibrate.calibrate._engine.focal_derivatives import loss_derivatives
from focalibrate.calibrate._engine.grid import GridEvaluator, Part
from focalibrate.calibrate._input import ScoredRows
from focalibrate.calibrate.compressed import read_rows
from focalibrate.calibrate.row_stream import RowStream

Floats = NDArray[np.float64]

START_GAMMAS = (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
START_TEMPERATURES = 9
START_MARGIN = math.log(1.6)
SAMPLE_ENTRIES = 2**27
"""Samples of more logits are not taken from rows that are read anew by every pass."""
LOOK_ROWS, SAMPLE_ROWS = 1024, 4096
"""The first look is at about so many rows, evenly spaced, of at least twice as many; which valleys
there are is seen on more of them, and so is the way down each."""
DIFFERENCE = 1e-3
"""Step of the differences that stand for derivatives: off by about 1e-7 of the third."""
TOLERANCE = 1e-8
"""Newton ends with a last step where the loss has no more than this to fall; after it what is left
is of the order of its square."""
MAX_NEWTON = 15
LEAST_CURVATURE = 1e-9
"""Flatter is rounding: a step divided by it is cut to length."""
MAX_LOG_RATIO = math.log(1e3)
"""T stays within this factor, in logarithms, of that of plain scaling."""
MAX_EVALUATIONS = 600
NARROW_MARGIN, NEARLY = math.log(1.1), 0.002
"""A minimum at the least gamma, seen on a sample, is looked for within this margin of log T on all
rows, unless its loss there is higher than the lowest by more."""
WORTH = 0.01
"""A valley that a coarse look shows so much higher than the lowest is not followed."""
SAME = 0.05
"""Minima whose gammas differ by less, relative to 1 + gamma, are one."""


@dataclass(frozen=True)
class JointMinimum:
    """Where the search ended."""

    gamma: float
    temperature: float
    loss: float
    converged: bool
    at_bound: bool
    n_evaluations: int


SHORT_STEP = 0.3
"""Of log T, and of gamma relative to 1 + gamma: parts of the rows have their minimum so near."""


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
        _Loss([_thinned(evaluate, n)], temperature)
        if n_rows >= 2 * n
        else _Loss([evaluate], temperature, is_all=True)
        for n in (LOOK_ROWS, SAMPLE_ROWS)
    )
    return _lowest(_Loss([evaluate], temperature), look, sample, gammas)


def minimise_jointly_in_passes(
    stream: RowStream, workers: Workers, temperature: float, gammas: tuple[float, float]
) -> JointMinimum:
    """Return the same for rows that are read anew by every pass."""
    most = SAMPLE_ENTRIES // stream.n_classes

    def of(rows: ScoredRows) -> GridEvaluator:
        return GridEvaluator(read_rows(rows), "nll", 1, workers)

    def sample(n_rows: int) -> _Loss:
        if stream.n_rows < 2 * n_rows:
            return _Loss(batches, temperature, is_all=True)
        thin = thin_rows(stream.n_rows, at_most=min(n_rows, most))
        return _Loss([of(stream.thinned(thin))], temperature)

    batches = _Again(lambda: map(of, stream.batches()))
    look, more = sample(LOOK_ROWS), sample(SAMPLE_ROWS)
    return _lowest(_Loss(batches, temperature), look, more, gammas)


@dataclass(frozen=True)
class _Again:
    """What can be iterated over any number of times, and is made anew each time."""

    begin: Callable[[], Iterator[GridEvaluator]]

    def __iter__(self) -> Iterator[GridEvaluator]:
        return self.begin()


def _lowest(
    loss: "_Loss", look: "_Loss", sample: "_Loss", gammas: tuple[float, float]
) -> JointMinimum:
    starts = _coarse_minima(look, sample, gammas)
    minima: list[JointMinimum] = []
    on_bound: list[Floats] = []
    seen: list[Floats] = []
    for start in starts:
        if start[0] == gammas[0] < gammas[1]:  # Newton may leave the bound for another valley
            on_bound.append(_along_bound(sample, start))
        near = start if sample.is_all else _newton(sample, start, gammas)
        near = start if near is None else near
        if any(_is_same(near, other) for other in seen):
            continue  # two starts in one valley
        seen.append(near)
        x = _newton(loss, near, gammas)
        if x is not None:
            minima.append(_minimum(loss, x, gammas))
    if not minima:
        minima = [_nelder_mead(loss, x, gammas) for x in starts]
    for x in on_bound:
        if float(loss.at(*x[:, None])[0, 0]) <= min(m.loss for m in minima) + NEARLY:
            minima.append(_minimum(loss, _along_bound(loss, x, NARROW_MARGIN), gammas))
    best = min(minima, key=lambda m: m.loss)
    return replace(best, n_evaluations=loss.n_evaluations)


def _thinned(evaluate: GridEvaluator, at_most: int) -> GridEvaluator:
    rows = evaluate.rows
    return GridEvaluator(
        rows.take(thin_rows(rows.n_rows, at_most=at_most)), "nll", 1, evaluate.workers
    )


def _along_bound(loss: "_Loss", start: Floats, margin: float = START_MARGIN) -> Floats:
    """Return the point of least loss at the gamma of `start`."""
    lowest = minimum(
        lambda u: float(loss.at(start[0], [u])[0, 0]),
        start[1] - margin,
        start[1] + margin,
        xtol=1e-7,
    )
    return np.array([start[0], lowest])


def _minimum(loss: "_Loss", x: Floats, gammas: tuple[float, float]) -> JointMinimum:
    gamma, log_t = min(max(float(x[0]), gammas[0]), gammas[1]), float(x[1])
    return JointMinimum(
        gamma,
        loss.temperature * math.exp(log_t),
        float(loss.at(gamma, [log_t])[0, 0]),
        True,
        _is_end(gamma, gammas),
        loss.n_evaluations,
    )


def _is_same(a: Floats, b: Floats) -> bool:
    return bool(abs(a[0] - b[0]) <= SAME * (1.0 + abs(b[0])))


_Quadratic = tuple[float, Floats, Floats]
"""A value, its gradient and its second derivatives."""


class _Loss:
    """The mean log loss in gamma and ``log(T / temperature)``, counted."""

    def __init__(
        self, parts: Iterable[GridEvaluator], temperature: float, *, is_all: bool = False
    ) -> None:
        self.parts = parts
        self.is_all = is_all
        self.temperature = temperature
        self.n_evaluations = 0

    def derivatives(self, x: Floats) -> _Quadratic:
        """Return the loss at `x`, its gradient and its second derivatives.

        By central differences where the formulas lose digits.
        """
        gamma, temperature = float(x[0]), self.temperature * math.exp(x[1])
        total, mass = np.zeros(6), 0.0
        for part in self.parts:
            found = loss_derivatives(part.rows, gamma, temperature, part.workers)
            if found is None:
                return _differences(self, x)
            counts = part.rows.counts
            total += found.sum(axis=1) if counts is None else found @ counts
            mass += _mass(part)
        self.n_evaluations += 1
        return _quadratic(total / mass)

    def at(self, gammas: Any, log_ts: Any) -> Floats:
        """Return the losses ``[G, M]``."""
        # A difference taken at the bound must not leave it by rounding.
        exponents = np.maximum(np.atleast_1d(gammas), -1.0).tolist()
        points = [(self.temperature * math.exp(u), exponents) for u in log_ts]
        self.n_evaluations += len(points) * len(exponents)
        total, mass = np.zeros((len(exponents), len(points))), 0.0
        for part in self.parts:
            values = np.stack([result[0, 0] for result in part(points)], axis=1)
            total += _mass(part) * values
            mass += _mass(part)
        return total / mass


def _mass(part: GridEvaluator) -> float:
    counts = part.rows.counts
    return float(part.rows.n_rows if counts is None else counts.sum())


def _is_end(gamma: float, gammas: tuple[float, float]) -> bool:
    low, high = gammas
    return low < high and (gamma - low < 1e-6 or high - gamma < 1e-6)


def _coarse_minima(look: _Loss, profile: _Loss, gammas: tuple[float, float]) -> list[Floats]:
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


def _newton(
    loss: _Loss,
    start: Floats,
    gammas: tuple[float, float],
    *,
    known: _Quadratic | None = None,
) -> Floats | None:
    """Return the minimum near `start`, a gamma at its bound included; None where none is found.

    `known` is what `loss.derivatives` would find at the start.
    """
    low, high = gammas[0] + DIFFERENCE, gammas[1] - DIFFERENCE
    if not low < high:
        return None
    x, move, least = np.array([min(max(start[0], low), high), start[1]]), np.zeros(2), math.inf
    for _ in range(MAX_NEWTON):
        if abs(x[1]) > MAX_LOG_RATIO:
            return None
        value, gradient, second = known or loss.derivatives(x)
        known = None
        if value > least + TOLERANCE:
            move = 0.5 * move
            x = x - move
            continue
        least = value
        bend = max(abs(second[1, 1]), LEAST_CURVATURE)
        is_held = bool((x[0] <= low and gradient[0] > 0) or (x[0] >= high and gradient[0] < 0))
        if is_held:
            move, is_bowl = np.array([0.0, -gradient[1] / bend]), second[1, 1] > 0
        else:
            move, is_bowl = _free_step(gradient, second)
        if is_bowl and -0.5 * gradient @ move <= TOLERANCE:
            # Held, gamma goes on to its bound, and T with it.
            rest = gammas[int(x[0] >= high)] - x[0] if is_held else 0.0
            return np.array([x[0] + move[0] + rest, x[1] + move[1] - second[0, 1] / bend * rest])
        # Gamma at most doubles, counted from -1: along the ridge T does so too.
        reach = np.array([1.0 + max(x[0], 0.0), 1.0])
        move *= min(1.0, float(np.min(reach / np.maximum(np.abs(move), 1e-300))))
        if not low <= x[0] + move[0] <= high:  # stop there, at the best T for it
            inside = (low if move[0] < 0 else high) - x[0]
            move = np.array([inside, -(gradient[1] + second[0, 1] * inside) / bend])
        x = x + move
    return None


def _free_step(gradient: Floats, second: Floats) -> tuple[Floats, bool]:
    """Return Newton's step, and whether it leads down a bowl.

    Where the loss bends down, it goes along the slope as far as the bend suggests.
    """
    curvature, axes = np.linalg.eigh(second)
    move = -axes @ (axes.T @ gradient / np.maximum(np.abs(curvature), LEAST_CURVATURE))
    return move, bool(curvature[0] > 0)


def _differences(loss: _Loss, x: Floats) -> _Quadratic:
    """Return the loss at `x`, its gradient and its second derivatives, by central differences."""
    offsets = DIFFERENCE * np.array([-1.0, 0.0, 1.0])
    return _stencil(loss.at(x[0] + offsets, x[1] + offsets))


def _quadratic(parts: Floats) -> _Quadratic:
    """Return value, gradient and second derivatives from those of `loss_derivatives` ``[6]``."""
    value, g, u, gg, gu, uu = parts.tolist()
    return value, np.array([g, u]), np.array([[gg, gu], [gu, uu]])


def _stencil(f: Floats) -> _Quadratic:
    """Return value, gradient and second derivatives from nine values ``[3, 3]``."""
    gradient = np.array([f[2, 1] - f[0, 1], f[1, 2] - f[1, 0]]) / (2.0 * DIFFERENCE)
    mixed = (f[2, 2] - f[2, 0] - f[0, 2] + f[0, 0]) / 4.0
    twice = 2.0 * f[1, 1]
    second = np.array([[f[2, 1] - twice + f[0, 1], mixed], [mixed, f[1, 2] - twice + f[1, 0]]])
    return float(f[1, 1]), gradient, second / DIFFERENCE**2


def _nelder_mead(loss: _Loss, start: Floats, gammas: tuple[float, float]) -> JointMinimum:
    from scipy.optimize import minimize

    result = minimize(
        lambda x: float(loss.at(x[0], [x[1]])[0, 0]),
        start,
        method="Nelder-Mead",
        bounds=[gammas, (-MAX_LOG_RATIO, MAX_LOG_RATIO)],
        options={"xatol": 1e-7, "fatol": 1e-13, "maxfev": MAX_EVALUATIONS},
    )
    gamma = float(result.x[0])
    return JointMinimum(
        gamma,
        loss.temperature * math.exp(float(result.x[1])),
        float(result.fun),
        bool(result.success),
        _is_end(gamma, gammas) or abs(abs(float(result.x[1])) - MAX_LOG_RATIO) < 1e-6,
        loss.n_evaluations,
    )


def minima_of_parts(
    evaluate: GridEvaluator,
    parts: Sequence[Part],
    gamma: float,
    temperature: float,
    gammas: tuple[float, float],
) -> list[tuple[float, float] | None]:
    """Return gamma and T of each part's minimum near that of all rows; None where none is found.

    The first Newton step of every part is taken from derivatives that all of them share; each
    then goes on by itself.
    """
    rows = evaluate.rows
    start = np.array([min(max(gamma, gammas[0] + DIFFERENCE), gammas[1] - DIFFERENCE), 0.0])
    shared = loss_derivatives(rows, float(start[0]), temperature, evaluate.workers)
    found: list[tuple[float, float] | None] = []
    for part in parts:
        some = GridEvaluator(rows.take(part), "nll", 1, evaluate.workers)
        loss = _Loss([some], temperature)
        counts = np.ones(some.rows.n_rows) if some.rows.counts is None else some.rows.counts
        known = None if shared is None else _quadratic(shared[:, part] @ (counts / counts.sum()))
        x = _newton(loss, start, gammas, known=known)
        if x is None or max(abs(x[0] - gamma) / (1.0 + gamma), abs(x[1])) > SHORT_STEP:
            found.append(None)
        else:
            found.append(_clipped(x, temperature, gammas))
    return found


def _clipped(x: Floats, temperature: float, gammas: tuple[float, float]) -> tuple[float, float]:
    gamma = min(max(float(x[0]), gammas[0]), gammas[1])
    return gamma, temperature * math.exp(float(x[1]))
