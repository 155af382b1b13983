"""Focal loss for boosted trees, and the way back from their scores to probabilities."""

from focalibrate.boosting.classifier import (
    FocalBoostingClassifier,
    focal_loss_name,
    recovery_of_catboost,
)
from focalibrate.boosting.objective import (
    Curvature,
    FocalObjective,
    focal_derivatives,
    recover_from_objective,
)

__all__ = [
    "Curvature",
    "FocalBoostingClassifier",
    "FocalObjective",
    "focal_derivatives",
    "focal_loss_name",
    "recover_from_objective",
    "recovery_of_catboost",
]
