"""Calibration methods side by side, none judged on rows that it was fitted on."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._check import check_choice, check_count, check_n_bins
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._grid import Part
from focalibrate.calibrate._input import read_logits
from focalibrate.calibrate._settings import CalibrationWarning
from focalibrate.calibrate.methods import fit_parts
from focalibrate.metrics import METRIC_NAMES, BootstrapInterval, MetricName, Scorecard, scorecard


@dataclass(frozen=True)
class Candidate:
    """A method to compare: which fit, with which options, and how simple it is."""

    fit: str
    """name in `METHODS`"""
    label: str
    """what a person reads"""
    complexity: int
    """the simpler of two equals wins"""
    options: tuple[tuple[str, Any], ...] = ()
    needs_gamma: bool = False
    is_by_ece: bool = False


CANDIDATES: dict[str, Candidate] = {
    "identity": Candidate("identity", "uncalibrated", 0),
    "posterior": Candidate("posterior", "posterior recovery", 1, needs_gamma=True),
    "temperature": Candidate("temperature", "temperature (NLL)", 2),
    "temperature_ece": Candidate("temperature", "temperature (ECE)", 3, is_by_ece=True),
    "focal_loss_temperature": Candidate(
        "focal_loss_temperature", "focal-loss temperature", 3, needs_gamma=True
    ),
    "focal_temperature_nll": Candidate(
        "focal_temperature",
        "focal temperature (NLL)",
        4,
        (("criterion", "nll"), ("search", "continuous")),
    ),
    "focal_temperature": Candidate(
        "focal_temperature", "focal temperature (ECE)", 5, is_by_ece=True
    ),
    "vector": Candidate("vector", "vector scaling", 6),
    "histogram": Candidate("histogram", "histogram binning", 7),
    "isotonic": Candidate("isotonic", "isotonic regression", 8),
}
"""The methods that `compare` knows, from simple to complex."""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One method: its calibrator, fitted on all validation rows, and how it does elsewhere."""

    method: str
    label: str
    complexity: int
    calibrator: Calibrator
    scores: dict[MetricName, BootstrapInterval]
    to_raw: dict[MetricName, BootstrapInterval]
    """paired difference to the uncalibrated model; negative is better"""
    to_temperature: dict[MetricName, BootstrapInterval] | None
    """paired difference to temperature scaling by log loss, where that was compared"""
    n_predictions_changed: int
    card: Scorecard
    """all metrics of all resamples; the same rows for every method"""
    notes: tuple[str, ...] = ()
    """what the fit on all validation rows warned of"""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side on the same examples."""

    rows: tuple[MethodResult, ...]
    skipped: tuple[tuple[str, str], ...]
    """methods that could not be fitted, and why"""
    judged_on: Literal["test", "cross-fit"]
    n_fitted: int
    n_judged: int
    n_classes: int
    n_bins: int
    n_folds: int
    n_resamples: int
    seed: int

    def row(self, method: str) -> MethodResult:
        """Return the row of `method`."""
        for row in self.rows:
            if row.method == method:
                return row
        known = ", ".join(row.method for row in self.rows)
        raise ValueError(f"`method` must be one of those compared, {known}; got {method!r}.")


def compare(
    val_logits: Array,
    val_labels: Array,
    test_logits: Array | None = None,
    test_labels: Array | None = None,
    *,
    methods: Sequence[str] | None = None,
    trained_gamma: float | None = None,
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece",
    n_bins: int = 15,
    n_folds: int = 5,
    n_resamples: int = 300,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Fit every method on validation rows and judge it on others, with intervals.

    Args:
        val_logits: real array ``[N, K]``, any library.
        val_labels: class indices ``[N]``.
        test_logits: rows to judge on. Without them the validation rows are cross-fitted: each
            of `n_folds` parts is judged by calibrators fitted on the others, so that no row is
            judged by what it was fitted on.
        test_labels: class indices of `test_logits`.
        methods: names of `CANDIDATES`. Default: all of them that can be fitted; those that need
            the training exponent only where `trained_gamma` is given.
        trained_gamma: exponent of the focal loss the model was trained with.
        criterion: which error the methods marked (ECE) minimise.
        n_bins: bins of the binned metrics and of that criterion.
        n_folds: parts of the cross-fit.
        n_resamples: bootstrap resamples behind every interval.
        seed: of the folds and the resamples.
        progress: called with the label of each method as it is taken up.

    Returns:
        `Comparison`, one row a method. Each calibrator is the one fitted on all validation rows,
        to deploy.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=(1000, 4)) * 2
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = compare(3 * truth, labels, methods=["identity", "temperature"], n_resamples=50)
        >>> [row.method for row in found.rows]
        ['identity', 'temperature']
        >>> found.row("temperature").to_raw["nll"].high < 0
        True
    """
    check_choice(criterion, ("adaptive_ece", "ece"), name="criterion")
    check_n_bins(n_bins)
    check_count(n_folds, name="n_folds", minimum=2)
    check_count(n_resamples, name="n_resamples")
    names = _selected(methods, trained_gamma)
    val = _rows(val_logits, val_labels, "val")
    if (test_logits is None) != (test_labels is None):
        raise ValueError(
            "`test_logits` and `test_labels` must be given together. Leave both out to cross-fit."
        )
    test = None if test_logits is None else _rows(test_logits, test_labels, "test")
    if test is not None and test[0].shape[1] != val[0].shape[1]:
        raise ValueError(
            f"`test_logits` must have the {val[0].shape[1]} classes of `val_logits`, got "
            f"{test[0].shape[1]}."
        )
    folds = _folds(len(val[0]), n_folds, seed) if test is None else None
    shared = _Shared(trained_gamma, criterion, n_bins)
    judged, skipped = [], []
    for name in names:
        if progress is not None:
            progress(CANDIDATES[name].label)
        try:
            calibrator, notes, probs = _fit_and_apply(name, val, test, folds, shared)
        except ValueError as error:  # such as a fold that lacks a class
            if methods is not None:
                raise
            skipped.append((name, str(error)))
            continue
        labels = val[1] if test is None else test[1]
        card = scorecard(probs, labels, n_bins=n_bins, n_resamples=n_resamples, seed=seed)
        judged.append((name, calibrator, notes, card))
    return Comparison(
        rows=_compared(judged),
        skipped=tuple(skipped),
        judged_on="cross-fit" if test is None else "test",
        n_fitted=len(val[0]),
        n_judged=len(val[0]) if test is None else len(test[0]),
        n_classes=val[0].shape[1],
        n_bins=n_bins,
        n_folds=n_folds if test is None else 0,
        n_resamples=n_resamples,
        seed=seed,
    )


