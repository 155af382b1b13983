"""The method to deploy, by a rule stated in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import check_choice
from focalibrate.calibrate import sample_size
from focalibrate.calibrate.auto import ALWAYS_RIGHT, POOL, is_impossible
from focalibrate.calibrate.rule import Pick, pick
from focalibrate.comparison.paired import PairedMeans, Score, weighted_mean
from focalibrate.comparison.result import Comparison, MethodResult
from focalibrate.comparison.row_scores import MEANS, RowScores
from focalibrate.metrics import MetricName

ProperScore = Literal["nll", "brier"]
WORDS: dict[ProperScore, str] = {"nll": "log loss", "brier": "Brier score"}
N_SELECTION_FOLDS = 5
"""Parts of a test set in which the choice is repeated."""
NOT_FITTED = ("identity", "posterior_recovery")
"""Methods that learn nothing from the rows."""
MAX_NAMED = 3
"""More methods than this are counted, not named."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The method chosen, and why."""

    row: MethodResult
    best: MethodResult
    """the method with the lowest score; not `row` if a simpler one does as well"""
    equals: tuple[MethodResult, ...]
    """single methods within one standard error of the best of them"""
    excluded: tuple[tuple[str, str], ...]
    """methods that could not be chosen, and why"""
    score: ProperScore
    held_out: dict[MetricName, Score]
    """scores of the chosen method, not biased by choosing it on the same rows"""
    is_forced: bool
    """whether the method was named by the caller"""
    reason: str
    """in words"""


def choose(
    comparison: Comparison,
    *,
    score: ProperScore = "nll",
    method: str | None = None,
    simple: bool = False,
) -> Choice:
    """Return the method to deploy, by the rule of `focalibrate.fit_auto`.

    The best is the method with the lowest mean proper score (log loss or Brier score) on
    held-out rows: unlike a calibration error, such a score cannot be improved by giving up what
    the model knows. Of the single methods the simplest within one standard error of the best is
    taken: its mean difference to the best, paired by row, is at most the standard error of that
    difference. The pool is taken instead if it is better by more than half a standard error.
    Either must beat the uncalibrated model by 1.28 standard errors, a one-sided test at the 10 %
    level; otherwise the model is kept. A method that gives probability 0 to a true class has an
    infinite log loss and is excluded; if that is true of every method, the Brier score
    decides. If the model is right on every row, nothing limits how confident a fitted method
    becomes, so the model is kept. A default comparison shows more methods than it chooses from
    (`Comparison.candidates`): on real tables the others did worse when they were chosen.

    The lowest of several scores is too low on average. So, for `Choice.held_out`, the choice is
    repeated without each fold, and each fold is scored by the method chosen without it.

    Args:
        comparison: what `compare` returned.
        score: ``"nll"`` or ``"brier"``.
        method: take this method, whatever its score.
        simple: choose a single method, never the pool of several.

    Returns:
        `Choice`, with the reason in words.

    Raises:
        ValueError: if no method could be fitted.

    Example:
        >>> import numpy as np
        >>> from focalibrate.comparison import compare
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=(1000, 4)) * 2
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> methods = ["temperature", "vector"]
        >>> choose(compare(3 * truth, labels, methods=methods, n_resamples=100)).row.method
        'temperature'
    """
    check_choice(score, tuple(WORDS), name="score")
    _check_any_fit(comparison)
    candidates, excluded, score = _candidates(comparison, score, simple=simple)
    values = np.stack([_values(comparison, row, score) for row in candidates], axis=1)
    weights = comparison.weights
    if method is not None:
        row = comparison.row(method)
        return Choice(
            row=row,
            best=candidates[int(np.argmin(weighted_mean(values, weights)))],
            equals=(row,),
            excluded=excluded,
            score=score,
            held_out={name: row.scores[name] for name in MEANS},
            is_forced=True,
            reason=f"{_name(row)} was requested.",
        )
    found = _pick(candidates, values, weights)
    return Choice(
        row=candidates[found.chosen],
        best=candidates[found.best],
        equals=tuple(candidates[i] for i in found.equals),
        excluded=excluded,
        score=score,
        held_out=_held_out(comparison, candidates, values),
        is_forced=False,
        reason=ALWAYS_RIGHT.format(n=comparison.n_judged)
        if is_always_right(comparison)
        else _reason(comparison, candidates, found, score),
    )


