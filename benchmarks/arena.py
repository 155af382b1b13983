"""Calibration methods over a folder of experiments: scores, win rates with intervals, a page.

    python -m benchmarks.arena ../shared/data/arena --out results/arena
    python -m benchmarks.arena cv-multiclass.h5 --methods auto structured_matrix --out somewhere

A folder has a ``manifest.json`` (see its README) and may have ``peers.csv``, results of other
people's calibrators, which then are the field. A ``.h5`` file has CalArena's layout:
``{dataset}/{model}/probas_cal``, ``labels_cal``, ``probas_test``, ``labels_test`` (needs h5py).
Runs go on where they stopped: what is in ``results.csv`` is not run again.
"""

import argparse
import csv
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # before NumPy: every experiment has one thread

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from focalibrate.calibrate import METHODS, Calibrator, fit, fit_auto  # noqa: E402

Floats = NDArray[np.float64]
Results = dict[tuple[str, str], dict[str, dict[str, float]]]
"""``(table, model) -> method -> score -> value``."""

LEAST = float(np.log(np.finfo(np.float32).tiny))
"""Logarithm that a probability of 0 counts as, as in the peers' results."""
TIE = 1e-7
COLUMNS = ("benchmark", "table", "model", "K", "n_cal", "n_test", "method")
SCORES = ("logloss", "brier", "accuracy", "seconds")
GROUPS = {
    "two classes": lambda e: e["K"] == 2 and e["benchmark"] != "published",
    "many classes": lambda e: e["K"] > 2 and e["benchmark"] != "published",
    "published, many": lambda e: e["K"] > 2 and e["benchmark"] == "published",
}
DEFAULT = ("auto", "temperature", "focal_temperature", "structured_vector", "structured_matrix",
           "platt", "quadratic", "beta", "spline")  # fmt: skip
N_RESAMPLES = 2000


@dataclass(frozen=True, eq=False)
class Experiment:
    """One model on one table: what it is, and its scores and labels."""

    about: dict[str, Any]
    cal: NDArray[Any]
    cal_labels: NDArray[np.intp]
    test: NDArray[Any]
    test_labels: NDArray[np.intp]


