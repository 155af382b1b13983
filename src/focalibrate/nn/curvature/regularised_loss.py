"""A loss with the trace of its own Hessian as a penalty, as a torch module."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, conv2d, conv3d, linear
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from focalibrate._check import check_count, check_gamma
from focalibrate.nn.curvature._network import Loss, call_model, random_signs, select_parameters

LINEAR_IN_WEIGHT = frozenset({linear, conv1d, conv2d, conv3d})
"""Functions ``(x, weight, bias, ...)`` that are linear in weight and bias together."""


@final
class AlongRay(TorchFunctionMode):
    r"""Within this context, parameters :math:`\theta` are read as :math:`\theta + \epsilon v`.

    Layers linear in their weights are computed as
    :math:`f(x;\theta) + \epsilon f(x;v)`: derivatives in :math:`\epsilon` then pass through
    activations only, and never through an array of the size of the weights. Any other function
    gets :math:`\theta + \epsilon v` itself.

    Args:
        directions: pairs of a parameter and its :math:`v`, by the identity of the parameter.
        step: :math:`\epsilon`, a number that requires a gradient.
    """

    def __init__(self, directions: Mapping[int, Tensor], step: Tensor) -> None:
        super().__init__()
        self._directions = directions
        self._step = step
        self._moved: dict[int, Tensor] = {}

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call `func` with the parameters moved along the line."""
        kwargs = kwargs or {}
        if func in LINEAR_IN_WEIGHT and len(args) >= 3 and id(args[1]) in self._directions:
            x, weight, bias, *others = args
            x = self._move(x)
            along = self._directions[id(weight)], self._directions.get(id(bias))
            slope = func(x, *along, *others, **kwargs)
            return func(x, weight, bias, *others, **kwargs) + self._step * slope
        return func(*tree_map(self._move, args), **tree_map(self._move, kwargs))

    def _move(self, value: Any) -> Any:
        key = id(value)
        if key not in self._directions:
            return value
        if key not in self._moved:
            self._moved[key] = value + self._step * self._directions[key]
        return self._moved[key]


@final
class CurvatureRegularisedLoss(nn.Module):
    r"""A loss plus a multiple of the trace of its Hessian over the parameters, on the batch.

    .. math:: L(\theta) + \tau\,\widehat{\operatorname{Tr}}\,\nabla^2 L(\theta), \qquad
              \widehat{\operatorname{Tr}}\,H = \frac1M\sum_{i=1}^M v_i^\top H v_i,
              \quad v_i\in\{-1,1\}^D

    The penalty and its gradient are unbiased estimates, with new random signs at each call, and
    it is differentiated through the Hessian-vector product, third derivatives included.

    Args:
        base_loss: ``(logits, labels) -> number``, three times differentiable, as all modules of
            `focalibrate.nn` and `torch.nn.functional.cross_entropy` are.
        tau: weight of the penalty, ``>= 0``; 0 is `base_loss` alone.
        n_vectors: M.
        parameters: names of layers or parameters to penalise. Default: all that require a
            gradient.
        generator: generator of the random signs, on the CPU. Default: torch's own, which
            `torch.manual_seed` sets.

    Shape:
        Called with the model, the inputs of a batch (a tuple or dict is spread over the model's
        arguments) and its labels; returns one number.

    Numerics:
        :math:`v^\top Hv` is the second derivative of :math:`L(\theta+\epsilon v)` in the number
        :math:`\epsilon`. Linear and convolution layers are computed as
        :math:`f(x;\theta)+\epsilon f(x;v)`, so no array of the size of the weights is
        differentiated twice, and one ordinary backward pass gives the gradient: about twice the
        cost of a plain step. Piecewise linear activations (ReLU) have second derivative 0. The
        model runs once per vector, in its current mode; batch-norm in training mode penalises the
        curvature given the batch's statistics as functions of the parameters.

    Example:
        >>> from torch.nn.functional import cross_entropy
        >>> model, criterion = nn.Linear(2, 3), CurvatureRegularisedLoss(cross_entropy, 0.1)
        >>> loss = criterion(model, torch.ones(4, 2), torch.tensor([0, 1, 2, 0]))
        >>> loss.backward()
        >>> model.weight.grad.shape
        torch.Size([3, 2])

    References:
        Paper 004, Figure 4: cross-entropy + τ·Tr(H).
    """

    def __init__(
        self,
        base_loss: Loss,
        tau: float,
        *,
        n_vectors: int = 1,
        parameters: Sequence[str] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check_gamma(tau, name="tau")
        check_count(n_vectors, name="n_vectors")
        self.base_loss = base_loss
        self.tau = float(tau)
        self.n_vectors = n_vectors
        self.parameter_names = parameters
        self.generator = generator

    def forward(self, model: nn.Module, inputs: Any, labels: Tensor) -> Tensor:
        """Return the regularised loss of the batch under `model`."""
        if self.tau == 0.0:
            return self.base_loss(call_model(model, {}, inputs), labels)
        parameters = select_parameters(model, self.parameter_names)
        losses, traces = [], []
        for _ in range(self.n_vectors):
            directions = {
                id(p): random_signs(p.shape, p, self.generator) for p in parameters.values()
            }
            step = next(iter(parameters.values())).new_zeros((), requires_grad=True)
            with AlongRay(directions, step):
                logits = call_model(model, {}, inputs)
            loss = self.base_loss(logits, labels)
            traces.append(curvature_along(loss, step))
            losses.append(loss)
        return torch.stack(losses).mean() + self.tau * torch.stack(traces).mean()

    def extra_repr(self) -> str:
        """Show the arguments."""
        return f"tau={self.tau}, n_vectors={self.n_vectors}, parameters={self.parameter_names}"


def curvature_along(losses: Tensor, step: Tensor) -> Tensor:
    r"""Return :math:`v^\top Hv` of each loss: its second derivative in its own `step`.

    Args:
        losses: one number, or ``[R]`` of R models that share no parameters.
        step: :math:`\epsilon` of each, of the same shape, as `AlongRay` was given it.

    Returns:
        Shaped like `step`, differentiable; 0 if a loss is linear in its step.
    """
    (slope,) = torch.autograd.grad(losses.sum(), step, create_graph=True)
    if not slope.requires_grad:
        return torch.zeros_like(slope)
    answer = torch.autograd.grad(slope.sum(), step, create_graph=True, allow_unused=True)[0]
    return torch.zeros_like(slope) if answer is None else answer
