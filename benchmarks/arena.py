"""Calibration methods over a folder of experiments: scores, win rates with intervals, a page.

    python -m benchmarks.arena ARENA --out results/arena
    python -m benchmarks.arena cv-multiclass.h5 --methods auto structured_matrix --out somewhere

A folder has a ``manifest.json`` (see its README) and may have ``peers.csv``, results of other
packages' calibrators, which ours are then compared with. A ``.h5`` file has CalArena's layout:
``{dataset}/{model}/probas_cal``, ``labels_cal``, ``probas_test``, ``labels_test`` (needs h5py).
An interrupted run resumes: what is in ``results.csv`` is not run again. ``--workers`` runs that
many processes, ``--dask`` a Dask cluster (an address, or ``local``). Writes tables and a
figure.
"""

import argparse
import csv
import json
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy is imported: every experiment uses one thread

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from benchmarks._arena_summary import write_summary  # noqa: E402
from benchmarks._study import drop_torn_line, read_rows  # noqa: E402
from focalibrate.calibrate import METHODS, Calibrator, fit  # noqa: E402

Floats = NDArray[np.float64]

LEAST = float(np.log(np.finfo(np.float32).tiny))
"""Logarithm used for a probability of 0, as in the peers' results."""
COLUMNS = ("benchmark", "table", "model", "K", "n_cal", "n_test", "method")
SCORES = ("logloss", "brier", "accuracy", "seconds")
DEFAULT = ("auto", "average", "temperature", "focal_temperature", "structured_vector",
           "structured_matrix", "platt", "quadratic", "beta", "spline", "isotonic",
           "histogram")  # fmt: skip


@dataclass(frozen=True, eq=False)
class Experiment:
    """One model on one table, with its scores and labels."""

    about: dict[str, Any]
    cal: NDArray[Any]
    cal_labels: NDArray[np.intp]
    test: NDArray[Any]
    test_labels: NDArray[np.intp]


