"""The curvature of a trained run's loss."""

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from focalibrate.nn import FocalLoss, HessianOperator
from focalibrate_papers.datasets import Dataset, Split
from focalibrate_papers.recipe import Recipe, read_recipe
from focalibrate_papers.train._data import load_dataset
from focalibrate_papers.train._inputs import Feed
from focalibrate_papers.train._models import build_model
from focalibrate_papers.train._objective import Objective
from focalibrate_papers.train.checkpoint import CHECKPOINT, read_checkpoint
from focalibrate_papers.train.many import TrainedMember

CHUNK = 256
"""Examples in a batch of a Hessian-vector product."""


def run_hessian(
    run: str | Path,
    *,
    split: Literal["train", "validation"] = "validation",
    dataset: Dataset | None = None,
    data: str | Path | None = None,
    max_examples: int | None = None,
    gamma: float | None = None,
) -> HessianOperator:
    """Return the Hessian of a run's mean loss, by its products.

    Args:
        run: folder that `train` filled.
        split: the examples the loss is taken over.
        dataset: examples; those of the run's recipe when None.
        data: folder of data sets; the environment variable FOCALIBRATE_DATA names it when None.
        max_examples: use only the first examples, at most this many.
        gamma: take the focal loss of this exponent, 0 for cross-entropy, instead of the loss
            the run was trained by.

    Raises:
        ValueError: if the folder holds no finished run, or its data cannot be found.
    """
    run = Path(run)
    for name in ("recipe.toml", "model.pt"):
        if not (run / name).is_file():
            raise ValueError(
                f"{run}: holds no {name}, so it is not a finished run. Train it to the end with "
                f"`focalibrate train … -o {run}`."
            )
    recipe = read_recipe(run / "recipe.toml")
    if dataset is None:
        dataset = load_dataset(recipe, data=data)
    weights = torch.load(run / "model.pt", weights_only=True)
    return _hessian(recipe, weights, dataset, split, max_examples, _loss(recipe, gamma, run))


def member_hessian(
    member: TrainedMember,
    dataset: Dataset,
    *,
    split: Literal["train", "validation"] = "validation",
    max_examples: int | None = None,
    gamma: float | None = None,
) -> HessianOperator:
    """Return the Hessian of the mean loss of a member that `train_many` trained on `dataset`.

    The loss is that of its recipe without the penalty; the rest is as for `run_hessian`.
    """
    return _hessian(
        member.recipe, member.weights, dataset, split, max_examples, _loss(member.recipe, gamma)
    )


def _hessian(
    recipe: Recipe,
    weights: dict[str, Tensor],
    dataset: Dataset,
    split: Literal["train", "validation"],
    max_examples: int | None,
    loss: nn.Module,
) -> HessianOperator:
    with torch.random.fork_rng():
        model = build_model(recipe, dataset)
    model.load_state_dict(weights)
    chosen: Split = dataset.train if split == "train" else dataset.validation
    few = Split(chosen.inputs[:max_examples], chosen.labels[:max_examples])
    return HessianOperator(model, loss, list(Feed(dataset).chunks(few, CHUNK)))


def _loss(recipe: Recipe, gamma: float | None, run: Path | None = None) -> nn.Module:
    """Return the focal loss of `gamma`, or the loss of the recipe at its last epoch.

    AdaFocal's exponents are those that followed from the last validation, as the checkpoint of
    the run has them.
    """
    if gamma is not None:
        return FocalLoss(gamma, reduction="sum")
    objective = Objective(recipe)
    if recipe.gamma == "adafocal":
        if run is None or not (run / CHECKPOINT).is_file():
            raise ValueError(
                f"{run or 'the member'}: has no {CHECKPOINT}, in which AdaFocal's exponents are. "
                "Give `gamma`, for instance 0 for the curvature of cross-entropy."
            )
        objective.load_state_dict(read_checkpoint(run / CHECKPOINT)["objective"])
    objective.start_epoch(recipe.epochs - 1)
    return objective.module
