"""Focal boosting: the cost of an objective call, and the effect of recovery on real tables.

`python -m benchmarks boosting` times the objective. `python -m benchmarks.boosting TABLES -o
results/boosting` trains on the tables in a folder (`X`, `y` in .npz files) and on simulated data
with a known posterior, and writes rows.csv, summary.json and tables.md. An interrupted run
resumes.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.special import softmax
from sklearn.metrics import average_precision_score, recall_score
from sklearn.model_selection import train_test_split

from benchmarks._study import Record, markdown, run_missing, write_made
from benchmarks._timing import Row, compare, interleave
from focalibrate.boosting import FocalBoostingClassifier, focal_derivatives
from focalibrate.metrics import adaptive_ece, nll

GAMMAS = (0.0, 2.0)
ROUNDS = (5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 200)
FIXED = 120  # the result without early stopping
RARE = 0.1
"""Fraction below which the smallest class of a table counts as rare."""
COLUMNS = (
    "table",
    "library",
    "gamma",
    "curvature",
    "seed",
    "n_test",
    "n_classes",
    "rare_share",
    "rounds",
    "nll_raw",
    "nll",
    "adaptive_ece_raw",
    "adaptive_ece",
    "rare_recall",
    "rare_average_precision",
    "nll_raw_fixed",
    "nll_fixed",
    "kl_raw",
    "kl",
)


def softmax_objective(margins: Any, labels: Any) -> tuple[Any, Any]:
    """Gradient and curvature of the log loss, as plain NumPy code."""
    v = np.exp(margins - margins.max(axis=1, keepdims=True))
    v /= v.sum(axis=1, keepdims=True)
    curvature = v * (1.0 - v)
    v[np.arange(len(v)), labels] -= 1.0
    return v, curvature


def run() -> list[Row]:
    """Time an objective call against the same in NumPy for the log loss."""
    rows = []
    rng = np.random.default_rng(0)
    for n, k in ((100_000, 3), (20_000, 20)):
        z, y = rng.normal(size=(n, k)) * 2, rng.integers(k, size=n)
        seconds = interleave(
            {
                "focal": lambda z=z, y=y: focal_derivatives(z, y, 2.0),
                "softmax": lambda z=z, y=y: softmax_objective(z, y),
            }
        )
        name = f"focal objective {n:,}x{k}"
        rows.append(
            compare(name, seconds, ours="focal", peer="softmax", bar=2.0, note="NumPy, one call")
        )
    return rows


def simulated(n: int, seed: int) -> tuple[Any, Any, Any]:
    """Three classes, two inputs, a smooth posterior that is known."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 2))
    scores = np.stack([np.cos((i + 1) * x[:, 0]) + 0.6 * i * x[:, 1] for i in range(3)], axis=1)
    eta = softmax(scores, axis=1)
    return x, (np.log(eta) + rng.gumbel(size=eta.shape)).argmax(axis=1), eta


def margins_after(model: FocalBoostingClassifier, x: Any, rounds: int) -> Any:
    """Return the margins of the first `rounds` trees."""
    if model.library == "xgboost":
        data = import_module("xgboost").DMatrix(x)
        return model.booster_.predict(data, output_margin=True, iteration_range=(0, rounds))
    if model.library == "lightgbm":
        return model.booster_.predict(x, raw_score=True, num_iteration=rounds)
    return model.booster_.predict(x, prediction_type="RawFormulaVal", ntree_end=rounds)


def raw_and_recovered(model: FocalBoostingClassifier, x: Any, rounds: int) -> tuple[Any, Any]:
    """Return the softmax of the margins, and the probabilities recovered from them."""
    margins = np.asarray(margins_after(model, x, rounds), dtype=float)
    both = margins if margins.ndim == 2 else np.stack([np.zeros_like(margins), margins], axis=1)
    return softmax(both, axis=1), model.objective_.probs(margins)


