"""The experiment `regimes`."""
