"""The training loop: from a recipe to a folder of results, resumable."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from focalibrate._check import check_count
from focalibrate_papers.datasets import Dataset, Split
from focalibrate_papers.recipe import Recipe
from focalibrate_papers.train._inputs import epoch_changes, epoch_order, fingerprint, load_dataset
from focalibrate_papers.train._learner import Learner, check_dataset, set_lr
from focalibrate_papers.train._outputs import Run, Tick, claim_run, write_results
from focalibrate_papers.train.checkpoint import (
    CHECKPOINT,
    TrainingState,
    load_checkpoint,
    save_checkpoint,
)
from focalibrate_papers.train.dynamics import (
    SEEN_OF_TRAIN,
    Dynamics,
    Evaluated,
    evaluate,
    split_figures,
    unseen_figures,
    weight_norm,
)

CHECKPOINT_SECONDS = 30.0


def train(
    recipe: Recipe,
    *,
    out: str | Path,
    dataset: Dataset | None = None,
    data: str | Path | None = None,
    look_every: int = 1,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: Callable[[Tick], None] | None = None,
) -> Run:
    """Train as the recipe says, or continue an interrupted run in `out`.

    The folder gets recipe.toml, versions.json, checkpoint.pt, and in the end dynamics.npz and
    .json, val.npz and test.npz (logits and labels, as `focalibrate calibrate` reads them),
    time.json and model.pt. If it is killed at any moment and called again, it ends on a CPU with
    the same weights, bit for bit, provided the number of threads is the same.

    Args:
        recipe: what to train.
        out: folder of the run; made if absent.
        dataset: examples; those that the recipe names when None.
        data: folder of data sets; the environment variable FOCALIBRATE_DATA names it when None.
        look_every: number of epochs between two evaluations on the training and test examples,
            whose metrics are nan in between. The validation examples are evaluated after every
            epoch, all examples after the last. The weights do not depend on it.
        checkpoint_seconds: least time between two checkpoints.
        progress: called after every step and every epoch.

    Raises:
        ValueError: for bad data, a folder of another recipe, or a loss that became nan.
        OSError: a file cannot be written; the last checkpoint is intact.
    """
    out = Path(out)
    check_count(look_every, name="look_every")
    if dataset is None:
        dataset = load_dataset(recipe, data=data)
    check_dataset(dataset)
    with torch.random.fork_rng():
        loop = _Loop(
            recipe,
            dataset,
            out=out,
            look_every=look_every,
            checkpoint_seconds=checkpoint_seconds,
            report=progress,
        )
        return loop.run()


class _Loop:
    """A run in progress."""

    def __init__(
        self,
        recipe: Recipe,
        dataset: Dataset,
        *,
        out: Path,
        look_every: int,
        checkpoint_seconds: float,
        report: Callable[[Tick], None] | None,
    ) -> None:
        self.recipe, self.dataset, self.out = recipe, dataset, out
        self.look_every, self.report = look_every, report
        self.checkpoint_seconds = checkpoint_seconds
        self.path = out / CHECKPOINT
        self.data = fingerprint(dataset)
        self.n = len(dataset.train)
        self.steps = -(-self.n // recipe.batch)
        self.learner = Learner(recipe, dataset, checkpoint=self.path)
        self.at = TrainingState()
        self.dynamics = Dynamics()
        self.seen: dict[str, Evaluated] = {}
        claim_run(out, recipe)
        if self.path.exists():
            self._restore()
        self.saved_at = time.monotonic()

    def run(self) -> Run:
        """Train to the end and write the results."""
        while self.at.epoch < self.recipe.epochs:
            self._epoch(self.at.epoch)
        self._save()
        model = self.learner.model
        if self.recipe.keep == "best":
            model.load_state_dict(self.at.best)
        if not self.seen or self.recipe.keep == "best":  # else seen after the last epoch
            for name in ("validation", "test"):
                self.seen[name] = evaluate(model, self.learner.feed, getattr(self.dataset, name))
        validation, test = self.seen["validation"], self.seen["test"]
        run = Run(self.recipe, self.out, model, self.dynamics, validation, test, self.at.seconds)
        write_results(run, self.dataset.class_names)
        return run

    def _epoch(self, epoch: int) -> None:
        recipe = self.recipe
        set_lr(self.learner.optimiser, recipe.lr_at(epoch))
        self.learner.objective.start_epoch(epoch)
        order = epoch_order(recipe.seed, epoch, self.n)
        changes = None
        if recipe.augmentation != "none":
            changes = epoch_changes(recipe.seed, epoch, self.n)
        self.learner.model.train()
        while self.at.step < self.steps:
            start = self.at.step * recipe.batch
            rows = order[start : start + recipe.batch]
            self.at.loss_sum += self.learner.step(epoch, self.at.step, rows, changes)
            self.at.step += 1
            if time.monotonic() - self.saved_at >= self.checkpoint_seconds:
                self._save()
            self._tick()
        self._look(epoch, order[-(self.n % recipe.batch or recipe.batch) :])
        self.at.epoch, self.at.step, self.at.loss_sum = epoch + 1, 0, 0.0
        if time.monotonic() - self.saved_at >= self.checkpoint_seconds:
            self._save()
        self._tick()

    def _look(self, epoch: int, last_rows: NDArray[np.int64]) -> None:
        """Add the figures of `epoch`, whose last batch was `last_rows`, to the dynamics."""
        learner, whole = self.learner, self.dataset.train
        part = Split(whole.inputs[:SEEN_OF_TRAIN], whole.labels[:SEEN_OF_TRAIN])
        splits = {"train": part, "validation": self.dataset.validation, "test": self.dataset.test}
        figures: dict[str, Any] = {
            "loss": self.at.loss_sum / self.n,
            "lr": self.recipe.lr_at(epoch),
            "weight_norm": weight_norm(learner.model),
        }
        is_due = (epoch + 1) % self.look_every == 0 or epoch + 1 == self.recipe.epochs
        for name, split in splits.items():
            if name != "validation" and not is_due:
                continue
            seen = evaluate(learner.model, learner.feed, split, learner.objective)
            self.seen[name] = seen
            if not np.isfinite(seen.logits).all():
                what = f"the output on the {name} examples"
                raise learner.nan(epoch, self.at.step, last_rows, what)
            figures |= split_figures(name, seen)
        for name in splits:
            figures = unseen_figures(name, like=figures) | figures
        judged = self.seen["validation"]
        learner.objective.end_epoch(
            torch.from_numpy(judged.logits), torch.from_numpy(judged.labels)
        )
        self.dynamics = self.dynamics.extended(figures)
        errors = self.dynamics.arrays["validation_error"]
        if self.recipe.keep == "best" and np.argmin(errors) == epoch:
            state = learner.model.state_dict()
            self.at.best = {name: weight.detach().clone() for name, weight in state.items()}

    def _save(self) -> None:
        now = time.monotonic()
        self.at.seconds += now - self.saved_at
        self.saved_at = now
        weights = self.learner.model.state_dict()
        if not all(bool(torch.isfinite(w).all()) for w in weights.values()):
            return  # the next step stops the run; the previous checkpoint is the last good one
        self.at.model = weights
        self.at.optimiser = self.learner.optimiser.state_dict()
        self.at.objective = self.learner.objective.state_dict()
        self.at.dynamics = self.dynamics.tensors()
        save_checkpoint(self.path, self.at, recipe=self.recipe, data=self.data)

    def _restore(self) -> None:
        self.at = load_checkpoint(self.path, recipe=self.recipe, data=self.data)
        self.learner.model.load_state_dict(self.at.model)
        self.learner.optimiser.load_state_dict(self.at.optimiser)
        self.learner.objective.load_state_dict(self.at.objective)
        self.dynamics = Dynamics.of(self.at.dynamics)

    def _tick(self) -> None:
        if self.report is None:
            return
        seen = self.dynamics.arrays
        done = min(self.at.step * self.recipe.batch, self.n)
        last = float(seen["loss"][-1]) if seen else 0.0
        self.report(
            Tick(
                self.at.epoch,
                self.recipe.epochs,
                self.at.step,
                self.steps,
                self.at.loss_sum / done if done else last,
                float(seen["validation_error"][-1]) if seen else None,
                float(seen["validation_ece"][-1]) if seen else None,
            )
        )
