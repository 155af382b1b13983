"""The experiment `psi-images`."""
