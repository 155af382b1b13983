"""A network in training: its loss, its optimiser and one step."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from focalibrate.datasets import Dataset
from focalibrate.models import TreeBatch, TreeLSTM
from focalibrate.nn import CurvatureRegularisedLoss
from focalibrate.train._checks import check_batches
from focalibrate.train._inputs import START, STEP, Feed, torch_seed
from focalibrate.train._models import build_model
from focalibrate.train._objective import Objective
from focalibrate.train._ranks import Ranks
from focalibrate.train._step import build_optimiser, forward
from focalibrate.train.recipe import Recipe
from focalibrate.train.run import NanLossError


class Learner:
    """The network of a recipe with its loss and its optimiser."""

    def __init__(
        self, recipe: Recipe, dataset: Dataset, *, ranks: Ranks, device: str, checkpoint: Path
    ) -> None:
        self.recipe, self.ranks, self.checkpoint = recipe, ranks, checkpoint
        self.feed = Feed(dataset, augmentation=recipe.augmentation, device=device)
        torch.manual_seed(torch_seed(recipe.seed, START))
        self.model = build_model(recipe, dataset).to(device)
        check_batches(recipe, self.model, n_train=len(dataset.train), world=ranks.world)
        self.objective = Objective(recipe)
        self.optimiser = build_optimiser(recipe, self.model.parameters())
        self.parallel: nn.Module = self.model

    def join(self) -> None:
        """Train together with the other processes, which have the same weights now."""
        if self.ranks.world == 1:
            return
        if isinstance(self.model, TreeLSTM):
            raise ValueError("trees cannot be trained over several processes; leave out torchrun.")
        self.parallel = DistributedDataParallel(self.model)

    def step(
        self,
        epoch: int,
        step: int,
        rows: NDArray[np.int64],
        changes: NDArray[np.int64] | None,
    ) -> float:
        """Change the weights by one batch; return the sum of its losses."""
        recipe, ranks = self.recipe, self.ranks
        torch.manual_seed(torch_seed(recipe.seed, STEP, epoch, step, ranks.rank))
        mine, counts = ranks.share(rows)
        inputs = self.feed.batch(mine, None if changes is None else changes[mine])
        labels = self.feed.labels(mine)
        self.optimiser.zero_grad(set_to_none=True)
        total = self._total(inputs, labels)
        if total is None:
            raise self.nan(epoch, step, rows, "the output of the network")
        if not counts:
            total = total * 0.0
        seen = ranks.sum(float(total.detach()))
        if not np.isfinite(seen):
            raise self.nan(epoch, step, rows, "the loss")
        loss = total / len(rows) if recipe.reduction == "mean" else total
        # DistributedDataParallel takes the mean over processes where the sum is meant.
        (loss * ranks.world).backward()  # type: ignore[no-untyped-call]
        if recipe.clip > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip)
        self.optimiser.step()
        return seen

    def nan(self, epoch: int, step: int, rows: NDArray[np.int64], what: str) -> NanLossError:
        """Return the error of a run that cannot continue: step, examples, last checkpoint."""
        left = "no checkpoint was written before"
        if self.checkpoint.exists():
            left = f"the last good checkpoint is {self.checkpoint}"
        return NanLossError(
            f"{what} is nan or infinite at epoch {epoch}, step {step} (both from 0); "
            f"training examples of the batch: {', '.join(map(str, rows.tolist()))}; {left}. Look "
            "at these examples, or lower `lr` or set `clip`, in another folder."
        )

    def _total(self, inputs: Any, labels: Tensor) -> Tensor | None:
        """Return the sum of the losses, the penalty included, of this process's examples.

        None where the output of the network is not finite and no other process waits for it.
        """
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
            # Not finite: several processes learn of it together, by their sum.
            return None if self.ranks.world == 1 else logits.sum()

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        total = self.objective.total(logits, labels)
        return total / len(labels) if self.recipe.reduction == "mean" else total


def _labelled_nodes(model: TreeLSTM, batch: TreeBatch) -> tuple[Tensor, Tensor]:
    """Return logits and labels of every phrase that has one, as the published trees learn."""
    labelled = batch.labels >= 0
    return model.node_logits(batch)[labelled], batch.labels[labelled]
