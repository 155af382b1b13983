"""The main job on more rows than memory: fit on a sample of rows, evaluate on all others."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.comparison import (
    Choice,
    Comparison,
    GroupedScores,
    compare,
    verdict,
)
from focalibrate.comparison import choose as choose_method
from focalibrate.engines import Backend
from focalibrate.io import Scan
from focalibrate.metrics import Assessment, GroupAssessment
from focalibrate.pipeline.chosen_rows import ChosenRows, choose_rows
from focalibrate.pipeline.exact import N_FOLDS, exact_methods, fit_exactly, fold_of
from focalibrate.pipeline.job import COMMAND, made_today, requested, to_deploy
from focalibrate.pipeline.judging import judge_scan
from focalibrate.pipeline.result import CalibrationResult
from focalibrate.pipeline.sizes import Sizes
from focalibrate.report import SourceFile

FEW_ROWS = 1000
"""Rows that methods are fitted on at first where they are then fitted to all."""
FEW_JUDGED = 2
"""Rows that methods are evaluated on at first, before one pass evaluates them on all."""

NO_GROUPS = (
    "groups get a verdict, but no calibrator of their own: for that all rows must fit into memory"
)


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
    backend: Backend | None = None,
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
        backend: where rows are read and evaluated in parallel; None: in this process. Methods are
            fitted here, and the passes of ``fit_rows="all"`` are made here.
        progress: called with what is being done.
        command: how the job was started, shown on the page.

    Returns:
        What `calibrate_predictions` returns; `CalibrationResult.sizes` says how many rows were
        used for what. None if the data have no more rows than are fitted on and no test set is
        given: then read them whole and cross-validate.
    """
    say = progress or (lambda _: None)
    _hash_beside(source, test)
    is_exact = fit_rows == "all"
    is_cross_fit = is_exact and test is None
    if is_exact:
        methods = exact_methods(methods, choose)
    say("choosing rows")
    n_fit = FEW_ROWS if fit_rows == "all" else fit_rows
    rows = choose_rows(source, test, n_fit, backend=backend)
    if rows is None:
        return None
    rows, notes = rows.with_zeros_smoothed()
    fitted, shown = rows.fitted, rows.shown
    comparison = compare(
        fitted.logits,
        fitted.labels,
        shown.logits[:FEW_JUDGED],  # all rows are evaluated on below
        shown.labels[:FEW_JUDGED],
        sample_weight=fitted.weights,
        test_weight=None if shown.weights is None else shown.weights[:FEW_JUDGED],
        methods=methods,
        also=choose,
        trained_gamma=trained_gamma,
        criterion=criterion,
        n_bins=n_bins,
        n_resamples=min(n_resamples, 20),
        seed=seed,
        zero_mix=fitted.zero_mix,
        progress=progress,
    )
    if is_exact:
        mix = fitted.zero_mix
        comparison = fit_exactly(comparison, source, mix, cross_fit=is_cross_fit, say=say)
    say(f"evaluating on {rows.n_source if is_cross_fit else rows.n_tested:,} rows")
    comparison = judge_scan(
        replace(comparison, n_resamples=n_resamples),
        source if test is None else test,
        rows.evaluated(cross_fit=is_cross_fit),
        backend=backend,
    )
    if is_cross_fit:
        comparison = replace(comparison, judged_on="cross-fit")
    choice = choose_method(comparison, method=requested(choose, methods), simple=simple)
    return _result(
        comparison,
        choice,
        rows,
        notes=(*notes, NO_GROUPS) if fitted.groups else notes,
        scans=(source,) if test is None else (source, test),
        seed=seed,
        command=command,
    )


def _result(
    comparison: Comparison,
    choice: Choice,
    rows: ChosenRows,
    *,
    notes: tuple[str, ...],
    scans: tuple[Scan, ...],
    seed: int,
    command: str,
) -> CalibrationResult:
    is_cross_fit = comparison.judged_on == "cross-fit"
    sizes = Sizes(
        rows.n_source,
        comparison.n_fitted,
        comparison.n_judged,
        rows.shown.n_rows,
        len(scans) > 1,
        n_folds=N_FOLDS if is_cross_fit else 0,
    )
    choice = replace(choice, reason=f"{choice.reason} {sizes.summary}")
    before, groups = _assessed(comparison.row("identity").row_scores, seed)
    after, _ = _assessed(choice.row.row_scores, seed)
    source = scans[0]
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
        calibrator=to_deploy(
            choice.row.calibrator, source.class_names, source.n_classes, rows.fitted.zero_mix
        ),
        notes=notes,
        provenance=made_today(command, seed, _files(scans)),
        class_names=source.class_names,
        fitted=rows.fitted,
        judged=rows.shown,
        sizes=sizes,
        scans=tuple(scan_record(scan) for scan in scans),
    )


def _assessed(scores: Any, seed: int) -> tuple[Assessment, tuple[GroupAssessment, ...]]:
    if not isinstance(scores, GroupedScores):
        raise TypeError("scores of a job on batches must be grouped")
    found = scores.sketch.evaluate(seed=seed)
    return found.assessment, found.groups


def _hash_beside(source: Scan, test: Scan | None) -> None:
    """Compute the checksums while the rows are read: on a processor of its own if there is one."""
    for scan in (source, test):
        if scan is not None:
            Thread(target=_hash, args=(scan,), daemon=True).start()


def _hash(scan: Scan) -> None:
    """Compute the checksum ahead of time; if that fails, a later call raises the error."""
    with suppress(Exception):
        scan.checksum()


def _files(scans: tuple[Scan, ...]) -> tuple[SourceFile, ...]:
    return tuple(
        SourceFile(name=scan.source, sha256=scan.checksum(), role=role)
        for scan, role in zip(scans, ("fitted on", "evaluated on"), strict=False)
    )


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
