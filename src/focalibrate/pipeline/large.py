"""The main job on more rows than memory: fit on a sample of rows, evaluate on all others."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from focalibrate import __version__
from focalibrate.calibrate import log_probabilities
from focalibrate.comparison import GroupedScores, JudgedBatch, compare, judge_batches, verdict
from focalibrate.comparison import choose as choose_method
from focalibrate.comparison.batches import N_GROUPS
from focalibrate.io import Scan
from focalibrate.metrics import Assessment, GroupAssessment
from focalibrate.pipeline.examples import Examples, zeros_note
from focalibrate.pipeline.job import COMMAND, asked_for
from focalibrate.pipeline.result import CalibrationResult
from focalibrate.pipeline.sampling import Drawn, draw, positioned, row_hash
from focalibrate.pipeline.sizes import Sizes
from focalibrate.report import Provenance, SourceFile

FIT_ROWS = 200_000
FIT_ENTRIES = 40_000_000
"""Most rows, and most scores, that methods are fitted on where nothing else is said."""
SHOWN_ROWS = 50_000
SHOWN_ENTRIES = 10_000_000
"""Most rows, and scores, of those evaluated that the diagrams of the page are drawn from."""


NO_GROUPS = (
    "groups get a verdict, but no calibrator of their own: for that all rows must fit into memory "
    "(--fit-rows all)"
)


def fit_rows_of(n_classes: int, asked: int | None = None) -> int:
    """Return how many rows methods are fitted on at most: fewer where there are many classes.

    Example:
        >>> fit_rows_of(10), fit_rows_of(1000), fit_rows_of(1000, asked=100_000)
        (200000, 40000, 100000)
    """
    return asked if asked is not None else max(1000, min(FIT_ROWS, FIT_ENTRIES // n_classes))


def calibrate_scan(
    source: Scan,
    *,
    test: Scan | None = None,
    fit_rows: int | None = None,
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
    all rows of `test`), so that no row is used both to fit and to evaluate. Memory: the rows
    fitted on, and a few batches.

    Args:
        source: predictions with labels.
        test: predictions to evaluate on. Default: the rows that are not fitted on.
        fit_rows: most rows to fit on. Default: 200,000, fewer with more than 200 classes (40
            million scores).
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
        used for what. None where the data have no more rows than are fitted on, and no test set
        is given: read them whole and cross-validate.
    """
    say = progress or (lambda _: None)
    names, k = source.class_names, source.n_classes
    n_fit = fit_rows_of(k, fit_rows)
    n_shown = max(1, min(SHOWN_ROWS, SHOWN_ENTRIES // k))
    say("choosing rows")
    drawn = draw(source, n_fit + (n_shown if test is None else 0), names)
    if test is None:
        if drawn.n_rows <= n_fit:
            return None
        n_fit = min(n_fit, drawn.n_rows // 2)
        fitted, shown = _part(drawn, slice(0, n_fit)), _part(drawn, slice(n_fit, None))
        judged_of, limit, n_zero_rows = source, drawn.hashes[n_fit - 1], drawn.n_zero_rows
        n_tested = drawn.n_rows - n_fit
    else:
        drawn_test = draw(test, n_shown, names)
        fitted, shown = _part(drawn, slice(0, n_fit)), _part(drawn_test, slice(None))
        judged_of, limit = test, None
        n_zero_rows = drawn.n_zero_rows + drawn_test.n_zero_rows
        n_tested = drawn_test.n_rows
    n_source = drawn.n_rows
    del drawn
    mix, notes = zeros_note(n_zero_rows, fitted.size)
    if fitted.groups:
        notes = (*notes, NO_GROUPS)
    fitted, shown = fitted.with_zero_mix(mix), shown.with_zero_mix(mix)
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
        n_resamples=min(n_resamples, 20),  # of the rows shown only: all rows are judged below
        seed=seed,
        progress=progress,
    )
    say(f"evaluating on {n_tested:,} rows")
    comparison = judge_batches(
        replace(comparison, n_resamples=n_resamples), _batches(judged_of, names, limit, mix)
    )
    choice = choose_method(comparison, method=asked_for(choose, methods), simple=simple)
    sizes = Sizes(n_source, fitted.n_rows, comparison.n_judged, shown.n_rows, test is not None)
    choice = replace(choice, reason=f"{choice.reason} {sizes.summary}")
    before, groups = _assessed(comparison.row("identity").row_scores, seed)
    after, _ = _assessed(choice.row.row_scores, seed)
    return CalibrationResult(
        comparison=comparison,
        choice=choice,
        verdict=verdict(comparison, choice, before),
        assessment=before,
        assessment_after=after,
        groups=groups,
        calibrator=replace(choice.row.calibrator, class_names=names, zero_mix=mix, n_classes=k),
        notes=notes,
        provenance=Provenance(
            command=command,
            version=__version__,
            seed=seed,
            made_at=datetime.now(UTC).date().isoformat(),
            files=tuple(
                SourceFile(name=scan.source, sha256=scan.checksum(), role=role)
                for scan, role in ((source, "fitted on"), (test, "evaluated on"))
                if scan is not None
            ),
        ),
        class_names=names,
        fitted=fitted,
        judged=shown,
        sizes=sizes,
        scans=tuple(scan_record(scan) for scan in (source, test) if scan is not None),
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
    scan: Scan, names: tuple[str, ...] | None, limit: np.uint64 | None, mix: float
) -> Iterator[JudgedBatch]:
    """Yield the rows to evaluate on: those whose hash is above `limit`."""
    for positions, batch in positioned(scan, names):
        hashes = row_hash(positions)
        kept = np.ones(len(positions), bool) if limit is None else hashes > limit
        if batch.weights is not None:
            kept &= batch.weights > 0
        if batch.labels is None or not kept.any():
            continue
        scores = batch.scores if kept.all() else batch.scores[kept]
        yield JudgedBatch(
            logits=scores if batch.kind == "logits" else log_probabilities(scores, mix),
            labels=batch.labels[kept].astype(np.intp, copy=False),
            group=(hashes[kept] >> np.uint64(7)).astype(np.int64) % N_GROUPS,
            weights=None if batch.weights is None else batch.weights[kept],
            groups={name: np.asarray(values)[kept] for name, values in batch.groups.items()},
        )


def _assessed(scores: Any, seed: int) -> tuple[Assessment, tuple[GroupAssessment, ...]]:
    if not isinstance(scores, GroupedScores):
        raise TypeError("scores of a job on batches must be grouped")
    found = scores.sketch.evaluate(seed=seed)
    return found.assessment, found.groups
