"""Losses: ``(logits, labels, *, ...)`` to one loss per example, on any array library."""

from focalibrate.losses.adafocal import AdaFocal
from focalibrate.losses.brier import brier_loss
from focalibrate.losses.dual import dual_focal_loss
from focalibrate.losses.focal import cross_entropy, focal_loss
from focalibrate.losses.mmce import mmce, weighted_mmce
from focalibrate.losses.named import (
    asymmetric_loss,
    brier_weighted_loss,
    focal_calibration_loss,
    named_loss,
    poly_focal_loss,
)
from focalibrate.losses.policy import ByEpoch, BySample, GammaPolicy, gamma_policy
from focalibrate.losses.sigmoid import sigmoid_focal_loss
from focalibrate.theory.proper import proper_focal_loss

__all__ = [
    "AdaFocal",
    "ByEpoch",
    "BySample",
    "GammaPolicy",
    "asymmetric_loss",
    "brier_loss",
    "brier_weighted_loss",
    "cross_entropy",
    "dual_focal_loss",
    "focal_calibration_loss",
    "focal_loss",
    "gamma_policy",
    "mmce",
    "named_loss",
    "poly_focal_loss",
    "proper_focal_loss",
    "sigmoid_focal_loss",
    "weighted_mmce",
]
