"""Is the level kept with clusters? ``python -m benchmarks.coverage_clusters``.

Calibrated models; outcomes of a cluster depend by a Gaussian copula. One JSON file,
results/coverage/clusters.json: an interrupted run resumes, more `--reps` add to it. Every setting
and repetition has its own seed. clusters.md is the table.
"""

import argparse
import json
import os
import subprocess
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.special import ndtr, softmax

from focalibrate.metrics import assess

FOLDER = Path(__file__).parents[1] / "results" / "coverage"
DRAWS = 199
SETTINGS = [
    (k, n_clusters, size, rho)
    for k in (2, 10)
    for n_clusters in (100, 500)
    for size in (1, 5, 20)
    for rho in ((0.0, 0.3, 0.8) if size > 1 else (0.0,))
]


def repetition(k: int, n_clusters: int, size: int, rho: float, rep: int) -> dict[str, int]:
    """Return 1 where the test rejects or an interval covers, for one simulated data set."""
    rng = np.random.default_rng([k, n_clusters, size, round(100 * rho), rep])
    cluster = np.repeat(np.arange(n_clusters), size)
    n = len(cluster)
    common = rng.normal(size=n_clusters)[cluster]
    u = ndtr(np.sqrt(rho) * common + np.sqrt(1.0 - rho) * rng.normal(size=n))
    z = rng.normal(size=(n_clusters, k))[cluster] + rng.normal(size=(n, k))
    probs = softmax(z, axis=1)
    order = np.argsort(-probs, axis=1)
    below = (u[:, None] > np.cumsum(np.take_along_axis(probs, order, 1), axis=1)).sum(axis=1)
    labels = np.take_along_axis(order, np.minimum(below, k - 1)[:, None], 1)[:, 0]
    if k == 2:
        labels = (u < probs[:, 1]).astype(np.intp)
    found = assess(probs, labels, cluster=cluster, n_draws=DRAWS, seed=rng)
    return {
        "rejected": int(found.p_value <= 0.05),
        "gap": int(found.gap.low <= 0.0 <= found.gap.high),
        "rms": int(found.rms.low <= 0.0),
        "slope": int(found.slope is not None and found.slope.low <= 1.0 <= found.slope.high),
    }


def run(folder: Path, reps: int) -> None:
    """Add repetitions, a few of every setting in turn, until each has `reps`."""
    path = folder / "clusters.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"settings": {}}
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    record |= {"command": "python -m benchmarks.coverage_clusters", "draws": DRAWS}
    record["commit"] = commit.stdout.strip()
    for goal in range(10, reps + 10, 10):
        for setting in SETTINGS:
            held = record["settings"].setdefault(" ".join(map(str, setting)), {"reps": 0})
            while held["reps"] < min(goal, reps):
                for key, value in repetition(*setting, held["reps"]).items():
                    held[key] = held.get(key, 0) + value
                held["reps"] += 1
            part = path.with_suffix(".part")
            part.write_text(json.dumps(record, indent=1) + "\n")
            part.replace(path)
    write_table(folder, record)


def write_table(folder: Path, record: dict[str, Any]) -> None:
    """Write clusters.md."""
    lines = [
        "| classes | clusters | rows each | correlation | repetitions | size of the test | gap | "
        "RMS | slope |",
        "|-|-|-|-|-|-|-|-|-|",
    ]
    for name, held in record["settings"].items():
        if held["reps"]:
            shares = [f"{held[x] / held['reps']:.3f}" for x in ("rejected", "gap", "rms", "slope")]
            lines.append("| " + " | ".join([*name.split(), str(held["reps"]), *shares]) + " |")
    (folder / "clusters.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=300, help="repetitions per setting")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results are kept")
    parser.add_argument("--table-only", action="store_true", help="only write clusters.md")
    arguments = parser.parse_args()
    if arguments.table_only:
        path = arguments.folder / "clusters.json"
        write_table(arguments.folder, json.loads(path.read_text()))
    else:
        run(arguments.folder, arguments.reps)


if __name__ == "__main__":
    main()
