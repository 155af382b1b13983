"""Trace of the Gauss-Newton matrix, example by example."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.utils._pytree import tree_leaves, tree_map

from focalibrate.nn.curvature._network import (
    Loss,
    Parameters,
    batch_total,
    call_model,
    random_signs,
)

MOST_CLASSES = 256
"""Most classes for which the loss's own Hessian, ``[N, K, K]``, is computed and factored."""
MOST_NUMBERS = 2**22
"""Most numbers in the gradients of examples that are processed together."""
COUPLING = 1e-3
"""Largest difference, as a fraction of the largest number, that counts as rounding."""


class NotByExampleError(Exception):
    """A batch is not a sum over its examples, or torch cannot split it; with the reason."""


def check_rows(inputs: Any, labels: Tensor) -> None:
    """Raise `NotByExampleError` unless every input is a tensor with one row per label."""
    leaves = tree_leaves(inputs)
    if not all(isinstance(x, Tensor) and x.shape[:1] == labels.shape[:1] for x in leaves):
        raise NotByExampleError("the inputs are not tensors with one row per example")


def first_rows(inputs: Any, n: int) -> Any:
    """Return the first `n` examples."""
    return tree_map(lambda x: x[:n], inputs)


def logit_curvature(
    loss: Loss, logits: Any, labels: Tensor, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return gradient ``[N, K]`` and Hessian ``[N, K, K]`` of the summed loss in the logits."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(labels):
        raise NotByExampleError("the model does not return one row of logits per example")
    n, k = logits.shape
    if k > MOST_CLASSES:
        raise NotByExampleError(f"there are {k} classes, more than {MOST_CLASSES}")
    with torch.enable_grad():
        z = logits.detach().requires_grad_()
        slope: Tensor = torch.autograd.grad(batch_total(loss, z, labels), z, create_graph=True)[0]
        if not slope.requires_grad:  # linear in the logits
            return slope.detach(), z.new_zeros(n, k, k)
        each = torch.eye(k).to(z)[:, None, :].expand(k, n, k)
        flips, mix = random_signs((n, 1), z, rng), torch.randn(k, generator=rng).to(z)
        probes = torch.cat([each, (flips * mix)[None]])
        products = torch.autograd.grad(slope, z, probes, is_grads_batched=True)[0].detach()
    hessian = products[:k].transpose(0, 1)
    # If an example's loss depends on another's logits, different signs per example reveal it.
    _check_equal(products[k], flips * (hessian @ mix), "the loss of a batch is not a sum over it")
    return slope.detach(), hessian


def _check_equal(found: Tensor, want: Tensor, reason: str) -> None:
    if not (found - want).abs().max() <= COUPLING * want.abs().max():  # so that nan fails too
        raise NotByExampleError(reason)


@dataclass(frozen=True)
class Factors:
    r"""Vectors :math:`c_{nq}` and weights that make up an example's :math:`\nabla^2_z\ell`.

    .. math:: \nabla^2_z\ell_n = \sum_q w_{nq}\,c_{nq}c_{nq}^\top
              \quad\text{or the mean over M samples of such sums}
    """

    vectors: Tensor
    """``[N, Q, K]``"""
    weights: Tensor
    """``[N, Q]``, 1 or -1"""
    n_samples: int
    """M; 0 if the sum is exact"""


def factor(hessian: Tensor, n_vectors: int, rng: torch.Generator) -> Factors:
    """Return the eigenvectors of each matrix if they are few, random mixtures of them if not."""
    values, U = torch.linalg.eigh(hessian.double())
    order = values.abs().argsort(dim=1, descending=True)
    values = values.gather(1, order)
    U = U.gather(2, order[:, None, :].expand_as(U))
    mass = values.abs().sum(dim=0)
    least = 4 * hessian.shape[1] * torch.finfo(hessian.dtype).eps * mass.sum()  # rounding
    rank = int((mass > least).sum())  # softmax losses have one that is 0
    values, U = values[:, :rank], U[:, :, :rank]
    roots = (U * values.abs().sqrt()[:, None, :]).transpose(1, 2)  # [N, R, K]
    if n_vectors >= rank:
        return Factors(roots.to(hessian), values.sign().to(hessian), 0)
    signs = random_signs((len(values), n_vectors, rank), values, rng)
    parts, weights = [], []
    for sign in (1.0, -1.0):
        of_sign = values * sign > 0
        if (values * of_sign).abs().sum() > least:
            parts.append((signs * of_sign[:, None, :]) @ roots)
            weights.append(torch.full_like(signs[:, :, 0], sign))
    return Factors(torch.cat(parts, 1).to(hessian), torch.cat(weights, 1).to(hessian), n_vectors)


def squared_gradients(
    model: nn.Module, parameters: Parameters, inputs: Any, logits: Tensor, vectors: Tensor
) -> Tensor:
    r"""Return :math:`\|J_n^\top c_{nq}\|^2` in float64, ``[N, Q]``."""

    def square(x: Any, c: Tensor) -> tuple[Tensor, Tensor]:
        def along(p: Parameters) -> tuple[Tensor, Tensor]:
            z = call_model(model, p, tree_map(lambda part: part[None], x))[0]
            return (z * c).sum(), z

        slopes, z = grad(along, has_aux=True)(parameters)
        return torch.stack([(s * s).sum() for s in slopes.values()]).sum(), z

    n, q, _ = vectors.shape
    size = sum(p.numel() for p in parameters.values())
    squares = []
    for rows, columns in _pairs(n, q, max(1, MOST_NUMBERS // size), vectors.device):
        chosen = tree_map(lambda x, rows=rows: x[rows], inputs)
        try:
            with torch.no_grad():
                found, z = vmap(square)(chosen, vectors[rows, columns])
        except (RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise NotByExampleError(f"torch cannot run the model by example ({first})") from error
        _check_equal(z, logits[rows], "an example's logits depend on other examples of its batch")
        squares.append(found.double())
    return torch.cat(squares).view(n, q) if squares else logits.new_zeros(n, q).double()


def _pairs(n: int, q: int, most: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield blocks of rows and columns of an ``[n, q]`` array, each of limited size."""
    for start in range(0, n * q, most):
        pairs = torch.arange(start, min(start + most, n * q), device=device)
        yield pairs // q, pairs % q
