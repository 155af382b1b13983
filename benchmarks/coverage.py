"""Do the intervals cover, and does the test keep its level? ``python -m benchmarks.coverage``.

Models whose true probabilities are known are drawn again and again: one that states them,
one that is 1.3 times too sharp, and one that knows less but is calibrated. Every setting is
a JSON file under results/coverage, so that a run that was stopped goes on where it was;
table.md, which the docs include, is written from those files.
"""

import argparse
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstest

from focalibrate.metrics import INTERVAL_METRICS, METRICS, BootstrapInterval
from focalibrate.metrics._cells import BINS, equal_mass_ranks
from focalibrate.metrics._intervals import gap_interval, rms_interval
from focalibrate.metrics._null import draw_residuals
from focalibrate.metrics.assessment import cells_of, multi_scale_test, seen_by
from focalibrate.metrics.bootstrap import interval_of
from focalibrate.metrics.difference import difference_of_rows

FOLDER = Path(__file__).parents[1] / "results" / "coverage"
CLASSES, SIZES = (2, 10, 100), (300, 2000, 20_000)
POOL = 60_000
SHARPNESS = 1.3
RESAMPLES = 200
BATCH = 50
"""Repetitions between two looks at the clock, and two writings of the file."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """Rows to draw from, with the truth of each model's errors."""

    posterior: Floats
    probs: dict[str, Floats]

    @classmethod
    def of(cls, n_classes: int) -> "Pool":
        """Return rows of `n_classes` classes: the truth, and three models of it."""
        rng = np.random.default_rng(n_classes)
        logits = (2.0 if n_classes < 100 else 3.0) * rng.normal(size=(POOL, n_classes))
        truth = _softmax(logits)
        # knows less: rows that look alike through noise get the mean of their probabilities
        seen = logits.max(axis=1) + rng.normal(size=POOL) + 10.0 * truth.argmax(axis=1)
        group = equal_mass_ranks(seen, None, 1000)
        means = np.stack([np.bincount(group, column, 1000) for column in truth.T], axis=1)
        means /= means.sum(axis=1, keepdims=True)
        return cls(
            truth,
            {"exact": truth, "sharp": _softmax(SHARPNESS * logits), "coarse": means[group]},
        )

    def truth_of(self, model: str) -> tuple[float, float]:
        """Return the true confidence gap and root-mean-square error of `model`."""
        probs = self.probs[model]
        at = (np.arange(POOL), probs.argmax(axis=1))
        confidence, accuracy = probs[at], self.posterior[at]
        index = equal_mass_ranks(confidence, None, BINS)
        size = np.bincount(index, minlength=BINS)
        gap = np.bincount(index, confidence - accuracy, BINS) / size
        rms = math.sqrt(float(size @ gap**2) / POOL)
        return float((confidence - accuracy).mean()), rms

    def draw(
        self, n: int, rng: np.random.Generator
    ) -> tuple[dict[str, Floats], NDArray[np.intp], NDArray[np.intp]]:
        """Return `n` rows of every model, with labels drawn from the truth, and which rows."""
        rows = rng.integers(POOL, size=n)
        cumulative = np.cumsum(self.posterior[rows], axis=1)
        labels = (rng.random((n, 1)) > cumulative[:, :-1]).sum(axis=1)
        return {name: p[rows] for name, p in self.probs.items()}, labels, rows


def _softmax(x: Floats) -> Floats:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def repetition(
    pool: Pool, n: int, rng: np.random.Generator, *, n_draws: int, with_scores: bool
) -> dict[str, float]:
    """Return what one sample of `n` rows says: p-value, and 1 where an interval covers."""
    models, labels, _ = pool.draw(n, rng)
    found: dict[str, float] = {}
    tops = {}
    for name in ("exact", "sharp"):
        probs = models[name]
        cells, views = cells_of(probs, labels, None)
        gap, rms = pool.truth_of(name) if name not in _TRUTH else _TRUTH[name]
        seen = seen_by(cells, views[0])
        found[f"{name} gap"] = _holds(gap_interval(seen), gap)
        found[f"{name} rms"] = _holds(rms_interval(seen.binned(views[0].bin, BINS)), rms)
        if name == "exact":
            drawn = draw_residuals(cells, n_draws, rng)
            found["p"] = multi_scale_test(cells, views, drawn).p_value
    for name, probs in models.items():
        top = probs.argmax(axis=1)
        tops[name] = (probs[np.arange(n), top], top == labels)
    one = np.ones(n)
    same = difference_of_rows(*tops["exact"], *tops["coarse"], one)
    found["told apart"] = float(same.low > 0 or same.high < 0)
    other = difference_of_rows(*tops["sharp"], *tops["coarse"], one)
    found["rms difference"] = _holds(other, _TRUTH["sharp"][1] - _TRUTH["coarse"][1])
    found["sharp told from coarse"] = float(other.low > 0)
    if with_scores:
        for name, interval in _score_intervals(models["sharp"], labels, rng).items():
            found[name] = _holds(interval, _TRUTH[name][0])
    return found


