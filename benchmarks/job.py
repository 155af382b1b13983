"""The main job as a user runs it: `focalibrate calibrate` and `evaluate`, from file to page."""

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
from scipy.special import softmax

from benchmarks._timing import Row

SIZES: dict[tuple[str, int, int], float] = {
    ("calibrate", 10_000, 10): 2.5,
    ("calibrate", 10_000, 100): 5.0,
    ("calibrate", 50_000, 1000): 30.0,
    ("evaluate", 1_000_000, 10): 3.0,
}
"""Command, rows and classes, and the most seconds it may take on two idle cores."""
REPEATS = {"small": 5, "large": 3}
"""Number of runs of a job of up to, and of more than, `LARGE` scores; the median is reported."""
LARGE = 5_000_000
MEMORY_BAR = 3.0
"""Most memory of the largest job, as a multiple of the file size."""


def write_file(path: Path, n: int, k: int, *, seed: int = 0) -> None:
    """Write logits of an overconfident model whose accuracy is about 0.75."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_normal((n, k), dtype=np.float32)
    labels = rng.integers(k, size=n)
    logits[np.arange(n), labels] += rng.uniform(0, 7 if k <= 20 else 11, n).astype(np.float32)
    np.savez(path, logits=np.float32(1.8) * logits, labels=labels)


def run_command(words: list[str], *, cwd: Path = Path()) -> tuple[float, float, int]:
    """Return wall seconds, processor seconds and peak bytes of a command run in `cwd`."""
    # An installed package has byte code: without it each run would compile everything.
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = perf_counter()
    with chdir(cwd):
        child = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "focalibrate", *words],
            given | {"NO_COLOR": "1"},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )
    _, status, usage = os.wait4(child, 0)
    wall = perf_counter() - start
    if status != 0:
        raise RuntimeError(f"focalibrate {' '.join(words)} failed with {status}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def seconds_of(job: Callable[[], object]) -> float:
    """Return the processor seconds of a call."""
    start = process_time()
    job()
    return process_time() - start


def floor_seconds(path: Path) -> float:
    """Return the processor seconds of reading the file and one softmax, the minimum work."""

    def job() -> None:
        with np.load(path) as data:
            softmax(data["logits"], axis=1)

    return min(seconds_of(job) for _ in range(3))


def run() -> list[Row]:
    """Compare each job with reading its file and one softmax, and with its own limit."""
    load = os.getloadavg()[0]
    if load > 0.5:
        warnings.warn(f"the machine is busy (load {load:.1f}): seconds are too high", stacklevel=2)
    rows = []
    for (command, n, k), bar in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "val.npz")
            write_file(path, n, k)
            words = [command, str(path)]
            if command == "calibrate":
                words += ["-o", str(Path(folder, "out"))]
            if not rows:  # the first run of a checkout compiles it
                run_command([*words, "--force"])
            words += ["--force"] if command == "calibrate" else []
            before = os.getloadavg()[0]
            runs = [
                run_command(words) for _ in range(REPEATS["large" if n * k > LARGE else "small"])
            ]
            floor = floor_seconds(path)
            size = path.stat().st_size
        walls, cpus, memories = zip(*runs, strict=True)
        wall, cpu, memory = median(walls), median(cpus), max(memories)
        name = f"focalibrate {command}, {n:,} x {k:,}"
        note = (
            f"median of {len(runs)}: {wall:.2f} s ({min(walls):.2f} to {max(walls):.2f}), "
            f"{cpu:.2f} processor seconds ({min(cpus):.2f} to {max(cpus):.2f}); load {before:.1f}"
        )
        rows.append(
            Row(
                name=name,
                ours=cpu,
                peer_name="reading the file and one softmax",
                peer=floor,
                ratio=cpu / floor,
                unit="processor s",
                note=note,
            )
        )
        rows.append(
            Row(
                name=f"{name}: seconds allowed",
                ours=wall,
                peer_name="the bar, two quiet cores",
                peer=bar,
                ratio=wall / bar,
                bar=1.0,
                note=note,
            )
        )
        if n * k >= 10_000_000 and command == "calibrate":
            rows.append(
                Row(
                    name=f"{name}: peak memory",
                    ours=memory / 1e6,
                    peer_name="the file",
                    peer=size / 1e6,
                    ratio=memory / size,
                    bar=MEMORY_BAR,
                    unit="MB",
                )
            )
    return rows
