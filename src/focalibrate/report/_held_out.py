"""Calibrated probabilities of a cross-fit, made again as `compare` made them."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import METHODS, CalibrationWarning
from focalibrate.comparison import CANDIDATES, Comparison, MethodResult
from focalibrate.metrics import ece

CRITERIA = ("adaptive_ece", "ece")
"""What methods fitted "by ECE" may have minimised; a comparison does not say which."""


def held_out_probs(
    comparison: Comparison, row: MethodResult, logits: NDArray[Any], labels: NDArray[np.intp]
) -> NDArray[Any] | None:
    """Return each row's probabilities by a calibrator fitted on the other folds.

    So that the diagrams show what the table judges, and no row is shown by what it was fitted
    on. The result is held against the table: None where its ECE is not the one found there, as
    for a comparison of other rows or other options.
    """
    candidate = CANDIDATES.get(row.method)
    if candidate is None:
        return None
    order = np.random.default_rng(comparison.seed).permutation(len(labels))
    folds = np.array_split(order, comparison.n_folds)
    for criterion in CRITERIA if candidate.is_by_ece else CRITERIA[:1]:
        options: dict[str, Any] = dict(candidate.options)
        if candidate.needs_gamma:
            options["gamma"] = getattr(row.calibrator, "gamma", None)
        if candidate.is_by_ece:
            options |= {"criterion": criterion, "n_bins": comparison.n_bins}
        probs = np.empty(logits.shape, dtype=np.result_type(logits.dtype, np.float32))
        for held_out in folds:
            is_kept = np.ones(len(labels), dtype=bool)
            is_kept[held_out] = False
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrationWarning)  # the table shows them
                part = METHODS[candidate.fit](logits[is_kept], labels[is_kept], **options)
            probs[held_out] = part.probs(logits[held_out])
        found = ece(probs, labels, n_bins=comparison.n_bins)
        if math.isclose(found, row.scores["ece"].estimate, rel_tol=1e-6, abs_tol=1e-9):
            return probs
    return None