def main(arguments: list[str] | None = None) -> None:
    """Run, score and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="folder with manifest.json, or .h5 file")
    parser.add_argument("--out", type=Path, default=Path("results/arena"))
    parser.add_argument("--methods", nargs="*", default=list(DEFAULT))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--dask", help="address of a scheduler, or local")
    parser.add_argument("--subset", action="store_true", help="the fixed subset only")
    args = parser.parse_args(arguments)
    for method in args.methods:
        if method not in ("auto", *METHODS):
            parser.error(f"--methods: {method!r} is not one of auto, {', '.join(METHODS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    listed = [e for e in listing(args.source) if e.get("subset", True) or not args.subset]
    path = args.out / "results.csv"
    run(args.source, listed, args.methods, path, workers=args.workers, dask=args.dask)
    about = {(e["table"], e["model"]): e for e in listing(args.source)}
    peers = args.source / "peers.csv" if args.source.is_dir() else None
    write_summary(about, path, peers, args.out)


def listing(source: Path) -> list[dict[str, Any]]:
    """Return what is known about every experiment, small ones first."""
    if source.suffix in (".h5", ".hdf5"):
        import h5py

        with h5py.File(source, "r") as file:
            return [
                {
                    "benchmark": source.stem,
                    "table": table,
                    "model": model,
                    "kind": "probs",
                    "K": max(2, *group["probas_cal"].shape[1:], 2),
                    "n_cal": len(group["labels_cal"]),
                    "n_test": len(group["labels_test"]),
                }
                for table, models in file.items()
                for model, group in models.items()
            ]
    found: list[dict[str, Any]] = json.loads((source / "manifest.json").read_text())["experiments"]
    return sorted(found, key=lambda e: e["n_cal"] * e["K"])


def load(source: Path, about: dict[str, Any]) -> Experiment:
    """Read the scores and labels of one experiment."""
    if source.suffix in (".h5", ".hdf5"):
        import h5py

        with h5py.File(source, "r") as file:
            group = file[f"{about['table']}/{about['model']}"]
            names = ("probas_cal", "labels_cal", "probas_test", "labels_test")
            a, b, c, d = (group[name][:] for name in names)
        return Experiment(about, a, b.astype(int), c, d.astype(int))
    if about["benchmark"] != "published":
        with np.load(source / about["file"]) as z:
            m = about["model"]
            cal, test = z[f"{m}__cal_scores"], z[f"{m}__test_scores"]
            return Experiment(
                about, cal, z["cal_labels"].astype(int), test, z["test_labels"].astype(int)
            )
    with np.load(source.parent / "logits" / about["file"]) as z:
        if about["split"] == "val/test":
            a, b = z["val_" + about["kind"]], z["val_labels"]
            c, d = z["test_" + about["kind"]], z["test_labels"]
        else:
            scores, labels = z[about["scores"]], z[about["labels"]]
            order = np.random.default_rng(0).permutation(len(labels))
            first, second = order[: len(labels) // 2], order[len(labels) // 2 :]
            a, b, c, d = scores[first], labels[first], scores[second], labels[second]
    cut = slice(10_000)
    return Experiment(
        about, a.astype(np.float32), b.astype(int), c[cut].astype(np.float32), d[cut].astype(int)
    )


def run(
    source: Path,
    listed: list[dict[str, Any]],
    methods: list[str],
    path: Path,
    *,
    workers: int = 1,
    dask: str | None = None,
) -> None:
    """Run every method on every experiment that `path` does not have yet, and append to it."""
    drop_torn_line(path)
    known = {(r["table"], r["model"], r["method"]) for r in read_rows(path)}
    tasks = []
    for about in listed:
        missing = [m for m in methods if (about["table"], about["model"], m) not in known]
        missing = [m for m in missing if _applies(m, about)]
        if missing:
            tasks.append((source, about, missing))
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow([*COLUMNS, *SCORES, "chosen", "failure"])
        for i, rows in enumerate(_done(tasks, workers, dask)):
            writer.writerows(rows)
            file.flush()
            print(f"{i + 1}/{len(tasks)}", rows[0][1], rows[0][2], flush=True)


Task = tuple[Path, dict[str, Any], list[str]]


def _done(tasks: list[Task], workers: int, dask: str | None) -> Iterator[list[list[Any]]]:
    """Yield the rows of each task as it finishes."""
    if dask is not None:
        from distributed import Client, as_completed

        local = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
        with Client(**local) if dask == "local" else Client(dask) as client:
            for _, rows in as_completed(client.map(_run_one, tasks), with_results=True):
                yield rows
    elif workers == 1:
        yield from map(_run_one, tasks)
    else:  # no fork while numerical libraries have threads
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield from pool.map(_run_one, tasks)


def _applies(method: str, about: dict[str, Any]) -> bool:
    return method == "auto" or METHODS[method].applies_to(about["K"], about.get("gamma") or None)


def _run_one(task: Task) -> list[list[Any]]:
    source, about, methods = task
    warnings.simplefilter("ignore")
    experiment = load(source, about)
    rows = []
    for method in methods:
        start = process_time()
        try:
            found, probs = calibrated(experiment, method)
            values: list[Any] = [*scored(probs, experiment.test_labels)]
            chosen, failure = found.kind, ""
        except ValueError as error:
            values, chosen, failure = [np.inf, np.inf, 0.0], "", str(error)[:120]
        seconds = round(process_time() - start, 4)
        head = [about[c] for c in COLUMNS[:-1]]
        rows.append([*head, method, *(f"{v:.9g}" for v in values), seconds, chosen, failure])
    return rows


def calibrated(experiment: Experiment, method: str) -> tuple[Calibrator, Floats]:
    """Fit `method` on the calibration rows; return it and its test probabilities."""
    about = experiment.about
    given = {about["kind"]: experiment.cal}
    gamma = about.get("gamma") or None
    found: Any
    if method == "auto":
        found = fit(labels=experiment.cal_labels, trained_gamma=gamma, **given)
    else:
        options: dict[str, Any] = {"gamma": gamma} if METHODS[method].needs_gamma else {}
        if method == "average":
            options["trained_gamma"] = gamma
        found = fit(labels=experiment.cal_labels, method=method, **given, **options)
    return found, np.asarray(found.probs(**{about["kind"]: experiment.test}), dtype=np.float64)


def scored(probs: Floats, labels: NDArray[np.intp]) -> tuple[float, float, float]:
    """Return log loss, Brier score (summed over the classes) and accuracy."""
    rows = np.arange(len(labels))
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(probs), LEAST)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    gaps = probs.copy()
    gaps[rows, labels] -= 1.0
    hits = probs.argmax(axis=1) == labels
    log_loss = float(-logs[rows, labels].mean())
    return log_loss, float((gaps**2).sum(axis=1).mean()), float(hits.mean())


if __name__ == "__main__":
    main()