def main() -> None:
    """Run, score and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="folder with manifest.json, or .h5 file")
    parser.add_argument("--out", type=Path, default=Path("results/arena"))
    parser.add_argument("--methods", nargs="*", default=list(DEFAULT))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--subset", action="store_true", help="the fixed subset only")
    args = parser.parse_args()
    for method in args.methods:
        if method not in ("auto", *METHODS):
            parser.error(f"--methods: {method!r} is not one of auto, {', '.join(METHODS)}")
    args.out.mkdir(parents=True, exist_ok=True)
    listed = [e for e in listing(args.source) if e.get("subset", True) or not args.subset]
    run(args.source, listed, args.methods, args.out / "results.csv", workers=args.workers)
    write_summary(args.source, args.out)


def listing(source: Path) -> list[dict[str, Any]]:
    """Return what is known of every experiment, small ones first."""
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
    source: Path, listed: list[dict[str, Any]], methods: list[str], path: Path, *, workers: int
) -> None:
    """Run every method on every experiment that `path` does not have yet, and append to it."""
    known = {(r["table"], r["model"], r["method"]) for r in read_rows(path)}
    tasks = []
    for about in listed:
        missing = [m for m in methods if (about["table"], about["model"], m) not in known]
        missing = [m for m in missing if _applies(m, about)]
        if missing:
            tasks.append((source, about, missing))
    is_new = not path.exists()
    with path.open("a", newline="") as file, ProcessPoolExecutor(workers) as pool:
        writer = csv.writer(file)
        if is_new:
            writer.writerow([*COLUMNS, *SCORES, "chosen", "failure"])
        for i, rows in enumerate(pool.map(_run_one, tasks)):
            writer.writerows(rows)
            file.flush()
            print(f"{i + 1}/{len(tasks)}", rows[0][1], rows[0][2], flush=True)


def _applies(method: str, about: dict[str, Any]) -> bool:
    return method == "auto" or METHODS[method].applies_to(about["K"], about.get("gamma") or None)


def _run_one(task: tuple[Path, dict[str, Any], list[str]]) -> list[list[Any]]:
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
        found = fit_auto(labels=experiment.cal_labels, trained_gamma=gamma, **given)
    else:
        options = {"gamma": gamma} if METHODS[method].needs_gamma else {}
        found = fit(method, labels=experiment.cal_labels, **given, **options)
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


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a results file, none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_results(path: Path) -> Results:
    """Return the scores of a results file."""
    found: Results = {}
    for row in read_rows(path):
        value = {s: float(row[s]) if row[s] else np.inf for s in ("logloss", "brier")}
        value["seconds"] = float(row["seconds"] or 0)
        found.setdefault((row["table"], row["model"]), {})[row["method"]] = value
    return found


def win(a: float, b: float) -> float:
    """Return 1 where `a` is lower, a half for a tie."""
    return 0.5 if abs(a - b) < TIE or (np.isinf(a) and np.isinf(b)) else float(a < b)


def write_summary(source: Path, out: Path) -> None:
    """Write ``summary.json``, ``table.md`` and, with matplotlib, ``winrates.svg``."""
    ours = read_results(out / "results.csv")
    peers = read_results(source / "peers.csv") if source.is_dir() else {}
    listed = {(e["table"], e["model"]): e for e in listing(source)}
    summary = {}
    for group, is_in in GROUPS.items():
        keys = [k for k, e in listed.items() if k in ours and is_in(e)]
        if keys:
            summary[group] = summarise(keys, ours, peers)
    if source.suffix in (".h5", ".hdf5"):
        summary[source.stem] = summarise(list(ours), ours, peers)
    (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    (out / "table.md").write_text("\n".join(_table(summary)) + "\n")
    (out / "gamma.md").write_text("\n".join(_gamma_table(out, listed)) + "\n")
    try:
        _draw(summary, out / "winrates.svg")
    except ImportError:
        print("no figure: pip install matplotlib")
    print((out / "table.md").read_text())


def summarise(
    keys: list[tuple[str, str]], ours: Results, peers: Results
) -> dict[str, dict[str, Any]]:
    """Return, for each method, win rates and gains with intervals over resampled tables."""
    base = "Base-model" if peers else "identity"
    everyone: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for key in keys:
        for name, value in ours[key].items():
            everyone.setdefault(f"focalibrate {name}", {})[key] = value
        for name, value in peers.get(key, {}).items():
            everyone.setdefault(name, {})[key] = value
    found = {}
    for name, scores in everyone.items():
        if len(scores) < len(keys):
            continue
        per_table: dict[str, list[list[float]]] = {}
        for key, value in scores.items():
            field = peers.get(key) or {f"focalibrate {n}": v for n, v in ours[key].items()}
            rivals = [v for n, v in field.items() if n != name]
            both = ("logloss", "brier")
            numbers = [np.mean([win(value[s], r[s]) for r in rivals]) for s in both]
            raw = field.get(base, field.get("focalibrate identity"))
            if raw is not None:
                numbers += [raw[s] - value[s] for s in both]
                numbers.append(float(value["logloss"] > raw["logloss"] + TIE))
            per_table.setdefault(key[0], []).append([float(x) for x in numbers])
        found[name] = _with_intervals(list(per_table.values())) | {
            "n": len(scores),
            "seconds": float(np.mean([v["seconds"] for v in scores.values()])),
        }
    return dict(sorted(found.items(), key=lambda item: -item[1]["win_logloss"][0]))


NAMES = ("win_logloss", "win_brier", "gain_logloss", "gain_brier", "worse_than_model")


def _with_intervals(tables: list[list[list[float]]]) -> dict[str, Any]:
    """Return each mean over experiments with a 95 % interval from resampled tables."""
    sums = np.array([np.sum(t, axis=0) for t in tables])
    counts = np.array([len(t) for t in tables], dtype=float)
    mean = sums.sum(axis=0) / counts.sum()
    picks = np.random.default_rng(0).integers(len(tables), size=(N_RESAMPLES, len(tables)))
    drawn = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)[:, None]
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return {
        name: [round(float(v), 6) for v in triple]
        for name, *triple in zip(NAMES, mean, low, high, strict=False)
    }


def _table(summary: dict[str, dict[str, dict[str, Any]]]) -> Iterator[str]:
    for group, rows in summary.items():
        n = next(iter(rows.values()))["n"]
        yield f"### {group}: {n} experiments\n"
        yield "| method | wins by log loss | wins by Brier | gain in log loss ×100 | gain in Brier ×100 | worse than the model | seconds |"  # noqa: E501
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for name, row in rows.items():
            yield "| " + " | ".join(_cells(name, row)) + " |"
        yield ""


def _cells(name: str, row: dict[str, Any]) -> Iterable[str]:
    label = f"**{name}**" if name == "focalibrate auto" else name

    def share(key: str) -> str:
        mean, low, high = row[key]
        return f"{mean:.3f} [{low:.3f}, {high:.3f}]"

    gains = [f"{100 * row[k][0]:.2f}" for k in ("gain_logloss", "gain_brier")]
    worse = f"{100 * row['worse_than_model'][0]:.1f} %"
    shares = share("win_logloss"), share("win_brier")
    return [label, *shares, *gains, worse, f"{row['seconds']:.3f}"]


def _gamma_table(out: Path, listed: dict[tuple[str, str], dict[str, Any]]) -> Iterator[str]:
    """Say where the second parameter of focal temperature scaling lowers the test log loss."""
    rows = read_rows(out / "results.csv")
    loss = {(r["table"], r["model"], r["method"]): float(r["logloss"]) for r in rows}
    right = {(r["table"], r["model"]): float(r["accuracy"]) for r in rows}
    gains = {}
    for table, model, method in loss:
        pair = [(table, model, m) for m in ("temperature", "focal_temperature")]
        if method == "focal_temperature" and pair[0] in loss:
            gains[table, model] = 100 * (loss[pair[0]] - loss[pair[1]])

    def line(name: str, keys: list[tuple[str, str]]) -> str:
        tables: dict[str, list[list[float]]] = {}
        for key in keys:
            wins = [gains[key], win(0.0, gains[key])]
            tables.setdefault(key[0], []).append([float(x) for x in wins])
        found = _with_intervals(list(tables.values()))
        gain, share = found["win_logloss"], found["win_brier"]
        return (
            f"| {name} | {len(keys)} | {gain[0]:.2f} [{gain[1]:.2f}, {gain[2]:.2f}] "
            f"| {100 * share[0]:.0f} % [{100 * share[1]:.0f}, {100 * share[2]:.0f}] |"
        )

    yield "| experiments | number | gain in log loss ×100 by γ | better with γ |"
    yield "| --- | --- | --- | --- |"
    about = {k: listed[k] for k in gains if k in listed}
    cuts: dict[str, Any] = {
        "all": lambda k: True,
        "two classes": lambda k: about[k]["K"] == 2,
        "3 to 10 classes": lambda k: 3 <= about[k]["K"] <= 10,
        "more classes": lambda k: about[k]["K"] > 10,
        "up to 500 rows": lambda k: about[k]["n_cal"] <= 500,
        "501 to 2,000 rows": lambda k: 500 < about[k]["n_cal"] <= 2000,
        "more rows": lambda k: about[k]["n_cal"] > 2000,
        "accuracy below 80 %": lambda k: right[k] < 0.8,
        "accuracy 80 to 95 %": lambda k: 0.8 <= right[k] < 0.95,
        "accuracy from 95 %": lambda k: right[k] >= 0.95,
        "trained with focal loss": lambda k: bool(about[k].get("gamma")),
        "probabilities with zeros possible": lambda k: about[k]["kind"] == "probs",
    }
    for name, is_in in cuts.items():
        keys = [k for k in about if is_in(k)]
        if keys:
            yield line(name, keys)


def _draw(summary: dict[str, dict[str, dict[str, Any]]], path: Path) -> None:
    """Draw the win rates with their intervals, best first: whose bars overlap may be equals."""
    from matplotlib.figure import Figure

    groups = [g for g, rows in summary.items() if len(rows) > 1]
    figure = Figure(figsize=(4.2 * len(groups), 7), layout="constrained")
    for i, group in enumerate(groups):
        rows = list(summary[group].items())[:22]
        axes = figure.add_subplot(1, len(groups), i + 1)
        for y, (name, row) in enumerate(reversed(rows)):
            mean, low, high = row["win_logloss"]
            colour = "#c2410c" if name.startswith("focalibrate") else "#475569"
            axes.plot([low, high], [y, y], color=colour, lw=2)
            axes.plot(mean, y, "o", color=colour)
        axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)], fontsize=8)
        axes.set_xlabel("share of peers beaten by log loss")
        axes.set_title(group)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