def measure(
    x: Any, y: Any, eta: Any, library: str, gamma: float, curvature: str, seed: int
) -> list[Any]:
    """Train on half of the rows, stop on 15 % by log loss, and measure on the other 35 %.

    Early stopping uses the log loss of the probabilities that are evaluated: once the raw ones,
    once the recovered ones. `nll_fixed` is without early stopping, after 120 rounds.
    """
    index = np.arange(len(y))
    train, rest = train_test_split(index, test_size=0.5, random_state=seed, stratify=y)
    stop, test = train_test_split(rest, test_size=0.7, random_state=seed, stratify=y[rest])
    model = FocalBoostingClassifier(
        library,
        gamma=gamma,
        curvature=curvature,
        n_estimators=ROUNDS[-1],
        n_jobs=1,
        random_state=seed,
    ).fit(x[train], y[train])
    labels = np.searchsorted(model.classes_, y)
    counts = np.bincount(labels)
    rare = int(counts.argmin())
    tried = {
        r: [nll(p, labels[stop]) for p in raw_and_recovered(model, x[stop], r)] for r in ROUNDS
    }
    best_raw, best = (min(ROUNDS, key=lambda r, i=i: tried[r][i]) for i in range(2))
    raw = raw_and_recovered(model, x[test], best_raw)[0]
    probs = raw_and_recovered(model, x[test], best)[1]
    fixed = raw_and_recovered(model, x[test], FIXED)
    hit = labels[test] == rare
    found: dict[str, Any] = {
        "n_test": len(test),
        "n_classes": len(counts),
        "rare_share": counts[rare] / counts.sum(),
        "rounds": best,
        "nll_raw": nll(raw, labels[test]),
        "nll": nll(probs, labels[test]),
        "adaptive_ece_raw": adaptive_ece(raw, labels[test]),
        "adaptive_ece": adaptive_ece(probs, labels[test]),
        "rare_recall": float(recall_score(hit, probs.argmax(axis=1) == rare)),
        "rare_average_precision": average_precision_score(hit, probs[:, rare]),
        "nll_raw_fixed": nll(fixed[0], labels[test]),
        "nll_fixed": nll(fixed[1], labels[test]),
        "kl_raw": None,
        "kl": None,
    }
    if eta is not None:
        truth = eta[test]
        found["kl_raw"], found["kl"] = (
            float(np.mean(np.sum(truth * (np.log(truth) - np.log(p)), axis=1)))
            for p in (raw, probs)
        )
    return [round(v, 6) if isinstance(v, float) else v for v in found.values()]


def summary(rows: list[Record]) -> list[dict[str, Any]]:
    """Return, per library and curvature, focal loss against the log loss, table by table.

    A difference is a mean over tables, each the mean of its seeds, with a 95 % interval from
    resampling the tables; `lower` counts the tables where it is below 0.
    """
    found = []
    base = {(r["table"], r["library"], r["seed"]): r for r in rows if float(r["gamma"]) == 0}
    kinds = sorted({_kind(r) for r in rows if float(r["gamma"]) > 0})
    for kind in kinds:
        pairs = [
            (r, base[key])
            for r in rows
            if _kind(r) == kind
            and float(r["gamma"]) > 0
            and not r["table"].startswith("simulated")
            and (key := (r["table"], r["library"], r["seed"])) in base
        ]
        if not pairs:
            continue
        rare = [(r, b) for r, b in pairs if float(r["rare_share"]) < RARE]
        found.append(
            {
                "library": kind[0],
                "classes": kind[1],
                "curvature": kind[2],
                "tables": len({r["table"] for r, _ in pairs}),
                "tables_with_rare_class": len({r["table"] for r, _ in rare}),
                "nll_raw": _gain(pairs, "nll_raw", "nll"),
                "nll_recovered": _gain(pairs, "nll", "nll"),
                "nll_recovered_without_stopping": _gain(pairs, "nll_fixed", "nll_fixed"),
                "rare_recall": _gain(rare, "rare_recall", "rare_recall"),
                "rare_average_precision": _gain(
                    rare, "rare_average_precision", "rare_average_precision"
                ),
            }
        )
    return found


def _kind(row: Record) -> tuple[str, str, str]:
    return row["library"], "2" if row["n_classes"] == "2" else "3 to 26", row["curvature"]


