"""The file of the README's first command: an overconfident model of two classes."""

import csv
from pathlib import Path

import numpy as np


def write_churn(path: Path) -> None:
    """Write 4,000 predictions whose log-odds are twice too large."""
    rng = np.random.default_rng(7)
    log_odds = rng.normal(0.0, 1.5, 4000)
    leaves = rng.random(4000) < 1 / (1 + np.exp(-log_odds))
    yes = 1 / (1 + np.exp(-2 * log_odds))
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["customer_id", "no", "yes", "label"])
        for i, (p, happens) in enumerate(zip(yes, leaves, strict=True)):
            rows.writerow([f"c{i}", f"{1 - p:.6f}", f"{p:.6f}", "yes" if happens else "no"])
