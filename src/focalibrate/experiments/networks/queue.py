"""A queue of long trainings that goes on across interruptions, and the rows of what is finished.

::

    nice -n 19 python -m focalibrate.experiments.networks.queue --out DIR --data DATA --workers 2
    python -m focalibrate.experiments.networks.queue --out DIR --rows results/queue

Every network has a folder of its own under DIR, with its recipe, checkpoint, outputs and time.
Killed at any moment and started again, it goes on at the last checkpoint; several may work on one
DIR. The order is that of what decides most for each minute.
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
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from focalibrate._atomic import atomic_path
from focalibrate.experiments.engine.experiment import Row, Rows
from focalibrate.experiments.engine.provenance import commit, versions
from focalibrate.experiments.engine.reproduce import rows_csv
from focalibrate.experiments.networks.recipes import network_recipe
from focalibrate.losses import loss_settings
from focalibrate.metrics import ece, error_rate
from focalibrate.theory import recover_log_posterior

if TYPE_CHECKING:
    from focalibrate.train import Recipe

LOOK_EVERY = 5
DONE = "time.json"


def queue() -> Iterator[tuple[str, "Recipe"]]:
    """Yield name and recipe of every network, the most telling first."""
    for loss in ("ce", "fl3", "flsd53", "brier", "mmce"):
        yield _sst(loss, 0)
    for gamma in (3, 1, 2, 0):
        yield _fashion(gamma, 0)
        yield _cifar_tenth(gamma, 0)
    yield from (_penalised(0.005, tau, 0) for tau in (0.0, 1e-4, 3e-4, 1e-3))
    for seed in range(1, 5):
        for loss in ("ce", "fl3", "flsd53", "brier", "mmce"):
            yield _sst(loss, seed)
    for seed in (1, 2):
        for gamma in (3, 1, 2, 0):
            yield _fashion(gamma, seed)
            yield _cifar_tenth(gamma, seed)
    for seed in range(3):
        for lr in (0.005, 0.01, 0.0025):
            yield from (_penalised(lr, tau, seed) for tau in (0.0, 1e-4, 3e-4, 1e-3))
    for seed in range(3):
        yield from (_interpolating(loss, seed) for loss in ("ce", "fl3", "flsd53"))


def _sst(loss: str, seed: int) -> tuple[str, "Recipe"]:
    """Paper 002's own protocol: Tree-LSTM, 25 epochs."""
    return f"sst-{loss}-s{seed}", network_recipe("sst_binary", loss, seed=seed, scale="full")


def _fashion(gamma: int, seed: int) -> tuple[str, "Recipe"]:
    """Little overfitting: ResNet-8 on all of Fashion-MNIST with augmentation."""
    base = _short("fashion_mnist", epochs=15, gamma=gamma, seed=seed)
    return f"fashion-resnet8-fl{gamma}-s{seed}", base


def _cifar_tenth(gamma: int, seed: int) -> tuple[str, "Recipe"]:
    """Paper 000's CIFAR10-s: a tenth of the images, here for a quarter of its epochs."""
    base = _short("cifar10_s", epochs=50, gamma=gamma, seed=seed)
    return f"cifar10s-resnet8-fl{gamma}-s{seed}", base


def _short(dataset: str, *, epochs: int, gamma: int, seed: int) -> "Recipe":
    from focalibrate.train.named import SHORT_CIFAR

    return replace(
        SHORT_CIFAR,
        dataset=dataset,
        model="resnet8",
        epochs=epochs,
        milestones=(0.4, 0.75),
        scale=epochs / SHORT_CIFAR.epochs,
        gamma=float(gamma),
        seed=seed,
    )


def _penalised(lr: float, tau: float, seed: int) -> tuple[str, "Recipe"]:
    """Paper 004's penalty on the trace, to convergence."""
    from focalibrate.train.named import PENALISED

    recipe = replace(PENALISED, lr=lr, trace_weight=tau, seed=seed, epochs=60)
    return f"trace-lr{lr:g}-tau{tau:g}-s{seed}", recipe


