"""The losses of `focalibrate.losses` and fitted calibrators as PyTorch modules (needs torch)."""

from focalibrate.nn.brier import BrierLoss
from focalibrate.nn.calibrator import CalibratedModel, CalibratorModule
from focalibrate.nn.curvature import CurvatureRegularisedLoss, GGNOperator, HessianOperator
from focalibrate.nn.dual import DualFocalLoss
from focalibrate.nn.focal import FocalLoss
from focalibrate.nn.mmce import MMCELoss
from focalibrate.nn.monitor import CalibrationMonitor, MonitorMetrics
from focalibrate.nn.proper import ProperFocalLoss
from focalibrate.nn.sigmoid import SigmoidFocalLoss

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
    "ProperFocalLoss",
    "SigmoidFocalLoss",
]
