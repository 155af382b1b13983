"""Calibrators outside Python: ONNX graphs (needs onnx)."""

from focalibrate.deploy.onnx import attach_to_onnx, calibrator_to_onnx

__all__ = ["attach_to_onnx", "calibrator_to_onnx"]
