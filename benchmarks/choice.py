"""Which rule should choose the method? ``python -m benchmarks.choice ../shared/data/arena``.

Every experiment of the arena is cross-validated on its calibration rows by
`focalibrate.comparison.compare`; each rule chooses a method from the same scores, and that method
is scored on the test rows. A rule's excess log loss is the log loss of its choice − that of the
method that is best on the test rows. A simulation adds models whose true probabilities are known;
there the excess is over the true probabilities. An interrupted run resumes; table.md, which the
docs include, is written from the rows.
"""

import argparse
import csv
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from benchmarks.arena import LEAST, listing, load  # noqa: E402
from focalibrate.calibrate import log_probabilities, read_scores  # noqa: E402
from focalibrate.comparison import Comparison, MethodResult, choose, compare  # noqa: E402
from focalibrate.comparison.paired import standard_error  # noqa: E402

Floats = NDArray[np.float64]

FOLDER = Path(__file__).parents[1] / "results" / "choice"
COLUMNS = ("source", "name", "n", "K", "seed", "rule", "method", "logloss", "best", "excess")
SIZES = ((0, 300), (300, 1000), (1000, 10**9))
"""Rows that an experiment is calibrated on: the groups of the table."""
SIMULATED_ROWS, TEMPERATURES, DRAWS, TEST_ROWS = (200, 1000), (1.0, 1.25, 2.0), 40, 20_000


def keep(comparison: Comparison) -> str:
    """Return the uncalibrated model, always."""
    return "identity"


def not_told_apart(comparison: Comparison) -> str:
    """Return the simplest method that is not significantly worse than the best."""
    rows, values = _candidates(comparison)
    best = int(values.mean(axis=0).argmin())
    gap = values - values[:, [best]]
    near = gap.mean(axis=0) - 1.96 * standard_error(gap, None) <= 0
    return min((row for row, n in zip(rows, near, strict=True) if n), key=_simple).method


def one_standard_error(comparison: Comparison) -> str:
    """Return the simplest method within one standard error of the lowest score."""
    rows, values = _candidates(comparison)
    best = int(values.mean(axis=0).argmin())
    gap = values - values[:, [best]]
    near = gap.mean(axis=0) <= standard_error(gap, None)
    near[best] = True
    return min((row for row, n in zip(rows, near, strict=True) if n), key=_simple).method


def one_standard_error_no_pool(comparison: Comparison) -> str:
    """Return the same among single methods."""
    rows = tuple(row for row in comparison.rows if row.method != "pool")
    return one_standard_error(replace(comparison, rows=rows))


def pool_if_clear(comparison: Comparison) -> str:
    """Return the pool if it is clearly better than the model (one-sided, 10 % level)."""
    if "pool" not in {row.method for row in comparison.rows}:
        return lowest(comparison)
    gap = comparison.row("identity").row_scores.nll - comparison.row("pool").row_scores.nll
    if not np.isfinite(gap).all():
        return "pool"
    clear = gap.mean() > 1.28 * float(standard_error(gap, None))
    return "pool" if clear else "identity"


def chosen(comparison: Comparison) -> str:
    """Return what `choose` does."""
    return choose(comparison).row.method


def chosen_without_pool(comparison: Comparison) -> str:
    """Return what `choose` does among single methods."""
    return choose(comparison, simple=True).row.method


def lowest(comparison: Comparison) -> str:
    """Return the method with the lowest cross-validated log loss."""
    rows, values = _candidates(comparison)
    return rows[int(values.mean(axis=0).argmin())].method


RULES: dict[str, Callable[[Comparison], str]] = {
    "keep the model": keep,
    "simplest not significantly worse than the lowest (release 0.1)": not_told_apart,
    "simplest within one standard error": one_standard_error,
    "the same without the pool": one_standard_error_no_pool,
    "lowest score": lowest,
    "pool if clearly better than the model": pool_if_clear,
    "`choose`": chosen,
    "`choose(simple=True)`": chosen_without_pool,
}


def _simple(row: MethodResult) -> int:
    return row.complexity


def _candidates(comparison: Comparison) -> tuple[list[MethodResult], Floats]:
    """Return the methods with a finite cross-validated log loss, and the log loss of each row."""
    rows = [row for row in comparison.rows if not row.row_scores.n_zeros]
    rows = rows or list(comparison.rows)
    return rows, np.stack([np.minimum(row.row_scores.nll, -LEAST) for row in rows], axis=1)


def log_loss(row: MethodResult, logits: Floats, labels: NDArray[np.intp]) -> float:
    """Return the log loss of a method on held-out rows; a probability of 0 counts as LEAST."""
    found = np.asarray(row.calibrator.log_probs(logits), np.float64)
    return float(-np.maximum(found[np.arange(len(labels)), labels], LEAST).mean())


