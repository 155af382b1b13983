"""Holding predictions to limits."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._check import check_open_interval, check_positive
from focalibrate.calibrate import Calibrator, Identity
from focalibrate.comparison.row_scores import BLOCK_ENTRIES
from focalibrate.metrics import ErrorBounds, calibration_bounds
from focalibrate.pipeline._gate_text import number
from focalibrate.pipeline.examples import Examples, Source, read_source
from focalibrate.pipeline.gate_baseline import Baseline, LossMean, read_baseline
from focalibrate.pipeline.gate_result import GateResult, LimitCheck, LimitName

LEAST_ROWS = 30
"""Fewer rows than this decide nothing."""


def check_predictions(
    source: Source | None = None,
    *,
    logits: Array | None = None,
    probs: Array | None = None,
    labels: Array | None = None,
    sample_weight: Array | None = None,
    calibrator: Calibrator | None = None,
    max_ece: float | None = None,
    max_rms: float | None = None,
    max_nll_increase: float | None = None,
    baseline: Source | None = None,
    alpha: float = 0.05,
    seed: int = 0,
) -> GateResult:
    """Say whether predictions keep limits on their calibration error and log loss.

    A limit is broken only where the data show it: where the lower bound of the error lies above
    the limit. It is kept only where the upper bound lies below. Otherwise there are not enough
    data to tell. A model that keeps every limit, exactly at the limit included, fails with
    probability at most `alpha`, whatever the number of limits.

    Args:
        source: a file of predictions with labels, or one that was read; or pass arrays.
        logits: scores before the softmax, ``[N, K]``.
        probs: probabilities ``[N, K]``, or ``[N]`` of class 1.
        labels: class indices ``[N]``.
        sample_weight: weights ``[N]``.
        calibrator: applied first.
        max_ece: largest expected calibration error of the predicted class; for two classes of
            the probability of class 1 too. See `focalibrate.metrics.calibration_bounds`.
        max_rms: largest root-mean-square calibration error, which is never below the ECE.
        max_nll_increase: by how much the mean log loss may exceed that of `baseline`.
        baseline: a results.json of ``focalibrate calibrate``, the output of ``focalibrate
            evaluate --json`` or ``check --json``, or a file of predictions. Predictions of the
            same rows are compared row by row.
        alpha: probability of failing a model that keeps the limits.
        seed: random seed of the draws behind the bounds.

    Returns:
        `GateResult`.

    Example:
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
    if source is None:
        examples, name = (
            Examples.of_arrays(
                logits=logits, probs=probs, labels=labels, sample_weight=sample_weight
            ),
            "predictions",
        )
    else:
        if any(given is not None for given in (logits, probs, labels, sample_weight)):
            raise ValueError("`source` must be given without `logits`, `probs` and `labels`.")
        names = None if calibrator is None else calibrator.class_names
        examples = read_source(source, names)
        name = "" if examples.predictions is None else examples.predictions.source.name
    found, nll = _probs_and_nll(examples, calibrator)
    level = alpha / len(limits)
    checks = []
    compared = None
    for kind, limit in limits:
        if kind == "nll_increase":
            if baseline is None:  # `_limits` has refused this
                continue
            reference = read_baseline(baseline, examples)
            compared = reference.description
            checks.append(_loss_check(limit, nll, examples, reference, level, alpha))
            continue
        bounds = calibration_bounds(
            found,
            examples.labels,
            error=kind,
            limit=limit,
            alpha=level,
            alpha_high=alpha,
            sample_weight=examples.weights,
            seed=seed,
        )
        checks.append(_error_check(kind, limit, bounds, examples.n_rows))
    return GateResult(
        name=name,
        n_rows=examples.n_rows,
        n_classes=examples.n_classes,
        alpha=alpha,
        checks=tuple(checks),
        log_loss=LossMean.of(nll, examples.weights),
        baseline=compared,
    )


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
                "`max_nll_increase` must come with a `baseline`: a results.json, or the former "
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


