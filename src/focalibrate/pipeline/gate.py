"""Check predictions against limits on their calibration error and log loss."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_open_interval, check_positive
from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.grouped import group_names
from focalibrate.calibrate.rows import BLOCK_ENTRIES
from focalibrate.comparison.paired import by_cluster, cluster_numbers
from focalibrate.io import Predictions, SketchFile, read_sketch
from focalibrate.io.errors import short
from focalibrate.io.sketches import SUFFIX
from focalibrate.metrics import calibration_bounds
from focalibrate.metrics.bounds import ErrorBounds
from focalibrate.metrics.interval import NORMAL_95, Moments
from focalibrate.metrics.null import LEAST_CLUSTERS
from focalibrate.pipeline.doubts import doubts_about, warn_of
from focalibrate.pipeline.examples import Examples, PredictionSource, given_examples, read_source
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
    arrays = {
        "logits": logits,
        "probs": probs,
        "confidence": confidence,
        "correct": correct,
        "sample_weight": sample_weight,
        "cluster": cluster,
    }
    judged = _judged(source, labels, arrays, groups, calibrator, copies=copies)
    columns = tuple(judged.groups) if by is None else tuple(by)
    parts, n_small = judged.parts(columns)
    errors = [(kind, limit) for kind, limit in limits if kind != "nll_increase"]
    if columns and not errors:
        raise ValueError(
            "Groups must come with `max_ece` or `max_rms`: the log loss is compared over all rows "
            "(command line: --by with --max-ece 0.02)."
        )
    share = alpha / 2 if columns else alpha
    options: dict[str, Any] = {"alpha_high": alpha, "seed": seed}
    checks, compared = [], None
    for kind, limit in limits:
        level = share / len(limits)
        if kind == "nll_increase" and baseline is not None:
            reference = _read_baseline(baseline, judged)
            compared = reference.description
            checks.append(_loss_check(limit, judged, reference, level, alpha))
        elif kind != "nll_increase":  # `_limits` has refused one without a baseline
            bounds = judged.bounds(None, error=kind, limit=limit, alpha=level, **options)
            checks.append(_error_check(kind, limit, bounds, judged.all_rows))
    for part in parts:
        for kind, limit in errors:
            level = share / (len(errors) * len(parts))
            bounds = judged.bounds(part, error=kind, limit=limit, alpha=level, **options)
            found = _error_check(kind, limit, bounds, part)
            checks.append(replace(found, column=part.column, group=part.group, n_rows=part.n_rows))
    return GateResult(
        name=judged.name,
        n_rows=judged.all_rows.n_rows,
        n_classes=judged.n_classes,
        alpha=alpha,
        checks=tuple(checks),
        log_loss=judged.log_loss,
        baseline=compared,
        by=columns,
        n_small_groups=n_small,
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """All rows, or one group of them."""

    n_rows: int
    n_clusters: int | None = None
    column: str = ""
    group: str = ""
    at: Any = None
    """the rows of the group, or its place among the groups of a sketch"""

    @property
    def too_few(self) -> str:
        """Why nothing can be decided, as a sentence; empty where it can be."""
        if self.n_rows < LEAST_ROWS:
            return f"Too few rows, {self.n_rows}: at least {LEAST_ROWS} are needed."
        if self.n_clusters is not None and self.n_clusters < LEAST_CLUSTERS:
            n, least = self.n_clusters, LEAST_CLUSTERS
            return f"Too few clusters, {n}: at least {least} are needed."
        return ""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Judged:
    """What limits are held to: rows in memory, or a sketch of any number of rows."""

    name: str
    n_classes: int
    class_names: tuple[str, ...] | None
    all_rows: _Part
    groups: Mapping[str, Sequence[_Part]]
    """by column"""
    log_loss: LossMean
    bounds: Callable[..., ErrorBounds] = field(repr=False)
    """of the error of a group, or of all rows; options as for `calibration_bounds`"""
    examples: Examples | None = None
    nll: Floats | None = field(default=None, repr=False)
    """log loss of each row in memory, ``[N]``"""

    def parts(self, columns: Sequence[str]) -> tuple[list[_Part], int]:
        """Return the groups of `columns` with enough rows, and how many others there are."""
        for column in columns:
            if column not in self.groups:
                raise ValueError(
                    f"`by`: {self.name} has no groups by {column!r}. Make the sketch with them: "
                    f"focalibrate sketch PATH -o x.sketch --by {column}"
                )
        every = [part for column in columns for part in self.groups[column]]
        enough = [part for part in every if part.n_rows >= LEAST_ROWS]
        return enough, len(every) - len(enough)


def _judged(
    source: PredictionSource | SketchFile | Array | None,
    labels: Array | None,
    arrays: dict[str, Array | None],
    groups: Mapping[str, Array] | None,
    calibrator: Calibrator | None,
    *,
    copies: bool,
) -> _Judged:
    """Return what is checked, from the one place where it was given."""
    name = "sketch"
    if isinstance(source, (str, os.PathLike)) and Path(source).suffix == SUFFIX:
        name, source = Path(source).name, read_sketch(Path(source))
    if isinstance(source, SketchFile):
        if any(given is not None for given in (labels, groups, *arrays.values())):
            raise ValueError("A sketch must be given without arrays and `groups`.")
        if calibrator is not None:
            raise ValueError(
                "`calibrator` needs rows, which a sketch does not have: apply it when the "
                "sketch is made (command line: focalibrate sketch PATH --calibrator FILE)."
            )
        return _of_sketch(source, name)
    order = None if calibrator is None else calibrator.class_names
    examples = given_examples(source, labels, order=order, copies=copies, groups=groups, **arrays)
    warn_of(doubts_about(examples), stacklevel=4)
    return _of_examples(examples, calibrator)


def _of_sketch(file: SketchFile, name: str) -> _Judged:
    sketch = file.sketch

    def bounds(part: _Part | None, **options: Any) -> ErrorBounds:
        group = None if part is None else (part.column, part.at)
        return sketch.bounds(group=group, **options)

    return _Judged(
        name=name,
        n_classes=sketch.n_classes,
        class_names=file.class_names,
        all_rows=_Part(sketch.n),
        groups={
            column: [_Part(g[i].n_rows, None, column, g.names[i], i) for i in g.in_order()]
            for column, g in sketch.groups.items()
        },
        log_loss=LossMean.of(sketch.scores["nll"]),
        bounds=bounds,
    )


def _of_examples(examples: Examples, calibrator: Calibrator | None) -> _Judged:
    """Return rows in memory, after `calibrator`."""
    scores, labels, weights = examples.scores, examples.labels, examples.weights
    probs = np.empty(scores.shape, np.result_type(scores.dtype, np.float32))
    nll = _row_nll(examples, calibrator, probs)
    code = None if examples.cluster is None else cluster_numbers(examples.cluster)

    def bounds(part: _Part | None, **options: Any) -> ErrorBounds:
        at = slice(None) if part is None else part.at
        return calibration_bounds(
            probs[at],
            labels[at],
            sample_weight=None if weights is None else weights[at],
            copies=examples.copies,
            cluster=None if code is None else code[at],
            **options,
        )

    def part(column: str, group: str, at: NDArray[np.intp]) -> _Part:
        return _Part(
            len(at), None if code is None else len(np.unique(code[at])), column, group, at
        )

    columns = {name: group_names(values) for name, values in examples.groups.items()}
    file = examples.predictions
    return _Judged(
        name="predictions" if file is None else file.source.name,
        n_classes=examples.n_classes,
        class_names=examples.class_names,
        all_rows=_Part(examples.n_rows, None if code is None else int(code.max()) + 1),
        groups={
            column: [
                part(column, group, np.flatnonzero(names == group)) for group in _sorted(names)
            ]
            for column, names in columns.items()
        },
        log_loss=_mean_loss(nll, weights, code),
        bounds=bounds,
        examples=examples,
        nll=nll,
    )


def _sorted(names: NDArray[Any]) -> list[str]:
    """Return the groups by value where all are numbers, else by name."""
    found: list[str] = np.unique(names).tolist()
    try:
        return sorted(found, key=float)
    except ValueError:
        return found


def _row_nll(
    examples: Examples, calibrator: Calibrator | None, probs: NDArray[Any] | None = None
) -> Floats:
    """Return the log loss of each row, in blocks; `probs` gets their probabilities."""
    nll = np.empty(examples.n_rows)
    step = max(1, BLOCK_ENTRIES // examples.n_classes)
    for start in range(0, examples.n_rows, step):
        rows = slice(start, start + step)
        log_probs = examples.log_probs(calibrator, rows)
        labels = examples.labels[rows]
        nll[rows] = -log_probs[np.arange(len(labels)), labels]
        if probs is not None:
            probs[rows] = np.exp(log_probs)
    return nll


def _mean_loss(nll: Floats, weights: Floats | None, code: NDArray[np.intp] | None) -> LossMean:
    """Return a mean over rows, or over clusters of them."""
    if code is not None and np.isfinite(nll).all():
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
    found: list[tuple[LimitName, float]] = []
    errors: list[tuple[LimitName, float | None]] = [("ece", max_ece), ("rms", max_rms)]
    for name, limit in errors:
        if limit is not None:
            check_open_interval(limit, low=0.0, high=1.0, name=f"max_{name}")
            found.append((name, float(limit)))
    if max_nll_increase is not None:
        if max_nll_increase != 0.0:
            check_positive(max_nll_increase, name="max_nll_increase")
        if not has_baseline:
            raise ValueError(
                "`max_nll_increase` must come with a `baseline`: a results.json, or earlier "
                "predictions (command line: --baseline FILE)."
            )
        found.append(("nll_increase", float(max_nll_increase)))
    elif has_baseline:
        raise ValueError(
            "`baseline` must come with `max_nll_increase`, by how much the log loss may rise, "
            "such as 0.01 (command line: --max-nll-increase 0.01)."
        )
    if not found:
        raise ValueError(
            "At least one limit must be given: `max_ece`, `max_rms` or `max_nll_increase` "
            "(command line: --max-ece 0.02)."
        )
    return found


def _error_check(name: LimitName, limit: float, bounds: ErrorBounds, part: _Part) -> LimitCheck:
    estimate, low, high = bounds.estimate, bounds.low, bounds.high
    status: Status = "undetermined"
    if part.too_few:
        text = part.too_few
    elif low > limit:
        status, text = "fail", f"At least {number(low)}, above the limit of {number(limit)}."
    elif high < limit:
        status, text = "pass", f"At most {number(high)}, below the limit of {number(limit)}."
    else:
        text = f"Between {number(low)} and {number(high)}; the limit is {number(limit)}. "
        enough = part.n_rows * (bounds.calibrated_high / limit) ** 2
        if enough > 1.1 * part.n_rows:
            text += f"A calibrated model passes with about {_round(enough):,} rows."
        else:
            text += "The error is too close to the limit to tell."
    return LimitCheck(name, limit, estimate, low, high, status, text)


def _round(rows: float) -> int:
    digits = 10 ** max(0, math.floor(math.log10(rows)) - 1)
    return int(math.ceil(rows / digits) * digits)


def _loss_check(
    limit: float, judged: _Judged, baseline: "_Baseline", alpha: float, alpha_high: float
) -> LimitCheck:
    """Return the check of the mean log loss against the baseline's."""
    is_finite = math.isfinite(judged.log_loss.mean), math.isfinite(baseline.mean.mean)
    if not all(is_finite):
        return _infinite(limit, *is_finite)
    change = judged.log_loss.minus(baseline.mean) if baseline.change is None else baseline.change
    rows, mean = change.rows or judged.all_rows.n_rows, change.mean
    low, high = change.lower(alpha), change.upper(alpha_high)
    status: Status = "undetermined"
    if judged.all_rows.too_few or rows < LEAST_ROWS:
        text = judged.all_rows.too_few or _Part(rows).too_few
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