def picked(
    cal: Floats,
    labels: NDArray[np.intp],
    test: Floats,
    test_labels: NDArray[np.intp],
    *,
    gamma: float | None = None,
    truth: float | None = None,
) -> list[dict[str, Any]]:
    """Return the choice of each rule, and its log loss on the test rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        comparison = compare(cal, labels, trained_gamma=gamma, n_resamples=10)
        losses = {row.method: log_loss(row, test, test_labels) for row in comparison.rows}
    best = min(losses.values()) if truth is None else truth
    found = []
    for name, rule in RULES.items():
        method = rule(comparison)
        excess = losses[method] - best
        found.append(
            {
                "rule": name,
                "method": method,
                "logloss": round(losses[method], 6),
                "best": round(best, 6),
                "excess": round(excess, 6),
            }
        )
    return found


def run_arena(source: Path, path: Path, *, subset: bool) -> None:
    """Add the experiments that the file lacks."""
    known = {row["name"] for row in read(path) if row["source"] == "arena"}
    for about in listing(source):
        name = f"{about['table']}/{about['model']}"
        if name in known or (subset and not about["subset"]):
            continue
        experiment = load(source, about)
        is_probs = about["kind"] == "probs"
        cal = {"probs" if is_probs else "logits": experiment.cal}
        rows = read_scores(labels=experiment.cal_labels, **cal)
        test = log_probabilities(experiment.test, rows.zero_mix) if is_probs else experiment.test
        found = picked(
            rows.logits, rows.labels, np.asarray(test, np.float64), experiment.test_labels,
            gamma=about.get("gamma") or None,
        )  # fmt: skip
        shared = {
            "source": "arena",
            "name": name,
            "n": rows.n_rows,
            "K": rows.n_classes,
            "seed": 0,
        }
        append(path, [shared | row for row in found])
        print(name, rows.n_rows, rows.n_classes, flush=True)


def run_simulation(path: Path, *, draws: int) -> None:
    """Add models of ten classes that are overconfident by a known temperature."""
    known = {
        (r["name"], int(r["n"]), int(r["seed"])) for r in read(path) if r["source"] != "arena"
    }
    for seed in range(draws):
        for temperature in TEMPERATURES:
            for n in SIMULATED_ROWS:
                name = f"T={temperature:g}"
                if (name, n, seed) in known:
                    continue
                rng = np.random.default_rng([int(100 * temperature), n, seed])
                truth = 2.0 * rng.normal(size=(n + TEST_ROWS, 10))
                labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
                own = truth - np.log(np.exp(truth).sum(axis=1, keepdims=True))
                exact = float(-own[np.arange(n, len(own)), labels[n:]].mean())
                scores = temperature * truth
                found = picked(scores[:n], labels[:n], scores[n:], labels[n:], truth=exact)
                shared = {"source": "simulated", "name": name, "n": n, "K": 10, "seed": seed}
                append(path, [shared | row for row in found])
        print("simulated", seed, flush=True)


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows written so far."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(rows)


def write_table(folder: Path) -> None:
    """Write table.md from the rows."""
    rows = read(folder / "results.csv")
    lines = _table(
        "Mean excess log loss on the arena, by rows calibrated on",
        {
            f"{low:,} to {high - 1:,} rows" if high < 10**9 else f"{low:,} rows or more": [
                r for r in rows if r["source"] == "arena" and low <= int(r["n"]) < high
            ]
            for low, high in SIZES
        }
        | {"all": [r for r in rows if r["source"] == "arena"]},
    )
    cells: dict[str, list[dict[str, str]]] = {}
    for n in SIMULATED_ROWS:
        for temperature in TEMPERATURES:
            name = f"T={temperature:g}"
            cells[f"{n:,} rows, {name}"] = [
                r
                for r in rows
                if r["source"] == "simulated" and r["name"] == name and int(r["n"]) == n
            ]
    lines += ["", *_table("Mean excess log loss over the true probabilities, simulated", cells)]
    (folder / "table.md").write_text("\n".join(lines) + "\n")


def _table(title: str, columns: dict[str, list[dict[str, str]]]) -> list[str]:
    names = {h: {(r["name"], r["n"], r["seed"]) for r in rows} for h, rows in columns.items()}
    count = {heading: len(found) for heading, found in names.items()}
    measured = {row["rule"] for rows in columns.values() for row in rows}
    lines = [
        f"{title} (number of experiments in brackets; lower is better):",
        "",
        "| rule | " + " | ".join(f"{h} ({count[h]})" for h in columns) + " |",
        "|-" * (1 + len(columns)) + "|",
    ]
    for rule in [rule for rule in RULES if rule in measured]:
        excess: dict[str, list[float]] = defaultdict(list)
        for heading, rows in columns.items():
            excess[heading] = [float(r["excess"]) for r in rows if r["rule"] == rule]
        means = (f"{np.mean(excess[h]):.4f}" if excess[h] else "–" for h in columns)
        lines.append(f"| {rule} | " + " | ".join(means) + " |")
    return lines


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="the arena's folder, with manifest.json")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results are kept")
    parser.add_argument("--all", action="store_true", help="run every experiment, not the subset")
    parser.add_argument(
        "--draws", type=int, default=DRAWS, help="repetitions of each simulated setting"
    )
    parser.add_argument("--table-only", action="store_true", help="only write table.md")
    arguments = parser.parse_args()
    path = arguments.folder / "results.csv"
    if not arguments.table_only:
        run_arena(arguments.source, path, subset=not arguments.all)
        run_simulation(path, draws=arguments.draws)
    write_table(arguments.folder)


if __name__ == "__main__":
    main()
