"""Paper 003: Komisarenko and Kull (2024)."""
