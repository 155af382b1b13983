"""The experiment `psi-tabular`."""
