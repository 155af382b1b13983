"""The main job, for predictions of any size: rows to fit on, methods compared, one chosen.

With no more rows than are fitted on, all of them are read and cross-validated, or evaluated on a
test set. With more, methods are fitted on a sample and evaluated on all other rows in one pass.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from threading import Thread
from typing import Any, Literal

import numpy as np

from focalibrate import __version__
from focalibrate._array import Array
from focalibrate.calibrate import Calibrator, GroupedCalibrator
from focalibrate.comparison import (
    Choice,
    Comparison,
    GroupChoice,
    GroupedRows,
    Sums,
    choose_by_group,
    compare_methods,
    verdict,
)
from focalibrate.comparison import choose as choose_method
from focalibrate.engines import Backend
from focalibrate.io import Predictions, Scan, align, scan_predictions
from focalibrate.metrics import Assessment
from focalibrate.metrics.groups import GroupAssessment, WorstSlice
from focalibrate.pipeline.doubts import WrongDataWarning, doubts_about, warn_of
from focalibrate.pipeline.examples import (
    Examples,
    PredictionSource,
    Zeros,
    given_examples,
    read_source,
)
from focalibrate.pipeline.result import CalibrationResult, Sizes, file_record
from focalibrate.pipeline.sample import FitRows, choose_rows, judge_scan, rows_to_fit
from focalibrate.report import Provenance, SourceFile

COMMAND = "focalibrate.calibrate_predictions(…)"
"""What the page shows as the command of a job that was started in Python."""
NO_GROUPS = (
    "groups get a verdict, but no calibrator of their own: for that all rows must fit into memory"
)
Read = Sequence[Predictions | Scan]
"""What was read: rows in memory, or data sets that are read in batches."""


def calibrate_predictions(
    source: PredictionSource | Scan | Array | None = None,
    labels: Array | None = None,
    *,
    logits: Array | None = None,
    probs: Array | None = None,
    confidence: Array | None = None,
    correct: Array | None = None,
    cluster: Array | None = None,
    sample_weight: Array | None = None,
    copies: bool = False,
    test: PredictionSource | Scan | tuple[Array, Array] | None = None,
    test_weight: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    test_groups: Mapping[str, Array] | None = None,
    per_group: bool = True,
    class_names: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    choose: str | None = None,
    simple: bool = False,
    trained_gamma: float | None = None,
    trained_alpha: float | None = None,
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece",
    n_bins: int = 15,
    n_folds: int | None = None,
    n_resamples: int = 300,
    seed: int = 0,
    fit_rows: FitRows | None = None,
    backend: Backend | None = None,
    progress: Callable[[str], None] | None = None,
    on_read: Callable[[Read], None] | None = None,
    command: str = COMMAND,
) -> CalibrationResult:
    """Evaluate predictions, compare calibration methods and choose one.

    The predictions come from a file, ``calibrate_predictions("val.npz")``, from a data frame with
    labels, ``(df)``, or from arrays: ``(p, y)`` are probabilities and labels, the same as
    ``(probs=p, labels=y)``; logits are ``(logits=z, labels=y)``.

    A file, folder or URL may have any number of rows. With more than `fit_rows`, those whose
    position has the smallest hash are fitted on (at most half of all, the same whatever the
    batches), and one more pass evaluates every method on all other rows, or on all of `test`.
    Memory is then needed for the rows fitted on and a few batches.

    Args:
        source: file of predictions with labels, what `focalibrate.io.read_predictions` or
            `scan_predictions` returned, or a data frame whose columns are read as those of a
            file; with `labels`, probabilities ``[N, K]``, or ``[N]`` of class 1.
        labels: class positions ``[N]``, or names of classes.
        logits: scores before the softmax, ``[N, K]``.
        probs: probabilities, ``[N, K]``.
        confidence: instead of scores, a probability ``[N]`` of being right.
        correct: instead of `labels`, whether it was, ``[N]``.
        cluster: equal values ``[N]`` mark rows of the arrays that belong together.
        sample_weight: weights ``[N]`` of the arrays. A file has its own
            (`read_predictions(..., weight_column=)`).
        copies: whether weights are numbers of identical rows; default: the importance of each.
        test: examples to evaluate on: a file, or a pair ``(scores, labels)`` whose scores are
            of the same kind as those given. Default: cross-validation, so that no
            example is used both to fit and to evaluate.
        test_weight: weights of a `test` given as arrays.
        groups: columns ``[N]`` by name, which say the group of each row of the arrays. Each
            group gets a verdict. A file has its own (`read_predictions(..., by=)`).
        test_groups: the same of a `test` given as arrays.
        per_group: give a group a calibrator of its own where that significantly lowers its
            held-out log loss, see `focalibrate.comparison.choose_by_group`.
        class_names: one per class, in the order of the columns. Default: those of the file, or
            the columns of a data frame.
        methods: names of methods to compare; ``"auto"`` means those that the automatic choice
            is made from. Default: all that apply. If one is named, that one is chosen.
        choose: the method to take, whatever its score; any of `focalibrate.calibrate.METHODS`.
            Default: the automatic choice, that of `focalibrate.fit`; see
            `focalibrate.comparison.choose`.
        simple: choose a single method, never the average of several.
        trained_gamma: exponent of the focal loss that the model was trained with.
        trained_alpha: its weight of class 1 of two, if it had one (RetinaNet: .25).
        criterion: what the methods marked (ECE) minimise.
        n_bins: bins of the binned errors.
        n_folds: folds of the cross-validation. Default: 5, or 3 for more than 60,000 logits.
        n_resamples: number of bootstrap resamples for the confidence intervals.
        seed: random seed.
        fit_rows: most rows to fit on. Default: 200,000, fewer with more than 200 classes (40
            million scores). ``"all"``: all rows, which must fit into memory.
        backend: where more rows than are fitted on are read and evaluated in parallel; None: in
            this process, where methods are always fitted.
        progress: called with what is being done, such as the label of each method.
        on_read: called with what was read, before the work begins.
        command: how the job was started, shown on the page.

    Returns:
        `CalibrationResult`: `comparison`, `choice`, `verdict`, `assessment`, `calibrator`,
        `provenance`, and `save(folder)`, which writes what ``focalibrate calibrate`` writes.

    Warns:
        DataWarning: the data look wrong, such as labels that the scores predict no better than
            chance.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=(1000, 4)) * 2
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> result = calibrate_predictions(
        ...     logits=3 * truth, labels=labels, methods=["temperature"], n_resamples=50)
        >>> result.calibrator.kind
        'temperature'
        >>> result.calibrator.probs(3 * truth).shape
        (1000, 4)
    """
    arrays: dict[str, Any] = {
        "logits": logits,
        "probs": probs,
        "confidence": confidence,
        "correct": correct,
        "cluster": cluster,
        "sample_weight": sample_weight,
        "groups": groups,
    }
    is_array = labels is not None or any(given is not None for given in arrays.values())
    scans = [] if is_array else _scans(source, test)
    settings: dict[str, Any] = {
        "methods": methods,
        "also": choose,
        "trained_gamma": trained_gamma,
        "trained_alpha": trained_alpha,
        "criterion": criterion,
        "n_bins": n_bins,
        "n_resamples": n_resamples,
        "seed": seed,
        "progress": progress,
    }
    say = on_read or (lambda read: None)

    def chosen(comparison: Comparison) -> Choice:
        return choose_method(comparison, method=_requested(choose, methods), simple=simple)

    rows = _all_rows(scans, fit_rows)
    read: list[Predictions | Scan | None]
    if scans and rows is None:
        if any(scan.first.cluster is not None for scan in scans):
            raise ValueError(
                "`cluster` needs all rows in memory, and there are more than are fitted on. Pass "
                "`fit_rows='all'` (command line: --fit-rows all)."
            )
        say(scans)
        for scan in scans:
            Thread(target=_hash, args=(scan,), daemon=True).start()
        found = _sampled(scans, fit_rows, backend, chosen, settings)
        read = [*scans]
    else:
        if rows:
            source, test = (*rows, None)[:2]
        elif source is not None and not is_array:
            source = read_source(source)
        fitted = given_examples(source, labels, class_names=class_names, copies=copies, **arrays)
        judged, order = None, fitted.class_names
        if isinstance(test, tuple):
            scores, test_labels = test
            given = {
                "probs" if logits is None else "logits": scores,
                "sample_weight": test_weight,
                "groups": test_groups,
            }
            judged = given_examples(
                None, test_labels, class_names=order, order=order, copies=copies, **given
            )
        elif test is not None:
            test = align(read_source(test), order)
            judged = Examples.of_predictions(test, copies=copies)
        read = [one if isinstance(one, Predictions) else None for one in (source, test)]
        say([one for one in read if one is not None])
        found = _held_out(
            fitted, judged, chosen, settings | {"n_folds": n_folds}, per_group=per_group
        )
    comparison, choice, doubts = found["comparison"], found["choice"], found.pop("doubts")
    names = found["fitted"].class_names
    if class_names is not None:
        names = tuple(str(n) for n in class_names)
    deployed = choice.row.calibrator
    if found.get("assessment_by_group") is not None:
        deployed = found["by_group"].calibrator
    records = [None if one is None else file_record(one) for one in read]
    return CalibrationResult(
        **found,
        verdict=verdict(
            comparison,
            choice,
            found["assessment"],
            found.get("by_group"),
            found["assessment_after"],
            doubts=[str(doubt) for doubt in doubts if isinstance(doubt, WrongDataWarning)],
        ),
        calibrator=to_deploy(deployed, names, found["fitted"]),
        provenance=Provenance(
            command=command,
            version=__version__,
            seed=seed,
            made_at=datetime.now(UTC).date().isoformat(),
            files=_files(records),
        ),
        class_names=names,
        files=tuple(record for record in records if record is not None),
    )


def _scans(source: Any, test: Any) -> list[Scan]:
    """Return the data sets opened, if all are files; none otherwise."""
    given = [source] if test is None else [source, test]
    if not all(isinstance(one, (str, os.PathLike, Scan)) for one in given):
        return []
    return [
        one if isinstance(one, Scan) else scan_predictions(os.fspath(one), need_labels=True)
        for one in given
    ]


def _all_rows(scans: Sequence[Scan], fit_rows: FitRows | None) -> list[Predictions] | None:
    """Return all rows where they are no more than are fitted on; None where they are more."""
    found = []
    for scan in scans:
        rows = rows_to_fit(scan, fit_rows)
        if rows is None:
            return None
        found.append(rows)
    return found or None


def _sampled(
    scans: Sequence[Scan],
    fit_rows: FitRows | None,
    backend: Backend | None,
    chosen: Callable[[Comparison], Choice],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Fit on a sample of rows, and evaluate on all others or on a test set in one pass.

    Returns:
        Fields of `CalibrationResult`, and `doubts`.
    """
    source, test = scans[0], scans[1] if len(scans) > 1 else None
    say = settings["progress"] or (lambda _: None)
    say("choosing rows")
    limit = None if fit_rows == "all" else fit_rows
    rows = choose_rows(source, test, limit, backend=backend)
    fitted, shown = rows.fitted, rows.shown
    doubts = doubts_about(fitted, None if test is None else shown, to_fit=True)
    warn_of(doubts, stacklevel=4)

    def judged(calibrators: Mapping[str, Calibrator]) -> Mapping[str, Sums]:
        say(f"evaluating on {rows.n_tested:,} rows")
        data, n_bins = source if test is None else test, settings["n_bins"]
        return judge_scan(calibrators, data, rows, n_bins=n_bins, backend=backend)

    comparison = compare_methods(fitted.rows, judged=judged, **settings)
    choice = chosen(comparison)
    sizes = Sizes(
        rows.n_source, comparison.n_fitted, comparison.n_judged, shown.n_rows, test is not None
    )
    before, after = (
        row.units.sketch.evaluate(seed=settings["seed"], class_names=fitted.names_in_sentences)
        for row in (comparison.row("identity"), choice.row)
    )
    return {
        "comparison": comparison,
        "choice": replace(choice, reason=f"{choice.reason} {sizes.summary}".strip()),
        "assessment": before.assessment,
        "assessment_after": after.assessment,
        "fitted": fitted,
        "judged": shown,
        "doubts": doubts,
        "notes": (*rows.notes, NO_GROUPS) if fitted.groups else rows.notes,
        "groups": before.groups,
        "sizes": sizes,
    }


