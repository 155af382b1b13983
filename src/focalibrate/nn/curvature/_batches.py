"""Weights of batches of unequal size in the mean loss."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from focalibrate.nn._inputs import to_device

Loss = Callable[[Any, Tensor], Tensor]
Batches = Iterable[tuple[Any, Tensor]]


def check_batches(batches: Batches) -> None:
    """Raise `ValueError` if `batches` can be iterated over only once."""
    if iter(batches) is batches:
        raise ValueError(
            "`batches` must be a list or a loader, which can be read for every product, got the "
            f"iterator {type(batches).__name__}. Pass `list(batches)`."
        )


def on_device(batches: Batches, device: torch.device) -> Iterator[tuple[Any, Tensor]]:
    """Yield the batches with every tensor on `device`."""
    for inputs, labels in batches:
        yield to_device(inputs, device), labels.to(device)


def batch_total(loss: Loss, logits: Any, labels: Tensor) -> Tensor:
    r"""Return the sum of the losses of a batch, for any reduction of `loss`.

    A loss with reduction ``"sum"``, or with one number per example, is summed; any other number is
    taken as a mean and multiplied by `batch_count`.
    """
    value = loss(logits, labels)
    if value.ndim > 0 or getattr(loss, "reduction", "mean") == "sum":
        return value.sum()
    return value * batch_count(loss, labels)


def batch_count(loss: Loss, labels: Tensor) -> float:
    """Return the divisor of a mean over the batch.

    Class indices count with the `weight` of their class, and not at all if they equal the
    `ignore_index` of the loss; soft and multi-label targets count 1 per row.
    """
    if labels.is_floating_point():
        return float(labels.shape[0])
    counted = labels
    ignore_index = getattr(loss, "ignore_index", None)
    if ignore_index is not None:
        counted = labels[labels != ignore_index]
    weight = getattr(loss, "weight", None)
    if isinstance(weight, Tensor):
        return float(weight.to(labels.device)[counted.long()].double().sum())
    return float(counted.numel())
