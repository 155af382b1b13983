"""Focal boosting: the cost of an objective call, and what recovery is worth on real tables.

`python -m benchmarks boosting` times the objective. `python -m benchmarks.boosting TABLES -o
results/boosting` trains on the tables in a folder (`X`, `y` in .npz files) and on simulated data
with a known posterior, and writes rows.csv, summary.json and tables.md. It goes on where it was
interrupted.
"""

import csv
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.special import softmax
from sklearn.metrics import average_precision_score, recall_score
from sklearn.model_selection import train_test_split

from benchmarks._timing import Row, compare, interleave
from focalibrate.boosting import FocalBoostingClassifier, softmax_derivatives
from focalibrate.metrics import adaptive_ece, nll

GAMMAS = (0.0, 2.0)
COLUMNS = (
    "table",
    "library",
    "gamma",
    "curvature",
    "seed",
    "n_test",
    "n_classes",
    "rare_share",
    "nll_raw",
    "nll",
    "adaptive_ece_raw",
    "adaptive_ece",
    "rare_recall_raw",
    "rare_recall",
    "rare_average_precision",
    "kl_raw",
    "kl",
)


def softmax_objective(margins: Any, labels: Any) -> tuple[Any, Any]:
    """Gradient and curvature of the log loss, as a library would write them in NumPy."""
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
                "focal": lambda z=z, y=y: softmax_derivatives(z, y, 2.0),
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


def measure(
    name: str, x: Any, y: Any, eta: Any, library: str, gamma: float, curvature: str, seed: int
) -> dict[str, Any]:
    """Train on half the rows and return what raw and recovered probabilities are worth."""
    index = np.arange(len(y))
    train, test = train_test_split(index, test_size=0.5, random_state=seed, stratify=y)
    model = FocalBoostingClassifier(
        library, gamma=gamma, curvature=curvature, n_estimators=120, n_jobs=1, random_state=seed
    ).fit(x[train], y[train])
    margins = model.decision_function(x[test])
    both = margins if margins.ndim == 2 else np.stack([np.zeros_like(margins), margins], axis=1)
    raw, probs = softmax(both, axis=1), model.objective_.probs(margins)
    labels = np.searchsorted(model.classes_, y[test])
    counts = np.bincount(np.searchsorted(model.classes_, y))
    rare = int(counts.argmin())

    def recall(p: Any) -> float:
        return float(recall_score(labels == rare, p.argmax(axis=1) == rare))

    found = {
        "table": name,
        "library": library,
        "gamma": gamma,
        "curvature": curvature,
        "seed": seed,
        "n_test": len(test),
        "n_classes": len(counts),
        "rare_share": counts[rare] / counts.sum(),
        "nll_raw": nll(raw, labels),
        "nll": nll(probs, labels),
        "adaptive_ece_raw": adaptive_ece(raw, labels),
        "adaptive_ece": adaptive_ece(probs, labels),
        "rare_recall_raw": recall(raw),
        "rare_recall": recall(probs),
        "rare_average_precision": average_precision_score(labels == rare, probs[:, rare]),
        "kl_raw": None,
        "kl": None,
    }
    if eta is not None:
        truth = eta[test]
        found["kl_raw"], found["kl"] = (
            float(np.mean(np.sum(truth * (np.log(truth) - np.log(p)), axis=1)))
            for p in (raw, probs)
        )
    return found


