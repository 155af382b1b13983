"""Experiments of paper 002 (anonymous submission to ICLR 2020)."""
