"""CatBoost's own ``Focal`` loss: its name, and the recovery that a trained model needs."""

from typing import Any

from focalibrate._check import check_open_interval, check_positive
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
