"""The main job on more rows than memory: fit on a sample of rows, evaluate on all others."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import log_probabilities
from focalibrate.comparison import GroupedScores, JudgedBatch, compare, judge_batches, verdict
from focalibrate.comparison import choose as choose_method
from focalibrate.comparison.batches import N_GROUPS
from focalibrate.io import Scan
from focalibrate.metrics import Assessment, GroupAssessment
from focalibrate.pipeline.exact import N_FOLDS, exact_methods, fit_exactly, fold_of
from focalibrate.pipeline.examples import Examples, zeros_note
from focalibrate.pipeline.job import COMMAND, made_today, requested
from focalibrate.pipeline.result import CalibrationResult
from focalibrate.pipeline.sampling import Drawn, draw, positioned, row_hash
from focalibrate.pipeline.sizes import Sizes
from focalibrate.report import SourceFile

FIT_ROWS = 200_000
FIT_ENTRIES = 40_000_000
"""Default limits on the rows, and on the scores, that methods are fitted on."""
FEW_ROWS = 1000
"""Rows that methods are fitted on at first where they are then fitted to all."""
SHOWN_ROWS = 50_000
SHOWN_ENTRIES = 10_000_000
"""Limits on the evaluated rows, and scores, that the diagrams of the page are drawn from."""


NO_GROUPS = (
    "groups get a verdict, but no calibrator of their own: for that all rows must fit into memory"
)


def fit_rows_of(n_classes: int, asked: int | None = None) -> int:
    """Return the most rows that methods are fitted on: fewer if there are many classes.

    Example:
        >>> fit_rows_of(10), fit_rows_of(1000), fit_rows_of(1000, asked=100_000)
        (200000, 40000, 100000)
    """
    return asked if asked is not None else max(1000, min(FIT_ROWS, FIT_ENTRIES // n_classes))


def calibrate_scan(
    source: Scan,
    *,
    test: Scan | None = None,
    fit_rows: int | Literal["all"] | None = None,
    methods: Sequence[str] | None = None,
    choose: str | None = None,
    simple: bool = False,
    trained_gamma: float | None = None,
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece",
    n_bins: int = 15,
    n_resamples: int = 300,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    command: str = COMMAND,
) -> CalibrationResult | None:
    """Calibrate predictions of any size, from `focalibrate.io.scan_predictions`.

    The rows whose position has the smallest hash are fitted on: the same rows whatever the
    batches, at most half of all. One more pass evaluates every method on all other rows (or on
    all rows of `test`), so that no row is used both to fit and to evaluate. Memory is
    needed for the rows fitted on and a few batches.

    Args:
        source: predictions with labels.
        test: predictions to evaluate on. Default: the rows that are not fitted on.
        fit_rows: most rows to fit on. Default: 200,000, fewer with more than 200 classes (40
            million scores). ``"all"``: temperature, focal temperature and the structured scalings
            are fitted to all rows, by passes over them. Without a test set they are cross-fitted:
            each half of the rows, chosen by a hash of their position, is evaluated by calibrators
            fitted on the other half.
        methods: see `calibrate_predictions`, as for all options that follow.
        choose: the method to take, whatever its score.
        simple: choose a single method, never the pool of several.
        trained_gamma: exponent of the focal loss that the model was trained with.
        criterion: what the methods marked (ECE) minimise.
        n_bins: bins of the binned errors.
        n_resamples: bootstrap resamples behind every interval.
        seed: random seed of the resamples.
        progress: called with what is being done.
        command: how the job was started, shown on the page.

    Returns:
        What `calibrate_predictions` returns; `CalibrationResult.sizes` says how many rows were
        used for what. None if the data have no more rows than are fitted on and no test set is
        given: then read them whole and cross-validate.
    """
    say = progress or (lambda _: None)
    names, k = source.class_names, source.n_classes
    for scan in (source, test):  # beside the reading: a processor of its own, if there is one
        if scan is not None:
            Thread(target=_hash, args=(scan,), daemon=True).start()
    is_exact = fit_rows == "all"
    if is_exact:
        methods = exact_methods(methods, choose)
    say("choosing rows")
    rows = _chosen_rows(source, test, FEW_ROWS if fit_rows == "all" else fit_rows)
    if rows is None:
        return None
    mix, notes = zeros_note(rows.n_zero_rows, rows.fitted.size)
    if rows.fitted.groups:
        notes = (*notes, NO_GROUPS)
    fitted, shown = rows.fitted.with_zero_mix(mix), rows.shown.with_zero_mix(mix)
    comparison = compare(
        fitted.logits,
        fitted.labels,
        shown.logits,
        shown.labels,
        sample_weight=fitted.weights,
        test_weight=shown.weights,
        methods=methods if methods is None or choose is None else [*methods, choose],
        trained_gamma=trained_gamma,
        criterion=criterion,
        n_bins=n_bins,
        n_resamples=min(n_resamples, 20),  # only of the rows shown; all rows are judged below
        seed=seed,
        progress=progress,
    )
    is_cross_fit = is_exact and test is None
    if is_exact:
        comparison = fit_exactly(comparison, source, mix, cross_fit=is_cross_fit, say=say)
    limit = None if is_cross_fit else rows.limit
    say(f"evaluating on {rows.n_source if is_cross_fit else rows.n_tested:,} rows")
    comparison = judge_batches(
        replace(comparison, n_resamples=n_resamples),
        _batches(source if test is None else test, names, limit, mix, halved=is_cross_fit),
    )
    if is_cross_fit:
        comparison = replace(comparison, judged_on="cross-fit")
    choice = choose_method(comparison, method=requested(choose, methods), simple=simple)
    sizes = Sizes(
        rows.n_source,
        comparison.n_fitted,
        comparison.n_judged,
        shown.n_rows,
        test is not None,
        n_folds=N_FOLDS if is_cross_fit else 0,
    )
    choice = replace(choice, reason=f"{choice.reason} {sizes.summary}")
    before, groups = _assessed(comparison.row("identity").row_scores, seed)
    after, _ = _assessed(choice.row.row_scores, seed)
    folds: tuple[NDArray[np.intp], ...] = ()
    if is_cross_fit:  # of the rows shown; scores are of groups of rows, which have no folds
        fold = fold_of(rows.shown_hashes)
        folds = tuple(np.flatnonzero(fold == f) for f in range(N_FOLDS))
    return CalibrationResult(
        comparison=replace(comparison, folds=folds),
        choice=choice,
        verdict=verdict(comparison, choice, before),
        assessment=before,
        assessment_after=after,
        groups=groups,
        calibrator=replace(choice.row.calibrator, class_names=names, zero_mix=mix, n_classes=k),
        notes=notes,
        provenance=made_today(command, seed, _files(source, test)),
        class_names=names,
        fitted=fitted,
        judged=shown,
        sizes=sizes,
        scans=tuple(scan_record(scan) for scan in (source, test) if scan is not None),
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Which rows are used for what."""

    fitted: Examples
    shown: Examples
    """rows evaluated that the diagrams are drawn from"""
    limit: np.uint64 | None
    """rows of `source` with a larger hash are evaluated; None: all rows of the test set are"""
    n_source: int
    n_tested: int
    n_zero_rows: int
    shown_hashes: NDArray[np.uint64]


