"""Focal loss for boosted trees, and the way back from their scores to probabilities."""

from focalibrate.boosting.any_objective import recover_from_objective
from focalibrate.boosting.catboost import focal_loss_name, recovery_of_catboost
from focalibrate.boosting.classifier import FocalBoostingClassifier
from focalibrate.boosting.derivatives import Curvature, binary_derivatives, softmax_derivatives
from focalibrate.boosting.objective import FocalObjective, LossObjective, MarginObjective

__all__ = [
    "Curvature",
    "FocalBoostingClassifier",
    "FocalObjective",
    "LossObjective",
    "MarginObjective",
    "binary_derivatives",
    "focal_loss_name",
    "recover_from_objective",
    "recovery_of_catboost",
    "softmax_derivatives",
]
