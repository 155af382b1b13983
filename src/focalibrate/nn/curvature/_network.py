"""The model, its parameters, the batches and random signs that a curvature is computed from."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from focalibrate.nn._inputs import spread

Parameters = dict[str, Tensor]


def select_parameters(model: nn.Module, names: Sequence[str] | None) -> Parameters:
    """Return the trained parameters of `model` by name, or those of the layers in `names`.

    Args:
        model: any module.
        names: of parameters (``"0.weight"``) or of modules (``"0"``, ``"layer1"``).

    Returns:
        Floating parameters that require a gradient, in the order of the model.
    """
    if isinstance(names, str):
        raise ValueError(f"`parameters` must be a list of names, got the string {names!r}.")
    trained: Parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if names is not None:
        known = [*trained, *(name for name, _ in model.named_modules() if name)]
        for name in names:
            if not any(_is_within(parameter, name) for parameter in trained):
                raise ValueError(
                    f"`parameters` must name layers or parameters that are trained, got {name!r}. "
                    f"There are {', '.join(known)}."
                )
        trained = {p: x for p, x in trained.items() if any(_is_within(p, name) for name in names)}
    if not trained:
        raise ValueError(
            "`model` must have a parameter that requires a gradient, found none. "
            "Call `model.requires_grad_()` first."
        )
    for name, parameter in trained.items():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"`model` must be float32 or float64, but {name} is {parameter.dtype}, too coarse "
                "for second derivatives. Convert it: `model.float()`."
            )
    return trained


def _is_within(parameter: str, name: str) -> bool:
    return parameter == name or parameter.startswith(f"{name}.")


def call_model(model: nn.Module, parameters: Mapping[str, Tensor], inputs: Any) -> Any:
    """Return ``model(inputs)`` with `parameters` in place of its own."""
    positional, named = spread(inputs)
    if not parameters:
        return model(*positional, **named)
    return functional_call(model, dict(parameters), positional, named)


Loss = Callable[[Any, Tensor], Tensor]
Batches = Iterable[tuple[Any, Tensor]]


def check_batches(batches: Batches) -> None:
    """Raise `ValueError` if `batches` can be iterated over only once."""
    if iter(batches) is batches:
        raise ValueError(
            "`batches` must be a list or a loader, which can be read for every product, got the "
            f"iterator {type(batches).__name__}. Pass `list(batches)`."
        )


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


SIGNS_OF_BYTE = 2.0 * ((torch.arange(256)[:, None] >> torch.arange(8)) & 1) - 1.0
"""``[256, 8]``: the bits of each byte as -1 and 1."""


def random_signs(
    shape: Sequence[int], like: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Return independent 1 and -1, each with probability 1/2, eight from each random byte.

    Drawn on the CPU by `generator` (torch's default if None), so that all devices get the same
    signs; with the dtype and device of `like`.
    """
    n = math.prod(shape)
    drawn = torch.randint(0, 256, (-(-n // 8),), generator=generator)
    signs = SIGNS_OF_BYTE.index_select(0, drawn).flatten()[:n]
    return signs.view(tuple(shape)).to(like)
