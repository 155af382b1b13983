"""A network in training: its checks, loss, optimiser and one step."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from focalibrate._check import check_labels
from focalibrate.nn import BrierLoss, CurvatureRegularisedLoss, FocalLoss, MMCELoss
from focalibrate_papers.datasets import Dataset
from focalibrate_papers.models import TreeBatch, TreeLSTM, build
from focalibrate_papers.recipe import Recipe
from focalibrate_papers.train._inputs import START, STEP, Feed, torch_seed


class NanLossError(ValueError):
    """The loss is no longer a number."""


BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def check_dataset(dataset: Dataset) -> None:
    """Raise `ValueError` unless every split has examples, with labels of at least two classes."""
    for name in ("train", "validation", "test"):
        split = getattr(dataset, name)
        if len(split) == 0:
            raise ValueError(
                f"{dataset.name}: the {name} examples are empty. Use a larger `fraction` or "
                "another data set."
            )
        if len(split.inputs) != len(split.labels):
            raise ValueError(
                f"{dataset.name}: the {name} examples must have one label each, found "
                f"{len(split.inputs)} inputs and {len(split.labels)} labels."
            )
        try:
            check_labels(split.labels, shape=(len(split),), n_classes=dataset.n_classes)
        except ValueError as error:
            raise ValueError(f"{dataset.name}, {name} examples: {error}") from error
    found = np.unique(dataset.train.labels)
    if dataset.n_classes < 2 or len(found) < 2:
        raise ValueError(
            f"{dataset.name}: training needs examples of at least 2 classes, found "
            f"{'class ' + str(found[0]) + ' only' if len(found) == 1 else len(found)}. Use a "
            "larger `fraction` or another data set."
        )


def check_batches(recipe: Recipe, model: nn.Module, *, n_train: int) -> None:
    """Raise `ValueError` if batch-norm would get a batch of one example."""
    if not any(isinstance(module, BATCH_NORM) for module in model.modules()):
        return
    full, rest = divmod(n_train, recipe.batch)
    sizes = ([recipe.batch] if full else []) + ([rest] if rest else [])
    for size in sizes:
        if size < 2:
            where = "every batch" if size == recipe.batch else f"the last batch of {n_train}"
            raise ValueError(
                f"`batch` must leave at least 2 examples to each step, as {recipe.model!r} has "
                f"batch-norm, which cannot learn from one; {where} examples has {size}. "
                f"Set batch={recipe.batch + 1}, or another `fraction`."
            )


@final
class Objective:
    """The loss a recipe names; its exponent may change from epoch to epoch."""

    def __init__(self, recipe: Recipe) -> None:
        self.module = _module(recipe)
        self._n_epochs = recipe.epochs

    def total(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the losses; of a penalised batch, its loss times its size."""
        loss: Tensor = self.module(logits, labels)
        return loss * len(labels) if isinstance(self.module, MMCELoss) else loss

    def start_epoch(self, epoch: int) -> None:
        """Move a scheduled exponent to `epoch`, counted from 0."""
        if isinstance(self.module, FocalLoss):
            self.module.set_epoch(epoch, self._n_epochs)

    def end_epoch(self, logits: Tensor, labels: Tensor) -> None:
        """Adapt AdaFocal's exponents to the logits of the validation examples."""
        if isinstance(self.module, FocalLoss):
            self.module.update(logits, labels)

    def state_dict(self) -> dict[str, Any]:
        """Return the state to save: AdaFocal's exponents."""
        return self.module.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what was saved."""
        self.module.load_state_dict(state)


def _module(recipe: Recipe) -> nn.Module:
    if recipe.loss == "focal":
        return FocalLoss(recipe.gamma, label_smoothing=recipe.label_smoothing, reduction="sum")
    if recipe.loss == "brier":
        return BrierLoss(label_smoothing=recipe.label_smoothing, reduction="sum")
    return MMCELoss(recipe.mmce_weight)


def logit_gradients(objective: Objective, logits: Tensor, labels: Tensor) -> Tensor:
    r"""Return the gradient of each example's loss with respect to its logits, ``[N, K]``.

    For focal loss this is :math:`\varphi_\gamma(p)\,(v - e_y)`.
    """
    with torch.enable_grad():
        given = logits.detach().float().requires_grad_()
        return torch.autograd.grad(objective.total(given, labels), given)[0]


def build_model(recipe: Recipe, dataset: Dataset) -> nn.Module:
    """Return the network, newly initialised from torch's global generator.

    Sizes that follow from the data (classes, channels, features, words) are filled in; the rest
    is the recipe's `size`.
    """
    model = build(recipe.model, **(_facts(dataset) | dict(recipe.size)))
    if dataset.kind == "image":  # a sixth faster on a CPU, with inputs in the same memory layout
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def _facts(dataset: Dataset) -> dict[str, Any]:
    facts: dict[str, Any] = {"n_classes": dataset.n_classes}
    if dataset.kind == "image":
        shape = np.asarray(dataset.train.inputs).shape
        return facts | {"in_channels": shape[3], "image_size": shape[1]}
    if dataset.kind == "tabular":
        return facts | {"n_features": np.asarray(dataset.train.inputs).shape[1]}
    return facts | {"n_words": len(dataset.words), "vectors": dataset.vectors}


def build_optimiser(
    recipe: Recipe, parameters: Iterable[nn.Parameter] | list[Tensor]
) -> torch.optim.Optimizer:
    """Return the optimiser the recipe names."""
    wanted = list(parameters)
    decay = recipe.weight_decay
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(wanted, lr=recipe.lr, momentum=recipe.momentum, weight_decay=decay)
    if recipe.optimiser == "adam":
        return torch.optim.Adam(wanted, lr=recipe.lr, weight_decay=decay)
    # Fused, a step over word vectors takes a sixth of the time.
    return torch.optim.Adagrad(wanted, lr=recipe.lr, weight_decay=decay, fused=True)


def set_lr(optimiser: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group."""
    for group in optimiser.param_groups:
        group["lr"] = lr


def forward(recipe: Recipe, model: nn.Module, inputs: Any) -> Tensor:
    """Return the logits in float32, computed in bfloat16 where the recipe says so."""
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    logits: Tensor
    if recipe.precision == "float32":
        logits = model(*arguments)
        return logits
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(*arguments)
    return logits.float()  # the loss needs more than three digits of them


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
        self, epoch: int, step: int, rows: NDArray[np.int64], changes: NDArray[np.int64] | None
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
