"""Many small runs as one: copies of a network with stacked weights."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from focalibrate.data.sets import Dataset, Split, load
from focalibrate.losses import ByEpoch, BySample, brier_loss, focal_loss, gamma_policy
from focalibrate.train._checks import check_dataset
from focalibrate.train._inputs import START, Feed, epoch_changes, epoch_order, torch_seed
from focalibrate.train._models import build_model
from focalibrate.train._step import build_optimiser, set_lr
from focalibrate.train.dynamics import EVALUATION_BATCH
from focalibrate.train.loop import DATA_SEED
from focalibrate.train.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Copy:
    """One of the runs."""

    recipe: Recipe
    """with the seed and the exponent of this copy"""
    weights: dict[str, Tensor]
    """the network's state, for `load_state_dict`"""
    loss: NDArray[np.float64]
    """mean training loss of each epoch; nan from where the copy diverged"""
    validation_logits: NDArray[np.float32]
    test_logits: NDArray[np.float32]


def train_many(
    recipe: Recipe,
    *,
    seeds: Iterable[int] | None = None,
    gammas: Iterable[float | str] | None = None,
    dataset: Dataset | None = None,
    directory: str | Path | None = None,
) -> list[Copy]:
    """Train one copy for every seed and exponent, all at once, in memory.

    Each copy has its own initial weights, order and exponent, and ends where `train` of its
    recipe ends, to float tolerance. A step of small networks costs mostly calls, not arithmetic;
    stacked, one call serves all copies. A copy that diverges does not disturb the others.

    Args:
        recipe: what the copies share.
        seeds: of the copies; that of the recipe when None.
        gammas: exponents or names of policies; that of the recipe when None.
        dataset: examples; `focalibrate.data.sets.load` of the recipe's name when None.
        directory: where that looks for files.

    Returns:
        Copies in the order of the seeds, and of the exponents within a seed.

    Raises:
        ValueError: for networks with batch-norm or dropout, whose copies would disturb each
            other, and for losses that are no sum over examples.
    """
    seeds = [recipe.seed] if seeds is None else list(seeds)
    gammas = [recipe.gamma] if gammas is None else list(gammas)
    recipes = [replace(recipe, seed=seed, gamma=gamma) for seed in seeds for gamma in gammas]
    if not recipes:
        raise ValueError("`seeds` and `gammas` must not be empty.")
    _check_kind(recipe, recipes)
    if dataset is None:
        dataset = load(
            recipe.dataset,
            directory=None if directory is None else Path(directory),
            seed=DATA_SEED,
            fraction=recipe.fraction,
        )
    check_dataset(dataset)
    if dataset.kind not in ("image", "tabular"):
        raise ValueError(
            f"`dataset` must be of images or a table for many copies at once, got {dataset.kind}. "
            "Call `train` for each seed."
        )
    return _Stack(recipes, dataset).run()