def _score_intervals(
    probs: Floats, labels: NDArray[np.intp], rng: np.random.Generator
) -> dict[str, BootstrapInterval]:
    """Return the bootstrap intervals of the proper scores, all from the same resamples."""
    rows = {name: METRICS[name].rows for name in INTERVAL_METRICS}
    values = np.stack([terms(probs, labels) for terms in rows.values() if terms], axis=1)
    n = len(labels)
    replicates = np.stack(
        [
            np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64) @ values / n
            for _ in range(RESAMPLES)
        ]
    )
    return {
        name: interval_of(replicates[:, i], float(values[:, i].mean()))
        for i, name in enumerate(rows)
    }


_TRUTH: dict[str, tuple[float, float]] = {}
"""True (gap, rms) of the models and (value, 0) of the scores, for the current pool."""


def _holds(interval: object, truth: float) -> float:
    # a calibrated model's lower limit is 0 itself, and rounding must not push the truth out
    return float(interval.low - 1e-12 <= truth <= interval.high + 1e-12)  # type: ignore[attr-defined]


def set_truth(pool: Pool) -> None:
    """Compute the true values of a pool."""
    _TRUTH.clear()
    for name in pool.probs:
        _TRUTH[name] = pool.truth_of(name)
    truth, probs = pool.posterior, pool.probs["sharp"]
    _TRUTH["nll"] = (float(-(truth * np.log(probs)).sum(axis=1).mean()), 0.0)
    brier = (probs**2).sum(axis=1) - 2 * (truth * probs).sum(axis=1) + 1.0
    _TRUTH["brier"] = (float(brier.mean()), 0.0)
    _TRUTH["error"] = (float(1 - truth[np.arange(POOL), probs.argmax(axis=1)].mean()), 0.0)


def run_setting(pool: Pool, n_classes: int, n: int, reps: int) -> None:
    """Add repetitions to a setting's file until it has `reps`."""
    path = FOLDER / f"k{n_classes}-n{n}.json"
    record = json.loads(path.read_text()) if path.exists() else {"reps": 0, "held": {}}
    while record["reps"] < reps:
        rng = np.random.default_rng([n_classes, n, record["reps"]])
        for _ in range(min(BATCH, reps - record["reps"])):
            values = repetition(pool, n, rng, n_draws=999, with_scores=True)
            values["size"] = float(values.pop("p") <= 0.05)
            for key, value in values.items():
                record["held"][key] = record["held"].get(key, 0) + round(value)
            record["reps"] += 1
        _write(path, record)
        print(f"{path.stem}: {record['reps']} of {reps}", flush=True)


def run_uniform(pool: Pool, reps: int, *, n: int = 300) -> None:
    """Collect p-values of calibrated models; the draws are fewer, as only their law matters."""
    path = FOLDER / "uniform.json"
    record = json.loads(path.read_text()) if path.exists() else {"n": n, "p": []}
    while len(record["p"]) < reps:
        rng = np.random.default_rng([7, n, len(record["p"])])
        for _ in range(500):
            models, labels, _ = pool.draw(n, rng)
            cells, views = cells_of(models["exact"], labels, None)
            test = multi_scale_test(cells, views, draw_residuals(cells, 499, rng))
            record["p"].append(round(test.p_value, 4))
        _write(path, record)
        print(f"uniform: {len(record['p'])} of {reps}", flush=True)


def _write(path: Path, record: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=1 if "held" in record else None) + "\n")
    part.replace(path)


COLUMNS = {
    "size of the test": "size",
    "gap, calibrated": "exact gap",
    "gap, too sharp": "sharp gap",
    "RMS, calibrated": "exact rms",
    "RMS, too sharp": "sharp rms",
    "RMS difference": "rms difference",
    "log loss": "nll",
    "Brier": "brier",
    "error": "error",
    "calibrated models told apart": "told apart",
}


def write_table() -> None:
    """Write table.md from the files of the settings."""
    lines = [
        "| classes | rows | repetitions | " + " | ".join(COLUMNS) + " |",
        "|-" * (3 + len(COLUMNS)) + "|",
    ]
    for n_classes in CLASSES:
        for n in SIZES:
            path = FOLDER / f"k{n_classes}-n{n}.json"
            if not path.exists():
                continue
            record = json.loads(path.read_text())
            cells = [str(n_classes), f"{n:,}", f"{record['reps']:,}"]
            cells += [f"{record['held'][key] / record['reps']:.3f}" for key in COLUMNS.values()]
            lines.append("| " + " | ".join(cells) + " |")
    uniform = FOLDER / "uniform.json"
    if uniform.exists():
        p = np.array(json.loads(uniform.read_text())["p"])
        # p-values are multiples of 1/500: spread each over its step before asking
        rng = np.random.default_rng(0)
        found = kstest(p - rng.random(len(p)) / 500, "uniform")
        lines += [
            "",
            f"p-values of {len(p):,} calibrated models (10 classes, 300 rows) against the "
            f"uniform law: Kolmogorov–Smirnov p = {found.pvalue:.2f}.",
        ]
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=1000, help="repetitions per setting")
    parser.add_argument("--uniform", type=int, default=10_000, help="p-values for uniformity")
    parser.add_argument("--table-only", action="store_true", help="only write table.md")
    arguments = parser.parse_args()
    if not arguments.table_only:
        for n in SIZES:
            for n_classes in CLASSES:
                pool = Pool.of(n_classes)
                set_truth(pool)
                run_setting(pool, n_classes, n, arguments.reps)
                if n_classes == 10 and n == 300:
                    run_uniform(pool, arguments.uniform)
    write_table()


if __name__ == "__main__":
    main()
