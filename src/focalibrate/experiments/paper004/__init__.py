"""Experiments of paper 004 (Kimura & Naganuma 2024)."""
