"""Boosted trees trained with focal loss or another, whose probabilities are already recovered."""

from collections.abc import Sequence
from dataclasses import dataclass
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

from focalibrate._check import check_choice, check_count, check_open_interval, check_positive
from focalibrate.boosting.objective import Curvature, FocalObjective
from focalibrate.calibrate import PosteriorRecovery
from focalibrate.theory import LossForm

Library = Literal["xgboost", "lightgbm", "catboost"]
LIBRARIES: tuple[Library, ...] = ("xgboost", "lightgbm", "catboost")


@final
class FocalBoostingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Gradient boosting with focal loss; `predict_proba` gives true probabilities.

    The trees are those of XGBoost, LightGBM or CatBoost. Focal loss makes them attend to hard
    examples; the closed-form recovery then turns their scores into probabilities, class weights
    undone. `predict` returns the class of the largest recovered probability. Columns of a pandas
    frame that hold text or categories are split as categories; one that `fit` did not see counts
    as missing.

    Args:
        library: ``"xgboost"``, ``"lightgbm"`` or ``"catboost"`` (two classes only: CatBoost has a
            focal loss of its own for these).
        gamma: focusing exponent, ``>= 0``; CatBoost needs ``> 0``.
        loss: another loss in place of the focal one, as `focalibrate.theory.loss_form` returns it.
            It takes no `gamma`, `alpha` and `class_weight`.
        alpha: for two classes, the weight of the second class in the loss.
        class_weight: ``{label: weight}``, weights in the order of ``classes_``, or
            ``"balanced"``.
        curvature: ``"exact"`` or ``"bound"``, see `FocalObjective`.
        n_estimators: boosting rounds; with `warm_start`, those of earlier calls included.
        early_stopping_rounds: stop when the loss of `eval_set` has not fallen for so many rounds,
            and predict with the best number of rounds.
        warm_start: let `fit` add rounds to the trees of the last call.
        learning_rate: step size.
        max_depth: depth of a tree; None for the library's default.
        random_state: seed of the library.
        n_jobs: threads; None for the library's default.
        params: other parameters by the library's own names.

    Attributes:
        classes_: class labels.
        objective_: the `FocalObjective` trained with.
        categories_: by name of column, the values that were split as categories.
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
        loss: LossForm | None = None,
        alpha: float | None = None,
        class_weight: Any = None,
        curvature: Curvature = "exact",
        n_estimators: int = 100,
        early_stopping_rounds: int | None = None,
        warm_start: bool = False,
        learning_rate: float = 0.1,
        max_depth: int | None = None,
        random_state: int | None = 0,
        n_jobs: int | None = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.library = library
        self.gamma = gamma
        self.loss = loss
        self.alpha = alpha
        self.class_weight = class_weight
        self.curvature = curvature
        self.n_estimators = n_estimators
        self.early_stopping_rounds = early_stopping_rounds
        self.warm_start = warm_start
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.params = params

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        eval_set: tuple[Any, ...] | list[tuple[Any, ...]] | None = None,
    ) -> Self:
        """Train to `n_estimators` rounds on ``X`` ``[N, D]`` and class labels ``y``.

        Args:
            X: numbers, nan where missing, or a pandas frame with categories.
            y: class labels.
            sample_weight: one weight per row.
            eval_set: ``(X, y)`` or ``(X, y, sample_weight)``, for `early_stopping_rounds`; also
                in a list, as XGBoost and LightGBM take it.
        """
        check_choice(self.library, LIBRARIES, name="library")
        check_count(self.n_estimators, name="n_estimators")
        check_positive(self.learning_rate, name="learning_rate")
        if (self.early_stopping_rounds is None) != (eval_set is None):
            raise ValueError(
                "`early_stopping_rounds` and `eval_set` must be given together: rows kept back "
                "from training tell when to stop."
            )
        previous = getattr(self, "booster_", None) if self.warm_start else None
        known: NDArray[Any] | None = (
            getattr(self, "classes_", None) if previous is not None else None
        )
        rows, y = validate_data(
            self,
            self._encoded(X, fit=previous is None),
            y,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            reset=previous is None,
        )
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                "`y` must hold at least two classes; the number of classes found is one class."
            )
        if known is not None and not np.array_equal(known, self.classes_):
            raise ValueError(
                f"`y` must hold the classes of the last call to go on, {known.tolist()}, got "
                f"{self.classes_.tolist()}. Set `warm_start=False` to begin again."
            )
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, rows)
        self.objective_ = self._objective(labels)
        train = {"xgboost": self._xgboost, "lightgbm": self._lightgbm, "catboost": self._catboost}
        self.booster_ = train[self.library](
            self._data(rows, labels, weight), self._kept_back(eval_set), previous
        )
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return margins: ``[N]`` for two classes, else ``[N, K]``."""
        check_is_fitted(self)
        rows = self._rows(X)
        if self.library == "xgboost":
            # 0 stands for all rounds.
            best = getattr(self.booster_, "best_iteration", -1) + 1
            margins = self.booster_.predict(
                self._data(rows), output_margin=True, iteration_range=(0, best)
            )
        elif self.library == "lightgbm":
            margins = self.booster_.predict(rows, raw_score=True)
        else:
            margins = self.booster_.predict(self._data(rows), prediction_type="RawFormulaVal")
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

    def _encoded(self, X: Any, *, fit: bool = False) -> Any:
        """Return `X` with the number of its category in place of a text."""
        is_frame = hasattr(X, "iloc") and hasattr(X, "columns")
        if fit:
            texts = [n for n, kind in X.dtypes.items() if kind.kind == "O"] if is_frame else []
            self.categories_ = {n: X[n].astype("category").cat.categories for n in texts}
            self._categorical = [list(X.columns).index(name) for name in texts]
        if not self.categories_:
            return X
        missing = [n for n in self.categories_ if not is_frame or n not in X.columns]
        if missing:
            raise ValueError(
                f"`X` must be a pandas frame with the columns of the fit; {missing} are missing."
            )
        X = X.copy()
        for name, values in self.categories_.items():
            codes = values.get_indexer(X[name]).astype(np.float64)
            X[name] = np.where(codes < 0, np.nan, codes)
        return X

    def _rows(self, X: Any) -> NDArray[np.float64]:
        found: NDArray[np.float64] = validate_data(
            self,
            self._encoded(X),
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            reset=False,
        )
        return found

    def _kept_back(self, eval_set: Any) -> Any:
        """Return the rows of `eval_set` as data of the library."""
        if eval_set is None:
            return None
        if isinstance(eval_set, list) and len(eval_set) == 1:
            eval_set = eval_set[0]
        if not isinstance(eval_set, tuple) or len(eval_set) not in (2, 3):
            raise ValueError(
                "`eval_set` must be (X, y) or (X, y, sample_weight), one set of rows, got a "
                f"{type(eval_set).__name__} of {len(eval_set)}."
            )
        X, y, *weight = eval_set
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"`eval_set` has classes that `y` has not: {unknown.tolist()}.")
        return self._data(self._rows(X), np.searchsorted(self.classes_, y), *weight)

    def _data(self, rows: NDArray[np.float64], labels: Any = None, weight: Any = None) -> Any:
        """Return rows, labels and weights as data of the library."""
        places = self._categorical
        package = import_module(self.library)
        if self.library == "lightgbm":
            chosen = places or "auto"
            return package.Dataset(
                rows, labels, weight=weight, categorical_feature=chosen, free_raw_data=False
            )
        if self.library == "catboost":
            cells: Any = rows
            if places:
                cells = rows.astype(object)
                for place in places:
                    cells[:, place] = [f"{code:g}" for code in rows[:, place]]
            return package.Pool(cells, label=labels, weight=weight, cat_features=places or None)
        types = ["c" if k in places else "q" for k in range(rows.shape[1])] if places else None
        return package.DMatrix(
            rows, labels, weight=weight, feature_types=types, enable_categorical=bool(places)
        )

    def _rounds_left(self, done: int) -> int:
        if self.n_estimators <= done:
            raise ValueError(
                f"`n_estimators` must be above the {done} rounds trained before, got "
                f"{self.n_estimators}: with `warm_start` it counts all rounds."
            )
        return self.n_estimators - done

    def _objective(self, labels: NDArray[np.intp]) -> FocalObjective:
        weight = self.class_weight
        if isinstance(weight, str):
            check_choice(weight, ("balanced",), name="class_weight")
            weight = tuple(len(labels) / (len(self.classes_) * np.bincount(labels)))
        elif isinstance(weight, dict):
            weight = tuple(float(weight.get(name, 1.0)) for name in self.classes_.tolist())
        if self.alpha is not None and len(self.classes_) > 2:
            raise ValueError(
                f"`alpha` must be left out for {len(self.classes_)} classes, got {self.alpha!r}. "
                "Pass `class_weight`, one number per class."
            )
        return FocalObjective(
            self.gamma,
            alpha=self.alpha,
            class_weight=weight,
            curvature=self.curvature,
            loss=self.loss,
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

    def _xgboost(self, data: Any, kept_back: Any, previous: Any) -> Any:
        xgb = import_module("xgboost")
        names = {"learning_rate": "eta", "random_state": "seed", "n_jobs": "nthread"}
        settings = self._settings(names | {"max_depth": "max_depth"})
        # A margin of 0 at the start: the library would otherwise add 0.5 to every score.
        settings = {"base_score": 0.0, "disable_default_eval_metric": True} | settings
        if len(self.classes_) > 2:
            settings["num_class"] = len(self.classes_)
        booster = xgb.train(
            settings,
            data,
            self._rounds_left(previous.num_boosted_rounds() if previous is not None else 0),
            obj=self.objective_,
            evals=[] if kept_back is None else [(kept_back, "kept_back")],
            custom_metric=self.objective_.xgboost_metric,
            early_stopping_rounds=self.early_stopping_rounds,
            verbose_eval=False,
            xgb_model=previous,
        )
        if kept_back is None:  # of an earlier call
            booster.set_attr(best_iteration=None, best_score=None)
        return booster

    def _lightgbm(self, data: Any, kept_back: Any, previous: Any) -> Any:
        lgb = import_module("lightgbm")
        names = {"learning_rate": "learning_rate", "random_state": "seed"}
        settings = self._settings(names | {"n_jobs": "num_threads", "max_depth": "max_depth"})
        settings = {"verbosity": -1, "metric": "none"} | settings
        settings["objective"] = self.objective_
        if len(self.classes_) > 2:
            settings["num_class"] = len(self.classes_)
        if kept_back is not None:
            kept_back.set_reference(data)
        stop = self.early_stopping_rounds
        return lgb.train(
            settings,
            data,
            self._rounds_left(previous.current_iteration() if previous is not None else 0),
            valid_sets=None if kept_back is None else [kept_back],
            feval=self.objective_.lightgbm_metric,
            callbacks=None if stop is None else [lgb.early_stopping(stop, verbose=False)],
            init_model=previous,
        )

    def _catboost(self, data: Any, kept_back: Any, previous: Any) -> Any:
        if len(self.classes_) > 2:
            raise ValueError(
                f"`library='catboost'` must have two classes, got {len(self.classes_)}: its Focal "
                "loss knows no more. Use library='xgboost' or 'lightgbm'."
            )
        names = {"learning_rate": "learning_rate", "random_state": "random_seed"}
        settings = self._settings(names | {"n_jobs": "thread_count", "max_depth": "depth"})
        settings = {"verbose": False, "allow_writing_files": False} | settings
        settings["iterations"] = self._rounds_left(previous.tree_count_ if previous else 0)
        if self.objective_.loss is not None:
            own = _CatBoostLoss(self.objective_)
            settings |= {"loss_function": own, "eval_metric": own}
        else:
            low, high = self.objective_.weights or (0.5, 0.5)
            settings["loss_function"] = focal_loss_name(self.gamma, high / (low + high))
        model = import_module("catboost").CatBoost(settings)
        stop = self.early_stopping_rounds
        return model.fit(data, eval_set=kept_back, early_stopping_rounds=stop, init_model=previous)


def focal_loss_name(gamma: float, alpha: float) -> str:
    """Return CatBoost's name of the two-class focal loss, for ``loss_function=…``.

    Example:
        >>> focal_loss_name(2.0, 0.25)
        'Focal:focal_alpha=0.25;focal_gamma=2.0'
    """
    check_positive(gamma, name="gamma")
    check_open_interval(alpha, low=0.0, high=1.0, name="alpha")
    return f"Focal:focal_alpha={float(alpha)!r};focal_gamma={float(gamma)!r}"


def recovery_of_catboost(model: Any) -> PosteriorRecovery:
    """Return the calibrator for a CatBoost model trained with its own ``Focal`` loss.

    The exponent and alpha are read from the model's parameters. Apply it to margins,
    ``model.predict(X, prediction_type="RawFormulaVal")``, as log-odds of class 1.

    Args:
        model: a fitted `catboost.CatBoost` or `CatBoostClassifier`.

    Raises:
        ValueError: where the model was trained with another loss.
    """
    name = str(model.get_all_params().get("loss_function", ""))
    head, _, options = name.partition(":")
    found = dict(part.split("=", 1) for part in options.split(";") if "=" in part)
    if head != "Focal" or not {"focal_alpha", "focal_gamma"} <= set(found):
        raise ValueError(
            f"`model` must be trained with CatBoost's Focal loss, but its loss is {name!r}. Train "
            f"with loss_function={focal_loss_name(2.0, 0.25)!r}; other losses need no recovery."
        )
    alpha = float(found["focal_alpha"])
    return PosteriorRecovery(gamma=float(found["focal_gamma"]), class_weight=(1.0 - alpha, alpha))


@dataclass  # CatBoost writes attributes of its own
class _CatBoostLoss:
    """A loss of two classes as CatBoost's ``loss_function`` and ``eval_metric``."""

    objective: FocalObjective

    def calc_ders_range(
        self, margins: Any, labels: Any, weights: Any
    ) -> list[tuple[float, float]]:
        """Return for each row how the loss falls: CatBoost climbs."""
        found = self.objective(np.asarray(labels), np.asarray(margins), weights)
        return list(zip(*(-x for x in found), strict=True))

    def evaluate(self, margins: Sequence[Any], labels: Any, weights: Any) -> tuple[float, float]:
        """Return the sum of the losses and that of the weights."""
        total = float(len(labels) if weights is None else np.sum(weights))
        mean = self.objective.mean_loss(np.asarray(labels), np.asarray(margins[0]), weights)
        return mean * total, total

    def get_final_error(self, error: float, weight: float) -> float:
        """Return the mean loss."""
        return error / weight

    def is_max_optimal(self) -> bool:
        """Return that lower is better."""
        return False
