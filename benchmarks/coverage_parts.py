"""Do the promises hold where rows come in clusters or have weights, and of thresholds and tests?

``python -m benchmarks.coverage_parts clusters threshold power detectable weights``. Models whose
truth is known are simulated. Each part is a JSON file in results/coverage with its command and
commit: an interrupted run resumes, more `--reps` add to it, and every setting and repetition has
its own seed. Beside it is the table, a Markdown file.
"""

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, softmax

from benchmarks._study import markdown, write_json
from benchmarks.coverage import DRAWS, FLOORS, FOLDER, Floats, holds
from focalibrate.engines import commit
from focalibrate.metrics import METRICS, Costs, assess, choose_threshold

Found = dict[str, bool]


@dataclass(frozen=True)
class Part:
    """Settings, and what one repetition of a setting shows."""

    names: tuple[str, ...]
    """of the numbers of a setting"""
    settings: list[tuple[Any, ...]]
    repetition: Callable[..., Found]
    """of a setting and a generator"""


def copula(
    n_clusters: int, size: int, rho: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], Floats]:
    """Return clusters and numbers, uniform on [0, 1], that depend within them."""
    cluster = np.repeat(np.arange(n_clusters), size)
    common, own = rng.normal(size=n_clusters)[cluster], rng.normal(size=len(cluster))
    return cluster, ndtr(np.sqrt(rho) * common + np.sqrt(1.0 - rho) * own)


def clusters(k: int, n_clusters: int, size: int, rho: float, rng: np.random.Generator) -> Found:
    """Assess a calibrated model on rows in clusters."""
    cluster, u = copula(n_clusters, size, rho, rng)
    n = len(cluster)
    z = rng.normal(size=(n_clusters, k))[cluster] + rng.normal(size=(n, k))
    probs = softmax(z, axis=1)
    order = np.argsort(-probs, axis=1)
    below = (u[:, None] > np.cumsum(np.take_along_axis(probs, order, 1), axis=1)).sum(axis=1)
    labels = np.take_along_axis(order, np.minimum(below, k - 1)[:, None], 1)[:, 0]
    if k == 2:
        labels = (u < probs[:, 1]).astype(np.intp)
    found = assess(probs, labels, cluster=cluster, n_draws=DRAWS, seed=rng)
    return {
        "size of the test": found.p_value <= 0.05,
        "gap covers": holds(found.gap, 0.0),
        "RMS covers": holds(found.rms, 0.0),
        "slope covers": found.slope is not None and holds(found.slope, 1.0),
    }


def threshold(
    promise: Literal["precision", "recall", "cost"],
    n_clusters: int,
    size: int,
    rho: float,
    rng: np.random.Generator,
) -> Found:
    """Choose a threshold, and look whether the promise is true of the population.

    Confidences are uniform on [0.5, 1], and right with probability c ** 1.3.
    """
    cluster, u = copula(n_clusters, size, rho, rng)
    c = 0.5 + 0.5 * copula(n_clusters, size, 0.5, rng)[1]
    target = {"precision": 0.9, "recall": 0.8, "cost": 0.4}[promise]
    options = {"max_cost" if promise == "cost" else promise: target}
    found = choose_threshold(
        c, u < c**1.3, cluster=None if size == 1 else cluster, costs=Costs(1.0, 1.0), **options
    )
    if found.threshold is None:
        return {"broken": False, "a threshold is found": False}
    t = max(found.threshold, 0.5)
    right_above, right = (2.0 * (1.0 - x**2.3) / 2.3 for x in (t, 0.5))
    passing = 2.0 * (1.0 - t)
    truth = {
        "precision": right_above / max(passing, 1e-12),
        "recall": right_above / right,
        "cost": passing - right_above + right - right_above,
    }[promise]
    is_broken = truth > target if promise == "cost" else truth < target
    return {"broken": bool(is_broken), "a threshold is found": True}


def power(kind: str, n: int, rng: np.random.Generator) -> Found:
    """Test two-class models that are calibrated or wrong in one way."""
    p = expit(rng.normal(size=n) * 2.0 - (4.5 if "rare" in kind else 0.0))
    odds = logit(p)
    truth = {
        "calibrated": p,
        "calibrated, rare": p,
        "temperature": expit(odds / 1.35),
        "shift": expit(odds - 0.35),
        "rare, too high": expit(odds - 0.5),
        "rare, temperature": expit(odds / 1.2),
    }[kind]
    found = assess(p, (rng.random(n) < truth).astype(int), n_draws=DRAWS, seed=rng)
    each = {f"{name} alone": value <= 0.05 for name, value in found.p_values.items()}
    return {"rejected": found.p_value <= 0.05, **each}


def detectable(kind: str, n: int, rng: np.random.Generator) -> Found:
    """Test models that are off by the size that is stated to be found in 80 %.

    Of the two kinds of error, a temperature and a shift, the harder one to find counts: both
    must be rejected in at least about 80 %.
    """
    p = {
        "spread": rng.uniform(size=n),
        "confident": expit(rng.normal(size=n) + 3.0),
        "ties": np.round(rng.uniform(size=n), 1),
        "constant 0.999": np.full(n, 0.999),
        "constant 0.9": np.full(n, 0.9),
    }[kind]
    stated = assess(p, (rng.random(n) < p).astype(int), n_draws=DRAWS, seed=rng).detectable
    slope = p * (1.0 - p)
    half = 1.0 if p.mean() >= 0.5 else -1.0
    found: Found = {"can be found": bool(stated < 1.0)}
    for name, shape in (("temperature", slope * logit(np.clip(p, 1e-12, 1 - 1e-12))),
                        ("shift", half * slope)):  # fmt: skip
        unit = shape / max(float(np.sqrt(np.mean(shape**2))), 1e-12)
        truth = np.clip(p - min(stated, 1.0) * unit, 0.0, 1.0)
        seen = assess(p, (rng.random(n) < truth).astype(int), n_draws=DRAWS, seed=rng)
        found[f"{name} rejected"] = seen.p_value <= 0.05
    return found