def _probs_and_nll(
    examples: Examples, calibrator: Calibrator | None
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return probabilities ``[N, K]`` and the log loss of each row, in blocks."""
    applied = Identity() if calibrator is None else calibrator
    scores = examples.scores
    probs = np.empty(scores.shape, np.result_type(scores.dtype, np.float32))
    nll = np.empty(len(scores))
    for rows, log_probs in _blocks(examples, applied):
        probs[rows] = np.exp(log_probs)
        labels = examples.labels[rows]
        nll[rows] = -log_probs[np.arange(len(labels)), labels]
    return probs, nll


def _blocks(examples: Examples, applied: Calibrator) -> Iterator[tuple[slice, NDArray[Any]]]:
    step = max(1, BLOCK_ENTRIES // examples.n_classes)
    for start in range(0, examples.n_rows, step):
        rows = slice(start, start + step)
        yield rows, applied.log_probs(**{examples.kind: examples.scores[rows]})


def _error_check(name: LimitName, limit: float, bounds: ErrorBounds, n_rows: int) -> LimitCheck:
    estimate, low, high = bounds.estimate, bounds.low, bounds.high
    if n_rows < LEAST_ROWS:
        text = f"{n_rows} rows are too few: at least {LEAST_ROWS} are needed."
        return LimitCheck(name, limit, estimate, low, high, "undetermined", text)
    if low > limit:
        text = f"At least {number(low)}, above the limit of {number(limit)}."
        return LimitCheck(name, limit, estimate, low, high, "fail", text)
    if high < limit:
        text = f"At most {number(high)}, below the limit of {number(limit)}."
        return LimitCheck(name, limit, estimate, low, high, "pass", text)
    text = f"Between {number(low)} and {number(high)}: on either side of {number(limit)}. "
    enough = n_rows * (bounds.calibrated_high / limit) ** 2
    if enough > 1.1 * n_rows:
        text += f"A calibrated model passes with about {_round(enough):,} rows."
    else:
        text += "The error is too near to the limit to tell."
    return LimitCheck(name, limit, estimate, low, high, "undetermined", text)


def _round(rows: float) -> int:
    digits = 10 ** max(0, math.floor(math.log10(rows)) - 1)
    return int(math.ceil(rows / digits) * digits)


def _loss_check(
    limit: float,
    nll: NDArray[np.float64],
    examples: Examples,
    baseline: Baseline,
    alpha: float,
    alpha_high: float,
) -> LimitCheck:
    """Return the check of the mean log loss against the baseline's."""
    name: LimitName = "nll_increase"
    mine = LossMean.of(nll, examples.weights)
    is_finite = math.isfinite(mine.mean), math.isfinite(baseline.mean.mean)
    if not all(is_finite):
        return _infinite(limit, *is_finite)
    if baseline.row_nll is not None:
        change = LossMean.of(nll - baseline.row_nll, examples.weights)
    else:
        change = mine.minus(baseline.mean)
    rows, mean = change.rows or examples.n_rows, change.mean
    low, high = change.lower(alpha), change.upper(alpha_high)
    if rows < LEAST_ROWS:
        text = f"{rows} rows are too few: at least {LEAST_ROWS} are needed."
        return LimitCheck(name, limit, mean, low, high, "undetermined", text)
    if low > limit:
        text = f"Higher by at least {number(low)}, above the limit of {number(limit)}."
        return LimitCheck(name, limit, mean, low, high, "fail", text)
    if high <= limit:
        word = f"Higher by at most {number(high)}" if high > 0 else "Not higher"
        text = f"{word}, within the limit of {number(limit)}."
        return LimitCheck(name, limit, mean, low, high, "pass", text)
    text = (
        f"Changed by between {number(low)} and {number(high)}: on either side of {number(limit)}. "
    )
    if mean < limit:
        enough = rows * ((high - mean) / (limit - mean)) ** 2
        text += f"If the mean stays {number(mean)}, about {_round(enough):,} rows would pass."
    else:
        text += "The change is too near to the limit to tell."
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
