"""The main job: every method compared by cross-fit, and a page's map of the criterion."""

from collections.abc import Callable
from time import process_time

import numpy as np

from benchmarks._timing import Row
from focalibrate.comparison import compare
from focalibrate.report import criterion_grid

A_FEW_SECONDS = 10.0
"""Processor seconds that `focalibrate calibrate` may take for 10,000 rows of 100 classes."""


def run() -> list[Row]:
    """Measure the processor time of the parts of `focalibrate calibrate`; there is no peer."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.standard_normal((10_000, 100), dtype=np.float32)
    labels = rng.integers(100, size=10_000)
    logits[np.arange(10_000), labels] += rng.uniform(0, 11, 10_000).astype(np.float32)
    logits *= np.float32(1.8)
    jobs: dict[str, Callable[[], object]] = {
        "compare all methods, 5 folds": lambda: compare(logits, labels),
        "criterion of the report's map": lambda: criterion_grid(logits, labels),
    }
    rows = []
    for name, job in jobs.items():
        start = process_time()
        job()
        seconds = process_time() - start
        rows.append(
            Row(
                name=f"{name}, 10,000 x 100",
                ours=seconds,
                peer_name="a few seconds",
                peer=A_FEW_SECONDS,
                ratio=seconds / A_FEW_SECONDS,
                bar=1.0,
                note="processor time; OPENBLAS_NUM_THREADS=1 is what the command sets",
            )
        )
    return rows
