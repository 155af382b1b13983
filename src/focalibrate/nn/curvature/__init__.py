"""Curvature of a torch model's loss: products with its Hessian, its trace, a penalty."""

from focalibrate.nn.curvature._network import random_signs
from focalibrate.nn.curvature.operators import HessianOperator
from focalibrate.nn.curvature.regularised_loss import (
    AlongRay,
    CurvatureRegularisedLoss,
    curvature_along,
)

__all__ = [
    "AlongRay",
    "CurvatureRegularisedLoss",
    "HessianOperator",
    "curvature_along",
    "random_signs",
]
