"""The main job in one call."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate import __version__
from focalibrate._array import Array
from focalibrate.calibrate import Calibrator, Identity, ScoredRows
from focalibrate.comparison import (
    Choice,
    Comparison,
    GroupChoice,
    GroupedRows,
    choose_by_group,
    compare,
    verdict,
)
from focalibrate.comparison import choose as choose_method
from focalibrate.comparison.choose import is_always_right
from focalibrate.metrics import Assessment, GroupAssessment, WorstSlice, assess
from focalibrate.pipeline.evaluation import groups_of, worst_slice_of
from focalibrate.pipeline.examples import Examples, PredictionSource, read_source, zeros_smoothed
from focalibrate.pipeline.result import CalibrationResult
from focalibrate.report import Provenance, SourceFile

COMMAND = "focalibrate.calibrate_predictions(…)"
"""What the page shows as the command of a job that was started in Python."""


def calibrate_predictions(
    source: PredictionSource | None = None,
    *,
    logits: Array | None = None,
    probs: Array | None = None,
    labels: Array | None = None,
    sample_weight: Array | None = None,
    test: PredictionSource | tuple[Array, Array] | None = None,
    test_weight: Array | None = None,
    groups: Mapping[str, Array] | None = None,
    test_groups: Mapping[str, Array] | None = None,
    per_group: bool = True,
    class_names: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    choose: str | None = None,
    simple: bool = False,
    trained_gamma: float | None = None,
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece",
    n_bins: int = 15,
    n_folds: int | None = None,
    n_resamples: int = 300,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
    command: str = COMMAND,
) -> CalibrationResult:
    """Evaluate predictions, compare calibration methods and choose one.

    The predictions come from a file, ``calibrate_predictions("val.npz")``, or from arrays,
    ``calibrate_predictions(logits=z, labels=y)`` or ``(probs=p, labels=y)``.

    Args:
        source: file of predictions with labels, or what `focalibrate.io.read_predictions`
            returned.
        logits: scores before the softmax, ``[N, K]``.
        probs: probabilities, ``[N, K]``.
        labels: class positions ``[N]``, or names of classes.
        sample_weight: weights ``[N]`` of the arrays; a whole number counts copies of a row. A
            file has its own (`read_predictions(..., weight_column=)`).
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
            Default: the automatic choice, that of `focalibrate.fit_auto`; see
            `focalibrate.comparison.choose`.
        simple: choose a single method, never the pool of several.
        trained_gamma: exponent of the focal loss that the model was trained with.
        criterion: what the methods marked (ECE) minimise.
        n_bins: bins of the binned errors.
        n_folds: folds of the cross-validation. Default: 5, or 3 for more than 60,000 logits.
        n_resamples: number of bootstrap resamples for the confidence intervals.
        seed: random seed.
        progress: called with the label of each method as its fit begins.
        command: how the job was started, shown on the page.

    Returns:
        `CalibrationResult`: `comparison`, `choice`, `verdict`, `assessment`, `calibrator`,
        `provenance`, and `save(folder)`, which writes what ``focalibrate calibrate`` writes.

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
    fitted = _fitted(source, logits, probs, labels, sample_weight, groups, class_names)
    name = "logits" if probs is None else "probs"
    judged = _test(test, test_weight, test_groups, fitted.class_names, name=name)
    fitted, judged, notes = zeros_smoothed(fitted, judged)
    comparison = compare(
        fitted.logits,
        fitted.labels,
        None if judged is None else judged.logits,
        None if judged is None else judged.labels,
        sample_weight=fitted.weights,
        test_weight=None if judged is None else judged.weights,
        methods=methods,
        also=choose,
        trained_gamma=trained_gamma,
        criterion=criterion,
        n_bins=n_bins,
        n_folds=n_folds,
        n_resamples=n_resamples,
        seed=seed,
        zero_mix=fitted.zero_mix,
        progress=progress,
    )
    choice = choose_method(comparison, method=requested(choose, methods), simple=simple)
    evaluated = fitted if judged is None else judged
    before, after, verdicts, worst = _assessments(comparison, choice, evaluated, seed)
    by_group = _by_group(comparison, choice, fitted, judged) if per_group else None
    deployed, after_by_group = choice.row.calibrator, None
    if by_group is not None and by_group.calibrator and by_group.log_probs is not None:
        deployed = by_group.calibrator
        after_by_group = _assessed(np.exp(by_group.log_probs), evaluated, seed)
    names = fitted.class_names if class_names is None else tuple(str(n) for n in class_names)
    return CalibrationResult(
        comparison=comparison,
        choice=choice,
        verdict=verdict(comparison, choice, before, by_group),
        assessment=before,
        assessment_after=after,
        groups=verdicts,
        worst=worst,
        by_group=by_group,
        assessment_by_group=after_by_group,
        calibrator=to_deploy(deployed, names, fitted.n_classes, fitted.zero_mix),
        notes=notes,
        provenance=made_today(command, seed, _files(fitted, judged)),
        class_names=names,
        fitted=fitted,
        judged=evaluated,
    )


