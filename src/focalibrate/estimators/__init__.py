"""Calibration as scikit-learn estimators (needs scikit-learn)."""

from focalibrate.estimators.classifier import FocalCalibratedClassifierCV
from focalibrate.estimators.logits import LogitCalibrator

__all__ = ["FocalCalibratedClassifierCV", "LogitCalibrator"]
