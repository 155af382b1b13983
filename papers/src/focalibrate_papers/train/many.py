"""Many small runs as one: copies of a network with stacked weights."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from focalibrate.losses import focal_loss
from focalibrate.nn.curvature import AlongRay, curvature_along, random_signs
from focalibrate_papers.datasets import Dataset
from focalibrate_papers.recipe import Recipe
from focalibrate_papers.train._inputs import (
    START,
    STEP,
    Feed,
    epoch_order,
    load_dataset,
    torch_seed,
)
from focalibrate_papers.train._learner import build_model, build_optimiser, check_dataset, set_lr
from focalibrate_papers.train.dynamics import EVALUATION_BATCH

STACKED = {
    "loss": "focal",
    "label_smoothing": 0.0,
    "reduction": "mean",
    "clip": 0.0,
    "augmentation": "none",
    "precision": "float32",
    "keep": "last",
}
"""Fields of a recipe that have only one value for many copies at once."""


@dataclass(frozen=True, eq=False)
class TrainedMember:
    """One of the runs."""

    recipe: Recipe
    """with the seed, the exponent and the weight of the trace of this copy"""
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
    gammas: Iterable[float] | None = None,
    trace_weights: Iterable[float] | None = None,
    dataset: Dataset | Mapping[int, Dataset] | None = None,
    data: str | Path | None = None,
) -> list[TrainedMember]:
    """Train one copy for every seed, exponent and weight of the trace, at once, in memory.

    Each copy has its own initial weights, order and loss, and ends where `train` of its recipe
    ends, to float tolerance. A step of a small network is mostly overhead of calls, not
    arithmetic; stacked, one call serves all copies. A copy that diverges does not disturb the
    others.

    Args:
        recipe: what the copies share.
        seeds: seeds of the copies; that of the recipe when None.
        gammas: exponents of the focal loss; that of the recipe when None.
        trace_weights: weights of the trace of the Hessian in the loss; that of the recipe when
            None.
        dataset: examples; those of each seed, in a mapping, where each has its own split of one
            set; those that the recipe names when None.
        data: folder of data sets; the environment variable FOCALIBRATE_DATA names it when None.

    Returns:
        Copies in the order of the seeds, of the exponents within a seed, and of the weights of
        the trace within an exponent.

    Raises:
        ValueError: for networks with batch-norm or dropout, whose copies would disturb each
            other, for recipes other than `STACKED`, and for data sets that differ in shape.
    """
    seeds = [recipe.seed] if seeds is None else list(seeds)
    exponents = [recipe.gamma] if gammas is None else list(gammas)
    traces = [recipe.trace_weight] if trace_weights is None else list(trace_weights)
    recipes = [
        replace(recipe, seed=seed, gamma=gamma, trace_weight=trace)
        for seed, gamma, trace in product(seeds, exponents, traces)
    ]
    if not recipes:
        raise ValueError("`seeds`, `gammas` and `trace_weights` must not be empty.")
    for name, value in STACKED.items():
        if getattr(recipe, name) != value:
            raise ValueError(
                f"`{name}` must be {value!r} for many copies at once, got "
                f"{getattr(recipe, name)!r}. Call `train` for each seed."
            )
    if isinstance(recipe.gamma, str):
        raise ValueError(
            f"`gamma` must be a number for many copies at once, got {recipe.gamma!r}. Call "
            "`train` for each seed."
        )
    if dataset is None:
        dataset = load_dataset(recipe, data=data)
    stack = Stack(recipes, _by_seed(dataset, seeds))
    losses = np.stack([stack.epoch(epoch) for epoch in range(recipe.epochs)])
    validation, test = stack.logits("validation"), stack.logits("test")
    return [
        TrainedMember(
            one,
            {name: stacked[i].detach().clone() for name, stacked in stack.weights.items()},
            losses[:, i].copy(),
            validation[i],
            test[i],
        )
        for i, one in enumerate(recipes)
    ]


def _by_seed(dataset: Dataset | Mapping[int, Dataset], seeds: Sequence[int]) -> dict[int, Dataset]:
    """Return the data set of each seed, all checked to be of one shape."""
    if isinstance(dataset, Dataset):
        datasets = dict.fromkeys(seeds, dataset)
    else:
        absent = [seed for seed in seeds if seed not in dataset]
        if absent:
            raise ValueError(
                f"`dataset` must have one entry per seed, but has none for {absent[0]}."
            )
        datasets = {seed: dataset[seed] for seed in seeds}
    shapes = {}
    for one in {id(d): d for d in datasets.values()}.values():
        check_dataset(one)
        if one.kind not in ("image", "tabular"):
            raise ValueError(
                f"`dataset` must be of images or a table for many copies at once, got {one.kind}. "
                "Call `train` for each seed."
            )
        shapes[np.asarray(one.train.inputs).shape, one.n_classes] = one
    if len(shapes) > 1:
        shown = " and ".join(f"{shape} of {k} classes" for shape, k in list(shapes)[:2])
        raise ValueError(
            f"`dataset` must be of one shape for all seeds, got training examples {shown}. Call "
            "`train_many` once for each shape."
        )
    return datasets


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
        self.gammas = torch.tensor([float(r.gamma) for r in recipes])
        self.taus = torch.tensor([r.trace_weight for r in recipes])
        feeds = {id(d): Feed(d) for d in datasets.values()}
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
        sums = torch.zeros(len(self.recipes), dtype=torch.float64)
        for step, start in enumerate(range(0, self.n, recipe.batch)):
            inputs, labels = self._batch(order[:, start : start + recipe.batch])
            self.optimiser.zero_grad(set_to_none=True)
            if self.taus.any():
                sums += self._penalised(inputs, labels, self._signs(epoch, step))
            else:
                sums += self._plain(inputs, labels)
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

    def _batch(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the inputs, as `_given`, and the labels ``[R, B]`` of rows ``[seeds, B]``."""
        if len(set(map(id, self.feeds))) == 1:  # one gather, not one a seed
            inputs = self.feeds[0].batch(rows.ravel())
            inputs = inputs.view(*rows.shape, *inputs.shape[1:])
            labels = self.feeds[0].labels(rows.ravel()).view(rows.shape)
        else:
            own = list(zip(self.feeds, rows, strict=True))
            inputs = torch.stack([feed.batch(r) for feed, r in own])
            labels = torch.stack([feed.labels(r) for feed, r in own])
        return self._given(inputs), labels.index_select(0, self.place)

    def _given(self, by_seed: Tensor) -> Tensor:
        """Return ``[seeds, ...]`` as `forward` takes it: a part for each copy, or the only one."""
        return by_seed[0] if len(self.seeds) == 1 else by_seed.index_select(0, self.place)

    def _exponents(self, labels: Tensor) -> Tensor:
        """Return the exponent of every example of every copy, ``[R * B]``."""
        return self.gammas.repeat_interleave(labels.shape[1])

    def _plain(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Set the gradients of one batch each; return the sums of the losses, ``[R]``."""
        logits = self.forward(self.weights, inputs)
        z, gamma = logits.detach().flatten(0, 1), self._exponents(labels)[:, None]
        losses, gradient = focal_and_gradient(z, labels.flatten(), gamma)
        gradient /= labels.shape[1]
        logits.backward(gradient.view_as(logits))  # type: ignore[no-untyped-call]
        return losses.view_as(labels).sum(dim=1).double()

    def _penalised(self, inputs: Tensor, labels: Tensor, signs: dict[str, Tensor]) -> Tensor:
        """Set the gradients of loss + tau · trace; return its sums over examples, ``[R]``."""
        steps = torch.zeros(len(labels), requires_grad=True)
        logits = self.forward_along(self.weights, signs, steps, inputs).flatten(0, 1)
        # A copy that diverged gets nan, where the loss would refuse the rows of all.
        is_finite = logits.detach().isfinite().all(dim=-1)
        z = torch.where(is_finite[:, None], logits, 0.0)
        rows: Tensor = focal_loss(z, labels.flatten(), gamma=self._exponents(labels))
        losses = torch.where(is_finite, rows, torch.nan).view_as(labels).mean(dim=1)
        penalised = losses + self.taus * curvature_along(losses, steps)
        penalised.sum().backward()  # type: ignore[no-untyped-call]
        return penalised.detach().double() * labels.shape[1]

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


def focal_and_gradient(logits: Tensor, labels: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the focal loss of each row and its gradient :math:`\varphi_\gamma(p)(v - e_y)`.

    Without autograd: the backward of the network starts from the gradient.

    Args:
        logits: ``[M, K]``.
        labels: class indices ``[M]``.
        gamma: exponent of each row, ``[M, 1]``.
    """
    at_true = labels[:, None]
    log_v = logits.log_softmax(dim=-1)
    log_p = log_v.gather(1, at_true)
    v = log_v.exp_()
    p = v.gather(1, at_true)
    v.scatter_(1, at_true, torch.zeros_like(p))
    rest = v.sum(dim=-1, keepdim=True)  # 1 - p without cancellation
    power = rest.pow(gamma)
    r = -p * log_p / rest.clamp_min(torch.finfo(rest.dtype).tiny)
    phi = power * (1.0 + gamma * r)
    v.mul_(phi).scatter_(1, at_true, -phi * rest)
    return -(power * log_p)[:, 0], v


def _check_model(recipe: Recipe, model: nn.Module) -> None:
    drops = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.p > 0]
    if drops or any(True for _ in model.buffers()):
        raise ValueError(
            f"`model` must be without batch-norm and dropout for many copies at once, got "
            f"{recipe.model!r}. Call `train` for each seed."
        )
