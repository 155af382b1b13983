"""Do the intervals cover, and does the test keep its level? ``python -m benchmarks.coverage``.

Samples are drawn repeatedly from models whose true probabilities are known: one that reports them,
one whose logits are 1.3 times too large, and one that has less information but is calibrated.
Every setting is a JSON file in results/coverage, so that an interrupted run resumes; a file of
another `PROTOCOL` is started again. table.md, which the docs include, is written from those files.
Every 50 repetitions have their own seed, so that the same command gives the same counts.
"""

import argparse
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstest

from benchmarks._study import markdown, write_json
from focalibrate.metrics import METRICS, Interval, assess
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.residuals import BINS, positions, ranks
from focalibrate.metrics.scores import bootstrap_mean

FOLDER = Path(__file__).parents[1] / "results" / "coverage"
PROTOCOL = 3
"""Increased when the simulation changes, so that no table mixes two versions."""
CLASSES, SIZES = (2, 10, 100), (300, 2000, 20_000)
POOL = 60_000
SHARPNESS = 1.3
RESAMPLES = 200
DRAWS = 199
FLOORS: tuple[MetricName, ...] = ("ece", "adaptive_ece", "classwise_ece", "smooth_ece", "mce")
BATCH = 50
"""Repetitions after which the time is checked and the file is written."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Model:
    """A model's probabilities for every row of a pool, and its true scores."""

    probs: Floats
    gap: float
    rms: float
    scores: dict[str, float]

    @classmethod
    def of(cls, probs: Floats, posterior: Floats) -> "Model":
        """Return the model of `probs`; labels are drawn from `posterior`."""
        at = (np.arange(len(probs)), probs.argmax(axis=1))
        accuracy = posterior[at]
        stated, true = (
            (probs[at], accuracy) if probs.shape[1] > 2 else (probs[:, 1], posterior[:, 1])
        )
        index = _equal_mass(stated, BINS)
        size = np.bincount(index, minlength=BINS)
        gap = np.bincount(index, stated - true, BINS) / size
        square = (probs**2).sum(axis=1)
        scores = {
            "nll": float(-(posterior * np.log(probs)).sum(axis=1).mean()),
            "brier": float((square - 2 * (posterior * probs).sum(axis=1) + 1.0).mean()),
            "error": float(1.0 - accuracy.mean()),
        }
        rms = math.sqrt(float(size @ gap**2) / len(probs))
        return cls(probs, float((stated - true).mean()), rms, scores)


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows to draw from."""

    n_classes: int
    cumulative: Floats
    """cumulative posterior of row i, plus i, one row after the other: sorted"""
    models: dict[str, Model]

    @classmethod
    def of(cls, n_classes: int) -> "Pool":
        """Return rows of `n_classes` classes: the truth, and three models of it."""
        rng = np.random.default_rng(n_classes)
        logits = (2.0 if n_classes < 100 else 3.0) * rng.normal(size=(POOL, n_classes))
        truth = _softmax(logits)
        # less information: rows that noise makes look alike get the mean of their probabilities
        seen = logits.max(axis=1) + rng.normal(size=POOL) + 10.0 * truth.argmax(axis=1)
        group = _equal_mass(seen, 1000)
        means = np.stack([np.bincount(group, column, 1000) for column in truth.T], axis=1)
        means /= means.sum(axis=1, keepdims=True)
        cumulative = np.cumsum(truth, axis=1)
        cumulative[:, -1] = 1.0
        probs = {"exact": truth, "sharp": _softmax(SHARPNESS * logits), "coarse": means[group]}
        return cls(
            n_classes,
            (cumulative + np.arange(POOL)[:, None]).reshape(-1),
            {name: Model.of(p, truth) for name, p in probs.items()},
        )

    def draw(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return `n` rows of the pool, and labels drawn from their posterior."""
        rows = rng.integers(POOL, size=n)
        flat = np.searchsorted(self.cumulative, rows + rng.random(n))
        return rows, np.clip(flat - rows * self.n_classes, 0, self.n_classes - 1)


def _equal_mass(value: Floats, n_bins: int) -> NDArray[np.intp]:
    """Return which of `n_bins` bins of equally many rows each row falls in."""
    order = np.argsort(value)
    rank = np.empty(len(value), dtype=np.intp)
    rank[order] = ranks(positions(value[order], np.ones(len(value))), n_bins)
    return rank


