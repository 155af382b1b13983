r"""A model's parameters and batches, and the trace of its loss's Hessian in two parts.

One part is of the loss by example, one of the model by layer:

.. math:: \operatorname{Tr} H = \sum_n \sum_q w_{nq}\|J_n^\top c_{nq}\|^2
          + \sum_l \operatorname{Tr}\nabla^2_{\theta_l} \sum_n \langle g_n, z_n\rangle

with :math:`\sum_q w_q cc^\top` the Hessian and :math:`g` the gradient of the loss in the logits.
The Hessian's blocks between layers cause most of the variance of Hutchinson's estimate but do not
contribute to the trace: each layer gets its own random vectors.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils._pytree import tree_leaves, tree_map

from focalibrate.curvature import TraceEstimate
from focalibrate.nn._inputs import spread

Parameters = dict[str, Tensor]
PILOT = 64
"""Number of examples on which layers are tested for curvature."""
MOST_CLASSES = 256
"""Most classes for which the loss's own Hessian, ``[N, K, K]``, is computed and factored."""
MOST_NUMBERS = 2**22
"""Most numbers in the gradients of examples that are processed together."""
COUPLING = 1e-3
"""Largest difference, as a fraction of the largest number, that counts as rounding."""

Layer: TypeAlias = list[Tensor]
"""The parameters of one module."""


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


class NotByExampleError(Exception):
    """A batch is not a sum over its examples, or torch cannot split it; with the reason."""