def to_deploy(
    found: Calibrator, class_names: tuple[str, ...] | None, n_classes: int, zero_mix: float
) -> Calibrator:
    """Return the calibrator for new rows: of the model itself, without a rule for zeros."""
    if found.kind == Identity.kind:
        return Identity(class_names=class_names, n_classes=n_classes)
    return replace(found, class_names=class_names, zero_mix=zero_mix, n_classes=n_classes)


def _assessments(
    comparison: Comparison, choice: Choice, evaluated: Examples, seed: int
) -> tuple[Assessment, Assessment, tuple[GroupAssessment, ...], WorstSlice | None]:
    """Return what the data say before and after calibration; before, also of groups and slices."""
    raw = comparison.held_out_probs("identity", evaluated.logits)
    groups = groups_of(evaluated, raw, seed=seed)
    worst = worst_slice_of(evaluated, raw, seed=seed)
    before = _assessed(raw, evaluated, seed)
    del raw  # as large as the file
    if choice.row.method == "identity":
        return before, before, groups, worst
    probs = comparison.held_out_probs(choice.row.method, evaluated.logits)
    return before, _assessed(probs, evaluated, seed), groups, worst


def _assessed(probs: NDArray[Any], evaluated: Examples, seed: int) -> Assessment:
    return assess(probs, evaluated.labels, sample_weight=evaluated.weights, seed=seed)


def made_today(command: str, seed: int, files: tuple[SourceFile, ...]) -> Provenance:
    """Return how a result was made, with this version and date."""
    return Provenance(
        command=command,
        version=__version__,
        seed=seed,
        made_at=datetime.now(UTC).date().isoformat(),
        files=files,
    )


def requested(choose: str | None, methods: Sequence[str] | None) -> str | None:
    """Return the method to take whatever its score: the one named, or the only one."""
    if choose is not None:
        return choose
    others = [] if methods is None else [m for m in dict.fromkeys(methods) if m != "identity"]
    return others[0] if len(others) == 1 and others != ["auto"] else None


def _fitted(
    source: PredictionSource | None,
    logits: Array | None,
    probs: Array | None,
    labels: Array | None,
    weights: Array | None,
    groups: Mapping[str, Array] | None,
    class_names: Sequence[str] | None,
) -> Examples:
    if source is None:
        return Examples.of_arrays(
            logits=logits,
            probs=probs,
            labels=labels,
            sample_weight=weights,
            class_names=class_names,
            groups=groups,
        )
    if any(given is not None for given in (logits, probs, labels, weights, groups)):
        raise ValueError(
            "Pass either a file or the arrays `logits` (or `probs`) and `labels`, not both."
        )
    return read_source(source)


def _test(
    test: PredictionSource | tuple[Array, Array] | None,
    weights: Array | None,
    groups: Mapping[str, Array] | None,
    class_names: tuple[str, ...] | None,
    *,
    name: str,
) -> Examples | None:
    if test is None:
        return None
    if not isinstance(test, tuple):
        return read_source(test, class_names)
    scores, labels = test
    return Examples.of_arrays(
        **{name: scores},
        labels=labels,
        sample_weight=weights,
        class_names=class_names,
        order=class_names,
        groups=groups,
    )


def _by_group(
    comparison: Comparison, choice: Choice, fitted: Examples, judged: Examples | None
) -> GroupChoice | None:
    """Return which groups get a calibrator of their own; None where there are no groups."""
    if not fitted.groups or is_always_right(comparison):
        return None
    if choice.row.method == "identity" and fitted.zero_mix:
        return None  # the model would be kept for some groups, whose zeros must stay zeros
    if judged is not None:
        missing = [name for name in fitted.groups if name not in judged.groups]
        if missing:
            raise ValueError(
                f"The test examples must have the columns of the groups too; missing {missing}. "
                "Pass `test_groups`, or `per_group=False`."
            )
    return choose_by_group(
        comparison,
        choice,
        _grouped_rows(fitted),
        None if judged is None else _grouped_rows(judged),
    )


def _grouped_rows(examples: Examples) -> GroupedRows:
    labels = examples.labels.astype(np.intp, copy=False)
    return GroupedRows(ScoredRows(examples.logits, labels, examples.weights), examples.groups)


def _files(fitted: Examples, judged: Examples | None) -> tuple[SourceFile, ...]:
    files = []
    for examples, role in ((fitted, "fitted on"), (judged, "evaluated on")):
        found = None if examples is None else examples.predictions
        if found is None:
            continue
        files.append(SourceFile(name=found.source.name, sha256=found.checksum, role=role))
        if found.labels_source is not None and found.labels_checksum is not None:
            name, checksum = found.labels_source.name, found.labels_checksum
            files.append(SourceFile(name=name, sha256=checksum, role="labels"))
    return tuple(files)
