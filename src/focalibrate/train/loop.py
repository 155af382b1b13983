"""The training loop: a recipe in, a folder of results out, whatever interrupts it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from focalibrate._check import check_count
from focalibrate.data.sets import Dataset, Split, load
from focalibrate.models import TreeBatch, TreeLSTM
from focalibrate.nn import CurvatureRegularisedLoss
from focalibrate.train._checks import check_batches, check_dataset
from focalibrate.train._inputs import (
    START,
    STEP,
    Feed,
    epoch_changes,
    epoch_order,
    fingerprint,
    torch_seed,
)
from focalibrate.train._models import build_model
from focalibrate.train._objective import Objective
from focalibrate.train._outputs import claim_run, write_results
from focalibrate.train._ranks import Ranks, joined_ranks
from focalibrate.train._step import build_optimiser, forward, set_lr
from focalibrate.train.checkpoint import Progress, load_checkpoint, save_checkpoint
from focalibrate.train.dynamics import (
    SEEN_OF_TRAIN,
    Dynamics,
    Evaluated,
    evaluate,
    split_figures,
    unseen_figures,
    weight_norm,
)
from focalibrate.train.recipe import Recipe

CHECKPOINT = "checkpoint.pt"
CHECKPOINT_SECONDS = 30.0
DATA_SEED = 0
"""Splits are the same for every seed of a recipe, which is for weights and order only."""


class NanLossError(ValueError):
    """The loss is no longer a number."""


@dataclass(frozen=True)
class Tick:
    """Where a run is, for a progress bar."""

    epoch: int
    """epochs done"""
    epochs: int
    step: int
    """batches done of the present epoch"""
    steps: int
    loss: float
    """mean over the present epoch so far"""
    error: float | None = None
    """on the validation examples after the last epoch"""
    ece: float | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """What a finished run gives; the same is in its folder."""

    recipe: Recipe
    folder: Path
    model: nn.Module
    dynamics: Dynamics
    validation: Evaluated
    test: Evaluated


def train(
    recipe: Recipe,
    *,
    out: str | Path,
    dataset: Dataset | None = None,
    directory: str | Path | None = None,
    device: str = "cpu",
    look_every: int = 1,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    progress: Callable[[Tick], None] | None = None,
) -> Run:
    """Train as the recipe says, or go on where a run in `out` was interrupted.

    The folder gets recipe.toml, versions.json, checkpoint.pt, and in the end dynamics.npz and
    .json, val.npz and test.npz (logits and labels, as `focalibrate calibrate` reads them) and
    model.pt. Killed at any moment and called again, it ends on CPU with the same weights, bit for
    bit, if the number of threads is the same. Started by ``torchrun``, each process takes its
    part of every batch and the gradients are summed; batch-norm then sees one process's part.

    Args:
        recipe: what to train.
        out: folder of the run; made if absent.
        dataset: examples; `focalibrate.data.sets.load` of the recipe's name when None.
        directory: where that looks for files.
        device: of torch.
        look_every: epochs between two looks at the training and test examples, whose figures are
            nan between; the validation examples are seen after every epoch, all after the last.
            The weights do not depend on it.
        checkpoint_seconds: least time between two checkpoints.
        progress: called after every step and every epoch.

    Raises:
        ValueError: for bad data, a folder of another recipe, or a loss that became nan.
        OSError: where a file cannot be written; the checkpoint before is whole.
    """
    out = Path(out)
    check_count(look_every, name="look_every")
    if dataset is None:
        dataset = load(
            recipe.dataset,
            directory=None if directory is None else Path(directory),
            seed=DATA_SEED,
            fraction=recipe.fraction,
        )
    check_dataset(dataset)
    with joined_ranks(recipe) as ranks, torch.random.fork_rng():
        loop = _Loop(recipe, dataset, ranks=ranks, out=out, device=device)
        loop.look_every = look_every
        loop.checkpoint_seconds = checkpoint_seconds
        loop.report = progress
        return loop.run()


class _Loop:
    """A run in progress."""

    look_every: int
    checkpoint_seconds: float
    report: Callable[[Tick], None] | None

    def __init__(
        self, recipe: Recipe, dataset: Dataset, *, ranks: Ranks, out: Path, device: str
    ) -> None:
        self.recipe, self.dataset, self.ranks, self.out = recipe, dataset, ranks, out
        self.path = out / CHECKPOINT
        self.data = fingerprint(dataset)
        self.feed = Feed(dataset, augmentation=recipe.augmentation, device=device)
        self.n = len(dataset.train)
        self.steps = -(-self.n // recipe.batch)
        torch.manual_seed(torch_seed(recipe.seed, START))
        self.model = build_model(recipe, dataset).to(device)
        check_batches(recipe, self.model, n_train=self.n, world=ranks.world)
        self.objective = Objective(recipe)
        self.optimiser = build_optimiser(recipe, self.model.parameters())
        self.at = Progress()
        self.dynamics = Dynamics()
        self.seen: dict[str, Evaluated] = {}
        if ranks.is_first:
            claim_run(out, recipe)
        if self.path.exists():
            self._restore()
        self.parallel: nn.Module = self.model
        if ranks.world > 1 and isinstance(self.model, TreeLSTM):
            raise ValueError("trees cannot be trained over several processes; leave out torchrun.")
        if ranks.world > 1:
            self.parallel = DistributedDataParallel(self.model)
        self.saved_at = time.monotonic()

    def run(self) -> Run:
        """Train to the end and write the results."""
        while self.at.epoch < self.recipe.epochs:
            self._epoch(self.at.epoch)
        if self.ranks.is_first:
            self._save()
        if self.recipe.keep == "best":
            self.model.load_state_dict(self.at.best)
        if not self.seen or self.recipe.keep == "best":  # else seen after the last epoch
            for name in ("validation", "test"):
                self.seen[name] = evaluate(self.model, self.feed, getattr(self.dataset, name))
        validation, test = self.seen["validation"], self.seen["test"]
        if self.ranks.is_first:
            write_results(self.out, self.dataset, self.model, self.dynamics, validation, test)
        return Run(self.recipe, self.out, self.model, self.dynamics, validation, test)

    def _epoch(self, epoch: int) -> None:
        recipe = self.recipe
        set_lr(self.optimiser, recipe.lr_at(epoch))
        self.objective.start_epoch(epoch)
        order = epoch_order(recipe.seed, epoch, self.n)
        changes = None
        if recipe.augmentation != "none":
            changes = epoch_changes(recipe.seed, epoch, self.n)
        self.model.train()
        while self.at.step < self.steps:
            start = self.at.step * recipe.batch
            rows = order[start : start + recipe.batch]
            self.at.loss_sum += self._step(epoch, rows, changes)
            self.at.step += 1
            if time.monotonic() - self.saved_at >= self.checkpoint_seconds:
                self._save()
            self._tick()
        self._look(epoch, order[-(self.n % recipe.batch or recipe.batch) :])
        self.at.epoch, self.at.step, self.at.loss_sum = epoch + 1, 0, 0.0
        if time.monotonic() - self.saved_at >= self.checkpoint_seconds:
            self._save()
        self._tick()

    def _step(
        self, epoch: int, rows: NDArray[np.int64], changes: NDArray[np.int64] | None
    ) -> float:
        """Change the weights by one batch; return the sum of its losses."""
        recipe, ranks = self.recipe, self.ranks
        torch.manual_seed(torch_seed(recipe.seed, STEP, epoch, self.at.step, ranks.rank))
        mine, counts = ranks.share(rows)
        inputs = self.feed.batch(mine, None if changes is None else changes[mine])
        labels = self.feed.labels(mine)
        self.optimiser.zero_grad(set_to_none=True)
        total = self._total(inputs, labels, epoch, rows)
        if not counts:
            total = total * 0.0
        seen = ranks.sum(float(total.detach()))
        if not np.isfinite(seen):
            raise self._nan(epoch, rows, "the loss")
        loss = total / len(rows) if recipe.reduction == "mean" else total
        # DistributedDataParallel takes the mean over processes where the sum is meant.
        (loss * ranks.world).backward()  # type: ignore[no-untyped-call]
        if recipe.clip > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self.optimiser.step()
        return seen

    def _total(self, inputs: Any, labels: Tensor, epoch: int, rows: NDArray[np.int64]) -> Tensor:
        """Return the sum of the losses, the penalty included, of this process's examples."""
        if self.recipe.trace_weight > 0:
            penalised = CurvatureRegularisedLoss(self._loss, self.recipe.trace_weight)
            penalty_and_loss: Tensor = penalised(self.model, inputs, labels)
            size = len(labels) if self.recipe.reduction == "mean" else 1
            return penalty_and_loss * size
        if isinstance(inputs, TreeBatch) and isinstance(self.model, TreeLSTM):
            logits, labels = _labelled_nodes(self.model, inputs)
        else:
            logits = forward(self.recipe, self.parallel, inputs, self.feed.device)
        try:
            return self.objective.total(logits, labels)
        except ValueError:
            if bool(torch.isfinite(logits).all()):
                raise
            if self.ranks.world == 1:
                raise self._nan(epoch, rows, "the output of the network") from None
            return logits.sum()  # not finite: all processes learn of it together

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        total = self.objective.total(logits, labels)
        return total / len(labels) if self.recipe.reduction == "mean" else total

    def _nan(self, epoch: int, rows: NDArray[np.int64], what: str) -> NanLossError:
        left = "no checkpoint was written before"
        if self.path.exists():
            left = f"the last good checkpoint is {self.path}"
        return NanLossError(
            f"{what} is nan or infinite at epoch {epoch}, step {self.at.step} (both from 0); "
            f"training examples of the batch: {', '.join(map(str, rows.tolist()))}; {left}. Look "
            "at these examples, or lower `lr` or set `clip`, in another folder."
        )

    def _look(self, epoch: int, last_rows: NDArray[np.int64]) -> None:
        """Add the figures of `epoch`, whose last batch was `last_rows`, to the dynamics."""
        whole = self.dataset.train
        part = Split(whole.inputs[:SEEN_OF_TRAIN], whole.labels[:SEEN_OF_TRAIN])
        splits = {"train": part, "validation": self.dataset.validation, "test": self.dataset.test}
        figures: dict[str, Any] = {
            "loss": self.at.loss_sum / self.n,
            "lr": self.recipe.lr_at(epoch),
            "weight_norm": weight_norm(self.model),
        }
        is_due = (epoch + 1) % self.look_every == 0 or epoch + 1 == self.recipe.epochs
        for name, split in splits.items():
            if name != "validation" and not is_due:
                continue
            seen = self.seen[name] = evaluate(self.model, self.feed, split, self.objective)
            if not np.isfinite(seen.logits).all():
                raise self._nan(epoch, last_rows, f"the output on the {name} examples")
            figures |= split_figures(name, seen)
        for name in splits:
            figures = unseen_figures(name, like=figures) | figures
        judged = self.seen["validation"]
        self.objective.end_epoch(torch.from_numpy(judged.logits), torch.from_numpy(judged.labels))
        self.dynamics = self.dynamics.extended(figures)
        errors = self.dynamics.arrays["validation_error"]
        if self.recipe.keep == "best" and np.argmin(errors) == epoch:
            state = self.model.state_dict()
            self.at.best = {name: weight.detach().clone() for name, weight in state.items()}

    def _save(self) -> None:
        self.saved_at = time.monotonic()
        if not self.ranks.is_first:
            return
        weights = self.model.state_dict()
        if not all(bool(torch.isfinite(w).all()) for w in weights.values()):
            return  # the next step stops the run; the checkpoint before is the last good one
        self.at.model = weights
        self.at.optimiser = self.optimiser.state_dict()
        self.at.objective = self.objective.state_dict()
        self.at.dynamics = self.dynamics.tensors()
        save_checkpoint(self.path, self.at, recipe=self.recipe, data=self.data)

    def _restore(self) -> None:
        self.at = load_checkpoint(self.path, recipe=self.recipe, data=self.data)
        self.model.load_state_dict(self.at.model)
        self.optimiser.load_state_dict(self.at.optimiser)
        self.objective.load_state_dict(self.at.objective)
        self.dynamics = Dynamics.of(self.at.dynamics)

    def _tick(self) -> None:
        if self.report is None or not self.ranks.is_first:
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


def _labelled_nodes(model: TreeLSTM, batch: TreeBatch) -> tuple[Tensor, Tensor]:
    """Return logits and labels of every phrase that has one, as the published trees learn."""
    labelled = batch.labels >= 0
    return model.node_logits(batch)[labelled], batch.labels[labelled]
