"""Mutated files for the readers: anything but our own errors is a bug."""
