"""CatBoost's own ``Focal`` loss, and other losses in the form that CatBoost takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from focalibrate._check import check_open_interval, check_positive
from focalibrate.boosting.objective import LossObjective
from focalibrate.calibrate import PosteriorRecovery


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
class CatBoostLoss:
    """A loss of two classes as CatBoost's ``loss_function`` and ``eval_metric``.

    Args:
        objective: the loss; its `LossObjective.probs` turns margins into probabilities.
    """

    objective: LossObjective

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
