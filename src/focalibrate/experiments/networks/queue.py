"""A queue of long trainings that can be interrupted and resumed.

::

    nice -n 19 python -m focalibrate.experiments.networks.queue --trained DIR --data DATA
    focalibrate reproduce sst --scale full --trained DIR --only-trained -o results/sst

Every network has a folder in DIR, named by the key of its recipe: ``reproduce --trained DIR``
looks for networks there. If the queue is killed and started again, it resumes at the last
checkpoint; several may work on one DIR. Networks that decide the most claims per minute come
first. `--results results` leaves out the networks whose numbers are committed there.
"""

import argparse
import fcntl
import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from focalibrate.engines import commit
from focalibrate.experiments.engine.experiment import Folders
from focalibrate.experiments.networks.recipes import long_recipe, network_recipe
from focalibrate.experiments.networks.trained import COMMIT, is_trained, trained

if TYPE_CHECKING:
    from focalibrate.train import Recipe

MAIN_LOSSES = ("ce", "fl3", "flsd53", "brier", "mmce")
OTHER_LOSSES = ("fl1", "fl2", "fls531", "fls532", "flsd532")
FOCAL = ("fl3", "fl1", "fl2", "ce")


def queue() -> Iterator["Recipe"]:
    """Yield the recipe of every network, the most informative first."""
    for seed in range(3):
        yield from (sst_recipe(loss, seed) for loss in MAIN_LOSSES)
    for seed in range(3):
        yield from (sst_recipe(loss, seed) for loss in OTHER_LOSSES)
    for losses in (MAIN_LOSSES, OTHER_LOSSES):
        for seed in (3, 4):
            yield from (sst_recipe(loss, seed) for loss in losses)
    for seed in range(3):
        for loss in ("ce", "fl3", "flsd53"):
            yield long_recipe("interpolating", loss, seed=seed)
    for loss in FOCAL:
        yield from (long_recipe(name, loss, seed=0) for name in ("fashion", "cifar10_s"))
    yield from (_penalised(0.005, tau, 0) for tau in (0.0, 1e-4, 3e-4, 1e-3))
    for seed in (1, 2):
        for loss in FOCAL:
            yield from (long_recipe(name, loss, seed=seed) for name in ("fashion", "cifar10_s"))
    for seed in range(3):
        for lr in (0.005, 0.01, 0.0025):
            yield from (_penalised(lr, tau, seed) for tau in (0.0, 1e-4, 3e-4, 1e-3))


def sst_recipe(loss: str, seed: int) -> "Recipe":
    """Return paper 002's own protocol on SST: Tree-LSTM, 25 epochs."""
    return network_recipe("sst_binary", loss, seed=seed, scale="full")


def _penalised(lr: float, tau: float, seed: int) -> "Recipe":
    """Return paper 004's penalty on the trace, to convergence."""
    from focalibrate.train.named import PENALISED

    return replace(PENALISED, lr=lr, trace_weight=tau, seed=seed, epochs=60)


def work(folders: Folders, evaluated: frozenset[str] = frozenset()) -> None:
    """Train what is neither finished nor in training elsewhere, in the order of the queue.

    Args:
        folders: where the networks and the data are.
        evaluated: keys of the recipes to leave out, see `evaluated_recipes`.
    """
    for recipe in {recipe.key: recipe for recipe in queue()}.values():
        if recipe.key in evaluated:
            continue
        folder = folders.trained / recipe.key
        folder.mkdir(parents=True, exist_ok=True)
        with _claimed(folder) as is_ours:
            if is_ours and not is_trained(recipe, folders):
                (folder / COMMIT).write_text(commit() + "\n", encoding="utf-8")
                trained(recipe, folders)


def evaluated_recipes(results: Path) -> frozenset[str]:
    """Return the keys of the networks whose numbers are in an experiment's folder of `results`."""
    metas = [json.loads(path.read_text(encoding="utf-8")) for path in results.glob("*/meta.json")]
    runs = [run for meta in metas for run in meta.get("runs", {}).values()]
    return frozenset(run["recipe"] for run in runs if "recipe" in run)


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Return whether this process got the lock on the folder, which it keeps until it ends."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def main() -> None:
    """Train what is missing."""
    parser = argparse.ArgumentParser(description="Long trainings of the papers' networks.")
    parser.add_argument("--trained", type=Path, required=True, help="folder of the networks")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--results", type=Path, help="folder of evidence; what it has is left out")
    parser.add_argument("--workers", type=int, default=1, help="processes, one thread each")
    given = parser.parse_args()
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    folders = Folders(given.data, given.trained)
    evaluated = evaluated_recipes(given.results) if given.results else frozenset[str]()
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(work, folders, evaluated) for _ in range(given.workers)]:
            future.result()


if __name__ == "__main__":
    main()