def _interpolating(loss: str, seed: int) -> tuple[str, "Recipe"]:
    """ResNet-20 on CIFAR-10 without augmentation, to about 0 % training error."""
    from focalibrate.train.named import SHORT_CIFAR

    fields: dict[str, Any] = loss_settings(loss)
    recipe = replace(
        SHORT_CIFAR,
        model="resnet20",
        augmentation="none",
        epochs=60,
        milestones=(0.4, 0.75),
        scale=60 / SHORT_CIFAR.epochs,
        seed=seed,
        **fields,
    )
    return f"interpolating-resnet20-{loss}-s{seed}", recipe


def work(out: Path, data: Path | None) -> None:
    """Train what is not finished and nobody else trains, in the order of the queue."""
    from focalibrate.train import train

    for name, recipe in dict(queue()).items():
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        with _claimed(folder) as is_ours:
            if is_ours and not (folder / DONE).exists():
                (folder / "commit").write_text(commit() + "\n", encoding="utf-8")
                train(recipe, out=folder, data=data, look_every=LOOK_EVERY)


@contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Say whether the folder is this process's own until it ends, in whatever way."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def finished_rows(out: Path) -> tuple[Rows, dict[str, Any]]:
    """Return the numbers of the finished networks, and what they were made by."""
    rows, made = [], {}
    for name, recipe in dict(queue()).items():
        folder = out / name
        if not (folder / DONE).exists():
            continue
        made[name] = {
            "recipe": recipe.key,
            "seconds_of_training": json.loads((folder / DONE).read_text())["seconds"],
            "commit": (folder / "commit").read_text().strip()
            if (folder / "commit").exists()
            else "",
        }
        rows += [
            Row(recipe.key, name.rsplit("-s", 1)[0], recipe.seed, metric, value)
            for metric, value in _numbers(folder, recipe)
        ]
    return Rows(tuple(rows)), made


def _numbers(folder: Path, recipe: "Recipe") -> Iterator[tuple[str, float]]:
    """Yield scores without and with Ψ of the recipe's γ, and train and test losses."""
    with np.load(folder / "dynamics.npz") as seen:
        for figure in ("error", "nll", "ece"):
            yield f"train {figure}, last epoch", float(seen[f"train_{figure}"][-1])
            yield f"test {figure}, last epoch", float(seen[f"test_{figure}"][-1])
    with np.load(folder / "test.npz") as found:
        logits, labels = found["logits"].astype(np.float64), found["labels"]
    for name, gamma in {"raw": 0.0, "Ψ": recipe.gamma}.items():
        if isinstance(gamma, float) and (name == "raw" or gamma > 0):
            yield from _scores(name, recover_log_posterior(logits, gamma), labels)
    if isinstance(recipe.gamma, float) and recipe.loss == "focal":
        yield "focal loss, test", _focal(logits, labels, recipe.gamma)


def _scores(
    name: str, log_probs: NDArray[np.float64], labels: NDArray[np.int64]
) -> Iterator[tuple[str, float]]:
    probs = np.exp(log_probs)
    yield f"ece, {name}", ece(probs, labels, n_bins=15)
    yield f"error, {name}", error_rate(probs, labels)
    yield f"nll, {name}", -float(np.take_along_axis(log_probs, labels[:, None], axis=1).mean())


def _focal(logits: NDArray[np.float64], labels: NDArray[np.int64], gamma: float) -> float:
    log_p = np.take_along_axis(log_softmax(logits, axis=1), labels[:, None], axis=1)
    return -float(np.mean((-np.expm1(log_p)) ** gamma * log_p))


def main() -> None:
    """Train, or write the rows of what is finished."""
    parser = argparse.ArgumentParser(description="Long trainings of the papers' networks.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the networks")
    parser.add_argument("--data", type=Path, help="folder of data sets")
    parser.add_argument("--workers", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--rows", type=Path, help="write the finished rows here; train nothing")
    given = parser.parse_args()
    if given.rows is not None:
        rows, made = finished_rows(given.out)
        meta = {"versions": versions(("numpy", "scipy", "torch")), "networks": made}
        given.rows.mkdir(parents=True, exist_ok=True)
        for name, text in {
            "rows.csv": rows_csv(rows),
            "meta.json": json.dumps(meta, indent=1) + "\n",
        }.items():
            with atomic_path(given.rows / name, force=True) as path:
                path.write_text(text, encoding="utf-8")
        return
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(work, given.out, given.data) for _ in range(given.workers)]:
            future.result()


if __name__ == "__main__":
    main()
