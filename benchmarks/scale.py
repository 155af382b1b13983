"""Predictions larger than memory: one pass against a bare scan, workers, and flat memory.

`python -m benchmarks.scale NAME ...` measures some of `MEASURES` and adds them to
``build/bench/scale-large.json``; without a name it lists them.
`python -m benchmarks scale` runs a small size of each.
"""

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks._study import write_json
from benchmarks._timing import Row, machine
from benchmarks.job import run_command
from focalibrate.io import sketch_bytes
from focalibrate.io.sketches import SketchFile
from focalibrate.metrics import Sketch
from focalibrate.metrics.sketch import row_terms

RESULTS = Path("build/bench/scale-large.json")
DATA = Path(os.environ.get("FOCALIBRATE_SCALE", Path(tempfile.gettempdir(), "focalibrate-scale")))
"""Where the generated parts are kept between calls."""
CLASSES = 10
PART_ROWS = 1_000_000
BATCH_ROWS = 65_536
SCAN_BAR = 3.0
MEMORY_BAR = 600e6
WORKERS_BAR = 1.7


def rows_of(seed: int, n: int, k: int = CLASSES) -> tuple[Any, Any]:
    """Return float32 logits of an overconfident model, and labels."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((n, k), dtype=np.float32)
    noise = rng.standard_exponential((n, k), dtype=np.float32)
    labels = (logits / 1.3 - np.log(noise + np.float32(1e-30))).argmax(axis=1)
    return logits, labels


def parts_folder(n_parts: int, part_rows: int = PART_ROWS) -> Path:
    """Return a folder of parquet parts, written if it does not exist."""
    folder = DATA / f"{n_parts}x{part_rows}"
    for i in range(n_parts):
        path = folder / f"part-{i:03}.parquet"
        if path.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        logits, labels = rows_of(i, part_rows)
        columns = {f"logit_{j}": logits[:, j] for j in range(CLASSES)}
        beside = path.with_suffix(".tmp")
        pq.write_table(
            pa.table({**columns, "label": labels}), beside, row_group_size=BATCH_ROWS * 2
        )
        beside.rename(path)
    return folder


def bare_scan(folder: Path) -> int:
    """Read every batch with pyarrow and compute softmax and argmax: the minimum work."""
    hits = 0
    names = [f"logit_{j}" for j in range(CLASSES)]
    for batch in ds.dataset(folder).to_batches(batch_size=BATCH_ROWS, columns=[*names, "label"]):
        z = np.column_stack([batch.column(name).to_numpy() for name in names])
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        hits += int((p.argmax(axis=1) == batch.column("label").to_numpy()).sum())
    return hits


def _scan_process(folder: str) -> None:
    pa.set_cpu_count(1)
    bare_scan(Path(folder))


def scan_seconds(folder: Path) -> tuple[float, float]:
    """Return wall and CPU seconds of a bare scan in a separate process, including its start."""
    start, before = perf_counter(), _children()
    process = multiprocessing.get_context("spawn").Process(
        target=_scan_process, args=(str(folder),)
    )
    process.start()
    process.join()
    return perf_counter() - start, _children() - before


def _children() -> float:
    """Return the processor seconds of all child processes that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def evaluate_against_scan(n_parts: int, rounds: int = 3) -> dict[str, Any]:
    """Measure `focalibrate evaluate FOLDER` against `bare_scan`, one core each.

    The ratio is that of processor seconds: both use one thread, and other programs on the machine
    have little effect.
    """
    folder = parts_folder(n_parts)
    scans, ours, processor, memory = [], [], [], 0
    for _ in range(rounds):
        scans.append(scan_seconds(folder))
        wall, spent, peak = run_command(["evaluate", str(folder), "--json"], cwd=folder)
        ours.append(wall)
        processor.append(spent)
        memory = max(memory, peak)
    rows = n_parts * PART_ROWS
    ratio = median(a / b for a, (_, b) in zip(processor, scans, strict=True))
    return {
        "what": f"evaluate {rows:,} rows x {CLASSES} classes of parquet against a bare scan",
        "rows": rows,
        "bytes_read": sum(p.stat().st_size for p in folder.iterdir()),
        "seconds": median(ours),
        "processor_seconds": median(processor),
        "scan_seconds": median(wall for wall, _ in scans),
        "scan_processor_seconds": median(spent for _, spent in scans),
        "ratio": ratio,
        "bar": SCAN_BAR,
        "peak_bytes": memory,
        "memory_bar": MEMORY_BAR,
        "met": ratio <= SCAN_BAR and memory <= MEMORY_BAR,
    }


