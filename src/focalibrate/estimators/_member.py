"""A fitted classifier with the calibrator of its scores."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import Calibrator
from focalibrate.estimators._scores import classifier_scores
from focalibrate.io import ScoreKind


@dataclass(frozen=True, eq=False)
class CalibratedClassifier:
    """A fitted classifier with the calibrator of its scores: one member of an ensemble."""

    estimator: Any
    calibrator: Calibrator
    classes: NDArray[Any]
    """Labels ``[K]`` of the columns of `predict_proba`; the estimator may know fewer."""

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities ``[N, K]``; a class the estimator does not know gets 0."""
        scores, kind = classifier_scores(self.estimator, X)
        at = np.searchsorted(self.classes, self.estimator.classes_)
        if self.calibrator.n_classes in (None, len(at)):
            probs = np.zeros((len(scores), len(self.classes)))
            probs[:, at] = self.calibrator.probs(**{kind: scores})
            return probs
        probs = self.calibrator.probs(**{kind: widened(scores, kind, at, len(self.classes))})
        return known_only(probs, at)


def widened(scores: Floats, kind: ScoreKind, at: NDArray[np.intp], n_classes: int) -> Floats:
    """Return scores with a column for every class, those not in `at` impossible."""
    wide = np.full((len(scores), n_classes), -np.inf if kind == "logits" else 0.0)
    wide[:, at] = scores
    return wide


def known_only(probs: Floats, at: NDArray[np.intp]) -> Floats:
    """Return probabilities with 0 for every class not in `at`, rows normalised to sum 1."""
    if len(at) == probs.shape[1]:
        return probs
    known = np.zeros_like(probs)
    known[:, at] = probs[:, at]
    known /= known.sum(axis=1, keepdims=True)
    return known