class _Stack:
    """Copies in progress; the first axis of every weight is the copy."""

    def __init__(self, recipes: Sequence[Recipe], dataset: Dataset) -> None:
        self.recipes, self.dataset = recipes, dataset
        self.recipe = recipes[0]
        self.feed = Feed(dataset, augmentation=self.recipe.augmentation)
        models = [_new_model(recipe, dataset) for recipe in recipes]
        _check_model(self.recipe, models[0])
        self.weights, _ = stack_module_state(models)
        self.base = models[0].to("meta")
        self.optimiser = build_optimiser(self.recipe, list(self.weights.values()))
        # One forward of all copies; vmap makes stacked products of every layer.
        self.forward = vmap(partial(_call, self.base), randomness="error")

    def run(self) -> list[Copy]:
        """Train to the end and return the copies."""
        losses = [self._epoch(epoch) for epoch in range(self.recipe.epochs)]
        validation, test = self._logits(self.dataset.validation), self._logits(self.dataset.test)
        return [
            Copy(
                recipe,
                {name: stacked[i].detach().clone() for name, stacked in self.weights.items()},
                np.array([loss[i] for loss in losses]),
                validation[i],
                test[i],
            )
            for i, recipe in enumerate(self.recipes)
        ]

    def _epoch(self, epoch: int) -> NDArray[np.float64]:
        recipe, n = self.recipe, len(self.dataset.train)
        set_lr(self.optimiser, recipe.lr_at(epoch))
        by_seed = {r.seed: epoch_order(r.seed, epoch, n) for r in self.recipes}
        order = np.stack([by_seed[r.seed] for r in self.recipes])
        changes = None
        if recipe.augmentation != "none":
            drawn = {r.seed: epoch_changes(r.seed, epoch, n) for r in self.recipes}
            changes = np.stack([drawn[r.seed] for r in self.recipes])
        gammas = [_at(r.gamma, epoch, recipe.epochs) for r in self.recipes]
        sums = torch.zeros(len(self.recipes), dtype=torch.float64)
        for start in range(0, n, recipe.batch):
            sums += self._step(order[:, start : start + recipe.batch], changes, gammas)
        return (sums / n).numpy()

    def _step(
        self,
        rows: NDArray[np.int64],
        changes: NDArray[np.int64] | None,
        gammas: Sequence[float | BySample],
    ) -> Tensor:
        """Change all weights by one batch each; return the sums of the losses, ``[R]``."""
        copies, size = rows.shape
        flat = rows.ravel()
        moved = None if changes is None else np.take_along_axis(changes, rows[..., None], 1)
        inputs = self.feed.batch(flat, None if moved is None else moved.reshape(-1, 3))
        logits = self.forward(self.weights, inputs.view(copies, size, *inputs.shape[1:]))
        z = logits.detach().flatten(0, 1)
        losses, gradient = self._rows(z, self.feed.labels(flat), gammas)
        if self.recipe.reduction == "mean":
            gradient /= size
        self.optimiser.zero_grad(set_to_none=True)
        logits.backward(gradient.view_as(logits))  # type: ignore[no-untyped-call]
        if self.recipe.clip > 0:
            _clip(list(self.weights.values()), self.recipe.clip)
        self.optimiser.step()
        return losses.view(copies, size).sum(dim=1).double()

    def _rows(
        self, logits: Tensor, labels: Tensor, gammas: Sequence[float | BySample]
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of every example of every copy, ``[R * B]``, and its gradient."""
        recipe = self.recipe
        if recipe.loss == "focal" and recipe.label_smoothing == 0:
            return focal_and_gradient(logits, labels, partial(_exponents, gammas=gammas))
        given = logits.requires_grad_()
        if recipe.loss == "brier":
            loss = brier_loss(given, labels, label_smoothing=recipe.label_smoothing)
        else:
            p = logits.detach().softmax(-1).gather(1, labels[:, None])
            loss = focal_loss(
                given,
                labels,
                gamma=_exponents(p, gammas=gammas)[:, 0],
                label_smoothing=recipe.label_smoothing,
            )
        return loss.detach(), torch.autograd.grad(loss.sum(), given)[0]

    def _logits(self, split: Split) -> NDArray[np.float32]:
        """Return the logits of `split` for each copy, ``[R, N, K]``."""
        shared = vmap(partial(_call, self.base), in_dims=(0, None))
        with torch.no_grad():
            found = [shared(self.weights, x) for x, _ in self.feed.chunks(split, EVALUATION_BATCH)]
        return torch.cat(found, dim=1).numpy()


def _call(base: nn.Module, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
    logits: Tensor = functional_call(base, weights, (inputs,))
    return logits


def _new_model(recipe: Recipe, dataset: Dataset) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(torch_seed(recipe.seed, START))
        return build_model(recipe, dataset)


def _at(gamma: float | str, epoch: int, n_epochs: int) -> float | BySample:
    policy = gamma_policy(gamma)
    if isinstance(policy, ByEpoch):
        return policy.at(epoch, n_epochs)
    assert isinstance(policy, (float, BySample))  # noqa: S101  AdaFocal was refused
    return policy


def focal_and_gradient(
    logits: Tensor, labels: Tensor, exponents: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    r"""Return the focal loss of each row and its gradient :math:`\varphi_\gamma(p)(v - e_y)`.

    Without autograd: the backward of the network starts from the gradient.

    Args:
        logits: ``[M, K]``.
        labels: class indices ``[M]``.
        exponents: from probabilities of the true class, ``[M, 1]``, to exponents, ``[M, 1]``.
    """
    at_true = labels[:, None]
    log_v = logits.log_softmax(dim=-1)
    log_p = log_v.gather(1, at_true)
    v = log_v.exp_()
    p = v.gather(1, at_true)
    v.scatter_(1, at_true, torch.zeros_like(p))
    rest = v.sum(dim=-1, keepdim=True)  # 1 - p without cancellation
    gamma = exponents(p)
    power = rest.pow(gamma)
    r = -p * log_p / rest.clamp_min(torch.finfo(rest.dtype).tiny)
    phi = power * (1.0 + gamma * r)
    v.mul_(phi).scatter_(1, at_true, -phi * rest)
    return -(power * log_p)[:, 0], v


def _exponents(p: Tensor, *, gammas: Sequence[float | BySample]) -> Tensor:
    """Return the exponent of every example of every copy, ``[R * B, 1]``, from its `p`."""
    plain = torch.tensor([0.0 if isinstance(g, BySample) else g for g in gammas])
    table = plain[:, None].expand(-1, len(p) // len(gammas)).contiguous()
    for i, gamma in enumerate(gammas):
        if isinstance(gamma, BySample):
            table[i] = gamma(p.view(len(gammas), -1)[i])
    return table.view(-1, 1)


def _clip(weights: Sequence[Tensor], limit: float) -> None:
    """Scale the gradient of each copy to `limit` at most, as `clip_grad_norm_` does for one."""
    gradients = [w.grad for w in weights if w.grad is not None]
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients]).norm(dim=0)
    factor = (limit / (norms + 1e-6)).clamp(max=1.0)  # the 1e-6 is that of `clip_grad_norm_`
    for g in gradients:
        g.mul_(factor.view(-1, *[1] * (g.ndim - 1)))


def _check_kind(recipe: Recipe, recipes: Sequence[Recipe]) -> None:
    if recipe.loss not in ("focal", "brier") or any(r.gamma == "adafocal" for r in recipes):
        raise ValueError(
            f"`loss` must be 'focal' (not adafocal) or 'brier' for many copies at once, got "
            f"{recipe.loss!r}. Call `train` for each seed."
        )
    if recipe.trace_weight > 0 or recipe.precision != "float32" or recipe.keep != "last":
        raise ValueError(
            "`trace_weight` must be 0, `precision` float32 and `keep` last for many copies at "
            f"once, got {recipe.trace_weight:g}, {recipe.precision} and {recipe.keep}. Call "
            "`train` for each seed."
        )


def _check_model(recipe: Recipe, model: nn.Module) -> None:
    drops = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.p > 0]
    if drops or any(True for _ in model.buffers()):
        raise ValueError(
            f"`model` must be without batch-norm and dropout for many copies at once, got "
            f"{recipe.model!r}. Call `train` for each seed."
        )
