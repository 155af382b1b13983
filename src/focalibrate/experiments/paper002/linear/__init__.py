"""The experiment `linear`."""