def _check_any_fit(comparison: Comparison) -> None:
    if comparison.skipped and all(row.method == "identity" for row in comparison.rows):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in comparison.skipped)
        raise ValueError(
            f"No calibration method could be fitted, so there is no verdict. {reasons}"
        )


def _candidates(
    comparison: Comparison, score: ProperScore, *, simple: bool
) -> tuple[list[MethodResult], tuple[tuple[str, str], ...], ProperScore]:
    allowed = comparison.candidates
    rows = [row for row in comparison.rows if not (simple and row.method == POOL)]
    rows = [row for row in rows if allowed is None or row.method in allowed]
    if is_always_right(comparison):
        reason = "every prediction is right, so nothing limits how confident it becomes"
        fitted = [row for row in rows if row.method not in NOT_FITTED]
        rows = [row for row in rows if row.method in NOT_FITTED]
        return rows, tuple((row.method, f"{row.label}: {reason}") for row in fitted), score
    if score == "nll" and all(_n_zeros(comparison, row) for row in rows):
        return rows, (), "brier"
    kept, excluded = [], []
    for row in rows:
        zeros = _n_zeros(comparison, row)
        if score == "nll" and zeros:
            examples = "1 example" if zeros == 1 else f"{zeros} examples"
            excluded.append(
                (
                    row.method,
                    f"{row.label} gives probability 0 to the true class of {examples}, so its "
                    "log loss is infinite",
                )
            )
        else:
            kept.append(row)
    return kept, tuple(excluded), score


def _n_zeros(comparison: Comparison, row: MethodResult) -> int:
    """Return how many examples have probability 0 at their true class."""
    if row.method == "identity" and comparison.model_nll is not None:
        return int(is_impossible(comparison.model_nll).sum())
    return row.row_scores.n_zeros


def is_always_right(comparison: Comparison) -> bool:
    """Return whether the model's own predictions have no mistake on the rows compared."""
    raw = next((row for row in comparison.rows if row.method == "identity"), None)
    return raw is not None and raw.scores["error"].estimate == 0.0


def _values(comparison: Comparison, row: MethodResult, score: ProperScore) -> Floats:
    scores = row.row_scores
    if row.method == "identity" and score == "nll" and comparison.model_nll is not None:
        return comparison.model_nll
    if row.method == POOL and comparison.pool_scores is not None:
        scores = comparison.pool_scores
    return scores.nll if score == "nll" else scores.brier


def _pick(rows: Sequence[MethodResult], values: Floats, weights: Floats | None) -> Pick:
    places = {row.method: i for i, row in enumerate(rows)}
    are_rows = all(isinstance(row.row_scores, RowScores) for row in rows)
    return pick(
        values,
        [row.complexity for row in rows],
        weights=weights,
        size=sample_size(weights, len(values)) if are_rows else None,
        model=places.get("identity"),
        pool=places.get(POOL),
    )


