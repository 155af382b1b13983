"""Sums of log loss, Brier score and error, with the moments that their intervals need."""

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats

CONFIDENT = 0.99
"""Least confidence that counts as confident (S99)."""
SCORES = ("nll", "brier", "error")
MOMENTS = (
    "sum", "square", "cube", "spread_sum", "spread_square",
    "cubed_sum", "cubed_square", "cubed_cube",
)  # fmt: skip
"""of w x, w x², w x³, w² x, w² x², w³ x, w³ x² and w³ x³"""
TOTALS = ("rows", "weight", "spread", "cubed", "confident", "confident_correct")


def score_sums(
    nll: Floats, brier: Floats, correct: NDArray[np.bool_], weights: Floats | None
) -> tuple[Floats, int]:
    """Return the sums ``[3, 8]`` of `SCORES` by `MOMENTS`, and how many labels are impossible.

    Rows with an infinite log loss add nothing to its sums.
    """
    is_possible = np.isfinite(nll)
    finite = nll if is_possible.all() else np.where(is_possible, nll, 0.0)
    wrong = np.ones(len(nll) - np.count_nonzero(correct))  # others add nothing
    sums = (
        _moments(finite, weights),
        _moments(brier, weights),
        _moments(wrong, weights if weights is None else weights[~correct]),
    )
    return np.stack(sums), int(len(nll) - np.count_nonzero(is_possible))


def _moments(x: Floats, w: Floats | None) -> Floats:
    if w is None:
        squares = x * x
        one, two = float(x.sum()), float(squares.sum())  # no BLAS, whose threads spin
        squares *= x
        three = float(squares.sum())
        return np.array([one, two, three, one, two, one, two, three])
    xs, u, v = (x, x * x, x**3), w * w, w**3
    return np.array([*(w @ y for y in xs), u @ x, u @ xs[1], *(v @ y for y in xs)])


def total_sums(confidence: Floats, correct: NDArray[np.bool_], weights: Floats | None) -> Floats:
    """Return the sums ``[6]`` of `TOTALS`."""
    n, w = len(confidence), weights
    is_sure = confidence >= CONFIDENT
    sure = np.bincount(correct[is_sure], None if w is None else w[is_sure], minlength=2)
    sizes = (n, n, n) if w is None else (w.sum(), w @ w, w @ (w * w))
    return np.array([n, *sizes, sure.sum(), sure[1]], dtype=np.float64)
