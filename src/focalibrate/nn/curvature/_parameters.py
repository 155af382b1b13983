"""The parameters over which a curvature is computed, and the model as a function of them."""

import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
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


def load_forward_mode() -> None:
    """Load torch's forward-mode rules, which emits a warning (about `torch.jit`) the first time.

    The warning is about torch's own code and would otherwise appear at the first product.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import_module("torch._decomp.decompositions_for_jvp")
