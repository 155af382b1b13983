"""The experiment `interpolation`."""
