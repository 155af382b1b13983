"""Paper 002: The Intriguing Effects of Focal Loss on Calibration (2020)."""
