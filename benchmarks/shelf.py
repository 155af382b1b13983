"""Structured scaling and the automatic choice: CPU seconds of one thread, compared with
probmetrics.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks shelf

CPU seconds, so that other programs on the machine matter less; peers run once per round, too.
"""

import warnings
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import torch
from probmetrics.calibrators import get_calibrator

from benchmarks._timing import Row, compare
from focalibrate.calibrate import fit

CASES = (
    ("structured_matrix", "sms", 10_000, 10, 2),
    ("structured_matrix", "sms", 3_000, 100, 1),
    ("structured_vector", "svs", 10_000, 10, 2),
    ("structured_vector", "svs", 3_000, 1000, 1),
)
"""Ours, theirs, rows, classes and rounds."""


def simulate(n: int, k: int) -> tuple[Any, Any]:
    """Return logits of an overconfident classifier with a bias per class."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((n, k)) * 1.5
    labels = rng.integers(k, size=n)
    truth[np.arange(n), labels] += rng.uniform(0, 2 * np.log(k) + 2, n)
    return 1.8 * truth + 0.5 * rng.standard_normal(k), labels


def theirs(name: str, logits: Any, labels: Any) -> None:
    """Fit a calibrator of probmetrics, which takes probabilities."""
    z = logits - logits.max(axis=1, keepdims=True)
    probs = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    get_calibrator(name).fit(probs, labels)


def cpu_seconds(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each function in each round."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = process_time()
            function()
            found[name].append(process_time() - start)
    return found


def run() -> list[Row]:
    """Return a row per method and size, and one of the automatic choice."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    small = simulate(200, 3)
    fit(*small, method="structured_matrix")  # imports and first calls
    theirs("sms", *small)
    rows = []
    for ours, peer, n, k, rounds in CASES:
        logits, labels = simulate(n, k)
        functions: dict[str, Callable[[], object]] = {
            "ours": lambda m=ours, z=logits, y=labels: fit(z, y, method=m),  # type: ignore[misc]
            "probmetrics": lambda m=peer, z=logits, y=labels: theirs(m, z, y),  # type: ignore[misc]
        }
        if k == 10 and peer == "sms":
            functions["auto"] = lambda z=logits, y=labels: fit(logits=z, labels=y)  # type: ignore[misc]
        seconds = cpu_seconds(functions, rounds)
        size = f"{n:,} x {k}"
        rows.append(compare(f"{ours}, {size}", seconds, ours="ours", peer="probmetrics", bar=1.0))
        if "auto" in functions:
            name = f"fit beside {peer}, {size}"
            rows.append(compare(name, seconds, ours="auto", peer="probmetrics", bar=3.0))
    return rows
