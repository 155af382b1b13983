"""The experiment `curvature`."""
