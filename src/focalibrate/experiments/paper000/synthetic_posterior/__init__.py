"""The experiment `synthetic-posterior`."""
