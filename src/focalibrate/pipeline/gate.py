"""Check predictions against limits on their calibration error and log loss."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_open_interval, check_positive
from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.grouped import group_names
from focalibrate.calibrate.rows import BLOCK_ENTRIES
from focalibrate.comparison.paired import by_cluster
from focalibrate.io import SketchFile, read_sketch
from focalibrate.io.errors import short
from focalibrate.io.sketches import SUFFIX
from focalibrate.metrics.bounds import bounds_of_cells
from focalibrate.metrics.interval import NORMAL_95, Moments
from focalibrate.metrics.null import LEAST_CLUSTERS
from focalibrate.metrics.residuals import Residuals
from focalibrate.metrics.rows import read_event, renumbered
from focalibrate.pipeline.doubts import doubts_about, warn_of
from focalibrate.pipeline.examples import Examples, PredictionSource, given_examples
from focalibrate.pipeline.gate_result import (
    GateResult,
    LimitCheck,
    LimitName,
    LossMean,
    Status,
    number,
)

LEAST_ROWS = 30
"""Fewer rows than this decide nothing."""


def check_predictions(
    source: PredictionSource | SketchFile | Array | None = None,
    labels: Array | None = None,
    *,
    logits: Array | None = None,
    probs: Array | None = None,
    confidence: Array | None = None,
    correct: Array | None = None,
    sample_weight: Array | None = None,
    copies: bool = False,
    cluster: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    by: Sequence[str] | None = None,
    calibrator: Calibrator | None = None,
    max_ece: float | None = None,
    max_rms: float | None = None,
    max_nll_increase: float | None = None,
    baseline: PredictionSource | SketchFile | None = None,
    alpha: float = 0.05,
    seed: int = 0,
) -> GateResult:
    """Check predictions against limits on their calibration error and log loss.

    A limit fails only if the data show that it is exceeded: the lower bound of the error is
    above the limit. It passes only if the upper bound is below the limit. Otherwise there are not
    enough data to tell. A model within every limit, or exactly at it, fails with probability at
    most `alpha`, whatever the number of limits and of groups.

    With groups, the limits on calibration errors apply to all rows and to every group of at least
    30 rows. Half of `alpha` is for all rows, half is shared by the groups.

    Args:
        source: a file of predictions with labels or a sketch (``.sketch``), one that was read, or
            a data frame with labels; with `labels`, probabilities.
        labels: class indices ``[N]``.
        logits: scores before the softmax, ``[N, K]``.
        probs: probabilities ``[N, K]``, or ``[N]`` of class 1.
        confidence: instead of scores, a probability ``[N]`` of being right.
        correct: instead of `labels`, whether it was, ``[N]``.
        sample_weight: weights ``[N]``.
        copies: whether weights are numbers of identical rows; default: the importance of each.
        cluster: equal values ``[N]`` mark rows that belong together, such as tries at one
            question: the bounds allow for it. A file has its own
            (`read_predictions(..., cluster=)`). At least 50 clusters are needed.
        groups: columns of groups ``[N]`` by name, of arrays.
        by: names of the columns whose groups are checked too; None: all that the source has.
        calibrator: applied first; not for sketches.
        max_ece: largest expected calibration error of the predicted class; for two classes of
            the probability of class 1 too. See `focalibrate.metrics.calibration_bounds`.
        max_rms: largest root-mean-square calibration error, which is never below the ECE.
        max_nll_increase: by how much the mean log loss may exceed that of `baseline`.
        baseline: a results.json of ``focalibrate calibrate``, the output of ``focalibrate
            evaluate --json`` or ``check --json``, a sketch, or a file of predictions. Predictions
            of the same rows are compared row by row.
        alpha: probability of failing a model that is within the limits.
        seed: random seed of the draws behind the bounds.

    Returns:
        `GateResult`.

    Warns:
        DataWarning: the data look wrong, such as labels that the scores predict no better than
            chance.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(20_000, 3)) * 2
        >>> y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        >>> check_predictions(logits=z, labels=y, max_ece=0.02).status
        'pass'
        >>> check_predictions(logits=3 * z, labels=y, max_ece=0.02).status
        'fail'
        >>> check_predictions(logits=z[:100], labels=y[:100], max_ece=0.02).status
        'undetermined'
    """
    check_open_interval(alpha, low=0.0, high=0.5, name="alpha")
    limits = _limits(max_ece, max_rms, max_nll_increase, has_baseline=baseline is not None)
    judged = _judged(
        source,
        labels,
        calibrator=calibrator,
        order=None if calibrator is None else calibrator.class_names,
        copies=copies,
        logits=logits,
        probs=probs,
        confidence=confidence,
        correct=correct,
        sample_weight=sample_weight,
        cluster=cluster,
        groups=groups,
    )
    if isinstance(judged.given, Examples):
        warn_of(doubts_about(judged.given), stacklevel=3)
    whole, known = judged.parts()
    columns = tuple(known) if by is None else tuple(by)
    for column in columns:
        if column not in known:
            raise ValueError(
                f"`by`: {judged.name} has no groups by {column!r}. Make the sketch with them: "
                f"focalibrate sketch PATH -o x.sketch --by {column}"
            )
    members = [part for column in columns for part in known[column]]
    parts = [part for part in members if part.n_rows >= LEAST_ROWS]
    errors = [(kind, limit) for kind, limit in limits if kind != "nll_increase"]
    if columns and not errors:
        raise ValueError(
            "Groups must come with `max_ece` or `max_rms`: the log loss is compared over all rows "
            "(command line: --by with --max-ece 0.02)."
        )
    share = alpha / 2 if columns else alpha
    checks, compared = [], None
    for kind, limit in limits:
        level = share / len(limits)
        if kind != "nll_increase":
            checks.append(_error_check(kind, limit, whole, level, alpha, seed))
        elif baseline is not None:  # `_limits` has refused one without a baseline
            former = _read_baseline(baseline, judged)
            rows = "row by row" if judged.has_rows_of(former) else "other rows"
            compared = f"{former.name}, {rows}"
            checks.append(_loss_check(limit, judged, former, whole, level, alpha))
    for part in parts:
        for kind, limit in errors:
            level = share / (len(errors) * len(parts))
            checks.append(_error_check(kind, limit, part, level, alpha, seed))
    return GateResult(
        name=judged.name,
        n_rows=whole.n_rows,
        n_classes=judged.n_classes or 0,
        alpha=alpha,
        checks=tuple(checks),
        log_loss=judged.mean,
        baseline=compared,
        by=columns,
        n_small_groups=len(members) - len(parts),
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """All rows, or one group of them: of a sketch or in memory, in cells."""

    n_rows: int
    cells: Callable[[], Residuals]
    column: str | None = None
    group: str | None = None
    n_clusters: int | None = None

    @property
    def too_few(self) -> str:
        """Why nothing can be decided, as a sentence; empty where it can be."""
        if self.n_rows < LEAST_ROWS:
            return f"Too few rows, {self.n_rows}: at least {LEAST_ROWS} are needed."
        if self.n_clusters is not None and self.n_clusters < LEAST_CLUSTERS:
            n, least = self.n_clusters, LEAST_CLUSTERS
            return f"Too few clusters, {n}: at least {least} are needed."
        return ""


@dataclass(frozen=True, eq=False)
class _Judged:
    """The log loss of a model, and what limits are held to."""

    name: str
    mean: LossMean
    given: Examples | SketchFile | None = None
    """None: a file of results"""
    nll: Floats = field(default_factory=lambda: np.empty(0))
    """log loss of each row in memory, ``[N]``"""
    probs: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    """of rows in memory, after any calibrator ``[N, K]``; not of a baseline"""

    @property
    def n_classes(self) -> int | None:
        """Number of classes, where it is known."""
        known = self.given.sketch if isinstance(self.given, SketchFile) else self.given
        return None if known is None else known.n_classes

    def parts(self) -> tuple[_Part, dict[str, list[_Part]]]:
        """Return all rows, and every group by its column."""
        if isinstance(self.given, SketchFile):
            sketch = self.given.sketch
            return _Part(sketch.n, sketch.event_rows), {
                name: [_Part(g[i].n_rows, g[i].residuals, name, g.names[i]) for i in g.in_order()]
                for name, g in sketch.groups.items()
            }
        examples = self.given
        assert examples is not None  # noqa: S101  results are a baseline, which has no parts
        cluster = None if examples.cluster is None else renumbered(examples.cluster)

        def part(at: Any, column: str | None = None, group: str | None = None) -> _Part:
            labels, code = examples.labels[at], None if cluster is None else cluster[at]

            def cells() -> Residuals:
                weights = None if examples.weights is None else examples.weights[at]
                rows = read_event(
                    self.probs[at],
                    labels,
                    sample_weight=weights,
                    copies=examples.copies,
                    cluster=code,
                )
                return rows.cells()

            n_clusters = None if code is None else len(np.unique(code))
            return _Part(len(labels), cells, column, group, n_clusters)

        found = {}
        for column, values in examples.groups.items():
            names = group_names(values)
            order: list[str] = np.unique(names).tolist()
            with suppress(ValueError):  # by value where all are numbers, else by name
                order.sort(key=float)
            found[column] = [part(np.flatnonzero(names == g), column, g) for g in order]
        return part(slice(None)), found

    def has_rows_of(self, former: "_Judged") -> bool:
        """Whether the rows are the same, by their labels."""
        mine, other = self.given, former.given
        if not (isinstance(mine, Examples) and isinstance(other, Examples)):
            return False
        return np.array_equal(mine.labels, other.labels)

    def minus(self, former: "_Judged") -> LossMean:
        """Return the mean change of the log loss, of each row where the rows are the same."""
        mine = self.given
        if not (isinstance(mine, Examples) and self.has_rows_of(former)):
            return self.mean.minus(former.mean)
        with np.errstate(invalid="ignore"):  # infinite log losses are told apart before
            return _mean_loss(self.nll - former.nll, mine)


def _judged(
    source: PredictionSource | SketchFile | Array | None,
    labels: Array | None = None,
    *,
    calibrator: Calibrator | None = None,
    order: tuple[str, ...] | None = None,
    copies: bool = False,
    is_baseline: bool = False,
    **arrays: Any,
) -> _Judged:
    """Return what was given in one place: a sketch, or what `given_examples` takes."""
    name = "sketch"
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix == SUFFIX:
        name, source = Path(source).name, read_sketch(Path(source))
    if isinstance(source, SketchFile):
        if any(given is not None for given in (labels, *arrays.values())):
            raise ValueError("A sketch must be given without arrays and `groups`.")
        if calibrator is not None:
            raise ValueError(
                "`calibrator` needs rows, which a sketch does not have: apply it when the "
                "sketch is made (command line: focalibrate sketch PATH --calibrator FILE)."
            )
        return _Judged(name, LossMean.of(source.sketch.scores["nll"]), source)
    given = given_examples(source, labels, order=order, copies=copies, **arrays)
    nll = np.empty(given.n_rows)
    shape = (0, 0) if is_baseline else given.scores.shape
    probs = np.empty(shape, np.result_type(given.scores.dtype, np.float32))
    step = max(1, BLOCK_ENTRIES // given.n_classes)
    for start in range(0, given.n_rows, step):
        rows = slice(start, start + step)
        log_probs = given.log_probs(calibrator, rows)
        block = given.labels[rows]
        nll[rows] = -log_probs[np.arange(len(block)), block]
        if not is_baseline:
            probs[rows] = np.exp(log_probs)
    return _Judged(given.source.name or "predictions", _mean_loss(nll, given), given, nll, probs)


def _mean_loss(nll: Floats, examples: Examples) -> LossMean:
    """Return a mean over rows, or over clusters of them."""
    weights = examples.weights
    if examples.cluster is not None and np.isfinite(nll).all():
        code = renumbered(examples.cluster)
        means, weights = by_cluster(nll[:, None], weights, code)
        nll = means[:, 0]
    return LossMean.of(Moments.of(nll, weights))


def _limits(
    max_ece: float | None,
    max_rms: float | None,
    max_nll_increase: float | None,
    *,
    has_baseline: bool,
) -> list[tuple[LimitName, float]]:
    """Return the limits that are given, checked."""
    for name, limit in (("max_ece", max_ece), ("max_rms", max_rms)):
        if limit is not None:
            check_open_interval(limit, low=0.0, high=1.0, name=name)
    if max_nll_increase:
        check_positive(max_nll_increase, name="max_nll_increase")
    if max_nll_increase is not None and not has_baseline:
        raise ValueError(
            "`max_nll_increase` must come with a `baseline`: a results.json, or earlier "
            "predictions (command line: --baseline FILE)."
        )
    if has_baseline and max_nll_increase is None:
        raise ValueError(
            "`baseline` must come with `max_nll_increase`, by how much the log loss may rise, "
            "such as 0.01 (command line: --max-nll-increase 0.01)."
        )
    given: dict[LimitName, float | None]
    given = {"ece": max_ece, "rms": max_rms, "nll_increase": max_nll_increase}
    found = [(name, float(limit)) for name, limit in given.items() if limit is not None]
    if not found:
        raise ValueError(
            "At least one limit must be given: `max_ece`, `max_rms` or `max_nll_increase` "
            "(command line: --max-ece 0.02)."
        )
    return found


def _error_check(
    name: Literal["ece", "rms"], limit: float, part: _Part, level: float, alpha: float, seed: int
) -> LimitCheck:
    """Return the check of a calibration error, of all rows or of a group."""
    found = bounds_of_cells(
        part.cells(), error=name, limit=limit, alpha=level, alpha_high=alpha, seed=seed
    )
    low, high = found.low, found.high
    status: Status = "undetermined"
    if part.too_few:
        text = part.too_few
    elif low > limit:
        status, text = "fail", f"At least {number(low)}, above the limit of {number(limit)}."
    elif high < limit:
        status, text = "pass", f"At most {number(high)}, below the limit of {number(limit)}."
    else:
        text = f"Between {number(low)} and {number(high)}; the limit is {number(limit)}. "
        enough = part.n_rows * (found.calibrated_high / limit) ** 2
        if enough > 1.1 * part.n_rows:
            text += f"A calibrated model passes with about {_round(enough):,} rows."
        else:
            text += "The error is too close to the limit to tell."
    of = {} if part.column is None else {"n_rows": part.n_rows}
    return LimitCheck(
        name, limit, found.estimate, low, high, status, text, part.column, part.group, **of
    )


def _loss_check(
    limit: float, judged: _Judged, former: _Judged, part: _Part, level: float, alpha: float
) -> LimitCheck:
    """Return the check of the mean log loss against the baseline's."""
    is_finite, was_finite = math.isfinite(judged.mean.mean), math.isfinite(former.mean.mean)
    if not (is_finite or was_finite):
        text = "Both log losses are infinite: true classes have probability 0."
        return LimitCheck("nll_increase", limit, 0.0, -math.inf, math.inf, "undetermined", text)
    if not is_finite:
        text = "Infinite: a true class has probability 0."
        return LimitCheck("nll_increase", limit, math.inf, math.inf, math.inf, "fail", text)
    if not was_finite:
        text = "Finite, where the baseline gave probability 0 to a true class."
        return LimitCheck("nll_increase", limit, -math.inf, -math.inf, -math.inf, "pass", text)
    change = judged.minus(former)
    rows, mean = change.rows or part.n_rows, change.mean
    low, high = change.lower(level), change.upper(alpha)
    status: Status = "undetermined"
    if part.too_few or rows < LEAST_ROWS:
        text = part.too_few or replace(part, n_rows=rows).too_few
    elif low > limit:
        status = "fail"
        text = f"Higher by at least {number(low)}, above the limit of {number(limit)}."
    elif high <= limit:
        word = f"Higher by at most {number(high)}" if high > 0 else "Not higher"
        status, text = "pass", f"{word}, within the limit of {number(limit)}."
    else:
        text = (
            f"Changed by between {number(low)} and {number(high)}; the limit is {number(limit)}. "
        )
        if mean < limit:
            enough = rows * ((high - mean) / (limit - mean)) ** 2
            text += f"If the mean stays {number(mean)}, about {_round(enough):,} rows would pass."
        else:
            text += "The change is too close to the limit to tell."
    return LimitCheck("nll_increase", limit, mean, low, high, status, text)


