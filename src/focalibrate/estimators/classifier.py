"""Cross-fitted calibration of any scikit-learn classifier."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import LeaveOneOut, check_cv
from sklearn.svm import LinearSVC
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from focalibrate._array import Floats
from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.rows import read_weights
from focalibrate.estimators._fit import (
    CalibratedClassifier,
    CalibratedMixin,
    as_given,
    class_labels,
    classifier_scores,
    is_dispatched,
    known_classes,
    widened,
)
from focalibrate.io import ScoreKind


@dataclass(frozen=True, eq=False)
class _Fold:
    """A classifier, and the scores it gives to the rows it was not trained on."""

    estimator: Any
    scores: Floats
    kind: ScoreKind
    y: NDArray[Any]
    weights: Floats | None


class FocalCalibratedClassifierCV(CalibratedMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Calibrate a classifier on folds it was not trained on.

    A replacement for scikit-learn's `CalibratedClassifierCV`, with every method of
    focalibrate. Scores are the classifier's ``decision_function`` where it has one, a binary
    score `s` meaning the logits ``(0, s)``, or else its ``predict_proba``.

    Args:
        estimator: a classifier; `LinearSVC` if None. A `FrozenEstimator` is calibrated as it is,
            on all rows given to `fit`.
        method: one of `focalibrate.calibrate.METHODS`, or ``"auto"``: a cross-validated choice
            among them. scikit-learn's ``"sigmoid"`` is ``"platt"`` for two classes and
            ``"structured_vector"`` for more.
        gamma: exponent of the focal loss that the classifier was trained with, for
            ``"posterior_recovery"``, ``"focal_loss_temperature"`` and, if known, ``"auto"``.
        options: further keywords of the method's own fit; for ``"posterior_recovery"`` also
            another training loss, ``{"loss": focalibrate.theory.loss_form(...)}``.
        cv: number of folds, a splitter, an iterable of splits, None for 5 folds, or
            ``"prefit"``: `estimator` is fitted already. (`clone` forgets a fit; inside
            `GridSearchCV` use `FrozenEstimator`.)
        n_jobs: how many folds are trained at once, as in scikit-learn.
        ensemble: True: one classifier and calibrator per fold, probabilities averaged. False:
            one calibrator for the scores of all folds, behind a classifier trained on all rows.
            ``"auto"``: True, except for `LeaveOneOut`, whose folds are too small.

    Weights:
        ``sample_weight`` goes to the classifier, if it takes any, and to the calibrator's fit;
        a whole number counts copies of the row.

    Folds that lack a class:
        A classifier trained without a class gives it probability 0, and rows of that class do
        not take part in its calibration. Where the rows left to calibrate on are of one class
        only, the calibrator is fitted on the held-out rows of all folds instead.

    Attributes:
        classes_: labels ``[K]``, sorted.
        calibrated_classifiers_: the pairs of classifier and calibrator, each with
            ``predict_proba``.
        calibrator_: the calibrator, which can be saved and deployed, where there is one only:
            with a fitted classifier or ``ensemble=False``.

    Example:
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(200, random_state=0)
        >>> model = FocalCalibratedClassifierCV(method="temperature", cv=3).fit(X, y)
        >>> model.predict_proba(X[:2]).round(2)
        array([[0.88, 0.12],
               [0.68, 0.32]])
        >>> len(model.calibrated_classifiers_)
        3
    """

    calibrated_classifiers_: list[CalibratedClassifier]

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "auto",
        gamma: float | None = None,
        options: Mapping[str, Any] | None = None,
        cv: Any = None,
        n_jobs: int | None = None,
        ensemble: bool | Literal["auto"] = "auto",
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.gamma = gamma
        self.options = options
        self.cv: int | Literal["prefit"] | Any = cv
        self.n_jobs = n_jobs
        self.ensemble: bool | Literal["auto"] = ensemble

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Train and calibrate on rows `X` with labels `y`.

        Args:
            X: anything the classifier takes, rows first.
            y: labels ``[N]``.
            sample_weight: one number >= 0 per row.
            fit_params: for the classifier's own `fit`; with metadata routing, for the splitter
                too. What has one entry per row is cut into the folds.
        """
        X, labels = indexable(X, class_labels(y))
        weights = read_weights(sample_weight, n_rows=len(labels))
        # Of classes, where the classifier is trained on their numbers: only NumPy has texts.
        self._names: NDArray[Any] | None = None
        if is_dispatched(X) and labels.dtype.kind in "OUS" and not self._is_prefit():
            self._names, labels = np.unique(labels, return_inverse=True)
        to_fit, to_split = self._routed(weights, fit_params)
        if self._is_prefit():
            self._fit_prefit(X, labels, weights)
        else:
            self._fit_folds(X, labels, weights, to_fit, to_split)
        if self._names is not None:
            self.classes_ = self._names[self.classes_]
        first = self.calibrated_classifiers_[0].estimator
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(first, name):
                setattr(self, name, getattr(first, name))
        return self

    def _probs(self, X: Any) -> Floats:
        mean: Floats = np.mean([m.predict_proba(X) for m in self.calibrated_classifiers_], axis=0)
        return mean

    @property
    def calibrator_(self) -> Calibrator:
        """The one calibrator behind the one classifier."""
        members: list[CalibratedClassifier] = getattr(self, "calibrated_classifiers_", [])
        if len(members) != 1:
            raise AttributeError(
                f"`calibrator_` needs one fitted calibrator, but there are {len(members)}. Fit "
                "with `ensemble=False`, or use those in `calibrated_classifiers_`."
            )
        return members[0].calibrator

    def get_metadata_routing(self) -> Any:
        """Return which metadata goes where: to this estimator, the classifier, the splitter."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        router = router.add(estimator=self._estimator(), method_mapping=to_fit)
        return router.add(splitter=check_cv(self._cv()), method_mapping=to_split)

    def _estimator(self) -> Any:
        if self.estimator is not None:
            return self.estimator
        default = LinearSVC(random_state=0)
        is_routed = get_config()["enable_metadata_routing"]
        return default.set_fit_request(sample_weight=True) if is_routed else default

    def _cv(self) -> Any:
        return 5 if self.cv is None or self._is_prefit() else self.cv

    def _is_prefit(self) -> bool:
        is_named = isinstance(self.cv, str) and self.cv == "prefit"
        return is_named or isinstance(self.estimator, FrozenEstimator)

    def _routed(
        self, weights: Floats | None, fit_params: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the keywords of the classifier's `fit` and of the splitter's `split`."""
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", sample_weight=weights, **fit_params)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        if weights is None or self._is_prefit():
            return dict(fit_params), {}
        estimator = self._estimator()
        if "sample_weight" not in signature(estimator.fit).parameters:
            warnings.warn(
                f"{type(estimator).__name__}.fit takes no `sample_weight`: the weights are used "
                "for the calibration only.",
                UserWarning,
                stacklevel=3,
            )
            return dict(fit_params), {}
        return {**fit_params, "sample_weight": weights}, {}

    def _fit_prefit(self, X: Any, y: NDArray[Any], weights: Floats | None) -> None:
        if self.estimator is None:
            raise ValueError("`estimator` must be a fitted classifier for cv='prefit', got None.")
        check_is_fitted(self.estimator)
        self.classes_ = known_classes(self.estimator)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"`y` must hold classes the estimator knows, found {unknown[:5].tolist()}. Drop "
                "those rows or train with them."
            )
        scores, kind = classifier_scores(self.estimator, X)
        calibrator = self._calibrator(scores, kind, y, weights, self.classes_)
        member = CalibratedClassifier(self.estimator, calibrator, self.classes_)
        self.calibrated_classifiers_ = [member]

    def _fit_folds(
        self,
        X: Any,
        y: NDArray[Any],
        weights: Floats | None,
        to_fit: dict[str, Any],
        to_split: dict[str, Any],
    ) -> None:
        self.classes_, counts = np.unique(y, return_counts=True)
        counted = self.classes_ if weights is None else np.unique(y[weights > 0])
        if len(counted) < 2:
            found = f"only one class, {counted.tolist()[0]!r}" if len(y) else "no rows"
            raise ValueError(f"`y` must hold at least two classes, found {found}.")
        is_single = isinstance(self.cv, LeaveOneOut)
        is_ensemble = not is_single if self.ensemble == "auto" else self.ensemble
        n_folds = self.cv if isinstance(self.cv, int) else getattr(self.cv, "n_splits", 0)
        if is_ensemble and is_single:
            raise ValueError(
                "LeaveOneOut cross-validation does not leave enough rows in a fold to calibrate "
                "on. Pass `ensemble=False`, which calibrates on the rows of all folds."
            )
        if is_ensemble and n_folds > counts.max():
            raise ValueError(
                f"Requesting {n_folds}-fold cross-validation but no class has more than "
                f"{counts.max()} examples. Use fewer folds or `ensemble=False`."
            )
        splits = check_cv(self._cv(), y, classifier=True).split(X, y, **to_split)
        folds: list[_Fold] = Parallel(n_jobs=self.n_jobs)(
            delayed(_fold)(clone(self._estimator()), X, y, weights, to_fit, train, test)
            for train, test in splits
        )
        if is_ensemble:
            members = [self._member(fold, folds) for fold in folds]
        else:
            estimator = clone(self._estimator()).fit(X, as_given(y, X), **to_fit)
            calibrator = self._pooled_calibrator(folds)
            members = [CalibratedClassifier(estimator, calibrator, self.classes_)]
        self.calibrated_classifiers_ = members

    def _member(self, fold: _Fold, folds: list[_Fold]) -> CalibratedClassifier:
        known = known_classes(fold.estimator)
        labels = fold.y if fold.weights is None else fold.y[fold.weights > 0]
        if len(np.unique(labels)) < 2:
            calibrator = self._pooled_calibrator(folds)
        else:
            calibrator = self._calibrator(fold.scores, fold.kind, fold.y, fold.weights, known)
        return CalibratedClassifier(fold.estimator, calibrator, self.classes_)

    def _pooled_calibrator(self, folds: list[_Fold]) -> Calibrator:
        scores = [
            widened(
                fold.scores,
                fold.kind,
                np.searchsorted(self.classes_, known_classes(fold.estimator)),
                len(self.classes_),
            )
            for fold in folds
        ]
        weights = [fold.weights for fold in folds if fold.weights is not None]
        return self._calibrator(
            np.concatenate(scores),
            folds[0].kind,
            np.concatenate([fold.y for fold in folds]),
            np.concatenate(weights) if weights else None,
            self.classes_,
        )

    def _calibrator(
        self,
        scores: Floats,
        kind: ScoreKind,
        y: NDArray[Any],
        weights: Floats | None,
        classes: NDArray[Any],
    ) -> Calibrator:
        found = self._fitted(scores, np.searchsorted(classes, y), kind=kind, weights=weights)
        return found.with_class_names(classes if self._names is None else self._names[classes])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._estimator()).input_tags.sparse
        return tags


def _fold(
    estimator: Any,
    X: Any,
    y: NDArray[Any],
    weights: Floats | None,
    to_fit: dict[str, Any],
    train: NDArray[np.intp],
    test: NDArray[np.intp],
) -> _Fold:
    """Train on one fold and score the rows held out, without those of classes it does not know."""
    params = {name: _rows(value, train, len(y)) for name, value in to_fit.items()}
    estimator.fit(_safe_indexing(X, train), as_given(y[train], X), **params)
    test = test[np.isin(y[test], known_classes(estimator))]
    kept = None if weights is None else weights[test]
    if len(test) == 0:
        empty: Floats = np.empty((0, len(known_classes(estimator))))
        kind: ScoreKind = "logits" if hasattr(estimator, "decision_function") else "probs"
        return _Fold(estimator, empty, kind, y[test], kept)
    scores, kind = classifier_scores(estimator, _safe_indexing(X, test))
    return _Fold(estimator, scores, kind, y[test], kept)


def _rows(value: Any, index: NDArray[np.intp], n_rows: int) -> Any:
    """Return the rows `index` of what has one entry per row, anything else whole."""
    is_per_row = hasattr(value, "__len__") or hasattr(value, "shape")
    if not is_per_row or isinstance(value, (str, bytes, Mapping)):
        return value
    length = value.shape[0] if getattr(value, "shape", ()) else len(value)
    return _safe_indexing(value, index) if length == n_rows else value
