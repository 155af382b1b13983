"""The experiment `curvature-regularised`."""
