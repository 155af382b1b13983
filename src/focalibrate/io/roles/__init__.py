"""Which column is what: decided once, on the first rows, for all formats."""
