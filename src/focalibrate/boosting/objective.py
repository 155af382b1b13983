"""Losses as objectives of XGBoost and LightGBM, in each library's own convention."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import binary_logits, check_choice, check_gamma, check_open_interval
from focalibrate.boosting.derivatives import Curvature, binary_derivatives, softmax_derivatives
from focalibrate.calibrate import PosteriorRecovery
from focalibrate.losses import focal_loss
from focalibrate.theory import LossForm, recover_posterior

STEP = 1e-3
FLOOR = 1e-3
"""Smallest curvature: a tree needs positive weights, and not every loss is convex."""


class MarginObjective(ABC):
    """A loss for boosted trees: pass it where a library takes an objective.

    ==========================================  =================================================
    library                                     pass
    ==========================================  =================================================
    ``xgb.train(params, d, obj=…)``             ``objective``
    ``xgb.train(…, custom_metric=…)``           ``objective.xgboost_metric``
    ``XGBClassifier(objective=…)``              ``objective``
    ``lgb.train({"objective": …}, d)``          ``objective``
    ``lgb.train(…, feval=…)``                   ``objective.lightgbm_metric``
    ``LGBMClassifier(objective=…)``             ``objective``
    ==========================================  =================================================

    The model then gives margins (raw scores), not probabilities: ask for them with
    ``output_margin=True`` (XGBoost) or ``raw_score=True`` (LightGBM), and pass them to
    ``objective.probs``. Start from a margin of 0: ``base_score=0`` in ``xgb.train``, and
    ``base_score=0.5`` in ``XGBClassifier``, which takes it for a probability.
    """

    @abstractmethod
    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator that takes this objective's margins to probabilities."""

    @abstractmethod
    def _losses(self, labels: NDArray[np.intp], margins: Floats) -> Floats:
        """Return the loss of each row."""

    @abstractmethod
    def _derivatives(self, labels: NDArray[np.intp], margins: Floats) -> tuple[Floats, Floats]:
        """Return gradient and curvature of the loss of each row, of the shape of `margins`."""

    def _class_weight(self, n_classes: int) -> Floats | None:
        """Return the weight of each class; None for 1."""
        return None

    def __call__(
        self, first: Any, second: Any, sample_weight: Any = None
    ) -> tuple[Floats, Floats]:
        """Return gradient and curvature in the form that the calling library expects.

        ``xgb.train`` and ``lgb.train`` pass margins and data, their scikit-learn classes labels
        and margins, and weights of rows where `fit` was given any.
        """
        y, z, weight = self._called_with(first, second, sample_weight)
        gradient, curvature = self._derivatives(y, z)
        if weight is None:
            return gradient, curvature
        weight = weight.reshape(-1, *[1] * (z.ndim - 1))
        return gradient * weight, curvature * weight

    def mean_loss(self, first: Any, second: Any, sample_weight: Any = None) -> float:
        """Return the weighted mean of the loss, what training lowers; called in the same way."""
        y, z, weight = self._called_with(first, second, sample_weight)
        return float(np.average(self._losses(y, z), weights=weight))

    def xgboost_metric(self, margins: NDArray[Any], data: Any) -> tuple[str, float]:
        """Return ``("loss", value)`` for ``xgb.train(custom_metric=…)``."""
        return "loss", self.mean_loss(margins, data)

    def lightgbm_metric(self, margins: NDArray[Any], data: Any) -> tuple[str, float, bool]:
        """Return ``("loss", value, False)`` for ``lgb.train(feval=…)``."""
        return "loss", self.mean_loss(margins, data), False

    def probs(self, margins: NDArray[Any]) -> Floats:
        """Return class probabilities ``[N, K]`` from margins ``[N]`` or ``[N, K]``."""
        found: Floats = self.recovery().probs(both(np.asarray(margins, dtype=np.float64)))
        return found

    def _called_with(
        self, first: Any, second: Any, sample_weight: Any
    ) -> tuple[NDArray[np.intp], Floats, Floats | None]:
        """Return labels, margins and weights, those of classes included."""
        labels, margins = first, second
        if hasattr(second, "get_label"):  # margins and data
            labels, margins, sample_weight = second.get_label(), first, second.get_weight()
        y, z = np.asarray(labels).astype(np.intp), np.asarray(margins, dtype=np.float64)
        by_class = self._class_weight(2 if z.ndim == 1 else z.shape[1])
        weight = None if by_class is None else by_class[y]
        if sample_weight is not None and np.size(sample_weight):
            weight = np.asarray(sample_weight) * (1.0 if weight is None else weight)
        return y, z, weight


