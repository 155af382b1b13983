"""The curvature of a trained run's loss."""

from pathlib import Path

import torch
from torch import Tensor, nn

from focalibrate.nn import FocalLoss, HessianOperator
from focalibrate_papers.datasets import Dataset, Split
from focalibrate_papers.recipe import Recipe, read_recipe
from focalibrate_papers.train._inputs import Feed, load_dataset
from focalibrate_papers.train._learner import Objective, build_model
from focalibrate_papers.train.many import TrainedMember

CHUNK = 256
"""Examples in a batch of a Hessian-vector product."""


def run_hessian(
    run: str | Path,
    *,
    dataset: Dataset | None = None,
    max_examples: int | None = None,
    gamma: float | None = None,
) -> HessianOperator:
    """Return the Hessian of a run's mean loss over the validation examples, by its products.

    Args:
        run: folder that `train` filled.
        dataset: examples; those of the run's recipe when None.
        max_examples: use only the first examples, at most this many.
        gamma: take the focal loss of this exponent, 0 for cross-entropy, instead of the loss
            the run was trained by, at its last epoch.

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
    weights = torch.load(run / "model.pt", weights_only=True)
    loss: nn.Module
    if gamma is not None:
        loss = FocalLoss(gamma, reduction="sum")
    elif recipe.gamma == "adafocal":
        raise ValueError(
            f"{run}: AdaFocal's loss depends on the validation examples. Give `gamma`, for "
            "instance 0 for the curvature of cross-entropy."
        )
    else:
        loss = _last_loss(recipe)
    return _hessian(recipe, weights, dataset or load_dataset(recipe), loss, max_examples)


def member_hessian(member: TrainedMember, dataset: Dataset) -> HessianOperator:
    """Return the Hessian of the mean loss of a member that `train_many` trained on `dataset`.

    The loss is that of its recipe without the penalty, over the validation examples.
    """
    return _hessian(member.recipe, member.weights, dataset, _last_loss(member.recipe), None)


def _last_loss(recipe: Recipe) -> nn.Module:
    objective = Objective(recipe)
    objective.start_epoch(recipe.epochs - 1)
    return objective.module


def _hessian(
    recipe: Recipe,
    weights: dict[str, Tensor],
    dataset: Dataset,
    loss: nn.Module,
    max_examples: int | None,
) -> HessianOperator:
    with torch.random.fork_rng():
        model = build_model(recipe, dataset)
    model.load_state_dict(weights)
    chosen = dataset.validation
    few = Split(chosen.inputs[:max_examples], chosen.labels[:max_examples])
    return HessianOperator(model, loss, list(Feed(dataset).chunks(few, CHUNK)))
