"""Calibration of published outputs of networks trained by others."""