def weights(kind: str, k: int, n: int, rng: np.random.Generator) -> Found:
    """Assess a calibrated model on weighted rows."""
    z = 2.0 * rng.normal(size=(n, k))
    probs = softmax(z, axis=1)
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    w = {
        "1 to 10": rng.integers(1, 11, size=n).astype(float),
        "exponential": rng.exponential(size=n),
        "by confidence": 0.1 + probs.max(axis=1) ** 4,
    }[kind]
    seen = assess(probs, labels, sample_weight=w, n_draws=DRAWS, seed=rng)
    found = {
        "size of the test": seen.p_value <= 0.05,
        "gap covers": holds(seen.gap, 0.0),
        "RMS covers": holds(seen.rms, 0.0),
    }
    event = {"event": 1} if k == 2 else {}
    for name in FLOORS:
        options = {} if name == "classwise_ece" else event
        value = METRICS[name].function(probs, labels, sample_weight=w, **options)
        found[f"{METRICS[name].heading.removesuffix(' %')} below 95 %"] = (
            value <= seen.noise_floor[name].q95 + 1e-12
        )
    return found


SHAPES = [(g, size, rho) for g in (100, 500) for size in (1, 5, 20) for rho in (0.0, 0.3, 0.8)]
SHAPES = [(g, size, rho) for g, size, rho in SHAPES if size > 1 or rho == 0.0]
PARTS = {
    "clusters": Part(
        ("classes", "clusters", "rows each", "correlation"),
        [(k, *shape) for k in (2, 10) for shape in SHAPES],
        clusters,
    ),
    "threshold": Part(
        ("promise", "clusters", "rows each", "correlation"),
        [
            (promise, g, size, rho)
            for promise in ("precision", "recall", "cost")
            for g, size, rho in [(1000, 1, 0.0), *((g, s, r) for g, s, r in SHAPES if s > 1)]
        ],
        threshold,
    ),
    "power": Part(
        ("model", "rows"),
        [(kind, n) for n in (500,) for kind in (
            "calibrated", "calibrated, rare", "temperature", "shift", "rare, too high",
            "rare, temperature",
        )],
        power,
    ),
    "detectable": Part(
        ("probabilities", "rows"),
        [
            *((kind, n) for kind in ("spread", "confident", "ties") for n in (300, 2000)),
            *((kind, n) for kind in ("constant 0.999", "constant 0.9") for n in (50, 500, 5000)),
        ],
        detectable,
    ),
    "weights": Part(
        ("weights", "classes", "rows"),
        [
            (kind, k, n)
            for kind in ("1 to 10", "exponential", "by confidence")
            for k in (2, 10)
            for n in (300, 2000)
        ],
        weights,
    ),
}  # fmt: skip


def run(name: str, folder: Path, reps: int) -> None:
    """Add repetitions of a part, a few of every setting in turn, until each has `reps`."""
    part, path = PARTS[name], folder / f"{name}.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"settings": {}}
    command = f"python -m benchmarks.coverage_parts {name} --reps {reps}"
    record |= {"command": command, "draws": DRAWS, "commit": commit()}
    for goal in range(10, reps + 10, 10):
        for place, setting in enumerate(part.settings):
            seed = [list(PARTS).index(name), place]
            if name == "clusters":
                seed = [round(100 * x) if isinstance(x, float) else x for x in setting]
            held = record["settings"].setdefault("; ".join(map(str, setting)), {"reps": 0})
            while held["reps"] < min(goal, reps):
                rng = np.random.default_rng([*seed, held["reps"]])
                for key, value in part.repetition(*setting, rng).items():
                    held[key] = held.get(key, 0) + bool(value)
                held["reps"] += 1
        write_json(path, record)
    write_table(name, folder)


def write_table(name: str, folder: Path) -> None:
    """Write the fractions of a part as a Markdown table."""
    record = json.loads((folder / f"{name}.json").read_text())
    keys = [key for key in next(iter(record["settings"].values())) if key != "reps"]
    body = []
    for setting, held in record["settings"].items():
        shares = [f"{held[key] / held['reps']:.3f}" for key in keys]
        body.append((*setting.split("; "), f"{held['reps']:,}", *shares))
    table = markdown((*PARTS[name].names, "repetitions", *keys), body)
    (folder / f"{name}.md").write_text(table)


def main() -> None:
    """Run what is missing, then write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=list(PARTS))
    parser.add_argument("--reps", type=int, default=300, help="repetitions per setting")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results are kept")
    parser.add_argument("--table-only", action="store_true", help="only write the tables")
    arguments = parser.parse_args()
    for name in arguments.parts:
        if arguments.table_only:
            write_table(name, arguments.folder)
        else:
            run(name, arguments.folder, arguments.reps)


if __name__ == "__main__":
    main()
