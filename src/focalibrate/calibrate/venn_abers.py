"""Venn-Abers calibration: two isotonic fits per class and score, merged into one probability."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from focalibrate._array import Array, Floats, namespace
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.columns import (
    check_classes_present,
    class_columns,
)
from focalibrate.calibrate._engine.reporting import finished
from focalibrate.calibrate._engine.tables import count_below, entries, padded
from focalibrate.calibrate._input import read_scores
from focalibrate.calibrate.isotonic import TIE_DIGITS
from focalibrate.calibrate.one_vs_rest import (
    Curves,
    check_curves,
    log_of,
    recalibrated,
)


@final
@dataclass(frozen=True)
class VennAbers(Calibrator):
    r"""Inductive Venn-Abers, one class against the rest: may change predictions.

    At a score :math:`s`, :math:`p_0` is what isotonic regression gives with one more row of this
    score that is not of the class, :math:`p_1` with one more that is; the probability is
    :math:`p_1/(1 - p_0 + p_1)`, and rows are normalised to sum 1. Computed in float64.

    References:
        Vovk, Petej & Fedorova (2015), *Large-scale probabilistic predictors with and without
        guarantees of validity*.
    """

    scores: Curves
    """Distinct probabilities of each class among the rows fitted on, rising."""
    lower: Curves
    """:math:`p_0` at each of them; between two of them that of the left one counts."""
    upper: Curves
    """:math:`p_1` at each of them; between two of them that of the right one counts."""
    kind: ClassVar[str] = "venn_abers"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_curves(self.scores, self.lower, ("scores", "lower"), longer=0)
        check_curves(self.scores, self.upper, ("scores", "upper"), longer=0)

    def _own_classes(self) -> int:
        return len(self.scores)

    def _probs(self, x: Array) -> Array:
        scores, lower, upper = self._tables

        def curves(p: Array) -> Array:
            # Rounding as in the fit: scores that agree so far are one.
            p = namespace(p).round(p * 10.0**TIE_DIGITS) / 10.0**TIE_DIGITS
            p0 = entries(lower, count_below(p, scores, side="right"), p)
            p1 = entries(upper, count_below(p, scores, side="left"), p)
            return p1 / (1.0 - p0 + p1)

        return recalibrated(x, curves)

    def _log_probs(self, x: Array) -> Array:
        return log_of(self._probs(x))

    @cached_property
    def _tables(self) -> tuple[Floats, Floats, Floats]:
        lower = [(0.0, *row) for row in self.lower]
        upper = [(*row, 1.0) for row in self.upper]
        return padded(self.scores, np.inf), padded(lower), padded(upper)

    def describe(self) -> str:
        """Return a one-line description."""
        knots = sum(len(x) for x in self.scores)
        return f"Venn-Abers, one against the rest: {len(self.scores)} classes, {knots} scores"


def fit_venn_abers(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    return_report: bool = False,
) -> Any:
    r"""Fit inductive Venn-Abers predictors, one per class against the rest.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]`` of at least two classes.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        return_report: also return a `FitReport`; its value is the mean squared error of the
            merged probabilities, summed over the classes, before rows are normalised.

    Returns:
        `VennAbers`, and the report if requested.

    Numerics:
        The slope of a common tangent of two convex hulls of cumulative sums gives
        :math:`p_1` at every score; :math:`p_0` is the same problem mirrored.

    Example:
        >>> import numpy as np
        >>> logits = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]])
        >>> fit_venn_abers(logits, np.array([0, 1, 0, 1])).probs(logits)[:, 1].round(3)
        array([0.333, 0.5  , 0.5  , 0.667])

    References:
        Vovk, Petej & Fedorova (2015), Sec. 3.
    """
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    check_classes_present(rows.labels, rows.n_classes, method="Venn-Abers calibration")
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    tables, error = [], 0.0
    for column, is_label in class_columns(rows.logits, rows.labels):
        scores, index = np.unique(np.round(column, TIE_DIGITS), return_inverse=True)
        count = np.bincount(index, weights).astype(np.float64)
        hits = np.bincount(index, weights * is_label).astype(np.float64)
        upper = _with_one_more(count, hits)
        lower = 1.0 - _with_one_more(count[::-1], (count - hits)[::-1])[::-1]
        upper, lower = np.clip(upper, 0.0, 1.0), np.clip(lower, 0.0, 1.0)
        tables.append(tuple(tuple(v.tolist()) for v in (scores, lower, upper)))
        merged = (upper / (1.0 - lower + upper))[index]
        error += float(weights @ (merged - is_label) ** 2 / weights.sum())
    scores_, lower_, upper_ = zip(*tables, strict=True)
    found = rows.stamp(VennAbers(scores_, lower_, upper_))
    return finished(
        found, rows, return_report, criterion="squared error", value=error, n_evaluations=1
    )


def _with_one_more(count: Floats, hits: Floats) -> Floats:
    r"""Return isotonic regression's value at each group, with one more hit in that group.

    With :math:`C_j = (N_j, S_j)` the cumulative counts and hits, the value at group i is
    :math:`\max_{a<i}\min_{b\ge i} (S_b + 1 - S_a)/(N_b + 1 - N_a)`: the slope of the tangent
    that the points left of the group and those right of it, moved by (1, 1), have in common.
    """
    m = len(count)
    n = [0.0, *np.cumsum(count).tolist()]
    s = [0.0, *np.cumsum(hits).tolist()]
    after = _right_hulls(n, s)
    values = np.empty(m)
    left: list[int] = []
    for i in range(1, m + 1):
        new = i - 1  # the point that joins those on the left
        while len(left) > 1 and _is_above(n, s, left[-2], left[-1], new):
            left.pop()
        left.append(new)
        at, b = len(left) - 1, i
        while True:
            a = left[at]
            slope = (s[b] + 1.0 - s[a]) / (n[b] + 1.0 - n[a])
            c = after[b]
            if c and (s[c] + 1.0 - s[a]) < slope * (n[c] + 1.0 - n[a]):
                b = c
                continue
            if at:
                d = left[at - 1]
                if (s[b] + 1.0 - s[d]) > slope * (n[b] + 1.0 - n[d]):
                    at -= 1
                    continue
            break
        values[i - 1] = slope
    return values


def _right_hulls(n: list[float], s: list[float]) -> list[int]:
    """Return, for each point, the next one of the lower hull of it and all to its right."""
    m = len(n) - 1
    after = [0] * (m + 1)
    hull: list[int] = []
    for j in range(m, 0, -1):
        while len(hull) > 1 and _is_above(n, s, j, hull[-1], hull[-2]):
            hull.pop()
        after[j] = hull[-1] if hull else 0
        hull.append(j)
    return after


def _is_above(n: list[float], s: list[float], a: int, b: int, c: int) -> bool:
    """Return whether point `b` is on or above the line from `a` to `c`."""
    return (s[b] - s[a]) * (n[c] - n[a]) >= (s[c] - s[a]) * (n[b] - n[a])
