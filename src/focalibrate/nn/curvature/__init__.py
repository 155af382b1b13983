"""Curvature of a torch model's loss: Hessian and Gauss-Newton products, traces, a penalty."""

from focalibrate.nn.curvature._network import random_signs
from focalibrate.nn.curvature.operators import GGNOperator, HessianOperator, LossMatrix
from focalibrate.nn.curvature.regularised_loss import (
    AlongRay,
    CurvatureRegularisedLoss,
    curvature_along,
)

__all__ = [
    "AlongRay",
    "CurvatureRegularisedLoss",
    "GGNOperator",
    "HessianOperator",
    "LossMatrix",
    "curvature_along",
    "random_signs",
]
