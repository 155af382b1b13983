"""Predictions larger than memory: one pass against a bare scan, workers, and flat memory.

`python -m benchmarks.scale NAME ...` measures some of `MEASURES` and adds them to
``build/bench/scale-large.json`` and ``.md``; without a name it lists them.
`python -m benchmarks scale` runs a small size of each.
"""

import json
import multiprocessing
import os
import platform
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

from benchmarks._timing import Row
from benchmarks.job import run_command
from focalibrate.io import sketch_bytes
from focalibrate.io.sketches import SketchFile
from focalibrate.metrics import Sketch

RESULTS = Path("build/bench/scale-large.json")
TABLE = RESULTS.with_suffix(".md")
FITS = RESULTS.with_name("scale-fits.json")
"""The same as a table, which the docs include."""
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
        more = Sketch.of_rows(z, y, given="logits")
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


def as_markdown(measures: dict[str, Any], fits: list[dict[str, Any]]) -> str:
    """Return the measures as a table, and what a day of 10¹⁰ rows costs by them.

    Args:
        measures: of this module.
        fits: the rows that `benchmarks.scale_fits` recorded.
    """
    lines = ["| measured | result | aim |", "|-|-|-|"]
    scan = workers = memory = None
    for name, found in measures.items():
        if name.startswith("scan") and not name.endswith("small"):
            scan = scan if scan and scan["rows"] > found["rows"] else found
        elif name.startswith("workers") and not name.endswith("small"):
            workers = workers if workers and workers["rows"] > found["rows"] else found
        elif name == "memory-100M":
            memory = found
    if scan:
        result = f"{scan['ratio']:.2f} times its processor time, {scan['peak_bytes'] / 1e6:.0f} MB"
        aim = f"{scan['bar']:g} times, {scan['memory_bar'] / 1e6:.0f} MB"
        lines.append(f"| {scan['what']} | {result} | {aim} |")
    if workers:
        result = f"{workers['gain']:.2f} times as fast as one, at load {workers['load']:.0f}"
        lines.append(f"| {workers['what']} | {result} | {workers['bar']:g} times |")
    if memory:
        peaks = [f"{v['peak_bytes'] / 1e6:.0f}" for v in memory["sizes"].values()]
        aim = "flat, to 5 %"
        lines.append(f"| {memory['what']} | {', '.join(peaks)} MB | {aim} |")
    for found in measures.values():
        if "text" in found:  # other measures bring their own words
            lines.append(f"| {found['what']} | {found['text']} | {found.get('aim', '')} |")
    for row in fits:
        is_memory = row["unit"] == "MB"
        result = f"{row['ours']:,.0f} MB" if is_memory else f"{row['ratio']:.1f} times"
        aim = f"{row['bar'] * row['peer']:,.0f} MB" if is_memory else f"{row['bar']:g} times"
        lines.append(f"| {row['name']} | {result} | {aim} |")
    if scan and memory:
        lines += ["", *_day(scan, memory)]
    return "\n".join(lines) + "\n"


def _day(scan: dict[str, Any], memory: dict[str, Any]) -> list[str]:
    rows, parts = 1e10, 1e4
    read = scan["bytes_read"] / scan["rows"]
    is_processor = "processor_seconds" in scan
    spent = scan["processor_seconds" if is_processor else "seconds"] / scan["rows"]
    kind = "of processor time" if is_processor else "on one core of a busy machine"
    sent = list(memory["sizes"].values())[-1]["sketch_bytes"]
    return [
        f"| 10¹⁰ rows of {CLASSES} classes in 10,000 parts | per unit | per day |",
        "|-|-|-|",
        f"| read | {read:.0f} bytes per row | {rows * read / 1e9:,.0f} GB |",
        f"| computed | {1e6 * spent:.2f} µs per row {kind}, reading included "
        f"| {rows * spent / 3600:.1f} core hours |",
        f"| sent | {sent / 1e3:.0f} kB per part | {parts * sent / 1e9:.1f} GB |",
        f"| kept | {sent / 1e3:.0f} kB | {sent / 1e3:.0f} kB |",
    ]


def write_table() -> None:
    """Write the table by what is recorded."""
    measures = json.loads(RESULTS.read_text())["measures"]
    fits = json.loads(FITS.read_text())["rows"] if FITS.exists() else []
    TABLE.write_text(as_markdown(measures, fits))


def main(names: list[str]) -> None:
    """Measure what is named and add it to the results; ``table`` writes the table only."""
    unknown = sorted(set(names) - {*MEASURES, "table"})
    if unknown or not names:
        sys.exit(f"name some of: {', '.join(MEASURES)}, table")
    for name in names:
        if name == "table":
            write_table()
            continue
        found = MEASURES[name]()
        record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"measures": {}}
        record["machine"] = {
            "platform": platform.platform(),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        }
        record["measures"][name] = found | {"load": os.getloadavg()[0]}
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")
        write_table()
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