def two_workers(n_parts: int, rounds: int = 3) -> dict[str, Any]:
    """Measure `focalibrate evaluate FOLDER --workers 2` against ``--workers 1``."""
    folder = parts_folder(n_parts)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers in seconds:
            words = ["evaluate", str(folder), "--json", "--workers", str(workers)]
            seconds[workers].append(run_command(words, cwd=folder)[0])
    gain = median(a / b for a, b in zip(seconds[1], seconds[2], strict=True))
    return {
        "what": f"evaluate {n_parts * PART_ROWS:,} rows x {CLASSES} classes by two workers",
        "rows": n_parts * PART_ROWS,
        "seconds_one_worker": median(seconds[1]),
        "seconds_two_workers": median(seconds[2]),
        "gain": gain,
        "bar": WORKERS_BAR,
        "met": gain >= WORKERS_BAR,
    }


def _generated(n_rows: int, queue: Any) -> None:
    """Sketch rows that are generated on the fly, and report memory, seconds and bytes."""
    import resource

    logits, labels = rows_of(0, 2 * BATCH_ROWS + 1)
    sketch, done, spent = None, 0, 0.0
    while done < n_rows:
        n = min(BATCH_ROWS, n_rows - done)
        at = (done * 7919) % (len(labels) - n)
        shift = np.float32(1.0 + 1e-9 * done)  # no two batches are the same
        z, y = logits[at : at + n] * shift, labels[at : at + n]
        start = process_time()
        more = Sketch.of_terms(row_terms(z, y, given="logits"))
        sketch = more if sketch is None else sketch + more
        spent += process_time() - start
        done += n
    assert sketch is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    queue.put((peak, spent, len(sketch_bytes(SketchFile(sketch=sketch))), sketch.n))


def flat_memory(sizes: tuple[int, ...]) -> dict[str, Any]:
    """Measure the memory of sketching more and more generated rows, a process for each size."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the command line does
    context = multiprocessing.get_context("spawn")
    found: dict[str, Any] = {}
    for size in sizes:
        queue = context.Queue()
        process = context.Process(target=_generated, args=(size, queue))
        process.start()
        peak, seconds, n_bytes, n = queue.get()
        process.join()
        assert n == size
        found[str(size)] = {
            "peak_bytes": peak,
            "nanoseconds_per_row": 1e9 * seconds / size,
            "sketch_bytes": n_bytes,
        }
    peaks = [value["peak_bytes"] for value in found.values()]
    return {
        "what": f"memory of a sketch from {sizes[0]:,} to {sizes[-1]:,} generated rows",
        "sizes": found,
        "growth": max(peaks) / min(peaks),
        "bar": 1.05,
        "met": max(peaks) / min(peaks) <= 1.05,
    }


MEASURES: dict[str, Callable[[], dict[str, Any]]] = {
    "scan-small": lambda: evaluate_against_scan(2, rounds=1),
    "scan-4M": lambda: evaluate_against_scan(4),
    "scan-20M": lambda: evaluate_against_scan(20, rounds=1),
    "workers-small": lambda: two_workers(2, rounds=1),
    "workers-8M": lambda: two_workers(8, rounds=2),
    "workers-20M": lambda: two_workers(20, rounds=1),
    "memory-small": lambda: flat_memory((10**6, 4 * 10**6)),
    "memory-100M": lambda: flat_memory((10**6, 10**7, 10**8)),
}
"""What can be measured by name; each takes at most a few minutes on two cores."""


def run() -> list[Row]:
    """Return small sizes of every measure, for ``python -m benchmarks``."""
    scan, workers, memory = (
        MEASURES[name]() for name in ("scan-small", "workers-small", "memory-small")
    )
    sizes = list(memory["sizes"].values())
    return [
        Row(
            name=scan["what"],
            ours=scan["seconds"],
            peer_name="pyarrow scan, softmax, argmax",
            peer=scan["scan_seconds"],
            ratio=scan["ratio"],
            bar=SCAN_BAR,
            note=f"peak {scan['peak_bytes'] / 1e6:.0f} MB",
        ),
        Row(
            name=workers["what"],
            ours=workers["seconds_two_workers"],
            peer_name="one worker",
            peer=workers["seconds_one_worker"],
            ratio=1 / workers["gain"],
            bar=1 / WORKERS_BAR,
        ),
        Row(
            name=memory["what"],
            ours=sizes[-1]["peak_bytes"] / 1e6,
            peer_name="fewest rows",
            peer=sizes[0]["peak_bytes"] / 1e6,
            ratio=memory["growth"],
            bar=memory["bar"],
            unit="MB",
        ),
    ]


def main(names: list[str]) -> None:
    """Measure what is named and add it to the results."""
    if not names or set(names) - set(MEASURES):
        sys.exit(f"name some of: {', '.join(MEASURES)}")
    for name in names:
        found = MEASURES[name]()
        record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"measures": {}}
        record["machine"] = machine()
        record["measures"][name] = found | {"load": os.getloadavg()[0]}
        write_json(RESULTS, record)
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
