"""What the columns hold, checked: scores, labels, weights."""
