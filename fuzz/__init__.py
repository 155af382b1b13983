"""Mutated files for the readers: any error other than our own is a bug."""