def _held_out(
    fitted: Examples,
    judged: Examples | None,
    chosen: Callable[[Comparison], Choice],
    settings: Mapping[str, Any],
    *,
    per_group: bool,
) -> dict[str, Any]:
    """Fit on all rows, and evaluate by cross-validation or on a test set in memory."""
    doubts = doubts_about(fitted, judged, to_fit=True)
    warn_of(doubts, stacklevel=4)
    zeros = Zeros.of(fitted) if judged is None else Zeros.of(fitted) + Zeros.of(judged)
    mix, notes = zeros.rule(fitted.n_classes)
    fitted = replace(fitted, zero_mix=mix)
    judged = None if judged is None else replace(judged, zero_mix=mix)
    comparison = compare_methods(
        fitted.rows,
        test_logits=None if judged is None else judged.rows,
        cluster=fitted.cluster,
        test_cluster=None if judged is None else judged.cluster,
        **settings,
    )
    choice = chosen(comparison)
    evaluated, seed = fitted if judged is None else judged, settings["seed"]
    before, after, verdicts, worst = _assessments(comparison, choice, evaluated, seed)
    by_group = _by_group(comparison, choice, fitted, judged) if per_group else None
    after_by_group = None
    if by_group is not None and by_group.calibrator and by_group.log_probs is not None:
        after_by_group = evaluated.assessed(np.exp(by_group.log_probs), seed=seed)
    return {
        "comparison": comparison,
        "choice": choice,
        "assessment": before,
        "assessment_after": after,
        "fitted": fitted,
        "judged": evaluated,
        "doubts": doubts,
        "notes": notes,
        "groups": verdicts,
        "worst": worst,
        "by_group": by_group,
        "assessment_by_group": after_by_group,
    }


