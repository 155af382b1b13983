"""Experiments of paper 000 (Charoenphakdee et al. 2021)."""
