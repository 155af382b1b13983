"""The focal loss as an objective of XGBoost and LightGBM, in each library's own convention."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import binary_logits, check_choice, check_gamma, check_open_interval
from focalibrate.boosting.derivatives import Curvature, binary_derivatives, softmax_derivatives
from focalibrate.calibrate import PosteriorRecovery
from focalibrate.losses import focal_loss


@dataclass(frozen=True, kw_only=True)
class FocalObjective:
    """Focal loss for boosted trees: pass it, or its methods, where a library takes an objective.

    ==========================================  =================================================
    library                                     pass
    ==========================================  =================================================
    ``xgb.train(params, d, obj=…)``             ``objective`` or ``objective.xgboost``
    ``xgb.train(…, custom_metric=…)``           ``objective.xgboost_metric``
    ``XGBClassifier(objective=…)``              ``objective`` or ``objective.scikit_learn``
    ``lgb.train({"objective": …}, d)``          ``objective`` or ``objective.lightgbm``
    ``lgb.train(…, feval=…)``                   ``objective.lightgbm_metric``
    ``LGBMClassifier(objective=…)``             ``objective`` or ``objective.scikit_learn``
    ==========================================  =================================================

    The model then gives margins (raw scores), not probabilities: ask for them with
    ``output_margin=True`` (XGBoost) or ``raw_score=True`` (LightGBM), and pass them to
    ``objective.probs``. Start from a margin of 0: ``base_score=0`` in ``xgb.train``, and
    ``base_score=0.5`` in ``XGBClassifier``, which takes it for a probability.

    Args:
        gamma: focusing exponent, ``>= 0``; 0 is the log loss.
        alpha: for two classes, the weight of class 1, class 0 having ``1 - alpha``.
        class_weight: one positive weight per class, in place of `alpha`.
        curvature: ``"exact"`` second derivatives (floored), or their positive ``"bound"``, which
            takes smaller and safer steps: see `softmax_derivatives`.

    Example:
        >>> objective = FocalObjective(gamma=2.0)
        >>> margins, labels = np.array([0.0, 3.0]), np.array([1, 1])
        >>> gradient, curvature = objective.scikit_learn(labels, margins)
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

    def __call__(
        self, first: Any, second: Any, sample_weight: Any = None
    ) -> tuple[Floats, Floats]:
        """Return gradient and curvature in the form that the calling library expects.

        ``xgb.train`` and ``lgb.train`` pass margins and data, their scikit-learn classes labels
        and margins, and weights of rows where `fit` was given any.
        """
        return self.scikit_learn(*called_with(first, second, sample_weight))

    def xgboost(self, margins: NDArray[Any], data: Any) -> tuple[Floats, Floats]:
        """Return gradient and curvature for ``xgb.train(obj=…)``; `data` is its DMatrix."""
        return self.scikit_learn(*called_with(margins, data))

    def lightgbm(self, margins: NDArray[Any], data: Any) -> tuple[Floats, Floats]:
        """Return gradient and curvature for ``lgb.train``; `data` is its Dataset."""
        return self.scikit_learn(*called_with(margins, data))

    def scikit_learn(
        self, labels: NDArray[Any], margins: NDArray[Any], sample_weight: Any = None
    ) -> tuple[Floats, Floats]:
        """Return gradient and curvature; the form that ``XGBClassifier`` takes too."""
        y = np.asarray(labels).astype(np.intp)
        derivatives = softmax_derivatives if np.ndim(margins) == 2 else binary_derivatives
        gradient, curvature = derivatives(margins, y, self.gamma, curvature=self.curvature)
        weight = self._row_weight(y, margins, sample_weight)
        if weight is not None:
            weight = weight if gradient.ndim == 1 else weight[:, None]
            gradient, curvature = gradient * weight, curvature * weight
        return gradient, curvature

    def xgboost_metric(self, margins: NDArray[Any], data: Any) -> tuple[str, float]:
        """Return ``("focal_loss", value)`` for ``xgb.train(custom_metric=…)``."""
        return "focal_loss", self.mean_loss(*called_with(margins, data))

    def lightgbm_metric(self, margins: NDArray[Any], data: Any) -> tuple[str, float, bool]:
        """Return ``("focal_loss", value, False)`` for ``lgb.train(feval=…)``."""
        return "focal_loss", self.mean_loss(*called_with(margins, data)), False

    def mean_loss(
        self, labels: NDArray[Any], margins: NDArray[Any], sample_weight: Any = None
    ) -> float:
        """Return the weighted mean focal loss, what training lowers."""
        y = np.asarray(labels).astype(np.intp)
        z = np.asarray(margins, dtype=np.float64)
        losses = focal_loss(z, y, gamma=self.gamma, binary=z.ndim == 1)
        return float(np.average(losses, weights=self._row_weight(y, margins, sample_weight)))

    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator that takes this objective's margins to probabilities."""
        return PosteriorRecovery(gamma=self.gamma, class_weight=self.weights)

    @property
    def weights(self) -> tuple[float, ...] | None:
        """One weight per class, from `class_weight` or `alpha`."""
        return self.class_weight if self.alpha is None else (1.0 - self.alpha, self.alpha)

    def probs(self, margins: NDArray[Any]) -> Floats:
        """Return class probabilities ``[N, K]`` from margins ``[N]`` or ``[N, K]``."""
        found: Floats = self.recovery().probs(both(np.asarray(margins, dtype=np.float64)))
        return found

    def _row_weight(
        self, labels: NDArray[np.intp], margins: NDArray[Any], sample_weight: Any
    ) -> Floats | None:
        weights: Sequence[float] | None = self.weights
        if weights is None and sample_weight is None:
            return None
        n_classes = np.shape(margins)[1] if np.ndim(margins) == 2 else 2
        if weights is not None and len(weights) != n_classes:
            raise ValueError(
                f"`class_weight` must have one entry for each of the {n_classes} classes, got "
                f"{len(weights)}."
            )
        by_class = np.ones(len(labels)) if weights is None else np.asarray(weights)[labels]
        return by_class if sample_weight is None else by_class * np.asarray(sample_weight)


def both(margins: Floats) -> Floats:
    """Return margins ``[N, K]``, of two classes where they are log-odds ``[N]``."""
    return np.asarray(binary_logits(margins)) if margins.ndim == 1 else margins


def called_with(first: Any, second: Any, sample_weight: Any = None) -> tuple[Any, Any, Any]:
    """Return labels, margins and weights of (labels, margins, weights) or of (margins, data)."""
    if not hasattr(second, "get_label"):
        return first, second, sample_weight
    weight = second.get_weight()
    return second.get_label(), first, None if np.size(weight) == 0 else weight
