"""Benchmarks: they record ratios to peers within one run, and never assert."""
