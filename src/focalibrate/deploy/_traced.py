"""An array that records what is computed with it, as ONNX nodes of a `Graph`."""

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
        return bool(np.asarray(self.value).all() if self._is_known() else None)

    def __float__(self) -> float:
        return float(np.asarray(self.value) if self._is_known() else 0.0)

    def _is_known(self) -> bool:
        if self.value is None:
            raise NotImplementedError("An ONNX graph cannot depend on the values of its input.")
        return True

    def __neg__(self) -> "Traced":
        return self.graph.apply("Neg", np.negative, self)

    def __invert__(self) -> "Traced":
        return self.graph.apply("Not", np.logical_not, self)

    def __abs__(self) -> "Traced":
        return self.graph.abs(self)

    def __matmul__(self, other: "Traced") -> "Traced":
        return self.graph.matmul(self, other)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> "Traced":  # type: ignore[override]
        return self.graph.apply("Equal", np.equal, self, other, dtype=bool)

    def __ne__(self, other: object) -> "Traced":  # type: ignore[override]
        return ~(self == other)

    def __add__(self, other: Any) -> "Traced":
        return self.graph.apply("Add", np.add, self, other)

    def __radd__(self, other: Any) -> "Traced":
        return self.graph.apply("Add", np.add, other, self)

    def __sub__(self, other: Any) -> "Traced":
        return self.graph.apply("Sub", np.subtract, self, other)

    def __rsub__(self, other: Any) -> "Traced":
        return self.graph.apply("Sub", np.subtract, other, self)

    def __mul__(self, other: Any) -> "Traced":
        return self.graph.apply("Mul", np.multiply, self, other)

    def __rmul__(self, other: Any) -> "Traced":
        return self.graph.apply("Mul", np.multiply, other, self)

    def __truediv__(self, other: Any) -> "Traced":
        return self.graph.apply("Div", np.divide, self, other)

    def __rtruediv__(self, other: Any) -> "Traced":
        return self.graph.apply("Div", np.divide, other, self)

    def __pow__(self, other: Any) -> "Traced":
        return self.graph.apply("Pow", np.power, self, other)

    def __rpow__(self, other: Any) -> "Traced":
        return self.graph.apply("Pow", np.power, other, self)

    def __lt__(self, other: Any) -> "Traced":
        return self.graph.apply("Less", np.less, self, other, dtype=bool)

    def __le__(self, other: Any) -> "Traced":
        return self.graph.apply("LessOrEqual", np.less_equal, self, other, dtype=bool)

    def __gt__(self, other: Any) -> "Traced":
        return self.graph.apply("Greater", np.greater, self, other, dtype=bool)

    def __ge__(self, other: Any) -> "Traced":
        return self.graph.apply("GreaterOrEqual", np.greater_equal, self, other, dtype=bool)

    def __and__(self, other: Any) -> "Traced":
        return self.graph.apply("And", np.logical_and, self, other, dtype=bool)

    def __or__(self, other: Any) -> "Traced":
        return self.graph.apply("Or", np.logical_or, self, other, dtype=bool)
