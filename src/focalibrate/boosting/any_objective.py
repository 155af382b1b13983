"""Boosted trees with any loss: objectives by name, and true probabilities behind your own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import check_choice
from focalibrate.boosting.objective import both, called_with
from focalibrate.calibrate import PosteriorRecovery
from focalibrate.theory import LossForm, recover_by_gradient, recover_posterior

Objective: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]
Convention = Literal["scikit_learn", "native"]

STEP = 1e-3
FLOOR = 1e-3
"""Smallest curvature: a tree needs positive weights, and not every loss is convex."""


@dataclass(frozen=True)
class LossObjective:
    """A named loss as objective of XGBoost or LightGBM, for two classes or more.

    Pass it where ``XGBClassifier(objective=…)``, ``LGBMClassifier(objective=…)``,
    ``xgb.train(obj=…)`` or ``lgb.train({"objective": …})`` take a function. The model then gives
    margins (raw scores); `probs` turns them into probabilities. `FocalObjective` is faster for
    the focal loss.

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

    def __call__(
        self, first: Any, second: Any, sample_weight: Any = None
    ) -> tuple[Floats, Floats]:
        """Return gradient and curvature, from (labels, margins) or from (margins, data)."""
        labels, margins, weight = called_with(first, second, sample_weight)
        found = self._unweighted(
            np.asarray(labels).astype(np.intp), np.asarray(margins, dtype=np.float64)
        )
        if weight is None:
            return found
        by_row = np.asarray(weight, dtype=np.float64).reshape(-1, *[1] * (np.ndim(margins) - 1))
        return found[0] * by_row, found[1] * by_row

    def mean_loss(self, labels: Any, margins: Any, sample_weight: Any = None) -> float:
        """Return the weighted mean of the loss, what training lowers."""
        z = np.asarray(margins, dtype=np.float64)
        losses = self._value(z, np.asarray(labels).astype(np.intp))(z)
        return float(np.average(losses, weights=sample_weight))

    def recovery(self) -> PosteriorRecovery:
        """Return the calibrator that takes this objective's margins to probabilities."""
        return PosteriorRecovery(loss=self.loss)

    def _unweighted(self, y: NDArray[np.intp], z: Floats) -> tuple[Floats, Floats]:
        value = self._value(z, y)
        if z.ndim == 1:
            return _derivatives(value, z)
        gradient, curvature = np.empty_like(z), np.empty_like(z)
        for k in range(z.shape[1]):
            moved = z.copy()

            def along(x: Floats, k: int = k, moved: Floats = moved) -> Floats:
                moved[:, k] = x
                return value(moved)

            gradient[:, k], curvature[:, k] = _derivatives(along, z[:, k])
        return gradient, curvature

    def probs(self, margins: NDArray[Any]) -> Floats:
        """Return class probabilities ``[N, K]`` from margins ``[N]`` or ``[N, K]``."""
        z = np.asarray(margins, dtype=np.float64)
        if self.loss.head == "sigmoid":
            p = recover_posterior(logits=z, loss=self.loss)
            return np.stack([1.0 - p, p], axis=1)
        return np.asarray(recover_posterior(logits=both(z), loss=self.loss))

    def _value(self, z: Floats, y: NDArray[np.intp]) -> Callable[[Floats], Floats]:
        rows = np.arange(len(z))
        if self.loss.head == "sigmoid":
            if z.ndim != 1:
                raise ValueError(
                    f"`margins` must be those of two classes, shape [N], for the loss "
                    f"{self.loss.name!r} of single labels, got {z.shape}."
                )
            return lambda x: np.asarray(self.loss.by_label(x))[rows, y]
        return lambda x: np.asarray(self.loss.by_label(both(x)))[rows, y]


def recover_from_objective(
    margins: NDArray[Any],
    objective: Objective,
    *,
    convention: Convention = "scikit_learn",
    second_order: bool = True,
) -> Floats:
    r"""True probabilities behind the margins of a model trained with an objective of your own.

    At the minimum of the risk the expected gradient is 0. For two classes, with :math:`g_y` the
    gradient if the label were y,

    .. math:: P(1) = \frac{g_0}{g_0 - g_1}

    and for more the posterior is the null vector of the matrix of gradients. The second value that
    the objective returns is not used.

    Args:
        margins: raw scores, ``[N]`` for two classes or ``[N, K]``.
        objective: your function, unchanged: ``objective(labels, margins)`` as the scikit-learn
            classes of XGBoost and LightGBM take it, or ``objective(margins, data)`` as
            ``xgb.train`` and ``lgb.train`` do.
        convention: ``"scikit_learn"`` or ``"native"``: which of the two it is.
        second_order: also check that each row is a minimum.

    Returns:
        Probabilities ``[N, K]``; rows that no posterior can have produced are nan, counted in a
        `focalibrate.theory.RecoveryWarning`.

    Example:
        >>> def weighted(labels, margins):  # positives count four times
        ...     p = 1 / (1 + np.exp(-margins))
        ...     w = np.where(labels == 1, 4.0, 1.0)
        ...     return w * (p - labels), w * p * (1 - p)
        >>> recover_from_objective(np.array([0.0]), weighted).round(3)
        array([[0.8, 0.2]])
    """
    check_choice(convention, ("scikit_learn", "native"), name="convention")
    z = np.asarray(margins, dtype=np.float64)
    if z.ndim not in (1, 2):
        raise ValueError(f"`margins` must have shape [N] or [N, K], got {z.shape}.")

    def gradient(scores: Floats, label: int) -> Floats:
        labels = np.full(len(scores), float(label))
        called = (labels, scores) if convention == "scikit_learn" else (scores, _Labelled(labels))
        try:
            found = np.asarray(objective(*called)[0], dtype=np.float64)
        except (AttributeError, TypeError) as error:
            other = "native" if convention == "scikit_learn" else "scikit_learn"
            error.add_note(
                f"`objective` was called with convention={convention!r}. If it takes the "
                f"arguments of the other one, pass convention={other!r}."
            )
            raise
        if found.shape != scores.shape:
            raise ValueError(
                f"`objective` must return gradients of the margins' shape {scores.shape}, got "
                f"{found.shape}."
            )
        return found

    result = recover_by_gradient(z, gradient, second_order=second_order)
    result.warn()
    return result.probs


@dataclass(frozen=True)
class _Labelled:
    """What an objective asks a DMatrix or Dataset for."""

    labels: Floats

    def get_label(self) -> Floats:
        return self.labels

    def get_weight(self) -> None:
        return None


def _derivatives(value: Callable[[Floats], Floats], z: Floats) -> tuple[Floats, Floats]:
    """Return first and second derivative by five points, good to about nine and six digits."""
    far_left, left, here, right, far_right = (
        np.asarray(value(z + k * STEP)) for k in (-2, -1, 0, 1, 2)
    )
    first = (far_left - 8.0 * left + 8.0 * right - far_right) / (12.0 * STEP)
    second = (-far_left + 16.0 * left - 30.0 * here + 16.0 * right - far_right) / (12.0 * STEP**2)
    return first, np.maximum(second, FLOOR)
