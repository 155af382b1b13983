"""Paper 004: Kimura and Naganuma."""
