"""The experiment `psi-gap`."""