_Rows = tuple[NDArray[Any], NDArray[np.intp]]


def _selected(methods: Sequence[str] | None, trained_gamma: float | None) -> list[str]:
    if methods is None:
        return [n for n, c in CANDIDATES.items() if not c.needs_gamma or trained_gamma is not None]
    for name in methods:
        check_choice(name, tuple(CANDIDATES), name="methods")
        if CANDIDATES[name].needs_gamma and trained_gamma is None:
            raise ValueError(
                f"`trained_gamma` must be given for the method {name!r}, got None. Pass the "
                "exponent the model was trained with, or leave the method out."
            )
    # Every row is compared with the uncalibrated model.
    return list(dict.fromkeys(["identity", *methods]))


def _rows(logits: Array, labels: Array | None, which: str) -> _Rows:
    try:
        rows, targets = read_logits(logits, labels)
    except ValueError as error:
        raise ValueError(f"{which}: {error}") from error
    return rows, targets


def _folds(n: int, n_folds: int, seed: int) -> list[NDArray[np.intp]]:
    if n < n_folds:
        raise ValueError(
            f"`val_logits` must have at least {n_folds} rows to cross-fit, got {n}. Pass a test "
            "set, or fewer `n_folds`."
        )
    return np.array_split(np.random.default_rng(seed).permutation(n), n_folds)


def _fit_and_apply(
    name: str,
    val: _Rows,
    test: _Rows | None,
    folds: Iterable[NDArray[np.intp]] | None,
    shared: "_Shared",
) -> tuple[Calibrator, tuple[str, ...], NDArray[Any]]:
    logits, labels = val
    held_out = [] if folds is None else list(folds)
    rows = np.arange(len(labels))
    parts: list[Part] = [slice(None)]
    parts += [np.setdiff1d(rows, fold, assume_unique=True) for fold in held_out]
    (whole, *cross), notes = _fit(name, val, parts, shared)
    if test is not None:
        return whole, notes, whole.probs(test[0])
    probs = np.empty(logits.shape, dtype=np.result_type(logits.dtype, np.float32))
    for fold, calibrator in zip(held_out, cross, strict=True):
        probs[fold] = calibrator.probs(logits[fold])
    return whole, notes, probs


@dataclass(frozen=True)
class _Shared:
    """Options that every fit may need."""

    trained_gamma: float | None
    criterion: str
    n_bins: int

    def options(self, candidate: Candidate) -> dict[str, Any]:
        options = dict(candidate.options)
        if candidate.needs_gamma:
            options["gamma"] = self.trained_gamma
        if candidate.is_by_ece:
            options |= {"criterion": self.criterion, "n_bins": self.n_bins}
        return options


def _fit(
    name: str, rows: _Rows, parts: Sequence[Part], shared: _Shared
) -> tuple[list[Calibrator], tuple[str, ...]]:
    """Return a calibrator a part, and what the first one's fit warned of, for a table to show."""
    candidate = CANDIDATES[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        found = fit_parts(candidate.fit, *rows, parts, **shared.options(candidate))
    return found, tuple(str(w.message) for w in caught)


def _compared(
    judged: list[tuple[str, Calibrator, tuple[str, ...], Scorecard]],
) -> tuple[MethodResult, ...]:
    cards = {name: card for name, _, _, card in judged}
    raw, temperature = cards["identity"], cards.get("temperature")
    return tuple(
        MethodResult(
            method=name,
            label=CANDIDATES[name].label,
            complexity=CANDIDATES[name].complexity,
            calibrator=calibrator,
            scores={m: card.interval(m) for m in METRIC_NAMES},
            to_raw={m: card.difference(raw, m) for m in METRIC_NAMES},
            to_temperature=None
            if temperature is None
            else {m: card.difference(temperature, m) for m in METRIC_NAMES},
            n_predictions_changed=int((card.predictions != raw.predictions).sum()),
            card=card,
            notes=notes,
        )
        for name, calibrator, notes, card in judged
    )
