"""Trace of the Hessian minus the Gauss-Newton matrix, layer by layer."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from focalibrate.nn.curvature._network import Parameters, call_model, random_signs

LayerParameters = list[Tensor]
"""The parameters of one module."""


def layers_of(parameters: Parameters) -> list[LayerParameters]:
    """Return the parameters grouped by module."""
    layers: dict[str, LayerParameters] = {}
    for name, parameter in parameters.items():
        layers.setdefault(name.rpartition(".")[0], []).append(parameter)
    return list(layers.values())


def curved_layers(
    model: nn.Module, layers: Sequence[LayerParameters], inputs: Any, rng: torch.Generator
) -> list[LayerParameters]:
    """Return the layers in whose parameters the logits of `inputs` are not piecewise linear.

    The others have a second derivative of exactly 0 along a random direction, as in all networks
    with piecewise linear activations that use each parameter once.
    """
    with torch.enable_grad():
        logits = call_model(model, {}, inputs)
        mix = torch.randn(logits.shape, generator=rng).to(logits)
        slopes = _slopes((logits * mix).sum(), layers)
    curved = []
    for layer, slope in zip(layers, slopes, strict=True):
        directions = [torch.randn(p.shape, generator=rng).to(p) for p in layer]
        products = second_products(slope, layer, directions, keep_graph=True)
        if any(x is not None and bool((x != 0).any()) for x in products):
            curved.append(layer)
    return curved


def share_out(
    layers: Sequence[LayerParameters], n_vectors: int
) -> tuple[list[LayerParameters], int]:
    """Return groups of layers, of at least 2 vectors each, and the vectors per group.

    Layers of one group are far apart, because neighbouring layers interact more.
    """
    n_groups = max(1, min(len(layers), n_vectors // 2))
    groups = [[p for layer in layers[i::n_groups] for p in layer] for i in range(n_groups)]
    return groups, n_vectors // n_groups


def layer_terms(
    total: Tensor, layers: Sequence[LayerParameters], n_vectors: int, rng: torch.Generator
) -> Tensor:
    r"""Return :math:`v^\top\nabla^2_l v` of `total` for random signs in each layer, ``[L, M]``."""
    terms = []
    for layer, slope in zip(layers, _slopes(total, layers), strict=True):
        signs = [random_signs((n_vectors, *p.shape), p, rng) for p in layer]
        products = second_products(slope, layer, signs, is_block=True, keep_graph=True)
        parts = [
            (x * v).flatten(start_dim=1).sum(dim=1).double()
            for x, v in zip(products, signs, strict=True)
            if x is not None
        ]
        terms.append(sum(parts, start=torch.zeros(n_vectors).double().to(total.device)))
    return torch.stack(terms)


def second_products(
    slopes: Sequence[Tensor | None],
    leaves: Sequence[Tensor],
    vectors: Sequence[Tensor],
    *,
    is_block: bool = False,
    keep_graph: bool = False,
) -> Sequence[Tensor | None]:
    """Return the derivatives of `slopes` times `vectors` in `leaves`; None if they are 0.

    Args:
        slopes: gradients in some leaves, with their graph.
        leaves: parameters.
        vectors: vectors of the shape of `slopes`, or ``[B, ...]`` with `is_block`.
        is_block: whether there are B vectors.
        keep_graph: whether the graph is needed again.
    """
    ends = [
        (slope, v)
        for slope, v in zip(slopes, vectors, strict=True)
        if slope is not None and slope.requires_grad
    ]
    if not ends:  # linear in the parameters
        return [None] * len(leaves)
    return torch.autograd.grad(
        [slope for slope, _ in ends],
        list(leaves),
        [v for _, v in ends],
        is_grads_batched=is_block,
        allow_unused=True,
        retain_graph=keep_graph,
    )


def _slopes(total: Tensor, layers: Sequence[LayerParameters]) -> list[tuple[Tensor | None, ...]]:
    """Return the gradient of `total` in the parameters of each layer, with its graph."""
    leaves = [p for layer in layers for p in layer]
    found = iter(torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True))
    return [tuple(next(found) for _ in layer) for layer in layers]
