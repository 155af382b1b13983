"""What makes the fits fast: passes over blocks of rows, grids, descents and their kernels."""
