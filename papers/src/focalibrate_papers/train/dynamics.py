"""Metrics after each epoch."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from focalibrate._atomic import atomic_path
from focalibrate._stable import log_softmax
from focalibrate.metrics import Cells, adaptive_ece
from focalibrate_papers.datasets import Split
from focalibrate_papers.train._inputs import Feed
from focalibrate_papers.train._learner import Objective, logit_gradients

GRADIENT_EDGES = np.concatenate([[0.0], np.logspace(-8, 4, 61), [np.inf]])
"""Edges of the histogram of gradient norms: five bins per decade, and one at either end."""
N_BINS = 15
SEEN_OF_TRAIN = 5_000
"""Number of training examples that are evaluated, without augmentation."""
EVALUATION_BATCH = 128


@dataclass(frozen=True, eq=False)
class Dynamics:
    """Metrics of each epoch; the first axis of every array is the epoch.

    Attributes:
        arrays: ``<split>_<figure>`` for the splits train, validation and test and the figures
            nll, entropy, p_true (each also ``_correct`` and ``_incorrect``; nan where there are
            none), error, ece, adaptive_ece, reliability ``[E, 3, 15]`` (count, sum of confidence,
            number correct) and gradient_histogram ``[E, 62]`` over `GRADIENT_EDGES` (norms of the
            last layer's gradient of each example); and loss, lr, weight_norm. Nan where a split
            was not evaluated.
    """

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values()))) if self.arrays else 0

    def extended(self, seen: Mapping[str, Any]) -> "Dynamics":
        """Return these dynamics with the figures of one more epoch."""
        new = {name: np.asarray(value, dtype=np.float64)[None] for name, value in seen.items()}
        if not self.arrays:
            return Dynamics(new)
        return Dynamics({n: np.concatenate([a, new[n]]) for n, a in self.arrays.items()})

    def tensors(self) -> dict[str, Tensor]:
        """Return the arrays as a checkpoint keeps them."""
        return {name: torch.from_numpy(array) for name, array in self.arrays.items()}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "Dynamics":
        """Return the dynamics from what `tensors` returned."""
        return cls({name: tensor.numpy() for name, tensor in tensors.items()})

    def save(self, folder: Path) -> None:
        """Write dynamics.npz (all) and dynamics.json (one number per epoch; null for nan)."""
        with atomic_path(folder / "dynamics.npz", force=True) as path:
            np.savez(path, **{"gradient_edges": GRADIENT_EDGES, **self.arrays})  # type: ignore[arg-type]
        figures = {
            name: [x if math.isfinite(x) else None for x in array.tolist()]
            for name, array in self.arrays.items()
            if array.ndim == 1
        }
        with atomic_path(folder / "dynamics.json", force=True) as path:
            path.write_text(json.dumps({"epochs": len(self), "figures": figures}, indent=1) + "\n")


@dataclass(frozen=True, eq=False)
class Evaluated:
    """Outputs of a network on one split."""

    logits: NDArray[np.float32]
    labels: NDArray[np.int64]
    gradient_norms: NDArray[np.float64]
    """norm of the last layer's gradient of each example"""


def evaluate(
    model: nn.Module, feed: Feed, split: Split, objective: Objective | None = None
) -> Evaluated:
    r"""Return logits and, with the `objective`, gradient norms, in evaluation mode.

    The gradient of an example's loss with respect to the last layer's weights is the outer
    product of :math:`g = \partial\ell/\partial z` and the layer's input :math:`h`, so its norm is
    :math:`\lVert g\rVert\,\lVert h\rVert`; for focal loss
    :math:`\lVert\varphi_\gamma(p)(v - e_y)\rVert\,\lVert h\rVert`.
    """
    logits, labels, norms = [], [], []
    with _evaluating(model), torch.no_grad(), _last_input(model) as seen:
        for inputs, targets in feed.chunks(split, EVALUATION_BATCH):
            z = model(*(inputs if isinstance(inputs, tuple) else (inputs,))).float()
            logits.append(z.cpu().numpy())
            labels.append(targets.cpu().numpy())
            if objective is not None and seen:
                g = logit_gradients(objective, z, targets)
                h = seen[-1].flatten(1).float()
                norms.append((g.norm(dim=1) * h.norm(dim=1)).double().cpu().numpy())
            seen.clear()
    return Evaluated(
        np.concatenate(logits),
        np.concatenate(labels),
        np.concatenate(norms) if norms else np.empty(0),
    )


def split_figures(name: str, seen: Evaluated) -> dict[str, Any]:
    """Return the figures of one split, in float64 from its logits."""
    log_v = log_softmax(seen.logits.astype(np.float64))
    v = np.exp(log_v)
    log_p = np.take_along_axis(log_v, seen.labels[:, None], axis=-1)[:, 0]
    correct = log_v.argmax(axis=-1) == seen.labels
    rows = {"nll": -log_p, "entropy": -(v * log_v).sum(axis=-1), "p_true": np.exp(log_p)}
    figures: dict[str, Any] = {"error": 1.0 - correct.mean()}
    for figure, values in rows.items():
        figures[figure] = values.mean()
        figures[f"{figure}_correct"] = values[correct].mean() if correct.any() else math.nan
        figures[f"{figure}_incorrect"] = values[~correct].mean() if not correct.all() else math.nan
    table = Cells.of_top_label(v, seen.labels, bins=N_BINS)
    figures["ece"] = table.ece()
    figures["adaptive_ece"] = adaptive_ece(v, seen.labels, n_bins=N_BINS)
    figures["reliability"] = np.stack([table.weight, table.probability, table.outcome])
    figures["gradient_histogram"] = np.histogram(seen.gradient_norms, GRADIENT_EDGES)[0]
    return {f"{name}_{figure}": value for figure, value in figures.items()}


def unseen_figures(name: str, *, like: Mapping[str, Any]) -> dict[str, Any]:
    """Return nan for the figures of a split not evaluated, shaped as those of validation."""
    return {
        name + key.removeprefix("validation"): np.full_like(value, math.nan, dtype=np.float64)
        for key, value in like.items()
        if key.startswith("validation_")
    }


def weight_norm(model: nn.Module) -> float:
    """Return the norm of the last layer's weights, bias left out; nan without such a layer."""
    last = last_layer(model)
    return math.nan if last is None else float(last.weight.detach().double().norm())


def last_layer(model: nn.Module) -> nn.Linear | None:
    """Return the layer that makes the logits: ``model.last``, else the last `nn.Linear`."""
    named = getattr(model, "last", None)
    if isinstance(named, nn.Linear):
        return named
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return linear[-1] if linear else None


@contextmanager
def _last_input(model: nn.Module) -> Iterator[list[Tensor]]:
    seen: list[Tensor] = []
    last = last_layer(model)
    if last is None:
        yield seen
        return
    handle = last.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    try:
        yield seen
    finally:
        handle.remove()


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