def _round(rows: float) -> int:
    digits = 10 ** max(0, math.floor(math.log10(rows)) - 1)
    return int(math.ceil(rows / digits) * digits)


def _read_baseline(source: PredictionSource | SketchFile, judged: _Judged) -> _Judged:
    """Return what predictions are compared with, of a results.json, a sketch or predictions."""
    if isinstance(source, (str, os.PathLike)):
        record = _json_record(Path(source))
        if record is not None:
            return _Judged(Path(source).name, _from_record(Path(source), record))
    order = None if judged.given is None else judged.given.class_names
    former = _judged(source, order=order, is_baseline=True)
    if former.n_classes != judged.n_classes:
        raise ValueError(
            f"{former.name}: the baseline must have the same classes, but has "
            f"{former.n_classes}, while the predictions have {judged.n_classes}."
        )
    return former


RECORDS = {
    "focalibrate_check": (("log_loss",), ("rows",)),
    "held_out": (("held_out", "nll"), ("comparison", "n_judged")),
    "assessment": (("scores", "nll"), ("rows",)),
}
"""Where the output of check, calibrate and evaluate has its log loss and number of rows."""
LARGEST = 1e100
"""Larger numbers in a baseline are damage: their cubes are infinite."""


def _json_record(path: Path) -> dict[str, Any] | None:
    """Return the content of a file of results, None where it is something else."""
    if path.suffix.lower() != ".json" or not os.path.isfile(path):
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None  # reading it as predictions will tell what is wrong
    return record if isinstance(record, dict) and any(key in record for key in RECORDS) else None


