"""The array namespace that writes an ONNX graph instead of computing.

A calibrator is written once, for any array library. Given a `Traced` array in place of numbers it
computes nothing and records the graph of what it would have computed: every calibrator, also one
added later, becomes an ONNX graph without a second implementation of its formula.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper


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


_Numpy = Callable[..., Any]


def _entrywise(op: str, compute: _Numpy) -> Callable[..., Traced]:
    return lambda graph, *inputs: graph.apply(op, compute, *inputs)


def _filled(value: int) -> Callable[..., Traced]:
    return lambda graph, x: graph.full_like(x, value)


def _over_axis(op: str) -> Callable[..., Traced]:
    def reduced(graph: "Graph", x: Traced, *, axis: int, keepdims: Any = False) -> Traced:
        axis %= x.ndim
        kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        shape = kept if keepdims else kept[:axis] + kept[axis + 1 :]
        if op == "ReduceSum" or graph.opset >= 18:  # axes became an input at different versions
            name = graph.node(op, x.full, graph.constant([axis]), keepdims=int(keepdims))
        else:
            name = graph.node(op, x.full, axes=[axis], keepdims=int(keepdims))
        return Traced(graph, name, x.dtype, shape)

    return reduced


@final
class Graph:
    """Nodes and constants under one prefix, and the array namespace that appends to them.

    Args:
        prefix: beginning of every name.
        opset: version of the operators.
        dtype: floating dtype of the computation.
    """

    __name__ = "focalibrate.deploy.onnx"
    float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
    int64, bool = np.dtype(np.int64), np.dtype(np.bool_)
    inf = float("inf")
    finfo, isdtype = staticmethod(np.finfo), staticmethod(np.isdtype)

    def __init__(self, prefix: str, *, opset: int, dtype: Any) -> None:
        self.prefix = prefix
        self.opset = opset
        self.dtype = np.dtype(dtype)
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}
        self._known: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(f"`{name}` cannot be written as ONNX by focalibrate.deploy yet.")

    # What a graph is made of

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Append one node and return the name of its output; equal nodes are added once."""
        key = repr((op, inputs, sorted(attributes.items())))
        if key not in self._known:
            name = f"{self.prefix}{len(self.nodes)}_{op}"
            self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
            self._known[key] = name
        return self._known[key]

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Return the name of a constant tensor."""
        array = np.asarray(value, dtype=dtype)
        content = f"{array.dtype}{array.shape}{array.tobytes().hex()}"
        if content not in self.constants:
            name = f"{self.prefix}constant_{len(self.constants)}"
            self.constants[content] = numpy_helper.from_array(array, name)
        return self.constants[content].name

    def input(self, name: str, n_classes: int | None) -> Traced:
        """Return the rows ``[N, K]`` of the tensor `name` as an array to compute with."""
        rows = self.node("Cast", name, to=helper.np_dtype_to_tensor_dtype(self.dtype))
        shape = [self._size(rows, 0), n_classes or self._size(rows, 1)]
        return Traced(self, rows, self.dtype, tuple(shape))

    def needed_for(self, name: str) -> tuple[list[NodeProto], list[TensorProto]]:
        """Return the nodes and constants that the tensor `name` depends on."""
        wanted = {name}
        nodes = []
        for node in reversed(self.nodes):
            if node.output[0] in wanted:
                nodes.append(node)
                wanted.update(node.input)
        return nodes[::-1], [c for c in self.constants.values() if c.name in wanted]

    def _size(self, name: str, axis: int) -> Size:
        shape = self.node("Shape", name)
        return Size(self, self.node("Gather", shape, self.constant(axis), axis=0))

    def _folded(self, value: Any, shape: Shape | None = None) -> Traced:
        array = np.asarray(value)
        return Traced(self, "", array.dtype, array.shape if shape is None else shape, array)

    def _shape(self, shape: Sequence[Length]) -> str:
        """Return the name of `shape` as a tensor."""
        if all(isinstance(n, int) for n in shape):
            return self.constant(list(shape))
        parts = [
            self.node("Unsqueeze", n.name, self.constant([0]))
            if isinstance(n, Size)
            else self.constant([n])
            for n in shape
        ]
        return self.node("Concat", *parts, axis=0)

    # Making arrays

    def asarray(self, value: Any, *, dtype: Any = None, device: Any = None) -> Traced:
        """Return a constant."""
        return self._folded(np.asarray(value, dtype=dtype or None))

    def arange(self, n: Length, *, device: Any = None) -> Traced:
        """Return ``0 … n - 1``."""
        if isinstance(n, int):
            return self._folded(np.arange(n))
        name = self.node("Range", self.constant(0), n.name, self.constant(1))
        return Traced(self, name, self.int64, (n,))

    def full_like(self, x: Traced, value: Any) -> Traced:
        """Return an array of the shape of `x`: one number that is not spread out until needed."""
        return self._folded(np.asarray(value, dtype=x.dtype), x.shape)

    zeros_like, ones_like = _filled(0), _filled(1)

    def astype(self, x: Traced, dtype: Any, **_: Any) -> Traced:
        """Return `x` in another dtype."""
        dtype = np.dtype(dtype)
        if x.value is not None:
            return self._folded(x.value.astype(dtype), x.shape)
        if x.dtype == dtype:
            return x
        name = self.node("Cast", x.name, to=helper.np_dtype_to_tensor_dtype(dtype))
        return Traced(self, name, dtype, x.shape)

    # Entry by entry

    def apply(self, op: str, compute: _Numpy, *inputs: Any, dtype: Any = None) -> Traced:
        """Return `op` of arrays and numbers; numbers take the dtype of the arrays."""
        arrays = [x for x in inputs if isinstance(x, Traced)]
        kind = np.result_type(*(x.dtype for x in arrays if op != "Where" or x is not inputs[0]))
        operands = [x if isinstance(x, Traced) else self.asarray(x, dtype=kind) for x in inputs]
        shape = _broadcast([x.shape for x in operands])
        if all(x.value is not None for x in operands):
            with np.errstate(all="ignore"):
                found = np.asarray(compute(*(x.value for x in operands)))
            return self._folded(found.astype(dtype or kind), shape)
        wanted = [x if x.dtype == self.bool else self.astype(x, kind) for x in operands]
        name = self.node(op, *(x.name for x in wanted))
        return Traced(self, name, np.dtype(dtype or kind), shape)

    exp = _entrywise("Exp", np.exp)
    log = _entrywise("Log", np.log)
    abs = _entrywise("Abs", np.abs)
    round = _entrywise("Round", np.round)
    maximum = _entrywise("Max", np.maximum)
    minimum = _entrywise("Min", np.minimum)
    where = _entrywise("Where", np.where)

    def log1p(self, x: Traced) -> Traced:
        """Return log(1 + x), which ONNX lacks, to full accuracy (Kahan's quotient)."""
        total = x + 1.0
        step = total - 1.0
        is_lost = step == 0.0
        ratio = x / self.where(is_lost, 1.0, step)
        # 1 + inf - 1 is inf, and inf / inf is nan: for such values the quotient is 1.
        ratio = self.where(x > 1e6, 1.0, ratio)
        return self.where(is_lost, x, self.log(total) * ratio)

    def logaddexp(self, x: Traced, y: Traced) -> Traced:
        """Return log(exp(x) + exp(y)); the two must not be the same infinity."""
        return self.maximum(x, y) + self.log1p(self.exp(-self.abs(x - y)))

    def clip(self, x: Traced, low: Any = None, high: Any = None) -> Traced:
        """Return `x` within bounds."""
        x = x if low is None else self.maximum(x, low)
        return x if high is None else self.minimum(x, high)

    def isfinite(self, x: Traced) -> Traced:
        """Return where `x` is neither infinite nor nan."""
        return self.abs(x) <= float(np.finfo(x.dtype).max)

    # Over an axis

    sum = _over_axis("ReduceSum")
    max = _over_axis("ReduceMax")
    min = _over_axis("ReduceMin")

    def argmax(self, x: Traced, *, axis: int, keepdims: Any = False) -> Traced:
        """Return the index of the first largest entry."""
        axis %= x.ndim
        name = self.node("ArgMax", x.full, axis=axis, keepdims=int(keepdims))
        shape = (*x.shape[:axis], *((1,) if keepdims else ()), *x.shape[axis + 1 :])
        return Traced(self, name, self.int64, shape)

    # Shapes

    def expand_dims(self, x: Traced, *, axis: int) -> Traced:
        """Return `x` with one more axis of length 1."""
        axis %= x.ndim + 1
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        if x.value is not None:
            is_full = x.value.shape == x.shape
            return self._folded(np.expand_dims(x.value, axis) if is_full else x.value, shape)
        name = self.node("Unsqueeze", x.name, self.constant([axis]))
        return Traced(self, name, x.dtype, shape)

    def squeeze(self, x: Traced, *, axis: int) -> Traced:
        """Return `x` without an axis of length 1."""
        axis %= x.ndim
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        name = self.node("Squeeze", x.full, self.constant([axis]))
        return Traced(self, name, x.dtype, shape)

    def reshape(self, x: Traced, shape: Sequence[Length]) -> Traced:
        """Return the entries of `x` in another shape; -1 stands for the remaining size."""
        name = self.node("Reshape", x.full, self._shape(shape))
        sizes = [self._size(name, i) if n == -1 else n for i, n in enumerate(shape)]
        return Traced(self, name, x.dtype, tuple(sizes))

    def stack(self, arrays: Sequence[Traced], *, axis: int = 0) -> Traced:
        """Return the arrays joined along a new axis."""
        axis %= arrays[0].ndim + 1
        parts = [self.expand_dims(x, axis=axis) for x in arrays]
        return self.concat(parts, axis=axis)

    def concat(self, arrays: Sequence[Traced], *, axis: int = 0) -> Traced:
        """Return the arrays joined along an axis."""
        axis %= arrays[0].ndim
        name = self.node("Concat", *(x.full for x in arrays), axis=axis)
        lengths = [n for x in arrays if isinstance(n := x.shape[axis], int)]
        total = sum(lengths) if len(lengths) == len(arrays) else self._size(name, axis)
        shape = (*arrays[0].shape[:axis], total, *arrays[0].shape[axis + 1 :])
        return Traced(self, name, arrays[0].dtype, shape)

    def take(self, x: Traced, index: Traced, *, axis: int | None = None) -> Traced:
        """Return the entries of `x` at `index` along an axis."""
        axis = 0 if axis is None else axis % x.ndim
        name = self.node("Gather", x.full, index.full, axis=axis)
        return Traced(self, name, x.dtype, x.shape[:axis] + index.shape + x.shape[axis + 1 :])

    def flip(self, x: Traced, *, axis: int) -> Traced:
        """Return the entries of an axis of known length in reverse."""
        length = int(x.shape[axis])  # type: ignore[arg-type]
        return self.take(x, self.asarray(np.arange(length)[::-1].copy()), axis=axis)

    def matmul(self, x: Traced, y: Traced) -> Traced:
        """Return the matrix product ``[..., K] @ [K, L]``."""
        name = self.node("MatMul", x.full, y.full)
        return Traced(self, name, x.dtype, x.shape[:-1] + y.shape[1:])

    def native_log_softmax(self, x: Traced) -> Traced:
        """Return the logarithm of the softmax over the last axis, by the operator of that name."""
        return Traced(self, self.node("LogSoftmax", x.full, axis=-1), x.dtype, x.shape)


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((n for n in lengths if n != 1), 1) for lengths in zip(*padded, strict=True))