def to_deploy(
    found: Calibrator, class_names: tuple[str, ...] | None, fitted: Examples
) -> Calibrator:
    """Return the calibrator for new rows: kind of score and rule for zeros as in `fitted`."""
    if isinstance(found, GroupedCalibrator):
        own = (None if c is None else to_deploy(c, class_names, fitted) for c in found.own)
        shared = to_deploy(found.shared, class_names, fitted)
        found = replace(found, shared=shared, own=tuple(own))
    if class_names is None and fitted.names_positive:
        class_names = (f"not {fitted.positive}", str(fitted.positive))
    return replace(
        found,
        class_names=class_names,
        zero_mix=fitted.zero_mix,
        n_classes=None if fitted.options else fitted.n_classes,
        fitted_on=fitted.kind,
    )


def _assessments(
    comparison: Comparison, choice: Choice, evaluated: Examples, seed: int
) -> tuple[Assessment, Assessment, tuple[GroupAssessment, ...], WorstSlice | None]:
    """Return what the data say before and after calibration; before, also of groups and slices."""
    raw = evaluated.scores  # the model's own, zeros included
    if evaluated.kind == "logits":
        raw = comparison.held_out_probs("identity", evaluated.logits)
    groups, worst = evaluated.by_group(raw, seed=seed)
    before = evaluated.assessed(raw, seed=seed)
    del raw  # as large as the file
    if choice.row.method == "identity":
        return before, before, groups, worst
    probs = comparison.held_out_probs(choice.row.method, evaluated.logits)
    return before, evaluated.assessed(probs, seed=seed), groups, worst


