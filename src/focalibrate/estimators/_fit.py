"""What both estimators do: fit a method by name, and read scores of a classifier."""

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from focalibrate._array import (
    Floats,
    is_array_api_obj,
    is_numpy_array,
    like,
    namespace,
    to_numpy,
)
from focalibrate._check import check_choice
from focalibrate.calibrate import METHODS, Calibrator, fit
from focalibrate.calibrate.choice import AUTO, fit_auto
from focalibrate.io import ScoreKind


def is_dispatched(X: Any) -> bool:
    """Return whether scikit-learn is told to work in the library of `X`, which is not NumPy."""
    is_foreign = is_array_api_obj(X) and not is_numpy_array(X)
    return bool(get_config()["array_api_dispatch"] and is_foreign)


def as_given(found: NDArray[Any], X: Any) -> Any:
    """Return `found` in the library, on the device and in the precision of `X`.

    Only where scikit-learn is told to do so (``array_api_dispatch=True``); labels that are text
    stay in NumPy, as no other library has them.
    """
    if not is_dispatched(X) or found.dtype.kind in "OUS":
        return found
    is_float = found.dtype.kind == "f"
    dtype = X.dtype if is_float and "float" in str(X.dtype) else None
    return like(found.tolist(), X, dtype=dtype or getattr(namespace(X), found.dtype.name))


def known_classes(estimator: Any) -> NDArray[Any]:
    """Return the classes of a fitted classifier in NumPy, whatever library it was trained with."""
    return to_numpy(estimator.classes_)


def classifier_scores(estimator: Any, X: Any) -> tuple[NDArray[np.float64], ScoreKind]:
    """Return scores ``[N, K]`` in the order of ``estimator.classes_``, and what they are.

    Logits from ``decision_function`` where there is one, a binary score `s` as ``(0, s)``; else
    probabilities from ``predict_proba``. Trees and neighbours give probability 0 to classes that
    do occur: the fits have a rule for that (`Calibrator.zero_mix`).
    """
    n_classes = len(known_classes(estimator))
    kind: ScoreKind = "logits" if hasattr(estimator, "decision_function") else "probs"
    method = "decision_function" if kind == "logits" else "predict_proba"
    if not hasattr(estimator, method):
        raise TypeError(
            f"`estimator` must have `decision_function` or `predict_proba`, but "
            f"{type(estimator).__name__} has neither."
        )
    scores = to_numpy(getattr(estimator, method)(X)).astype(np.float64, copy=False)
    if scores.ndim == 2 and scores.shape[1] == 1 and n_classes == 2:
        scores = scores[:, 0]
    if scores.ndim == 1 and n_classes == 2:
        first = np.zeros_like(scores) if kind == "logits" else 1.0 - scores
        scores = np.stack([first, scores], axis=-1)
    if scores.ndim != 2 or scores.shape[1] != n_classes:
        raise ValueError(
            f"`estimator` must give one score per class, shape [N, {n_classes}], but "
            f"{type(estimator).__name__} gives {scores.shape}. Set "
            "decision_function_shape='ovr' where it has that option."
        )
    if kind == "probs":
        # float32 rounds sums of many classes; the fits want rows that sum to 1.
        scores = scores / scores.sum(axis=1, keepdims=True)
    return scores, kind


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
        at = np.searchsorted(self.classes, known_classes(self.estimator))
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


SKLEARN_NAMES = {"sigmoid": ("platt", "structured_vector")}
"""What scikit-learn calls a method, and ours for two classes and for more."""


class CalibratedMixin(ClassifierMixin):  # type: ignore[misc]
    """What an estimator with `method`, `gamma` and `options` has once it is fitted."""

    method: str
    gamma: float | None
    options: Mapping[str, Any] | None
    classes_: NDArray[Any]

    def predict_proba(self, X: Any) -> Any:
        """Return calibrated probabilities ``[N, K]``, in the order of ``classes_``."""
        check_is_fitted(self)
        return as_given(self._probs(X), X)

    def predict(self, X: Any) -> Any:
        """Return the class of the largest probability."""
        check_is_fitted(self)
        return as_given(self.classes_[self._probs(X).argmax(axis=-1)], X)

    def _probs(self, X: Any) -> Floats:
        raise NotImplementedError

    def _fitted(
        self,
        scores: NDArray[Any],
        labels: NDArray[np.intp],
        *,
        kind: ScoreKind,
        weights: Floats | None,
    ) -> Calibrator:
        """Return the calibrator of scores ``[N, K]`` of this `kind`."""
        method, gamma, options = self.method, self.gamma, dict(self.options or {})
        check_choice(method, (AUTO, *METHODS, *SKLEARN_NAMES), name="method")
        if len(labels) == 0 or (weights is not None and not weights.any()):
            raise ValueError(
                "`y` must leave rows to calibrate on, but every row has weight 0 or a class its "
                "classifier was not trained on. Use fewer folds or more data."
            )
        if method in SKLEARN_NAMES:
            method = SKLEARN_NAMES[method][scores.shape[1] > 2]
        if method == AUTO:
            options["trained_gamma"] = gamma
        elif "loss" not in options and METHODS[method].needs_gamma:
            if gamma is None:
                raise ValueError(
                    f"`gamma` must be given for method={method!r}, got None. Pass the exponent of "
                    "the focal loss that the classifier was trained with, or "
                    "options={'loss': …}."
                )
            options["gamma"] = gamma
        elif gamma is not None:
            raise ValueError(f"`gamma` must be None for method={method!r}, got {gamma!r}.")
        parameters = signature(fit_auto if method == AUTO else METHODS[method].fit).parameters
        unknown = [name for name in options if name not in parameters]
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            raise ValueError(
                f"`options` must be keywords of the fit of method={method!r}, found {unknown}."
            )
        given: dict[str, Any] = {kind: scores, "labels": labels, "sample_weight": weights}
        return fit(**given, method=method, **options)


def class_labels(y: Any) -> NDArray[Any]:
    """Return the labels of a classification ``[N]`` in NumPy."""
    labels = column_or_1d(to_numpy(y) if is_array_api_obj(y) else y, warn=True)
    assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    return np.asarray(labels)
