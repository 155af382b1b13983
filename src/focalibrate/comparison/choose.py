"""The method to deploy, by a rule stated in words."""

import math
from dataclasses import dataclass
from typing import Literal

from focalibrate._check import check_choice
from focalibrate.comparison.result import Comparison, MethodResult

ProperScore = Literal["nll", "brier"]
_WORDS: dict[ProperScore, str] = {"nll": "log loss", "brier": "Brier score"}


@dataclass(frozen=True, eq=False)
class Choice:
    """The method chosen, and why."""

    row: MethodResult
    best: MethodResult
    """the method of the lowest score; another than `row` where a simpler one is as good"""
    equals: tuple[MethodResult, ...]
    """methods that the data cannot tell from the best"""
    score: ProperScore
    reason: str
    """in words"""


def choose(comparison: Comparison, *, score: ProperScore = "nll") -> Choice:
    """Return the simplest method that the data cannot tell from the best.

    The best is the method of the lowest mean proper score, log loss or Brier: unlike a
    calibration error, such a score cannot be improved by giving up what the model knows. Methods
    whose paired difference to the best has an interval that reaches 0 are its equals; of those
    the simplest is chosen.

    Args:
        comparison: what `compare` returned.
        score: ``"nll"`` or ``"brier"``.

    Returns:
        `Choice`, with the reason in words.

    Example:
        >>> import numpy as np
        >>> from focalibrate.comparison import compare
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=(1000, 4)) * 2
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> methods = ["temperature", "focal_temperature_nll"]
        >>> choose(compare(3 * truth, labels, methods=methods, n_resamples=100)).row.method
        'temperature'
    """
    check_choice(score, tuple(_WORDS), name="score")
    best = min(comparison.rows, key=lambda row: (row.scores[score].estimate, row.complexity))
    equals = tuple(row for row in comparison.rows if _is_equal(row, best, score))
    chosen = min(equals, key=lambda row: (row.complexity, row.scores[score].estimate))
    return Choice(chosen, best, equals, score, _reason(chosen, best, equals, score))


def _is_equal(row: MethodResult, best: MethodResult, score: ProperScore) -> bool:
    if row is best:
        return True
    if not math.isfinite(row.scores[score].estimate):
        return False
    return row.card.difference(best.card, score).low <= 0.0


def _reason(
    chosen: MethodResult, best: MethodResult, equals: tuple[MethodResult, ...], score: ProperScore
) -> str:
    word = _WORDS[score]
    interval = best.scores[score]
    lowest = (
        f"{best.label} has the lowest {word}, {interval.estimate:.4f} "
        f"[{interval.low:.4f}, {interval.high:.4f}]"
    )
    others = [row.label for row in equals if row is not best]
    if not others:
        return f"{lowest}, and the data tell every other method from it."
    if chosen is best:
        return f"{lowest}. As good within the interval, but not simpler: {', '.join(others)}."
    return (
        f"{lowest}, but the data cannot tell it from {chosen.label} "
        f"({chosen.scores[score].estimate:.4f}), the simplest of its equals."
    )
