"""Losses: ``(logits, labels, *, ...)`` to one loss per example, on any array library."""

from focalibrate.losses.mmce import mmce, weighted_mmce
from focalibrate.losses.policy import AdaFocal, ByEpoch, BySample, GammaPolicy, gamma_policy
from focalibrate.losses.sigmoid import sigmoid_focal_loss
from focalibrate.losses.softmax import (
    brier_loss,
    cross_entropy,
    dual_focal_loss,
    focal_loss,
    named_loss,
    proper_focal_loss,
)

__all__ = [
    "AdaFocal",
    "ByEpoch",
    "BySample",
    "GammaPolicy",
    "brier_loss",
    "cross_entropy",
    "dual_focal_loss",
    "focal_loss",
    "gamma_policy",
    "mmce",
    "named_loss",
    "proper_focal_loss",
    "sigmoid_focal_loss",
    "weighted_mmce",
]