def _from_record(path: Path, record: dict[str, Any]) -> LossMean:

    def at(keys: tuple[str, ...]) -> Any:
        found: Any = record
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    found, rows = map(at, next(places for key, places in RECORDS.items() if key in record))
    if not isinstance(found, dict) or "estimate" not in found:
        raise ValueError(
            f"{path}: no log loss found. Give a results.json of `focalibrate calibrate`, the "
            "output of `focalibrate evaluate --json`, or a file of predictions."
        )
    names = ("estimate", "standard_error", "third", "low", "high")
    numbers = {name: found.get(name) for name in names}
    for name, value in {**numbers, "rows": rows}.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (is_number and abs(value) < LARGEST):
            raise ValueError(
                f"{path}: `{name}` of its log loss must be a number, got {short(repr(value))}. "
                "Make it again, or give the predictions instead."
            )
    mean, error, third, low, high = numbers.values()
    rows = None if rows is None else int(rows)
    if mean is None:
        return LossMean(math.inf, math.inf, rows)
    if error is None and low is not None and high is not None:
        error, third = (high - low) / (2.0 * NORMAL_95), None
    if error is None:
        raise ValueError(
            f"{path}: its log loss has no interval, so no difference can be judged. Give "
            "the predictions instead."
        )
    return LossMean(float(mean), float(error), rows, third)
