"""A model along a line in the space of its parameters."""

from collections.abc import Callable, Mapping
from typing import Any, final

from torch import Tensor
from torch.nn.functional import conv1d, conv2d, conv3d, linear
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

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
