"""The pool's CIFAR-10 networks in `psi-gap`, from the committed rows of two other experiments.

::

    python -m focalibrate.experiments.paper000.psi_gap.imported results results/psi-gap/runs

The networks themselves were not kept, only the measurements of `psi-images` (calibration) and
`dynamics` (losses and errors), which do not include the training loss of focal networks.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from focalibrate.experiments.engine.experiment import Row, Rows, Task
from focalibrate.experiments.engine.reproduce import read_meta, read_rows
from focalibrate.experiments.engine.sweep import Result, write_result
from focalibrate.experiments.paper000.psi_gap.experiment import describe, network_of, tasks
from focalibrate.experiments.paper000.psi_gap.rows import loss_name


def pool_numbers(task: Task, psi: Rows, dynamics: Rows) -> Iterator[tuple[str, float]]:
    """Yield what is known about a network, under the names used in `psi-gap`."""
    loss, seed = loss_name(task["gamma"]), task["seed"]
    names = {
        "train error": (dynamics, "train error"),
        "test loss": (dynamics, "test nll"),
        "test error": (dynamics, "test error"),
        "confidence − accuracy": (psi, "gap, raw"),
        "ECE": (psi, "ece, raw"),
        "ECE with Ψ": (psi, "ece, Ψ"),
    }
    for name, (rows, metric) in names.items():
        yield f"{name}, {loss}", rows.by_seed(f"CIFAR-10 {loss}", metric)[seed]


def import_pool(results: Path, runs: Path) -> int:
    """Write one result file per network of the pool; return how many."""
    psi, dynamics = (read_rows(results / name / "rows.csv") for name in ("psi-images", "dynamics"))
    own = [task for task in tasks("reduced") if "pool" in dict(task.settings)]
    meta = read_meta(results / "psi-images")
    for task in own:
        recipe, (name, seed) = network_of(task), describe(task)
        rows = tuple(
            Row(task.key, name, seed, metric, value)
            for metric, value in pool_numbers(task, psi, dynamics)
        )
        network = {
            "recipe": "" if recipe is None else recipe.key,
            "from": "rows of results/psi-images and results/dynamics",
        }
        made = meta["versions"], meta.get("commit", "")
        write_result(runs, Result(task, rows, 0.0, *made, network))
    return len(own)


if __name__ == "__main__":
    import_pool(Path(sys.argv[1]), Path(sys.argv[2]))
