"""An array that records what is computed with it, as ONNX nodes of a `Graph`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from focalibrate.deploy._graph import Graph


@final
class Size:
    """Length of an axis that is known only when the graph runs."""

    def __init__(self, graph: "Graph", name: str) -> None:
        self.graph = graph
        self.name = name

    def __lt__(self, other: int) -> bool:
        return False  # rows are never refused for a length that is not known yet

    def __rtruediv__(self, other: float) -> "Traced":
        size = Traced(self.graph, self.name, np.dtype(np.int64), ())
        return other / self.graph.astype(size, self.graph.dtype)


Length = int | Size
Shape = tuple[Length, ...]


_Operator = Callable[["Traced", Any], "Traced"]


def _binary(op: str, compute: Callable[..., Any], dtype: Any = None) -> _Operator:
    return lambda x, y: x.graph.apply(op, compute, x, y, dtype=dtype)


def _reflected(op: str, compute: Callable[..., Any]) -> _Operator:
    return lambda x, y: x.graph.apply(op, compute, y, x)


@final
class Traced:
    """An array of the result of a node, or a constant that no node has needed yet."""

    device = "onnx"

    def __init__(
        self,
        graph: "Graph",
        name: str,
        dtype: np.dtype[Any],
        shape: Shape,
        value: NDArray[Any] | None = None,
    ) -> None:
        self.graph = graph
        self.dtype = dtype
        self.shape = shape
        self.value = value
        """Value of a constant: the whole array, or one number in place of many equal ones."""
        self._name = name

    @property
    def name(self) -> str:
        """The tensor in the graph."""
        if self.value is not None:
            return self.graph.constant(self.value, self.dtype)
        return self._name

    @property
    def full(self) -> str:
        """The tensor with every entry written out."""
        if self.value is None or self.value.shape == self.shape:
            return self.name
        return self.graph.node("Expand", self.name, self.graph._shape(self.shape))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def is_concrete(self) -> bool:
        """Whether the values can be looked at."""
        return self.value is not None

    def __array_namespace__(self, *, api_version: str | None = None) -> "Graph":
        return self.graph

    def __getitem__(self, key: Any) -> "Traced":
        index, axis = (key[1], -1) if isinstance(key, tuple) and key[0] is Ellipsis else (key, 0)
        if not isinstance(index, int):
            raise NotImplementedError(
                f"`x[{key}]` cannot be written as ONNX by focalibrate.deploy yet."
            )
        return self.graph.take(self, self.graph.asarray(np.int64(index)), axis=axis)

    def __bool__(self) -> bool:
        raise NotImplementedError("An ONNX graph cannot depend on the values of its input.")

    def __neg__(self) -> "Traced":
        return self.graph.apply("Neg", np.negative, self)

    def __invert__(self) -> "Traced":
        return self.graph.apply("Not", np.logical_not, self)

    def __matmul__(self, other: "Traced") -> "Traced":
        return self.graph.matmul(self, other)

    def __eq__(self, other: object) -> "Traced":  # type: ignore[override]
        return self.graph.apply("Equal", np.equal, self, other, dtype=bool)

    __add__, __radd__ = _binary("Add", np.add), _reflected("Add", np.add)
    __sub__, __rsub__ = _binary("Sub", np.subtract), _reflected("Sub", np.subtract)
    __mul__, __rmul__ = _binary("Mul", np.multiply), _reflected("Mul", np.multiply)
    __truediv__, __rtruediv__ = _binary("Div", np.divide), _reflected("Div", np.divide)
    __pow__, __rpow__ = _binary("Pow", np.power), _reflected("Pow", np.power)
    __lt__ = _binary("Less", np.less, dtype=bool)
    __le__ = _binary("LessOrEqual", np.less_equal, dtype=bool)
    __gt__ = _binary("Greater", np.greater, dtype=bool)
    __ge__ = _binary("GreaterOrEqual", np.greater_equal, dtype=bool)
    __and__ = _binary("And", np.logical_and, dtype=bool)
