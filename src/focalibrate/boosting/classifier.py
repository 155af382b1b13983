"""Boosted trees trained with focal loss, whose probabilities are already recovered."""

from importlib import import_module
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from focalibrate._check import check_choice, check_count, check_positive
from focalibrate.boosting.catboost import focal_loss_name
from focalibrate.boosting.derivatives import Curvature
from focalibrate.boosting.objective import FocalObjective

Library = Literal["xgboost", "lightgbm", "catboost"]
LIBRARIES: tuple[Library, ...] = ("xgboost", "lightgbm", "catboost")


@final
class FocalBoostingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient boosting with focal loss; `predict_proba` gives true probabilities.

    The trees are those of XGBoost, LightGBM or CatBoost. Focal loss makes them attend to hard
    examples; the closed-form recovery then turns their scores into probabilities, class weights
    undone. `predict` returns the class of the largest recovered probability.

    Args:
        library: ``"xgboost"``, ``"lightgbm"`` or ``"catboost"`` (two classes only: CatBoost has a
            focal loss of its own for these).
        gamma: focusing exponent, ``>= 0``; CatBoost needs ``> 0``.
        alpha: for two classes, the weight of the second class in the loss.
        class_weight: ``{label: weight}``, weights in the order of ``classes_``, or
            ``"balanced"``.
        curvature: ``"exact"`` or ``"bound"``, see `FocalObjective`.
        n_estimators: boosting rounds.
        learning_rate: step size.
        max_depth: depth of a tree; None for the library's default.
        random_state: seed of the library.
        n_jobs: threads; None for the library's default.
        params: other parameters by the library's own names.

    Attributes:
        classes_: class labels.
        objective_: the `FocalObjective` trained with.
        booster_: the library's fitted model.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = FocalBoostingClassifier(library="lightgbm", n_estimators=10).fit(X, y)
        >>> model.predict_proba(X).shape
        (150, 3)
    """

    def __init__(
        self,
        library: Library = "xgboost",
        *,
        gamma: float = 2.0,
        alpha: float | None = None,
        class_weight: Any = None,
        curvature: Curvature = "exact",
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_depth: int | None = None,
        random_state: int | None = 0,
        n_jobs: int | None = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.library = library
        self.gamma = gamma
        self.alpha = alpha
        self.class_weight = class_weight
        self.curvature = curvature
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.params = params

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train `n_estimators` rounds on ``X`` ``[N, D]`` and class labels ``y``."""
        check_choice(self.library, LIBRARIES, name="library")
        check_count(self.n_estimators, name="n_estimators")
        check_positive(self.learning_rate, name="learning_rate")
        rows, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan")
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "`y` must hold at least two classes; the number of classes found is one class."
            )
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, rows)
        self.objective_ = self._objective(labels)
        train = {"xgboost": self._xgboost, "lightgbm": self._lightgbm, "catboost": self._catboost}
        self.booster_ = train[self.library](rows, labels, weight)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return margins: ``[N]`` for two classes, else ``[N, K]``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        if self.library == "xgboost":
            data = import_module("xgboost").DMatrix(X)
            margins = self.booster_.predict(data, output_margin=True)
        elif self.library == "lightgbm":
            margins = self.booster_.predict(X, raw_score=True)
        else:
            margins = self.booster_.predict(X, prediction_type="RawFormulaVal")
        return np.asarray(margins, dtype=np.float64)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return recovered class probabilities ``[N, K]``."""
        margins = self.decision_function(X)
        return self.objective_.probs(margins)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of the largest recovered probability."""
        probs = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[probs.argmax(axis=1)]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _objective(self, labels: NDArray[np.intp]) -> FocalObjective:
        weight = self.class_weight
        if isinstance(weight, str):
            check_choice(weight, ("balanced",), name="class_weight")
            weight = tuple(len(labels) / (len(self.classes_) * np.bincount(labels)))
        elif isinstance(weight, dict):
            weight = tuple(float(weight.get(name, 1.0)) for name in self.classes_.tolist())
        elif weight is not None:
            weight = tuple(float(w) for w in weight)
        if self.alpha is not None and len(self.classes_) > 2:
            raise ValueError(
                f"`alpha` must be left out for {len(self.classes_)} classes, got {self.alpha!r}. "
                "Pass `class_weight`, one number per class."
            )
        return FocalObjective(
            gamma=self.gamma, alpha=self.alpha, class_weight=weight, curvature=self.curvature
        )

    def _settings(self, names: dict[str, str]) -> dict[str, Any]:
        """Return the parameters that are set, under the library's own names."""
        given = {
            "learning_rate": self.learning_rate,
            "max_depth": self.max_depth,
            "random_state": self.random_state,
            "n_jobs": self.n_jobs,
        }
        settings = {names[key]: value for key, value in given.items() if value is not None}
        return settings | (self.params or {})

    def _xgboost(
        self, X: NDArray[Any], labels: NDArray[np.intp], weight: NDArray[Any] | None
    ) -> Any:
        xgb = import_module("xgboost")
        names = {"learning_rate": "eta", "random_state": "seed", "n_jobs": "nthread"}
        settings = self._settings(names | {"max_depth": "max_depth"})
        # A margin of 0 at the start: the library would otherwise add 0.5 to every score.
        settings = {"base_score": 0.0, "disable_default_eval_metric": True} | settings
        if len(self.classes_) > 2:
            settings["num_class"] = len(self.classes_)
        data = xgb.DMatrix(X, label=labels, weight=weight)
        return xgb.train(settings, data, self.n_estimators, obj=self.objective_.xgboost)

    def _lightgbm(
        self, X: NDArray[Any], labels: NDArray[np.intp], weight: NDArray[Any] | None
    ) -> Any:
        lgb = import_module("lightgbm")
        names = {"learning_rate": "learning_rate", "random_state": "seed"}
        settings = self._settings(names | {"n_jobs": "num_threads", "max_depth": "max_depth"})
        settings = {"verbosity": -1, "objective": self.objective_.lightgbm} | settings
        if len(self.classes_) > 2:
            settings["num_class"] = len(self.classes_)
        data = lgb.Dataset(X, label=labels, weight=weight, free_raw_data=False)
        return lgb.train(settings, data, self.n_estimators)

    def _catboost(
        self, X: NDArray[Any], labels: NDArray[np.intp], weight: NDArray[Any] | None
    ) -> Any:
        if len(self.classes_) > 2:
            raise ValueError(
                f"`library='catboost'` must have two classes, got {len(self.classes_)}: its Focal "
                "loss knows no more. Use library='xgboost' or 'lightgbm'."
            )
        cat = import_module("catboost")
        low, high = self.objective_.weights or (0.5, 0.5)
        loss = focal_loss_name(self.gamma, high / (low + high))
        names = {"learning_rate": "learning_rate", "random_state": "random_seed"}
        settings = self._settings(names | {"n_jobs": "thread_count", "max_depth": "depth"})
        settings = {"verbose": False, "allow_writing_files": False} | settings
        model = cat.CatBoost({"iterations": self.n_estimators, "loss_function": loss} | settings)
        return model.fit(cat.Pool(X, label=labels, weight=weight))