def _requested(choose: str | None, methods: Sequence[str] | None) -> str | None:
    """Return the method to take whatever its score: the one named, or the only one."""
    if choose is not None:
        return choose
    others = [] if methods is None else [m for m in dict.fromkeys(methods) if m != "identity"]
    return others[0] if len(others) == 1 and others != ["auto"] else None


def _by_group(
    comparison: Comparison, choice: Choice, fitted: Examples, judged: Examples | None
) -> GroupChoice | None:
    """Return which groups get a calibrator of their own; None where there are no groups."""
    if not fitted.groups:
        return None
    if judged is not None:
        missing = [name for name in fitted.groups if name not in judged.groups]
        if missing:
            raise ValueError(
                f"The test examples must have the columns of the groups too; missing {missing}. "
                "Pass `test_groups`, or `per_group=False`."
            )
    test = None if judged is None else GroupedRows(judged.rows, judged.groups)
    return choose_by_group(comparison, choice, GroupedRows(fitted.rows, fitted.groups), test)


def _files(records: Sequence[dict[str, Any] | None]) -> tuple[SourceFile, ...]:
    files = []
    for record, role in zip(records, ("fitted on", "evaluated on"), strict=False):
        if record is None:
            continue
        files.append(SourceFile(name=record["file"], sha256=record["sha256"], role=role))
        if record.get("labels_sha256") is not None:
            name, checksum = record["labels_file"], record["labels_sha256"]
            files.append(SourceFile(name=name, sha256=checksum, role="labels"))
    return tuple(files)


def _hash(scan: Scan) -> None:
    """Compute the checksum ahead of time; if that fails, a later call raises the error."""
    with suppress(Exception):
        scan.checksum()
