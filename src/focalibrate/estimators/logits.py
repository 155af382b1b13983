"""Calibration of scores that a model has given, as a scikit-learn classifier."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from focalibrate._array import Floats, is_array_api_obj, to_numpy
from focalibrate._check import check_choice
from focalibrate.calibrate.rows import read_weights
from focalibrate.estimators._fit import CalibratedMixin, class_labels
from focalibrate.io import ScoreKind


class LogitCalibrator(CalibratedMixin, BaseEstimator):  # type: ignore[misc]
    """Calibrate logits, or probabilities, that a model has given already.

    `X` has one column per class in the order of ``classes_``, -inf for the logit of an
    impossible class. One column, ``[N, 1]`` or ``[N]``, is for two classes: the log-odds or the
    probability of the second.

    Args:
        method: one of `focalibrate.calibrate.METHODS`, or ``"auto"``: a cross-validated choice
            among them. scikit-learn's ``"sigmoid"`` is ``"platt"`` for two classes and
            ``"structured_vector"`` for more.
        scores: what `X` holds, ``"logits"`` or ``"probs"``.
        gamma: exponent of the focal loss that the model was trained with, for
            ``"posterior_recovery"``, ``"focal_loss_temperature"`` and, if known, ``"auto"``.
        options: further keywords of the method's own fit; for ``"posterior_recovery"`` also
            another training loss, ``{"loss": focalibrate.theory.loss_form(...)}``.
        classes: label of each column, sorted. If None, the labels in `y`, which then must
            hold every class.

    Weights:
        ``sample_weight``: one number >= 0 per row; a whole number counts copies of the row.

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
        method: str = "auto",
        *,
        scores: ScoreKind = "logits",
        gamma: float | None = None,
        options: Mapping[str, Any] | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.method = method
        self.scores: ScoreKind = scores
        self.gamma = gamma
        self.options = options
        self.classes = classes

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to scores `X` and labels `y`."""
        check_choice(self.scores, ("logits", "probs"), name="scores")
        scores = self._scores(X, reset=True)
        labels = class_labels(y)
        self.classes_ = np.unique(labels) if self.classes is None else np.asarray(self.classes)
        self._check_classes(scores, labels)
        found = self._fitted(
            scores,
            np.searchsorted(self.classes_, labels),
            kind=self.scores,
            weights=read_weights(sample_weight, n_rows=len(scores)),
        )
        self.calibrator_ = found.with_class_names(self.classes_)
        return self

    def _probs(self, X: Any) -> Floats:
        return np.asarray(self.calibrator_.probs(**{self.scores: self._scores(X, reset=False)}))

    def _scores(self, X: Any, *, reset: bool) -> NDArray[Any]:
        X = to_numpy(X) if is_array_api_obj(X) else X
        if getattr(X, "ndim", 2) == 1:
            X = np.asarray(X).reshape(-1, 1)
        # nan and +inf are refused, and named, by the calibrator; -inf has a meaning here
        scores: NDArray[Any] = validate_data(
            self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
        if scores.shape[1] > 1:
            return scores
        first = np.zeros_like(scores) if self.scores == "logits" else 1.0 - scores
        return np.concatenate([first, scores], axis=1)

    def _check_classes(self, scores: NDArray[Any], labels: NDArray[Any]) -> None:
        if len(labels) != len(scores):
            raise ValueError(
                f"`y` must have one label per row of `X`, got {len(labels)} for {len(scores)}."
            )
        if (np.unique(self.classes_) != self.classes_).any():
            raise ValueError(
                f"`classes` must be sorted and distinct, got {self.classes_.tolist()}. Sort them, "
                "and the columns of `X` alike."
            )
        if len(self.classes_) != scores.shape[1]:
            raise ValueError(
                f"`X` must have one column per class, or one column of binary scores, got "
                f"{scores.shape[1]} columns for {len(self.classes_)} classes. If `y` lacks a "
                "class, pass `classes`."
            )
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(f"`y` must hold labels of `classes`, found {unknown[:5].tolist()}.")
