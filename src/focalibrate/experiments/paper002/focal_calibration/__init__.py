"""The experiment `focal-calibration`."""
