"""Benchmarks: they record ratios to peers in one run, and never assert."""