def _gain(pairs: list[tuple[Record, Record]], key: str, other: str) -> Any:
    tables = sorted({r["table"] for r, _ in pairs})
    if not tables:
        return None
    each = np.array(
        [
            np.mean([float(r[key]) - float(b[other]) for r, b in pairs if r["table"] == t])
            for t in tables
        ]
    )
    draws = each[np.random.default_rng(0).integers(len(each), size=(2000, len(each)))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return {
        "mean": _finite(each.mean()),
        "low": _finite(low),
        "high": _finite(high),
        "median": _finite(np.median(each)),
        "lower": int((each < 0).sum()),
    }


def _finite(value: float) -> float | None:
    """Return a number, or None if it is infinite, which JSON cannot represent."""
    return float(value) if np.isfinite(value) else None


def to_markdown(rows: list[Record], found: list[dict[str, Any]]) -> str:
    """Return the tables of the docs."""

    def cell(value: dict[str, Any] | None) -> str:
        if value is None:
            return "—"
        if value["mean"] is None or value["high"] is None:
            return "infinite"
        return f"{value['mean']:+.4f} [{value['low']:+.4f}, {value['high']:+.4f}]"

    log_loss, rare, known = [], [], []
    for entry in found:
        kind = (entry["library"], entry["classes"], entry["curvature"])
        gain, n = entry["nll_recovered"], entry["tables"]
        gains = (cell(entry["nll_raw"]), cell(gain), f"{gain['median']:+.4f}")
        log_loss.append((*kind, n, *gains, f"{gain['lower']} of {n}"))
        scores = (cell(entry["rare_recall"]), cell(entry["rare_average_precision"]))
        rare.append((*kind, entry["tables_with_rare_class"], *scores))
    kinds = ("library", "gamma", "curvature")
    for key in sorted({tuple(r[k] for k in kinds) for r in rows if r["kl"]}):
        same = [r for r in rows if r["kl"] and tuple(r[k] for k in kinds) == key]
        means = (np.mean([float(r[c]) for r in same]) for c in ("kl_raw", "kl"))
        known.append((*key, *(f"{mean:.4f}" for mean in means)))
    head = ("library", "classes", "curvature")
    return "\n".join(
        [
            markdown((*head, "tables", "raw", "recovered", "median", "lower in"), log_loss),
            markdown(
                (*head, "tables with a class below 10 %", "its recall", "its average precision"),
                rare,
            ),
            markdown((*kinds, "KL raw", "KL recovered"), known),
        ]
    )


@click.command()
@click.argument("tables", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True)
@click.option("--seeds", default=2, show_default=True)
@click.option("--max-rows", default=6000, show_default=True, help="Rows used of a table.")
def evidence(tables: Path, out: Path, seeds: int, max_rows: int) -> None:
    """Train on every table and on simulated data; resume where rows.csv ends.

    Both losses with exact curvature come first, seed by seed; the bound on the curvature last.
    """
    problems = {name: (x, y, eta) for name, x, y, eta in _problems(tables, max_rows)}
    plan = [
        (name, library, gamma, curvature, seed)
        for curvature, seed in [*(("exact", seed) for seed in range(seeds)), ("bound", 0)]
        for name, (_, y, _) in problems.items()
        for library, gamma in _kinds(len(np.unique(y)), curvature)
    ]

    def run(name: str, library: str, gamma: float, curvature: str, seed: int) -> list[Any]:
        # CatBoost's Focal needs gamma > 0: a tiny one is used instead of 0.
        g = 1e-6 if library == "catboost" and gamma == 0 else gamma
        return measure(*problems[name], library, g, curvature, seed)

    rows = run_missing(out / "rows.csv", COLUMNS, plan, run)
    found = summary(rows)
    packages = ("xgboost-cpu", "lightgbm", "catboost", "scikit-learn")
    write_made(out / "summary.json", packages, max_rows=max_rows, summary=found)
    (out / "tables.md").write_text(to_markdown(rows, found))
    click.echo((out / "tables.md").read_text())


def _kinds(n_classes: int, curvature: str) -> list[tuple[str, float]]:
    libraries = ["xgboost", "lightgbm"]
    if n_classes == 2 and curvature == "exact":
        libraries.append("catboost")
    return [(name, g) for name in libraries for g in GAMMAS if g > 0 or curvature == "exact"]


def _problems(folder: Path, max_rows: int) -> Any:
    for seed in range(2):
        yield (f"simulated-{seed}", *simulated(8000, seed))
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as data:
            x, y = data["X"].astype(float), data["y"].astype(int)
        counts = np.bincount(y)
        keep = counts[y] >= 8
        x, y = x[keep], y[keep]
        if len(y) < 600 or len(np.unique(y)) < 2:
            continue
        if len(y) > max_rows:
            part, _ = train_test_split(
                np.arange(len(y)), train_size=max_rows, random_state=0, stratify=y
            )
            x, y = x[part], y[part]
            keep = np.bincount(y)[y] >= 8
            x, y = x[keep], y[keep]
        yield path.stem, x, y, None


if __name__ == "__main__":
    evidence()
