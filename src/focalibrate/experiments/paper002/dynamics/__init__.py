"""The experiment `dynamics`."""
