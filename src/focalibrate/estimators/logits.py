"""Calibration of logits, as a scikit-learn classifier."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from focalibrate.calibrate import read_weights
from focalibrate.estimators._fit import fit_calibrator


class LogitCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Calibrate logits that a model has given already.

    `X` are the logits, one column a class in the order of ``classes_``, -inf for an impossible
    class; or one column ``[N, 1]`` of binary scores, the log-odds of the second class.

    Args:
        method: one of `focalibrate.calibrate.METHODS`.
        criterion: what the fit minimises; None for the default of the method.
        gamma: the training exponent, for ``"posterior_recovery"`` and
            ``"focal_loss_temperature"``.
        classes: label of each column, sorted. If None, the labels in `y`, which then must
            hold every class.

    Weights:
        ``sample_weight`` goes to the fit; a whole number counts copies of the row.

    Attributes:
        classes_: labels ``[K]``.
        calibrator_: the fitted calibrator, which can be saved and deployed.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = 2.0 * rng.standard_normal((4000, 3))
        >>> y = np.array(["a", "b", "c"])[(truth + rng.gumbel(size=truth.shape)).argmax(axis=1)]
        >>> model = LogitCalibrator(method="temperature").fit(3.0 * truth, y)
        >>> model.calibrator_.describe()
        'temperature scaling: T=2.985'
    """

    def __init__(
        self,
        method: str = "focal_temperature",
        *,
        criterion: str | None = None,
        gamma: float | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.method = method
        self.criterion = criterion
        self.gamma = gamma
        self.classes = classes

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to logits `X` and labels `y`."""
        logits = self._logits(X, reset=True)
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        self.classes_ = np.unique(labels) if self.classes is None else np.asarray(self.classes)
        self._check_classes(logits, labels)
        self.calibrator_ = fit_calibrator(
            self.method,
            logits,
            np.searchsorted(self.classes_, labels),
            criterion=self.criterion,
            gamma=self.gamma,
            weights=read_weights(sample_weight, n_rows=len(logits)),
        )
        return self

    def predict_proba(self, X: Any) -> NDArray[np.floating]:
        """Return calibrated probabilities ``[N, K]``."""
        check_is_fitted(self)
        probs: NDArray[np.floating] = self.calibrator_.probs(self._logits(X, reset=False))
        return probs

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest probability."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=-1)]
        return labels

    def _logits(self, X: Any, *, reset: bool) -> NDArray[Any]:
        # nan and +inf are refused, and named, by the calibrator; -inf has a meaning here
        logits: NDArray[Any] = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        if logits.shape[1] == 1:
            return np.concatenate([np.zeros_like(logits), logits], axis=1)
        return logits

    def _check_classes(self, logits: NDArray[Any], labels: NDArray[Any]) -> None:
        if len(labels) != len(logits):
            raise ValueError(
                f"`y` must have one label a row of `X`, got {len(labels)} for {len(logits)}."
            )
        if (np.unique(self.classes_) != self.classes_).any():
            raise ValueError(
                f"`classes` must be sorted and distinct, got {self.classes_.tolist()}. Sort them, "
                "and the columns of `X` alike."
            )
        if len(self.classes_) != logits.shape[1]:
            raise ValueError(
                f"`X` must have one column a class, or one column of binary scores, got "
                f"{logits.shape[1]} columns for {len(self.classes_)} classes. If `y` lacks a "
                "class, pass `classes`."
            )
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(f"`y` must hold labels of `classes`, found {unknown[:5].tolist()}.")
