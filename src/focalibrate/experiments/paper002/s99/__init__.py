"""The experiment `s99`."""