def summary(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return, per library and curvature, focal loss with recovery against the log loss."""
    found = []
    kinds = sorted({(r["library"], r["curvature"]) for r in rows if float(r["gamma"]) > 0})
    for library, curvature in kinds:
        pairs = []
        for r in rows:
            if (r["library"], r["curvature"]) != (library, curvature) or float(r["gamma"]) == 0:
                continue
            base = [
                b
                for b in rows
                if (b["table"], b["library"], b["seed"]) == (r["table"], library, r["seed"])
                and float(b["gamma"]) == 0
            ]
            if base and not r["table"].startswith("simulated"):
                pairs.append((r, base[0]))
        tables = sorted({r["table"] for r, _ in pairs})

        def gain(key: str, other: str, pairs: Any = pairs, tables: Any = tables) -> Any:
            by_table = np.array(
                [
                    np.mean([float(r[key]) - float(b[other]) for r, b in pairs if r["table"] == t])
                    for t in tables
                ]
            )
            rng = np.random.default_rng(0)
            draws = by_table[rng.integers(len(by_table), size=(2000, len(by_table)))].mean(axis=1)
            low, high = np.quantile(draws, [0.025, 0.975])
            return {"mean": float(by_table.mean()), "low": float(low), "high": float(high)}

        found.append(
            {
                "library": library,
                "curvature": curvature,
                "tables": len(tables),
                "nll_focal_raw_minus_log_loss": gain("nll_raw", "nll"),
                "nll_focal_recovered_minus_log_loss": gain("nll", "nll"),
                "rare_recall_raw_minus_log_loss": gain("rare_recall_raw", "rare_recall"),
                "rare_average_precision_minus_log_loss": gain(
                    "rare_average_precision", "rare_average_precision"
                ),
            }
        )
    return found


def to_markdown(rows: list[dict[str, str]], found: list[dict[str, Any]]) -> str:
    """Return the tables of the docs."""

    def cell(value: dict[str, float]) -> str:
        return f"{value['mean']:+.4f} [{value['low']:+.4f}, {value['high']:+.4f}]"

    lines = [
        "| library | curvature | tables | log loss, raw | log loss, recovered | "
        "recall of the rarest class, raw | average precision of the rarest class |",
        "|-|-|-|-|-|-|-|",
    ]
    for entry in found:
        cells = [
            entry["library"],
            entry["curvature"],
            str(entry["tables"]),
            *(cell(v) for v in entry.values() if isinstance(v, dict)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "| library | gamma | curvature | KL raw | KL recovered |", "|-|-|-|-|-|"]
    known = [r for r in rows if r["kl"]]
    for key in sorted({(r["library"], r["gamma"], r["curvature"]) for r in known}):
        same = [r for r in known if (r["library"], r["gamma"], r["curvature"]) == key]
        raw, after = (np.mean([float(r[c]) for r in same]) for c in ("kl_raw", "kl"))
        lines.append(f"| {key[0]} | {key[1]} | {key[2]} | {raw:.4f} | {after:.4f} |")
    return "\n".join(lines) + "\n"


@click.command()
@click.argument("tables", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True)
@click.option("--seeds", default=2, show_default=True)
@click.option("--max-rows", default=8000, show_default=True, help="Rows used of a table.")
def evidence(tables: Path, out: Path, seeds: int, max_rows: int) -> None:
    """Train on every table and on simulated data; resume where rows.csv ends."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "rows.csv"
    done = list(csv.DictReader(path.open())) if path.exists() else []
    keys = {(r["table"], r["library"], r["gamma"], r["curvature"], r["seed"]) for r in done}
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if not done:
            writer.writeheader()
        for name, x, y, eta in _problems(tables, max_rows):
            n_classes = len(np.unique(y))
            for library in ("xgboost", "lightgbm", "catboost"):
                if library == "catboost" and n_classes > 2:
                    continue
                for gamma in GAMMAS:
                    exact_only = gamma == 0 or library == "catboost"
                    for curvature in ("exact",) if exact_only else ("exact", "bound"):
                        for seed in range(seeds):
                            # CatBoost's Focal needs gamma > 0: nearly none stands for none.
                            g = 1e-6 if library == "catboost" and gamma == 0 else gamma
                            key = (name, library, str(gamma), curvature, str(seed))
                            if key in keys:
                                continue
                            row = measure(name, x, y, eta, library, g, curvature, seed)
                            writer.writerow(row | {"gamma": gamma})
                            file.flush()
    rows = list(csv.DictReader(path.open()))
    found = summary(rows)
    packages = ("xgboost-cpu", "lightgbm", "catboost", "numpy", "scikit-learn", "focalibrate")
    record = {
        "command": f"python -m benchmarks.boosting TABLES -o results/boosting --seeds {seeds}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
        "summary": found,
    }
    (out / "summary.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "tables.md").write_text(to_markdown(rows, found))
    click.echo((out / "tables.md").read_text())


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
        yield path.stem, x, y, None


if __name__ == "__main__":
    evidence()
