"""Copies of a network in training, their weights stacked."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from focalibrate.losses import ByEpoch, BySample, brier_loss, focal_loss, gamma_policy
from focalibrate.nn.curvature import AlongRay, curvature_along, random_signs
from focalibrate_papers.datasets import Dataset
from focalibrate_papers.recipe import Recipe
from focalibrate_papers.train._inputs import (
    START,
    STEP,
    Feed,
    epoch_changes,
    epoch_order,
    torch_seed,
)
from focalibrate_papers.train._models import build_model
from focalibrate_papers.train._step import build_optimiser, set_lr
from focalibrate_papers.train.dynamics import EVALUATION_BATCH

Gammas = Sequence[float | BySample]


class Stack:
    """Copies in progress; the first axis of every weight is the copy.

    Copies of one seed see the same batches; only the batches of different seeds are gathered.

    Args:
        recipes: recipes of the copies, different in seed, exponent and weight of the trace only.
        datasets: data set of each seed, all of one shape; one object for all where they share it.
    """

    def __init__(self, recipes: Sequence[Recipe], datasets: Mapping[int, Dataset]) -> None:
        self.recipes, self.recipe = recipes, recipes[0]
        self.seeds = list(dict.fromkeys(r.seed for r in recipes))
        self.place = torch.tensor([self.seeds.index(r.seed) for r in recipes])
        self.taus = torch.tensor([r.trace_weight for r in recipes])
        feeds = {id(d): Feed(d, augmentation=self.recipe.augmentation) for d in datasets.values()}
        self.feeds = [feeds[id(datasets[seed])] for seed in self.seeds]
        self.n = len(self.feeds[0].dataset.train)
        models = [_new_model(r, datasets[r.seed]) for r in recipes]
        _check_model(self.recipe, models[0])
        self.weights, _ = stack_module_state(models)
        self.base = models[0].to("meta")
        self.optimiser = build_optimiser(self.recipe, list(self.weights.values()))
        # One forward of all copies; vmap makes stacked products of every layer. Copies of a
        # single seed share batch and random signs, which are then neither copied nor multiplied
        # more than once.
        own = 0 if len(self.seeds) > 1 else None
        self.forward = vmap(partial(_call, self.base), in_dims=(0, own))
        self.forward_along = vmap(partial(_call_along, self.base), in_dims=(0, own, 0, own))

    def epoch(self, epoch: int) -> NDArray[np.float64]:
        """Train for an epoch; return the mean loss of each copy, ``[R]``."""
        recipe = self.recipe
        set_lr(self.optimiser, recipe.lr_at(epoch))
        order = np.stack([epoch_order(seed, epoch, self.n) for seed in self.seeds])
        changes = None
        if recipe.augmentation != "none":
            changes = np.stack([epoch_changes(seed, epoch, self.n) for seed in self.seeds])
        gammas = [_at(r.gamma, epoch, recipe.epochs) for r in self.recipes]
        sums = torch.zeros(len(self.recipes), dtype=torch.float64)
        for step, start in enumerate(range(0, self.n, recipe.batch)):
            inputs, labels = self._batch(order[:, start : start + recipe.batch], changes)
            self.optimiser.zero_grad(set_to_none=True)
            if self.taus.any():
                sums += self._penalised(inputs, labels, gammas, self._signs(epoch, step))
            else:
                sums += self._plain(inputs, labels, gammas)
            if recipe.clip > 0:
                _clip(list(self.weights.values()), recipe.clip)
            self.optimiser.step()
        return (sums / self.n).numpy()

    def logits(self, part: str) -> list[NDArray[np.float32]]:
        """Return the logits ``[N, K]`` of the split called `part` for each copy."""
        shared = vmap(partial(_call, self.base), in_dims=(0, None))
        found: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * len(self.recipes)
        for feed in dict.fromkeys(self.feeds):
            copies = [i for i, s in enumerate(self.place.tolist()) if self.feeds[s] is feed]
            weights = {name: stacked[copies] for name, stacked in self.weights.items()}
            with torch.no_grad():
                chunks = feed.chunks(getattr(feed.dataset, part), EVALUATION_BATCH)
                logits = torch.cat([shared(weights, x) for x, _ in chunks], dim=1).numpy()
            for i, own in zip(copies, logits, strict=True):
                found[i] = own
        return found

    def _batch(
        self, rows: NDArray[np.int64], changes: NDArray[np.int64] | None
    ) -> tuple[Tensor, Tensor]:
        """Return the inputs, as `_given`, and the labels ``[R, B]`` of rows ``[seeds, B]``."""
        moved = None if changes is None else np.take_along_axis(changes, rows[..., None], 1)
        if len(set(map(id, self.feeds))) == 1:  # one gather, not one a seed
            flat = None if moved is None else moved.reshape(-1, 3)
            inputs = self.feeds[0].batch(rows.ravel(), flat)
            inputs = inputs.view(*rows.shape, *inputs.shape[1:])
            labels = self.feeds[0].labels(rows.ravel()).view(rows.shape)
        else:
            own = [None] * len(rows) if moved is None else list(moved)
            inputs = torch.stack(
                [f.batch(r, m) for f, r, m in zip(self.feeds, rows, own, strict=True)]
            )
            labels = torch.stack([f.labels(r) for f, r in zip(self.feeds, rows, strict=True)])
        return self._given(inputs), labels.index_select(0, self.place)

    def _given(self, by_seed: Tensor) -> Tensor:
        """Return ``[seeds, ...]`` as `forward` takes it: a part for each copy, or the only one."""
        return by_seed[0] if len(self.seeds) == 1 else by_seed.index_select(0, self.place)

    def _plain(self, inputs: Tensor, labels: Tensor, gammas: Gammas) -> Tensor:
        """Set the gradients of one batch each; return the sums of the losses, ``[R]``."""
        logits = self.forward(self.weights, inputs)
        z = logits.detach().flatten(0, 1)
        losses, gradient = self._rows(z, labels.flatten(), gammas)
        if self.recipe.reduction == "mean":
            gradient /= labels.shape[1]
        logits.backward(gradient.view_as(logits))  # type: ignore[no-untyped-call]
        return losses.view_as(labels).sum(dim=1).double()

    def _rows(self, logits: Tensor, labels: Tensor, gammas: Gammas) -> tuple[Tensor, Tensor]:
        """Return the loss of every example of every copy, ``[R * B]``, and its gradient."""
        if self.recipe.loss == "focal" and self.recipe.label_smoothing == 0:
            return focal_and_gradient(logits, labels, partial(_exponents, gammas=gammas))
        given = logits.requires_grad_()
        loss = self._losses(given, labels, gammas)
        return loss.detach(), torch.autograd.grad(loss.sum(), given)[0]

    def _losses(self, logits: Tensor, labels: Tensor, gammas: Gammas) -> Tensor:
        """Return the loss of every example of every copy, ``[R * B]``, for autograd."""
        # A copy that diverged gets nan, where the losses would refuse the rows of all.
        is_finite = logits.detach().isfinite().all(dim=-1)
        z = torch.where(is_finite[:, None], logits, 0.0)
        smoothing = self.recipe.label_smoothing
        if self.recipe.loss == "brier":
            loss: Tensor = brier_loss(z, labels, label_smoothing=smoothing)
        else:
            p = z.detach().softmax(-1).gather(1, labels[:, None])
            exponents = _exponents(p, gammas=gammas)[:, 0]
            loss = focal_loss(z, labels, gamma=exponents, label_smoothing=smoothing)
        return torch.where(is_finite, loss, torch.nan)

    def _penalised(
        self, inputs: Tensor, labels: Tensor, gammas: Gammas, signs: dict[str, Tensor]
    ) -> Tensor:
        """Set the gradients of loss + tau · trace; return its sums over examples, ``[R]``."""
        size = labels.shape[1]
        steps = torch.zeros(len(labels), requires_grad=True)
        logits = self.forward_along(self.weights, signs, steps, inputs)
        rows = self._losses(logits.flatten(0, 1), labels.flatten(), gammas).view_as(labels)
        losses = rows.mean(dim=1) if self.recipe.reduction == "mean" else rows.sum(dim=1)
        penalised = losses + self.taus * curvature_along(losses, steps)
        penalised.sum().backward()  # type: ignore[no-untyped-call]
        total = penalised.detach().double()
        return total * size if self.recipe.reduction == "mean" else total

    def _signs(self, epoch: int, step: int) -> dict[str, Tensor]:
        """Return the random signs that `train` draws at this step, as `_given`."""
        by_seed = []
        for seed in self.seeds:
            rng = torch.Generator().manual_seed(torch_seed(seed, STEP, epoch, step, 0))
            by_seed.append([random_signs(w[0].shape, w[0], rng) for w in self.weights.values()])
        stacked = [self._given(torch.stack(signs)) for signs in zip(*by_seed, strict=True)]
        return dict(zip(self.weights, stacked, strict=True))


def _call(base: nn.Module, weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
    logits: Tensor = functional_call(base, weights, (inputs,))
    return logits


def _call_along(
    base: nn.Module,
    weights: dict[str, Tensor],
    signs: dict[str, Tensor],
    step: Tensor,
    inputs: Tensor,
) -> Tensor:
    with AlongRay({id(weight): signs[name] for name, weight in weights.items()}, step):
        return _call(base, weights, inputs)


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


def _check_model(recipe: Recipe, model: nn.Module) -> None:
    drops = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.p > 0]
    if drops or any(True for _ in model.buffers()):
        raise ValueError(
            f"`model` must be without batch-norm and dropout for many copies at once, got "
            f"{recipe.model!r}. Call `train` for each seed."
        )
