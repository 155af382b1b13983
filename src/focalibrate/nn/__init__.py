"""The losses of `focalibrate.losses` and fitted calibrators as PyTorch modules (needs torch)."""

from focalibrate.nn.calibrator import CalibratedModel, CalibratorModule
from focalibrate.nn.curvature import CurvatureRegularisedLoss, GGNOperator, HessianOperator
from focalibrate.nn.focal import FocalLoss
from focalibrate.nn.monitor import CalibrationMonitor, MonitorMetrics
from focalibrate.nn.row_losses import (
    BrierLoss,
    DualFocalLoss,
    MMCELoss,
    NamedLoss,
    ProperFocalLoss,
    SigmoidFocalLoss,
)

__all__ = [
    "BrierLoss",
    "CalibratedModel",
    "CalibrationMonitor",
    "CalibratorModule",
    "CurvatureRegularisedLoss",
    "DualFocalLoss",
    "FocalLoss",
    "GGNOperator",
    "HessianOperator",
    "MMCELoss",
    "MonitorMetrics",
    "NamedLoss",
    "ProperFocalLoss",
    "SigmoidFocalLoss",
]
