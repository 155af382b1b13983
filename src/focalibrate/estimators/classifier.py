"""Cross-fitted calibration of any scikit-learn classifier."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import (
    _safe_indexing,
    assert_all_finite,
    column_or_1d,
    get_tags,
    indexable,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from focalibrate.calibrate import Calibrator, read_weights
from focalibrate.estimators._fit import fit_calibrator
from focalibrate.estimators._scores import classifier_logits

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CalibratedClassifier:
    """A fitted classifier with the calibrator of its logits."""

    estimator: Any
    calibrator: Calibrator

    def probs(self, X: Any, classes: NDArray[Any]) -> Floats:
        """Return ``[N, len(classes)]``; a class the estimator does not know gets 0."""
        known = self.calibrator.probs(classifier_logits(self.estimator, X))
        probs = np.zeros((len(known), len(classes)))
        probs[:, np.searchsorted(classes, self.estimator.classes_)] = known
        return probs


class FocalCalibratedClassifierCV(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Calibrate a classifier on folds it was not trained on.

    Logits are the classifier's ``decision_function``, a binary score `s` standing for
    ``(0, s)``, or else ``log(predict_proba)``.

    Args:
        estimator: a classifier; `LogisticRegression` if None. A `FrozenEstimator` is calibrated
            as it is, on all rows given to `fit`.
        method: one of `focalibrate.calibrate.METHODS`.
        criterion: what the fit minimises; None for the default of the method.
        gamma: the training exponent, for ``"posterior_recovery"`` and
            ``"focal_loss_temperature"``.
        cv: number of folds, a splitter, an iterable of splits, or ``"prefit"``: `estimator` is
            fitted already. (`clone` forgets a fit; inside `GridSearchCV` use `FrozenEstimator`.)
        ensemble: True: one classifier and calibrator a fold, probabilities averaged. False: one
            calibrator for the logits of all folds, behind a classifier trained on all rows.

    Weights:
        ``sample_weight`` goes to the classifier, if it takes any, and to the calibrator's fit;
        a whole number counts copies of the row.

    Folds that lack a class:
        A classifier trained without a class gives it probability 0, and rows of that class do
        not take part in its calibration.

    Attributes:
        classes_: labels ``[K]``, sorted.
        calibrated_classifiers_: the pairs of classifier and calibrator.

    Example:
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(200, random_state=0)
        >>> model = FocalCalibratedClassifierCV(method="temperature", cv=3).fit(X, y)
        >>> model.predict_proba(X[:2]).round(2)
        array([[0.9 , 0.1 ],
               [0.76, 0.24]])
        >>> len(model.calibrated_classifiers_)
        3
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "focal_temperature",
        criterion: str | None = None,
        gamma: float | None = None,
        cv: Any = 5,
        ensemble: bool = True,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.criterion = criterion
        self.gamma = gamma
        self.cv: int | Literal["prefit"] | Any = cv
        self.ensemble = ensemble

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train and calibrate on rows `X` with labels `y`."""
        X, labels = indexable(X, column_or_1d(y, warn=True))
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        weights = read_weights(sample_weight, n_rows=len(labels))
        if self._is_prefit():
            self._fit_prefit(X, labels, weights)
        else:
            self._fit_folds(X, labels, weights)
        first = self.calibrated_classifiers_[0].estimator
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return calibrated probabilities ``[N, K]``, in the order of ``classes_``."""
        check_is_fitted(self)
        members = self.calibrated_classifiers_
        mean: Floats = np.mean([m.probs(X, self.classes_) for m in members], axis=0)
        return mean

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest probability."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=-1)]
        return labels

    def _is_prefit(self) -> bool:
        is_named = isinstance(self.cv, str) and self.cv == "prefit"
        return is_named or isinstance(self.estimator, FrozenEstimator)

    def _fit_prefit(self, X: Any, y: NDArray[Any], weights: Floats | None) -> None:
        if self.estimator is None:
            raise ValueError("`estimator` must be a fitted classifier for cv='prefit', got None.")
        check_is_fitted(self.estimator)
        self.classes_ = np.asarray(self.estimator.classes_)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"`y` must hold classes the estimator knows, found {unknown[:5].tolist()}. Drop "
                "those rows or train with them."
            )
        calibrator = self._calibrator(classifier_logits(self.estimator, X), y, weights)
        self.calibrated_classifiers_ = [CalibratedClassifier(self.estimator, calibrator)]

    def _fit_folds(self, X: Any, y: NDArray[Any], weights: Floats | None) -> None:
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            found = f"only one class, {self.classes_[0]!r}" if len(y) else "no rows"
            raise ValueError(f"`y` must hold at least two classes, found {found}.")
        members, held_out = [], []
        for train, test in check_cv(self.cv, y, classifier=True).split(X, y):
            estimator = self._train(*_rows(train, X, y, weights))
            X_test, y_test, w_test = _rows(test, X, y, weights)
            is_known = np.isin(y_test, estimator.classes_)
            logits = classifier_logits(estimator, X_test)[is_known]
            y_test, w_test = y_test[is_known], None if w_test is None else w_test[is_known]
            if self.ensemble:
                calibrator = self._calibrator(logits, y_test, w_test, estimator.classes_)
                members.append(CalibratedClassifier(estimator, calibrator))
            else:
                wide = np.full((len(logits), len(self.classes_)), -np.inf)
                wide[:, np.searchsorted(self.classes_, estimator.classes_)] = logits
                held_out.append((wide, y_test, w_test))
        if not self.ensemble:
            parts: Any = [
                None if part[0] is None else np.concatenate(part)
                for part in zip(*held_out, strict=True)
            ]
            members = [CalibratedClassifier(self._train(X, y, weights), self._calibrator(*parts))]
        self.calibrated_classifiers_ = members

    def _train(self, X: Any, y: NDArray[Any], weights: Floats | None) -> Any:
        estimator = LogisticRegression() if self.estimator is None else clone(self.estimator)
        if weights is None or not has_fit_parameter(estimator, "sample_weight"):
            return estimator.fit(X, y)
        return estimator.fit(X, y, sample_weight=weights)

    def _calibrator(
        self,
        logits: Floats,
        y: NDArray[Any],
        weights: Floats | None,
        classes: NDArray[Any] | None = None,
    ) -> Calibrator:
        return fit_calibrator(
            self.method,
            logits,
            np.searchsorted(self.classes_ if classes is None else classes, y),
            criterion=self.criterion,
            gamma=self.gamma,
            weights=weights,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator = LogisticRegression() if self.estimator is None else self.estimator
        tags.input_tags.sparse = get_tags(estimator).input_tags.sparse
        return tags


def _rows(
    index: NDArray[np.intp], X: Any, y: NDArray[Any], weights: Floats | None
) -> tuple[Any, NDArray[Any], Floats | None]:
    return _safe_indexing(X, index), y[index], None if weights is None else weights[index]