def _infinite(limit: float, is_mine_finite: bool, is_former_finite: bool) -> LimitCheck:
    inf = math.inf
    if is_mine_finite:
        text = "Finite, where the baseline gave probability 0 to a true class."
        return LimitCheck("nll_increase", limit, -inf, -inf, -inf, "pass", text)
    if is_former_finite:
        text = "Infinite: a true class has probability 0."
        return LimitCheck("nll_increase", limit, inf, inf, inf, "fail", text)
    text = "Both log losses are infinite: true classes have probability 0."
    return LimitCheck("nll_increase", limit, 0.0, -inf, inf, "undetermined", text)


@dataclass(frozen=True, eq=False)
class _Baseline:
    """What the log loss is compared with."""

    mean: LossMean
    description: str
    change: LossMean | None = None
    """the mean change, row by row, where the rows are the same"""


def _read_baseline(source: PredictionSource | SketchFile, judged: _Judged) -> _Baseline:
    """Return the baseline in a results.json, a sketch or a file of predictions.

    Args:
        source: the file, or predictions or a sketch that were read.
        judged: what will be compared with it, to find out whether the rows are the same.
    """
    name = "sketch"
    if isinstance(source, Predictions):
        name = source.source.name
    elif not isinstance(source, SketchFile):
        path = Path(source)
        name = path.name
        record = _json_record(path)
        if record is not None:
            return _from_record(path, record)
        if path.suffix == SUFFIX:
            source = read_sketch(path)
    former: Examples | SketchFile
    if isinstance(source, SketchFile):
        former, n_classes = source, source.sketch.n_classes
    else:
        former = read_source(source, judged.class_names)
        n_classes = former.n_classes
    if n_classes != judged.n_classes:
        raise ValueError(
            f"{name}: the baseline must have the same classes, but has {n_classes}, while the "
            f"predictions have {judged.n_classes}."
        )
    if isinstance(former, SketchFile):
        return _Baseline(LossMean.of(former.sketch.scores["nll"]), f"{name}, other rows")
    nll, mine = _row_nll(former, None), judged.examples
    code = None if former.cluster is None else cluster_numbers(former.cluster)
    mean = _mean_loss(nll, former.weights, code)
    if mine is None or judged.nll is None or not np.array_equal(former.labels, mine.labels):
        return _Baseline(mean, f"{name}, other rows")
    code = None if mine.cluster is None else cluster_numbers(mine.cluster)
    with np.errstate(invalid="ignore"):  # infinite log losses are told apart before
        change = _mean_loss(judged.nll - nll, mine.weights, code)
    return _Baseline(mean, f"{name}, row by row", change)