def _held_out(
    comparison: Comparison, rows: Sequence[MethodResult], values: Floats
) -> dict[MetricName, Score]:
    """Return scores of the whole procedure: each fold by the method chosen without it."""
    n = len(values)  # rows, or random groups of them
    folds: Sequence[NDArray[np.intp]] = comparison.folds
    if not folds:
        order = np.random.default_rng(comparison.seed).permutation(n)
        folds = np.array_split(order, min(N_SELECTION_FOLDS, n))
    means = np.stack([row.row_scores.means() for row in rows])  # [M, N, 3]
    found = np.empty((n, len(MEANS)))
    weights = comparison.weights
    for fold in folds:
        is_kept = np.ones(n, dtype=bool)
        is_kept[fold] = False
        kept = None if weights is None else weights[is_kept]
        picked = 0 if n < 2 else _pick(rows, values[is_kept], kept).chosen
        found[fold] = means[picked, fold]
    paired = PairedMeans.of(
        found, weights=weights, n_resamples=comparison.n_resamples, seed=comparison.seed
    )
    return {name: paired.interval(i).clipped(name) for i, name in enumerate(MEANS)}


def _reason(
    comparison: Comparison, rows: Sequence[MethodResult], found: Pick, score: ProperScore
) -> str:
    word = WORDS[score]
    chosen, best = rows[found.chosen], found.best
    passed = rows[best].method == POOL != chosen.method
    if passed:
        # The pool is compared with weights fitted on the same rows; the score shown is held out.
        singles = [i for i, row in enumerate(rows) if row.method != POOL]
        best = min(singles, key=lambda i: rows[i].scores[score].estimate)
    lowest = rows[best]
    is_part = len(rows) < len(comparison.rows)  # others are only shown, and may score lower
    start = f"The choice is made from {_listed(rows)}. " if is_part else ""
    how = "cross-validated" if comparison.judged_on == "cross-fit" else "test"
    text = f"{start}{_name(lowest)} has the lowest {how} {word}"
    text += " of the single methods" if passed else ""
    text += " among these" if is_part else ""
    text += f", {lowest.scores[score].estimate:.4f}"
    if score == "brier" and all(_n_zeros(comparison, row) for row in rows):
        text = (
            "Every method gives probability 0 to some true class, which makes the log loss "
            f"infinite, so the Brier score decides. {text}"
        )
    if len(rows) == 1:
        return f"{text}; no other method could be compared."
    value = f"{chosen.scores[score].estimate:.4f}"
    if chosen.method == POOL:
        held_out = "" if comparison.pool_scores is None else " with weights from the other folds"
        why = _why_pool(comparison, rows, found)
        return f"{start}{why}; its {word}{held_out} is {value}."
    if chosen.method == "identity" and found.chosen != best:
        return f"{text}. That is not clearly below {_name(chosen).lower()}'s, {value}."
    pool = " The pool of methods is not clearly better." if passed else ""
    if found.chosen != best:
        return f"{text}. {_name(chosen)} ({value}) is simpler and within one standard error.{pool}"
    others = [rows[i].label for i in found.equals if i != best]
    if len(others) > MAX_NAMED:
        near = f"{len(others)} more complex methods are within one standard error of it."
        return f"{text}. {near}{pool}"
    if others:
        named = ", ".join(others)
        return f"{text}. Within one standard error of it but more complex: {named}.{pool}"
    rest = "the others" if is_part else "every other method"
    return f"{text}, more than one standard error below {rest}.{pool}"


def _listed(rows: Sequence[MethodResult]) -> str:
    own = {"identity": "the uncalibrated model", POOL: "a pool of methods"}
    names = [own.get(row.method, row.label) for row in rows]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _why_pool(comparison: Comparison, rows: Sequence[MethodResult], found: Pick) -> str:
    other = rows[found.single]
    if other.method == "identity":
        gain = "is clearly better than the uncalibrated model, which no single method is"
    else:
        gain = f"is more than half a standard error below the best simple method, {other.label}"
    if comparison.pool_scores is None:
        return f"The pool of methods {gain}"
    # The score shown is that of weights fitted on the other folds, and may be higher.
    return f"With weights fitted on all held-out rows, the pool of methods {gain}"


def _name(row: MethodResult) -> str:
    """Return a method as the beginning of a sentence."""
    if row.method == "identity":
        return "The uncalibrated model"
    return row.label[:1].upper() + row.label[1:]