@final
class SplitTrace:
    """Sums over batches, from which the trace and its standard error follow.

    Args:
        model: in eval mode.
        loss: as for `HessianOperator`.
        parameters: by name.
        n_vectors: passes for examples and layers together.
        rng: generator of the random signs.
        with_model: whether to add the model's own second derivatives.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        parameters: Parameters,
        *,
        n_vectors: int,
        rng: torch.Generator,
        with_model: bool,
    ) -> None:
        self._model, self._loss, self._parameters = model, loss, parameters
        self._n_vectors, self._rng = n_vectors, rng
        self._curved: list[Layer] | None = None if with_model else []
        self._value = self._variance = 0.0
        self._n_passes = {"examples": 0, "layers": 0}

    def add(self, inputs: Any, labels: Tensor) -> None:
        """Add a batch."""
        leaves = tree_leaves(inputs)
        if not all(isinstance(x, Tensor) and x.shape[:1] == labels.shape[:1] for x in leaves):
            raise NotByExampleError("the inputs are not tensors with one row per example")
        with torch.set_grad_enabled(self._curved != []):
            logits = call_model(self._model, {}, inputs)
        slope, hessian = _logit_curvature(self._loss, logits, labels, self._rng)
        if self._curved is None:
            few = tree_map(lambda x: x[:PILOT], inputs)
            self._curved = _curved_layers(self._model, self._parameters, few, self._rng)
        n_examples = max(2, self._n_vectors // 3) if self._curved else self._n_vectors
        factors = _factor(hessian, n_examples, self._rng)
        squares = _squared_gradients(
            self._model, self._parameters, inputs, logits.detach(), factors.vectors
        )
        terms = squares * factors.weights
        self._count("examples", terms.shape[1])
        if factors.n_samples:
            self._add_mean(terms.view(len(terms), -1, factors.n_samples).sum(dim=1))
        else:
            self._value += float(terms.sum())
        if self._curved:
            # Layers of one group are far apart, because neighbouring layers interact more.
            n_layers = max(2, self._n_vectors - n_examples)
            n_groups = max(1, min(len(self._curved), n_layers // 2))
            groups = [
                [p for layer in self._curved[i::n_groups] for p in layer] for i in range(n_groups)
            ]
            self._count("layers", n_groups * (n_layers // n_groups))
            with torch.enable_grad():
                total = (logits * slope).sum()
                self._add_mean(_layer_terms(total, groups, n_layers // n_groups, self._rng))

    def estimate(self, count: float) -> TraceEstimate:
        """Return the trace of the mean over `count` examples."""
        return TraceEstimate(
            self._value / count,
            self._variance**0.5 / count,
            sum(self._n_passes.values()),
            method="by example and layer",
        )

    def _add_mean(self, terms: Tensor) -> None:
        """Add the sum over rows of the means of ``[R, M]`` independent terms, M >= 2."""
        self._value += float(terms.mean(dim=1).sum())
        self._variance += float(terms.var(dim=1).sum()) / terms.shape[1]

    def _count(self, part: str, n_passes: int) -> None:
        self._n_passes[part] = max(self._n_passes[part], n_passes)


def _logit_curvature(
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


class _Factors(NamedTuple):
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


def _factor(hessian: Tensor, n_vectors: int, rng: torch.Generator) -> _Factors:
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
        return _Factors(roots.to(hessian), values.sign().to(hessian), 0)
    signs = random_signs((len(values), n_vectors, rank), values, rng)
    parts, weights = [], []
    for sign in (1.0, -1.0):
        of_sign = values * sign > 0
        if (values * of_sign).abs().sum() > least:
            parts.append((signs * of_sign[:, None, :]) @ roots)
            weights.append(torch.full_like(signs[:, :, 0], sign))
    return _Factors(torch.cat(parts, 1).to(hessian), torch.cat(weights, 1).to(hessian), n_vectors)


def _squared_gradients(
    model: nn.Module, parameters: Parameters, inputs: Any, logits: Tensor, vectors: Tensor
) -> Tensor:
    r"""Return :math:`\|J_n^\top c_{nq}\|^2` in float64, ``[N, Q]``."""

    def square(x: Any, c: Tensor) -> tuple[Tensor, Tensor]:
        def along(p: Parameters) -> tuple[Tensor, Tensor]:
            z = call_model(model, p, tree_map(lambda part: part[None], x))[0]
            return (z * c).sum(), z

        slopes, z = grad(along, has_aux=True)(parameters)
        return torch.stack([(s * s).sum() for s in slopes.values()]).sum(), z

    parameters = {name: p.detach() for name, p in parameters.items()}
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


def _curved_layers(
    model: nn.Module, parameters: Parameters, inputs: Any, rng: torch.Generator
) -> list[Layer]:
    """Return the layers in whose parameters the logits of `inputs` are not piecewise linear.

    The others have a second derivative of exactly 0 along a random direction, as in all networks
    with piecewise linear activations that use each parameter once.
    """
    layers: dict[str, Layer] = {}
    for name, parameter in parameters.items():
        layers.setdefault(name.rpartition(".")[0], []).append(parameter)
    with torch.enable_grad():
        logits = call_model(model, {}, inputs)
        mix = torch.randn(logits.shape, generator=rng).to(logits)
        slopes = _slopes((logits * mix).sum(), list(layers.values()))
    curved = []
    for layer, slope in zip(layers.values(), slopes, strict=True):
        directions = [torch.randn(p.shape, generator=rng).to(p) for p in layer]
        products = second_products(slope, layer, directions, keep_graph=True)
        if any(x is not None and bool((x != 0).any()) for x in products):
            curved.append(layer)
    return curved


def _layer_terms(
    total: Tensor, layers: Sequence[Layer], n_vectors: int, rng: torch.Generator
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


def _slopes(total: Tensor, layers: Sequence[Layer]) -> list[tuple[Tensor | None, ...]]:
    """Return the gradient of `total` in the parameters of each layer, with its graph."""
    leaves = [p for layer in layers for p in layer]
    found = iter(torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True))
    return [tuple(next(found) for _ in layer) for layer in layers]


def second_products(
    slopes: Sequence[Tensor | None],
    leaves: Sequence[Tensor],
    vectors: Sequence[Tensor],
    *,
    is_block: bool = False,
    keep_graph: bool = False,
) -> Sequence[Tensor | None]:
    """Return the derivatives of `slopes` times `vectors` in `leaves`; None if they are 0.

    `slopes` are gradients with their graph. With `is_block` there are B vectors ``[B, ...]``.
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