@final
@dataclass(frozen=True, kw_only=True)
class FocalObjective(MarginObjective):
    """Focal loss for boosted trees; see `MarginObjective` for where to pass it.

    Args:
        gamma: focusing exponent, ``>= 0``; 0 is the log loss.
        alpha: for two classes, the weight of class 1, class 0 having ``1 - alpha``.
        class_weight: one positive weight per class, in place of `alpha`.
        curvature: ``"exact"`` second derivatives (floored), or their positive ``"bound"``, which
            takes smaller and safer steps: see `softmax_derivatives`.

    Example:
        >>> objective = FocalObjective(gamma=2.0)
        >>> margins, labels = np.array([0.0, 3.0]), np.array([1, 1])
        >>> gradient, curvature = objective(labels, margins)
        >>> gradient.round(4)
        array([-0.2983, -0.0003])
        >>> objective.probs(margins)[:, 1].round(4)
        array([0.5   , 0.9997])
    """

    gamma: float = field(default=2.0, kw_only=False)
    alpha: float | None = None
    class_weight: tuple[float, ...] | None = None
    curvature: Curvature = "exact"

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        check_choice(self.curvature, ("exact", "bound"), name="curvature")
        if self.alpha is not None:
            check_open_interval(self.alpha, low=0.0, high=1.0, name="alpha")
            if self.class_weight is not None:
                raise ValueError(
                    "`alpha` and `class_weight` must not be given together: alpha=a means "
                    "class_weight=(1 - a, a)."
                )
        if self.class_weight is not None:
            weight = tuple(float(w) for w in self.class_weight)
            if len(weight) < 2 or not all(0.0 < w < np.inf for w in weight):
                raise ValueError(
                    "`class_weight` must hold one finite number > 0 per class, got "
                    f"{self.class_weight!r}."
                )
            object.__setattr__(self, "class_weight", weight)

    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator that takes this objective's margins to probabilities."""
        return PosteriorRecovery(gamma=self.gamma, class_weight=self.weights)

    @property
    def weights(self) -> tuple[float, ...] | None:
        """One weight per class, from `class_weight` or `alpha`."""
        return self.class_weight if self.alpha is None else (1.0 - self.alpha, self.alpha)

    def _losses(self, labels: NDArray[np.intp], margins: Floats) -> Floats:
        found: Floats = focal_loss(margins, labels, gamma=self.gamma, binary=margins.ndim == 1)
        return found

    def _derivatives(self, labels: NDArray[np.intp], margins: Floats) -> tuple[Floats, Floats]:
        derivatives = softmax_derivatives if margins.ndim == 2 else binary_derivatives
        return derivatives(margins, labels, self.gamma, curvature=self.curvature)

    def _class_weight(self, n_classes: int) -> Floats | None:
        if self.weights is None:
            return None
        if len(self.weights) != n_classes:
            raise ValueError(
                f"`class_weight` must have one entry for each of the {n_classes} classes, got "
                f"{len(self.weights)}."
            )
        return np.asarray(self.weights)


@final
@dataclass(frozen=True)
class LossObjective(MarginObjective):
    """A named loss for boosted trees; see `MarginObjective` for where to pass it.

    `FocalObjective` is faster for the focal loss.

    Args:
        loss: as `focalibrate.theory.loss_form` returns it; losses of single labels and of classes
            alike.

    Example:
        >>> from focalibrate.theory import loss_form
        >>> objective = LossObjective(loss_form("poly_focal", gamma=2.0, epsilon=1.0))
        >>> gradient, curvature = objective(np.array([1, 0]), np.array([0.0, 2.0]))
        >>> gradient.round(3)
        array([-0.486,  1.321])
    """

    loss: LossForm

    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator that takes this objective's margins to probabilities."""
        return PosteriorRecovery(loss=self.loss)

    def probs(self, margins: NDArray[Any]) -> Floats:
        """Return class probabilities; nan for rows that no posterior can have produced."""
        z = np.asarray(margins, dtype=np.float64)
        if self.loss.head == "sigmoid":
            p = recover_posterior(logits=z, loss=self.loss)
            return np.stack([1.0 - p, p], axis=1)
        return super().probs(z)

    def _losses(self, labels: NDArray[np.intp], margins: Floats) -> Floats:
        if self.loss.head == "sigmoid" and margins.ndim != 1:
            raise ValueError(
                f"`margins` must be those of two classes, shape [N], for the loss "
                f"{self.loss.name!r} of single labels, got {margins.shape}."
            )
        z = margins if self.loss.head == "sigmoid" else both(margins)
        return np.asarray(self.loss.by_label(z))[np.arange(len(z)), labels]

    def _derivatives(self, labels: NDArray[np.intp], margins: Floats) -> tuple[Floats, Floats]:
        if margins.ndim == 1:
            return _differences(lambda z: self._losses(labels, z), margins)
        gradient, curvature = np.empty_like(margins), np.empty_like(margins)
        for k in range(margins.shape[1]):
            moved = margins.copy()

            def along(x: Floats, k: int = k, moved: Floats = moved) -> Floats:
                moved[:, k] = x
                return self._losses(labels, moved)

            gradient[:, k], curvature[:, k] = _differences(along, margins[:, k])
        return gradient, curvature


def both(margins: Floats) -> Floats:
    """Return margins ``[N, K]``, of two classes where they are log-odds ``[N]``."""
    return np.asarray(binary_logits(margins)) if margins.ndim == 1 else margins


def _differences(value: Callable[[Floats], Floats], z: Floats) -> tuple[Floats, Floats]:
    """Return first and second derivative by five points, good to about nine and six digits."""
    far_left, left, here, right, far_right = (
        np.asarray(value(z + k * STEP)) for k in (-2, -1, 0, 1, 2)
    )
    first = (far_left - 8.0 * left + 8.0 * right - far_right) / (12.0 * STEP)
    second = (-far_left + 16.0 * left - 30.0 * here + 16.0 * right - far_right) / (12.0 * STEP**2)
    return first, np.maximum(second, FLOOR)