def _softmax(x: Floats) -> Floats:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def repetition(pool: Pool, n: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the outcomes for one sample of `n` rows: 1 if a test rejects, an interval covers."""
    rows, labels = pool.draw(n, rng)
    found: dict[str, float] = {}
    for name in ("exact", "sharp"):
        model = pool.models[name]
        probs = model.probs[rows]
        seen = assess(probs, labels, n_draws=DRAWS, seed=rng)
        found[f"{name} gap"] = holds(seen.gap, model.gap)
        found[f"{name} rms"] = holds(seen.rms, model.rms)
        if seen.slope is not None and name == "exact":
            found["exact slope"] = holds(seen.slope, 1.0)
        if name == "exact":
            found["size"] = float(seen.p_value <= 0.05)
            for metric in FLOORS:
                # of two classes the floor is that of the probability of class 1
                is_event = pool.n_classes == 2 and metric != "classwise_ece"
                options = {"event": 1} if is_event else {}
                value = METRICS[metric].function(probs, labels, **options)
                floor = seen.noise_floor[metric]
                found[f"{metric} below q95"] = float(value <= floor.q95 + 1e-12)
                found[f"{metric} below median"] = float(value <= floor.median + 1e-12)
    for name, interval in _score_intervals(pool.models["sharp"], rows, labels, rng).items():
        found[name] = holds(interval, pool.models["sharp"].scores[name])
    return found


def _score_intervals(
    model: Model, rows: NDArray[np.intp], labels: NDArray[np.intp], rng: np.random.Generator
) -> dict[str, Interval]:
    """Return the bootstrap intervals of the proper scores."""
    probs = model.probs[rows]
    return {
        name: bootstrap_mean(_terms(name)(probs, labels), n_resamples=RESAMPLES, seed=rng)
        for name, metric in METRICS.items()
        if metric.has_interval
    }


def _terms(name: MetricName) -> Callable[..., Floats]:
    rows = METRICS[name].rows
    assert rows is not None
    return rows


def holds(interval: Interval, truth: float) -> float:
    """Return 1 if the interval covers the truth."""
    # a calibrated model's lower limit is exactly 0, and rounding must not exclude the truth
    return float(interval.low - 1e-12 <= truth <= interval.high + 1e-12)


def run_setting(pool: Pool, folder: Path, n: int, reps: int) -> None:
    """Add repetitions to a setting's file until it has `reps`."""
    n_classes = pool.n_classes
    path = folder / f"k{n_classes}-n{n}.json"
    record = _begun(path) or {"protocol": PROTOCOL, "reps": 0, "held": {}}
    while record["reps"] < reps:
        rng = np.random.default_rng([n_classes, n, record["reps"]])
        for _ in range(min(BATCH, reps - record["reps"])):
            for key, value in repetition(pool, n, rng).items():
                record["held"][key] = record["held"].get(key, 0) + round(value)
            record["reps"] += 1
        write_json(path, record)
        print(f"{path.stem}: {record['reps']} of {reps}", flush=True)


def run_uniform(pool: Pool, folder: Path, reps: int, *, n: int = 300) -> None:
    """Collect p-values of calibrated models."""
    path = folder / "uniform.json"
    record = _begun(path) or {"protocol": PROTOCOL, "n": n, "p": []}
    while len(record["p"]) < reps:
        rng = np.random.default_rng([7, n, len(record["p"])])
        for _ in range(500):
            rows, labels = pool.draw(n, rng)
            seen = assess(pool.models["exact"].probs[rows], labels, n_draws=DRAWS, seed=rng)
            record["p"].append(round(seen.p_value, 4))
        write_json(path, record)
        print(f"uniform: {len(record['p'])} of {reps}", flush=True)


def _begun(path: Path) -> dict[str, Any] | None:
    """Return what an earlier run of this protocol wrote; None if there is nothing."""
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return record if record.get("protocol") == PROTOCOL else None


COLUMNS = {
    "size of the test": "size",
    "gap, calibrated": "exact gap",
    "gap, too sharp": "sharp gap",
    "RMS, calibrated": "exact rms",
    "RMS, too sharp": "sharp rms",
    "slope, calibrated": "exact slope",
    "log loss": "nll",
    "Brier": "brier",
    "error": "error",
}


def write_table(folder: Path) -> None:
    """Write table.md from the files of the settings."""
    done: dict[tuple[int, int], dict[str, Any]] = {}
    for n_classes in CLASSES:
        for n in SIZES:
            record = _begun(folder / f"k{n_classes}-n{n}.json")
            if record is not None:
                done[n_classes, n] = record
    parts = [_table(COLUMNS, done)]
    uniform = _begun(folder / "uniform.json")
    if uniform is not None:
        p = np.array(uniform["p"])
        # p-values are multiples of 1/200: spread each over its step before testing
        rng = np.random.default_rng(0)
        found = kstest(p - rng.random(len(p)) / (DRAWS + 1), "uniform")
        parts.append(
            f"p-values of {len(p):,} calibrated models (10 classes, 300 rows) against the "
            f"uniform distribution: Kolmogorov–Smirnov p = {found.pvalue:.2f}.\n"
        )
    parts.append(
        "Fraction of calibrated models whose calibration error is at most the stated 95 % "
        "quantile of the noise floor (in brackets: at most its median):\n"
    )
    floors = {METRICS[name].heading.removesuffix(" %"): name for name in FLOORS}
    (folder / "table.md").write_text("\n".join([*parts, _table(floors, done)]))


def _table(columns: Mapping[str, str], records: Mapping[tuple[int, int], dict[str, Any]]) -> str:
    """Return one line per setting; the columns are fractions of its repetitions."""

    def share(key: str, held: dict[str, int], reps: int) -> str:
        if key in held:
            return f"{held[key] / reps:.3f}"
        below = (held[f"{key} below {part}"] / reps for part in ("q95", "median"))
        return "{:.3f} ({:.2f})".format(*below)

    body = []
    for (n_classes, n), record in records.items():
        reps = record["reps"]
        shares = [share(key, record["held"], reps) for key in columns.values()]
        body.append((n_classes, f"{n:,}", f"{reps:,}", *shares))
    return markdown(("classes", "rows", "repetitions", *columns), body)


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=1000, help="repetitions per setting")
    parser.add_argument("--uniform", type=int, default=10_000, help="p-values for uniformity")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results are kept")
    parser.add_argument("--table-only", action="store_true", help="only write table.md")
    arguments = parser.parse_args()
    if not arguments.table_only:
        for n in SIZES:
            for n_classes in CLASSES:
                pool = Pool.of(n_classes)
                run_setting(pool, arguments.folder, n, arguments.reps)
                if n_classes == 10 and n == 300:
                    run_uniform(pool, arguments.folder, arguments.uniform)
    write_table(arguments.folder)


if __name__ == "__main__":
    main()