def _chosen_rows(source: Scan, test: Scan | None, fit_rows: int | None) -> _Rows | None:
    """Return the rows to fit on and to show, or None where too few remain to evaluate on."""
    names, k = source.class_names, source.n_classes
    n_fit = fit_rows_of(k, fit_rows)
    n_shown = max(1, min(SHOWN_ROWS, SHOWN_ENTRIES // k))
    if test is not None:
        drawn, tested = draw(source, n_fit, names), draw(test, n_shown, names)
        fitted, shown = _part(drawn, slice(0, n_fit)), _part(tested, slice(None))
        zeros = drawn.n_zero_rows + tested.n_zero_rows
        return _Rows(fitted, shown, None, drawn.n_rows, tested.n_rows, zeros, tested.hashes)
    drawn = draw(source, n_fit + n_shown, names)
    if drawn.n_rows <= n_fit:
        return None
    n_fit = min(n_fit, drawn.n_rows // 2)
    fitted, shown = _part(drawn, slice(0, n_fit)), _part(drawn, slice(n_fit, None))
    limit, n_tested = drawn.hashes[n_fit - 1], drawn.n_rows - n_fit
    hashes = drawn.hashes[n_fit:]
    return _Rows(fitted, shown, limit, drawn.n_rows, n_tested, drawn.n_zero_rows, hashes)


def _files(source: Scan, test: Scan | None) -> tuple[SourceFile, ...]:
    return tuple(
        SourceFile(name=scan.source, sha256=scan.checksum(), role=role)
        for scan, role in ((source, "fitted on"), (test, "evaluated on"))
        if scan is not None
    )


def _hash(scan: Scan) -> None:
    """Compute the checksum ahead of time; if that fails, a later call raises the error."""
    with suppress(Exception):
        scan.checksum()


def scan_record(scan: Scan) -> dict[str, Any]:
    """Return what identifies a data set that was read in batches."""
    return {
        "file": scan.source,
        "sha256": scan.checksum(),
        "kind": scan.kind,
        "rows": scan.n_rows,
        "classes": scan.n_classes,
        "parts": len(scan.parts),
    }


def _part(drawn: Drawn, rows: slice) -> Examples:
    given = drawn.examples
    return replace(
        given,
        scores=given.scores[rows],
        labels=given.labels[rows],
        weights=None if given.weights is None else given.weights[rows],
        groups={name: values[rows] for name, values in given.groups.items()},
    )


def _batches(
    scan: Scan,
    names: tuple[str, ...] | None,
    limit: np.uint64 | None,
    mix: float,
    *,
    halved: bool,
) -> Iterator[JudgedBatch]:
    """Yield the rows to evaluate on: those whose hash is above `limit`, or each half of all."""
    for positions, batch in positioned(scan, names):
        hashes = row_hash(positions)
        used = np.ones(len(positions), bool) if limit is None else hashes > limit
        if batch.weights is not None:
            used &= batch.weights > 0
        for fold in range(N_FOLDS) if halved else (None,):
            kept = used if fold is None else used & (fold_of(hashes) == fold)
            if batch.labels is None or not kept.any():
                continue
            scores = batch.scores if kept.all() else batch.scores[kept]
            yield JudgedBatch(
                logits=scores if batch.kind == "logits" else log_probabilities(scores, mix),
                labels=batch.labels[kept].astype(np.intp, copy=False),
                group=(hashes[kept] >> np.uint64(7)).astype(np.int64) % N_GROUPS,
                weights=None if batch.weights is None else batch.weights[kept],
                groups={name: np.asarray(values)[kept] for name, values in batch.groups.items()},
                fold=fold,
            )


def _assessed(scores: Any, seed: int) -> tuple[Assessment, tuple[GroupAssessment, ...]]:
    if not isinstance(scores, GroupedScores):
        raise TypeError("scores of a job on batches must be grouped")
    found = scores.sketch.evaluate(seed=seed)
    return found.assessment, found.groups
