"""A network in training: its loss, its optimiser and one step."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from focalibrate.nn import CurvatureRegularisedLoss
from focalibrate_papers.datasets import Dataset
from focalibrate_papers.models import TreeBatch, TreeLSTM
from focalibrate_papers.recipe import Recipe
from focalibrate_papers.train._checks import check_batches
from focalibrate_papers.train._inputs import START, STEP, Feed, torch_seed
from focalibrate_papers.train._objective import Objective
from focalibrate_papers.train._outputs import NanLossError
from focalibrate_papers.train._step import build_model, build_optimiser, forward


class Learner:
    """The network of a recipe with its loss and its optimiser."""

    def __init__(self, recipe: Recipe, dataset: Dataset, *, checkpoint: Path) -> None:
        self.recipe, self.checkpoint = recipe, checkpoint
        self.feed = Feed(dataset, augmentation=recipe.augmentation)
        torch.manual_seed(torch_seed(recipe.seed, START))
        self.model = build_model(recipe, dataset)
        check_batches(recipe, self.model, n_train=len(dataset.train))
        self.objective = Objective(recipe)
        self.optimiser = build_optimiser(recipe, self.model.parameters())

    def step(
        self,
        epoch: int,
        step: int,
        rows: NDArray[np.int64],
        changes: NDArray[np.int64] | None,
    ) -> float:
        """Change the weights by one batch; return the sum of its losses."""
        recipe = self.recipe
        torch.manual_seed(torch_seed(recipe.seed, STEP, epoch, step, 0))
        inputs = self.feed.batch(rows, None if changes is None else changes[rows])
        labels = self.feed.labels(rows)
        self.optimiser.zero_grad(set_to_none=True)
        total = self._total(inputs, labels)
        if total is None:
            raise self.nan(epoch, step, rows, "the output of the network")
        seen = float(total.detach())
        if not np.isfinite(seen):
            raise self.nan(epoch, step, rows, "the loss")
        loss = total / len(rows) if recipe.reduction == "mean" else total
        loss.backward()  # type: ignore[no-untyped-call]
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
        """Return the sum of the losses with the penalty; None where the output is not finite."""
        if self.recipe.trace_weight > 0:
            penalised = CurvatureRegularisedLoss(self._loss, self.recipe.trace_weight)
            penalty_and_loss: Tensor = penalised(self.model, inputs, labels)
            size = len(labels) if self.recipe.reduction == "mean" else 1
            return penalty_and_loss * size
        if isinstance(inputs, TreeBatch) and isinstance(self.model, TreeLSTM):
            logits, labels = _labelled_nodes(self.model, inputs)
        else:
            logits = forward(self.recipe, self.model, inputs)
        try:
            return self.objective.total(logits, labels)
        except ValueError:
            if bool(torch.isfinite(logits).all()):
                raise
            return None

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        total = self.objective.total(logits, labels)
        return total / len(labels) if self.recipe.reduction == "mean" else total


def _labelled_nodes(model: TreeLSTM, batch: TreeBatch) -> tuple[Tensor, Tensor]:
    """Return logits and labels of every phrase that has one, as the published trees learn."""
    labelled = batch.labels >= 0
    return model.node_logits(batch)[labelled], batch.labels[labelled]