def _json_record(path: Path) -> dict[str, Any] | None:
    """Return the content of a file of results, None where it is something else."""
    if path.suffix.lower() != ".json" or not os.path.isfile(path):
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None  # reading it as predictions will tell what is wrong
    known = ("held_out", "focalibrate_check", "assessment")
    is_results = isinstance(record, dict) and any(key in record for key in known)
    return record if is_results else None


def _from_record(path: Path, record: dict[str, Any]) -> _Baseline:
    if "focalibrate_check" in record:
        found, rows = record.get("log_loss"), record.get("rows")
    elif "held_out" in record:
        found = _inside(record, "held_out").get("nll")
        rows = _inside(record, "comparison").get("n_judged")
    else:
        found, rows = _inside(record, "scores").get("nll"), record.get("rows")
    if not isinstance(found, dict) or "estimate" not in found:
        raise ValueError(
            f"{path}: no log loss found. Give a results.json of `focalibrate calibrate`, the "
            "output of `focalibrate evaluate --json`, or a file of predictions."
        )
    names = ("estimate", "standard_error", "third", "low", "high")
    numbers = {name: found.get(name) for name in names}
    for name, value in {**numbers, "rows": rows}.items():
        if value is not None and not _is_finite(value):
            raise ValueError(
                f"{path}: `{name}` of its log loss must be a number, got {short(repr(value))}. "
                "Make it again, or give the predictions instead."
            )
    text, rows = f"{path.name}, other rows", None if rows is None else int(rows)
    mean, error, third, low, high = numbers.values()
    if mean is None:
        return _Baseline(LossMean(math.inf, math.inf, rows), text)
    if error is None and low is not None and high is not None:
        error, third = (high - low) / (2.0 * NORMAL_95), None
    if error is None:
        raise ValueError(
            f"{path}: its log loss has no interval, so no difference can be judged. Give "
            "the predictions instead."
        )
    return _Baseline(LossMean(float(mean), float(error), rows, third), text)


LARGEST = 1e100
"""Larger numbers in a baseline are damage: their cubes are infinite."""


def _inside(record: dict[str, Any], name: str) -> dict[str, Any]:
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < LARGEST
