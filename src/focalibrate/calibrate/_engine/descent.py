r"""The temperature that minimises a mean loss, continuous in :math:`\beta = 1/T`."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate._engine.blocks import thin_rows
from focalibrate.calibrate._engine.passes import Derivatives, Kernel, LogitPasses, Passes

REACH = 1e3
"""T is first looked for within this factor of a typical gap between a row's top two logits."""
MAX_WIDENINGS = 8
"""How often the search moves on by that factor while the slope's sign says there is a minimum."""
PLAIN_SCALE = 1e6
"""Logits of a larger scale, or a smaller than its inverse, are divided by it first."""
SAMPLE_ROWS = (1024, 8192)
"""First guesses are made on about this many rows, evenly spaced, before all are used."""
SAMPLE_ENTRIES = 2**27
"""Samples of more logits are not taken."""
MAX_STEPS = 100
N_SCAN = 25
TOLERANCE = {4: 1e-7, 8: 1e-13}
"""Largest relative error left in T, by the size in bytes of the working precision."""
NEARBY_TOLERANCE = 1e-9
"""The same for the minimum of a part of the rows, found from a pass over all of them."""


@dataclass(frozen=True)
class Minimum:
    """Where a descent ended."""

    temperature: float
    loss: float
    converged: bool
    at_bound: bool
    n_evaluations: int
    """Passes over all rows."""


def minimise(passes: Passes, kernel: Kernel, *, is_convex: bool) -> Minimum:
    r"""Return the minimum over :math:`\beta` of the mean loss.

    A guess from a thinned sample is improved on all rows. Every pass yields derivatives, and
    the root of the slope's Taylor polynomial is the next :math:`\beta`; where the terms left
    out are below `TOLERANCE` no further pass is made. For large data one or two passes are
    enough. Signs of the slope seen so far bracket the root: a step never leaves the bracket.

    Args:
        passes: the logits.
        kernel: the loss.
        is_convex: whether the loss is convex in :math:`\beta`; if not, the sample is scanned
            for its best :math:`\beta` first and the search stays within the scan's step.
    """
    n_rows, most = passes.n_rows, SAMPLE_ENTRIES // passes.n_classes
    sizes = [n for n in SAMPLE_ROWS if 2 * n <= n_rows and n <= most]
    samples: list[Passes] = [passes.thinned(thin_rows(n_rows, at_most=n)) for n in sizes]
    sample = samples[0] if samples else passes
    scale = sample.typical_gap() or passes.typical_gap()
    if scale == 0:  # every row is constant: the loss does not depend on T
        return Minimum(1.0, passes.derivatives(kernel, 1.0).loss, True, False, 1)
    unit = 1.0 if 1.0 / PLAIN_SCALE < scale < PLAIN_SCALE else scale
    passes, *samples = (x.in_units_of(unit) for x in (passes, *samples))
    start = unit / scale
    bounds = (start / REACH, start * REACH)
    found = _search(passes, samples, kernel, start, bounds, is_convex)
    for _ in range(MAX_WIDENINGS):
        found, bounds, is_done = _widened(passes, samples, kernel, found, bounds, is_convex)
        if is_done:
            break
    return replace(found, temperature=unit * found.temperature)


def minima_nearby(
    passes: LogitPasses, kernel: Kernel, temperature: float, weights: Floats
) -> list[Minimum | None]:
    r"""Return the minimum for each column of `weights` ``[N, P]``, from one pass near all of them.

    Each is the root of its own Taylor polynomial at the given temperature; None where the terms
    left out may matter.
    """
    if not 1.0 / PLAIN_SCALE < temperature < PLAIN_SCALE:
        return [None] * weights.shape[1]
    beta = 1.0 / temperature
    tolerance = max(NEARBY_TOLERANCE, TOLERANCE[np.dtype(passes.dtype).itemsize])
    found: list[Minimum | None] = []
    for at in passes.derivatives_of_parts(kernel, beta, weights):
        move, error = _taylor_step(at, beta)
        is_near = abs(move) < 0.25 * beta and error <= tolerance * beta
        loss = _taylor_loss(at, move) if is_near else at.loss
        found.append(Minimum(1.0 / (beta + move), loss, True, False, 1) if is_near else None)
    return found


def _search(
    passes: Passes,
    samples: list[Passes],
    kernel: Kernel,
    start: float,
    bounds: tuple[float, float],
    is_convex: bool,
) -> Minimum:
    """Return the minimum within `bounds`; ``at_bound`` says whether it is one of them."""
    bracket = bounds
    if not is_convex:
        start, bracket = _scan(samples[0] if samples else passes, kernel, bounds)
    for sample in samples:
        start = 1.0 / _descend(sample, kernel, start, bracket).temperature
    found = _descend(passes, kernel, start, bracket)
    at_bound = bool(np.isclose(1.0 / found.temperature, bounds, rtol=1e-9).any())
    return replace(found, at_bound=at_bound)


