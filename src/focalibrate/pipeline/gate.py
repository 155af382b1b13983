"""Check predictions against limits on their calibration error and log loss."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from focalibrate._array import Array
from focalibrate._check import check_open_interval, check_positive
from focalibrate.calibrate import Calibrator
from focalibrate.io import SketchFile, read_sketch
from focalibrate.io.sketches import SUFFIX
from focalibrate.metrics.bounds import ErrorBounds
from focalibrate.metrics.interval import Moments
from focalibrate.pipeline._gate_text import number
from focalibrate.pipeline.doubts import Doubt, doubts_about, warn_of
from focalibrate.pipeline.examples import PredictionSource, given_examples
from focalibrate.pipeline.gate_baseline import Baseline, read_baseline
from focalibrate.pipeline.gate_result import GateResult, LimitCheck, LimitName
from focalibrate.pipeline.gate_source import LEAST_ROWS, Judged
from focalibrate.pipeline.loss_mean import LossMean


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
    }
    judged, doubts = _judged(source, labels, arrays, groups, calibrator, copies=copies)
    warn_of(doubts)
    columns = tuple(judged.grouped.groups) if by is None and judged.grouped else tuple(by or ())
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
            reference = read_baseline(baseline, judged)
            compared = reference.description
            checks.append(_loss_check(limit, judged, reference, level, alpha))
        elif kind != "nll_increase":  # `_limits` has refused one without a baseline
            bounds = judged.bounds(error=kind, limit=limit, alpha=level, **options)
            checks.append(_error_check(kind, limit, bounds, judged.n_rows))
    for part in parts:
        for kind, limit in errors:
            level = share / (len(errors) * len(parts))
            bounds = judged.bounds_of(part, error=kind, limit=limit, alpha=level, **options)
            found = _error_check(kind, limit, bounds, part.n_rows)
            checks.append(replace(found, column=part.column, group=part.group, n_rows=part.n_rows))
    return GateResult(
        name=judged.name,
        n_rows=judged.n_rows,
        n_classes=judged.n_classes,
        alpha=alpha,
        checks=tuple(checks),
        log_loss=judged.log_loss,
        baseline=compared,
        by=columns,
        n_small_groups=n_small,
    )


def _judged(
    source: PredictionSource | SketchFile | Array | None,
    labels: Array | None,
    arrays: dict[str, Array | None],
    groups: Mapping[str, Array] | None,
    calibrator: Calibrator | None,
    *,
    copies: bool,
) -> tuple[Judged, tuple[Doubt, ...]]:
    """Return what is checked, from the one place where it was given, and what looks wrong."""
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
        return Judged.of_sketch(source, name), ()
    order = None if calibrator is None else calibrator.class_names
    examples = given_examples(source, labels, order=order, copies=copies, groups=groups, **arrays)
    file = examples.predictions
    name = "predictions" if file is None else file.source.name
    return Judged.of_examples(examples, calibrator, name), doubts_about(examples)


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


def _error_check(name: LimitName, limit: float, bounds: ErrorBounds, n_rows: int) -> LimitCheck:
    estimate, low, high = bounds.estimate, bounds.low, bounds.high
    if n_rows < LEAST_ROWS:
        text = f"Too few rows, {n_rows}: at least {LEAST_ROWS} are needed."
        return LimitCheck(name, limit, estimate, low, high, "undetermined", text)
    if low > limit:
        text = f"At least {number(low)}, above the limit of {number(limit)}."
        return LimitCheck(name, limit, estimate, low, high, "fail", text)
    if high < limit:
        text = f"At most {number(high)}, below the limit of {number(limit)}."
        return LimitCheck(name, limit, estimate, low, high, "pass", text)
    text = f"Between {number(low)} and {number(high)}; the limit is {number(limit)}. "
    enough = n_rows * (bounds.calibrated_high / limit) ** 2
    if enough > 1.1 * n_rows:
        text += f"A calibrated model passes with about {_round(enough):,} rows."
    else:
        text += "The error is too close to the limit to tell."
    return LimitCheck(name, limit, estimate, low, high, "undetermined", text)


def _round(rows: float) -> int:
    digits = 10 ** max(0, math.floor(math.log10(rows)) - 1)
    return int(math.ceil(rows / digits) * digits)


def _loss_check(
    limit: float,
    judged: Judged,
    baseline: Baseline,
    alpha: float,
    alpha_high: float,
) -> LimitCheck:
    """Return the check of the mean log loss against the baseline's."""
    name: LimitName = "nll_increase"
    mine = judged.log_loss
    is_finite = math.isfinite(mine.mean), math.isfinite(baseline.mean.mean)
    if not all(is_finite):
        return _infinite(limit, *is_finite)
    if baseline.row_nll is not None and judged.nll is not None:
        change = LossMean.of(Moments.of(judged.nll - baseline.row_nll, judged.weights))
    else:
        change = mine.minus(baseline.mean)
    rows, mean = change.rows or judged.n_rows, change.mean
    low, high = change.lower(alpha), change.upper(alpha_high)
    if rows < LEAST_ROWS:
        text = f"Too few rows, {rows}: at least {LEAST_ROWS} are needed."
        return LimitCheck(name, limit, mean, low, high, "undetermined", text)
    if low > limit:
        text = f"Higher by at least {number(low)}, above the limit of {number(limit)}."
        return LimitCheck(name, limit, mean, low, high, "fail", text)
    if high <= limit:
        word = f"Higher by at most {number(high)}" if high > 0 else "Not higher"
        text = f"{word}, within the limit of {number(limit)}."
        return LimitCheck(name, limit, mean, low, high, "pass", text)
    text = f"Changed by between {number(low)} and {number(high)}; the limit is {number(limit)}. "
    if mean < limit:
        enough = rows * ((high - mean) / (limit - mean)) ** 2
        text += f"If the mean stays {number(mean)}, about {_round(enough):,} rows would pass."
    else:
        text += "The change is too close to the limit to tell."
    return LimitCheck(name, limit, mean, low, high, "undetermined", text)


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
