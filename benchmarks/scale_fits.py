"""Calibrating more rows than are fitted on: memory, and time at the size of a vocabulary.

``python -m benchmarks scale_fits``; ``FOCALIBRATE_BENCH=many`` or ``wide`` runs one of the two.
"""

import os
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks._timing import Row
from benchmarks.job import run_command, write_file

MANY = (200_000, 1000)
MEMORY_BAR = 1.5e9
PARTS = 8
WIDE = (50_000, 128_000)
SHIFTS = 4_000_000
"""Rows are pieces of one long series of random numbers, with this many starting points."""
WIDE_BAR = 10.0
METHODS = "temperature,focal_temperature"


def many_rows(folder: Path) -> list[Row]:
    """Calibrate 200,000 rows of 1000 classes in parts, by all default methods."""
    n, k = MANY
    for i in range(PARTS):
        write_file(folder / f"part-{i}.npz", n // PARTS, k, seed=i)
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


def read_seconds(path: Path, *, from_disk: bool = False) -> tuple[float, float]:
    """Return the seconds, and processor seconds, of reading the bytes once with `read`.

    Bytes come from the page cache, where they are there; `from_disk` drops them from it before.
    """
    if from_disk:
        drop_from_cache(path)
    start, cpu = perf_counter(), process_time()
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
    return perf_counter() - start, process_time() - cpu


def drop_from_cache(path: Path) -> None:
    """Drop the bytes of a file from the page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_single_seconds(path: Path) -> float:
    """Return the seconds of reading the numbers as float32 with NumPy, 32 rows at a time."""
    start = perf_counter()
    scores = np.load(path, mmap_mode="r")
    for at in range(0, len(scores), 32):
        scores[at : at + 32].astype(np.float32)
    return perf_counter() - start


def write_wide(folder: Path) -> None:
    """Write float16 logits as wide as a vocabulary, and labels that are mostly the top class."""
    n, k = WIDE
    rng = np.random.default_rng(0)
    noise = 2 * rng.standard_normal(k + SHIFTS, dtype=np.float32)
    labels, starts = rng.integers(k, size=n), rng.integers(SHIFTS, size=n)
    lifts = rng.normal(13, 3, size=n).astype(np.float32)
    scores = np.lib.format.open_memmap(folder / "z.npy", "w+", np.float16, (n, k))
    for i in range(n):
        row = noise[starts[i] : starts[i] + k].copy()
        row[labels[i]] += lifts[i]
        scores[i] = row
    del scores
    np.save(folder / "y.npy", labels)


def wide_rows(folder: Path) -> list[Row]:
    """Calibrate rows as wide as a vocabulary from an .npy file of float16, 12.8 GB.

    FOCALIBRATE_BENCH_WIDE names a folder to keep it in: writing takes longer than calibrating.
    """
    n, k = WIDE
    given = Path(os.environ.get("FOCALIBRATE_BENCH_WIDE", folder))
    if not (given / "y.npy").exists():
        write_wide(given)
    path = given / "z.npy"
    words = ["calibrate", str(path), "--labels", str(given / "y.npy")]
    words += ["--input", "logits", "--methods", METHODS, "-o", str(folder / "out"), "--force"]
    disk, disk_cpu = read_seconds(path, from_disk=True)
    drop_from_cache(path)
    cold = run_command(words, cwd=folder)
    read_seconds(path)
    cache, cache_cpu = min(read_seconds(path) for _ in range(3))
    warm = run_command(words, cwd=folder)
    again = min(read_seconds(path) for _ in range(3))
    cache, cache_cpu = min((cache, cache_cpu), again)
    single = read_single_seconds(path)
    name = f"focalibrate calibrate --methods {METHODS}, {n:,} x {k:,} float16"
    peers = (
        ("reading the bytes from the page cache", cache, cache_cpu, warm),
        ("reading the bytes from disk", disk, disk_cpu, cold),
        ("reading them as float32 with NumPy, from the page cache", single, None, warm),
    )
    return [
        Row(
            name=f"{name}, to {what}",
            ours=wall,
            peer_name=what,
            peer=peer,
            ratio=wall / peer,
            bar=WIDE_BAR,
            note=f"{cpu:.0f} processor seconds, peak memory {memory / 1e6:.0f} MB"
            + ("" if peer_cpu is None else f"; reading: {peer_cpu:.1f} processor seconds"),
        )
        for what, peer, peer_cpu, (wall, cpu, memory) in peers
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