def _widened(
    passes: Passes,
    samples: list[Passes],
    kernel: Kernel,
    found: Minimum,
    bounds: tuple[float, float],
    is_convex: bool,
) -> tuple[Minimum, tuple[float, float], bool]:
    """Look beyond a bound that the minimum is at, unless the loss has none to find there."""
    if not found.at_bound:
        return found, bounds, True
    slope, is_separated = passes.limits()
    beta = 1.0 / found.temperature
    is_low = beta < math.sqrt(bounds[0] * bounds[1])
    if slope >= 0 if is_low else is_separated:
        return found, bounds, True
    wider = (bounds[0] / REACH, bounds[0]) if is_low else (bounds[1], bounds[1] * REACH)
    found = _search(passes, samples, kernel, math.sqrt(wider[0] * wider[1]), wider, is_convex)
    # The end shared with the previous interval is not a bound of the search.
    shared = wider[1] if is_low else wider[0]
    if np.isclose(1.0 / found.temperature, shared, rtol=1e-9):
        return replace(found, at_bound=False), wider, True
    return found, wider, False


def _scan(
    sample: Passes, kernel: Kernel, bounds: tuple[float, float]
) -> tuple[float, tuple[float, float]]:
    grid = np.geomspace(*bounds, N_SCAN)
    losses = [sample.derivatives(kernel, float(beta)).loss for beta in grid]
    best = int(np.flatnonzero(losses == np.min(losses))[-1])  # ties: the loss underflowed to 0
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, N_SCAN - 1)]
    return float(grid[best]), (float(low), float(high))


def _descend(passes: Passes, kernel: Kernel, beta: float, bracket: tuple[float, float]) -> Minimum:
    low, high = bracket
    tolerance = TOLERANCE[np.dtype(passes.dtype).itemsize]
    for step in range(1, MAX_STEPS + 1):
        at = passes.derivatives(kernel, beta)
        low, high = (beta, high) if at.first <= 0 else (low, beta)
        move, error = _taylor_step(at, beta)
        is_inside = low < beta + move < high
        if is_inside and abs(move) < 0.5 * beta and error <= tolerance * beta:
            return Minimum(1.0 / (beta + move), _taylor_loss(at, move), True, False, step)
        if high <= low * (1.0 + tolerance):
            return Minimum(1.0 / beta, at.loss, True, False, step)
        beta = _next_beta(beta, move, low, high, bracket)
    return Minimum(1.0 / beta, at.loss, False, False, MAX_STEPS)


def _next_beta(
    beta: float, move: float, low: float, high: float, bracket: tuple[float, float]
) -> float:
    """Return `beta` moved by at most a factor of 8; halve the bracket where it is left."""
    proposed = min(max(beta + move, beta / 8.0), 8.0 * beta)
    if low < proposed < high:
        return proposed
    if high == bracket[1] and proposed >= high:
        return high  # the slope has not changed sign yet: look at the bound itself
    if low == bracket[0] and proposed <= low:
        return low
    return math.sqrt(low * high)


def _taylor_step(at: Derivatives, beta: float) -> tuple[float, float]:
    """Return the step to the root of the slope's Taylor polynomial, and the error to expect."""
    if not at.second > 0:
        return math.copysign(math.inf, -at.first), math.inf
    newton = -at.first / at.second
    cubic = _root(lambda x: at.first + x * (at.second + x * at.third / 2.0), newton, at)
    quartic = _root(
        lambda x: at.first + x * (at.second + x * (at.third / 2.0 + x * at.fourth / 6.0)),
        newton,
        at,
    )
    ratio = abs(newton) / beta
    if at.third == 0 and at.fourth == 0:  # plain Newton: the error is that of the quadratic
        return newton, abs(newton) * ratio
    if cubic is None or quartic is None:  # the slope dies away: the root is far, or nowhere
        return math.copysign(math.inf, newton), math.inf
    return quartic, max(abs(quartic - cubic), abs(newton) * ratio**3) * ratio


def _root(slope: Callable[[float], float], start: float, at: Derivatives) -> float | None:
    """Return the root of `slope` near `start`; None where the polynomial has none."""
    x = start
    for _ in range(8):  # the polynomial is close to its tangent: a fixed slope is enough
        x -= slope(x) / at.second
        if not abs(x) < 4.0 * abs(start):
            return None
    return x


def _taylor_loss(at: Derivatives, x: float) -> float:
    terms = (at.first, at.second / 2.0, at.third / 6.0, at.fourth / 24.0)
    return at.loss + sum(term * x ** (i + 1) for i, term in enumerate(terms))
