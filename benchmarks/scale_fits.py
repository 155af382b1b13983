"""Calibrating more rows than are fitted on: memory, and time at the size of a vocabulary.

``python -m benchmarks scale_fits``; ``FOCALIBRATE_BENCH=many`` or ``wide`` runs one of the two.
"""

import os
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks._timing import Row
from benchmarks.job import run_command, write_file

MANY = (200_000, 1000)
MEMORY_BAR = 1.5e9
PARTS = 8
WIDE = (5_000, 128_000)
"""A tenth of the 50,000 rows aimed at: time is proportional to the rows."""
WIDE_BAR = 10.0
METHODS = "temperature,focal_temperature"


def many_rows(folder: Path) -> list[Row]:
    """Calibrate 200,000 rows of 1000 classes in parts, by all default methods."""
    n, k = MANY
    for i in range(PARTS):
        write_file(folder / f"part-{i}.npz", n // PARTS, k)
    size = sum(path.stat().st_size for path in folder.glob("*.npz"))
    words = ["calibrate", str(folder / "part-*.npz"), "-o", str(folder / "out")]
    wall, cpu, memory = run_command(words, cwd=folder)
    return [
        Row(
            name=f"focalibrate calibrate, {n:,} x {k:,} in {PARTS} parts: peak memory",
            ours=memory / 1e6,
            peer_name="the bar",
            peer=MEMORY_BAR / 1e6,
            ratio=memory / MEMORY_BAR,
            bar=1.0,
            unit="MB",
            note=f"files {size / 1e6:.0f} MB; {wall:.0f} s, {cpu:.0f} processor seconds",
        )
    ]


def read_seconds(path: Path) -> float:
    """Return the seconds of reading the numbers once, the file being in the page cache."""
    start = perf_counter()
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
    return perf_counter() - start


def wide_rows(folder: Path) -> list[Row]:
    """Calibrate rows as wide as a vocabulary from an .npy file of float16."""
    n, k = WIDE
    rng = np.random.default_rng(0)
    labels = rng.integers(k, size=n)
    scores = np.lib.format.open_memmap(folder / "z.npy", "w+", np.float16, (n, k))
    for start in range(0, n, 250):
        block = 2 * rng.standard_normal((250, k), dtype=np.float32)
        block[np.arange(250), labels[start : start + 250]] += 16
        scores[start : start + 250] = block
    del scores
    np.save(folder / "y.npy", labels)
    words = ["calibrate", str(folder / "z.npy"), "--labels", str(folder / "y.npy")]
    words += ["--input", "logits", "--methods", METHODS, "-o", str(folder / "out")]
    wall, cpu, memory = run_command(words, cwd=folder)
    floor = min(read_seconds(folder / "z.npy") for _ in range(3))
    return [
        Row(
            name=f"focalibrate calibrate --methods {METHODS}, {n:,} x {k:,} float16",
            ours=wall,
            peer_name="reading the file",
            peer=floor,
            ratio=wall / floor,
            bar=WIDE_BAR,
            note=f"{cpu:.0f} processor seconds, peak memory {memory / 1e6:.0f} MB",
        )
    ]


def run() -> list[Row]:
    """Run both jobs, or the one that FOCALIBRATE_BENCH names."""
    jobs = {"many": many_rows, "wide": wide_rows}
    chosen = os.environ.get("FOCALIBRATE_BENCH")
    rows = []
    for name, job in jobs.items():
        if chosen in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                rows += job(Path(folder))
    return rows
