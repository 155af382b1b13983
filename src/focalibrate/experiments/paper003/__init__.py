"""Experiments of paper 003 (Komisarenko & Kull 2024)."""
