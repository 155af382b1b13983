"""True probabilities behind the margins of boosted trees with an objective of your own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import check_choice
from focalibrate.theory import recover_by_gradient

Objective: TypeAlias = Callable[[Any, Any], tuple[Any, Any]]
Convention = Literal["scikit_learn", "native"]


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
