"""A list of ONNX nodes that grows by calling operators, and the maps written with it."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from focalibrate.calibrate import VectorScaling
from focalibrate.calibrate.formula import CurveTables, Recovered
from focalibrate.theory.factor import SERIES_BELOW, SERIES_TERMS

LOWEST = -1e30
"""Stands for -inf: its exponential is 0 and sums and products with it stay finite."""


@final
class Nodes:
    """Nodes and constants under one prefix; every method returns the name of a tensor."""

    def __init__(self, prefix: str, *, opset: int, dtype: Any) -> None:
        self.prefix = prefix
        self.opset = opset
        self.dtype = np.dtype(dtype)
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, TensorProto] = {}

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Append one node and return the name of its output."""
        name = f"{self.prefix}{len(self.nodes)}_{op}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return the name of a constant, in the dtype of the computation unless told."""
        array = np.asarray(value, dtype=dtype or self.dtype)
        content = f"{array.dtype}{array.shape}{array.tobytes().hex()}"
        if content not in self.constants:
            name = f"{self.prefix}constant_{len(self.constants)}"
            self.constants[content] = numpy_helper.from_array(array, name)
        return self.constants[content].name

    def reduce(self, op: str, x: str) -> str:
        """Reduce the last axis and keep it; axes became an input at different versions."""
        if op == "ReduceSum" or self.opset >= 18:
            return self(op, x, self.constant([-1], np.int64), keepdims=1)
        return self(op, x, axes=[-1], keepdims=1)


def recovered(nodes: Nodes, z: str, formula: Recovered) -> str:
    r"""Append :math:`\Psi_\gamma(\operatorname{softmax}(z/T))`, stable in single precision.

    As in `focalibrate.theory`: :math:`\log(1-v)` of the top class is the log-odds of all the
    others less :math:`\log(1+x)`, with :math:`x = \sum_{k \ne top} e^{z_k - z_{top}}`; of every
    other class, at most one half, :math:`1 - v` loses no digits.
    """
    c = nodes.constant
    gaps = nodes("Sub", z, nodes.reduce("ReduceMax", z))
    gaps = nodes("Max", nodes("Div", gaps, c(formula.temperature)), c(LOWEST))
    if formula.gamma == 0:
        return nodes("Softmax", gaps, axis=-1)
    is_top = _is_top(nodes, z)
    others = nodes("Where", is_top, c(LOWEST), gaps)
    second = nodes.reduce("ReduceMax", others)
    total = nodes.reduce("ReduceSum", nodes("Exp", nodes("Sub", others, second)))
    s = nodes("Add", nodes("Log", total), second)  # log-odds of all but the top class
    log_one_plus = _log1p(nodes, nodes("Exp", s))
    log_v = nodes("Sub", gaps, log_one_plus)
    is_major = nodes("And", is_top, nodes("Less", s, c(0.0)))
    v = nodes("Where", is_major, c(0.5), nodes("Exp", log_v))
    minor_rest = nodes("Sub", c(1.0), v)
    minor_log_rest = _log1p(nodes, nodes("Neg", v))
    r = nodes("Div", nodes("Mul", nodes("Neg", v), log_v), minor_rest)
    minor = nodes(
        "Add",
        nodes("Mul", c(formula.gamma), minor_log_rest),
        _log1p(nodes, nodes("Mul", c(formula.gamma), r)),
    )
    major = _log_phi_top(nodes, nodes("Sub", s, log_one_plus), log_one_plus, formula.gamma)
    scores = nodes("Sub", log_v, nodes("Where", is_major, major, minor))
    return nodes("Softmax", scores, axis=-1)


def _log_phi_top(nodes: Nodes, log_rest: str, minus_log_p: str, gamma: float) -> str:
    """Append `focalibrate.theory.factor.log_phi`."""
    c = nodes.constant
    rest = nodes("Exp", log_rest)
    is_near = nodes("Less", rest, c(SERIES_BELOW))
    safe_rest = nodes("Where", is_near, c(1.0), rest)
    p = nodes("Exp", nodes("Neg", minus_log_p))
    r_far = nodes("Div", nodes("Mul", p, minus_log_p), safe_rest)
    eps = nodes("Where", is_near, rest, c(0.0))
    d_near = c(0.0)
    for k in range(SERIES_TERMS, 0, -1):
        d_near = nodes("Add", c(1.0 / (k * (k + 1))), nodes("Mul", eps, d_near))
    if gamma == -1:
        d_far = nodes("Div", nodes("Sub", c(1.0), r_far), safe_rest)
        return nodes("Log", nodes("Where", is_near, d_near, d_far))
    near = nodes("Sub", c(1.0 + gamma), nodes("Mul", c(gamma), nodes("Mul", eps, d_near)))
    far = nodes("Add", c(1.0), nodes("Mul", c(gamma), r_far))
    gain = nodes("Where", is_near, near, far)
    return nodes("Add", nodes("Mul", c(gamma), log_rest), nodes("Log", gain))


def _log1p(nodes: Nodes, x: str) -> str:
    """Append log(1 + x). ONNX has no log1p; the rounding of 1 + x moves scores by 1e-7 gamma."""
    return nodes("Log", nodes("Add", nodes.constant(1.0), x))


def _is_top(nodes: Nodes, z: str) -> str:
    """Append where the first largest entry of each row is."""
    n_classes = nodes("Gather", nodes("Shape", z), nodes.constant(-1, np.int64), axis=0)
    zero, one = (nodes.constant(i, np.int64) for i in (0, 1))
    return nodes(
        "Equal", nodes("Range", zero, n_classes, one), nodes("ArgMax", z, axis=-1, keepdims=1)
    )


def vector_scaled(nodes: Nodes, z: str, formula: VectorScaling) -> str:
    """Append vector scaling; an impossible class stays so even where its scale is 0."""
    c = nodes.constant
    is_impossible = nodes("Less", z, c(np.finfo(nodes.dtype).min))
    scaled = nodes("Add", nodes("Mul", z, c(formula.scale)), c(formula.bias))
    return nodes("Softmax", nodes("Where", is_impossible, c(LOWEST), scaled), axis=-1)


def curves_read(nodes: Nodes, z: str, tables: CurveTables) -> str:
    """Append one curve a class, then rows brought back to sum 1."""
    c = nodes.constant
    exp = nodes("Exp", nodes("Sub", z, nodes.reduce("ReduceMax", z)))
    raw = nodes("Div", exp, nodes.reduce("ReduceSum", exp))
    new = _interpolated(nodes, raw, tables) if tables.is_linear else _binned(nodes, raw, tables)
    new = nodes("Where", nodes("Equal", raw, c(0.0)), c(0.0), new)
    total = nodes.reduce("ReduceSum", new)
    is_some = nodes("Greater", total, c(0.0))
    safe_total = nodes("Where", is_some, total, c(1.0))
    return nodes("Where", is_some, nodes("Div", new, safe_total), raw)


def _binned(nodes: Nodes, p: str, tables: CurveTables) -> str:
    count = _count(nodes, p, tables.knots, op="Less")
    return _entries(nodes, tables.values, count)


def _interpolated(nodes: Nodes, p: str, tables: CurveTables) -> str:
    after = _count(nodes, p, tables.knots, op="LessOrEqual")
    before = nodes("Sub", after, nodes.constant(1, np.int64))
    x0, x1 = (_entries(nodes, tables.knots, i) for i in (before, after))
    y0, y1 = (_entries(nodes, tables.values, i) for i in (before, after))
    share = nodes("Div", nodes("Sub", p, x0), nodes("Sub", x1, x0))
    return nodes("Add", y0, nodes("Mul", nodes("Sub", y1, y0), share))


def _count(nodes: Nodes, p: str, knots: NDArray[np.float64], *, op: str) -> str:
    """Append, by halving, how many knots of its class are below each `p`; ``[N, K]``."""
    n_classes, length = knots.shape
    n_steps = length.bit_length()
    padded = np.full((n_classes, 2**n_steps - 1), np.inf)
    padded[:, :length] = knots
    count = nodes.constant(np.zeros((1, n_classes)), np.int64)
    for step in (2**i for i in reversed(range(n_steps))):
        trial = nodes("Add", count, nodes.constant(step, np.int64))
        knot = _entries(nodes, padded, nodes("Sub", trial, nodes.constant(1, np.int64)))
        count = nodes("Where", nodes(op, knot, p), trial, count)
    return count


def _entries(nodes: Nodes, table: NDArray[np.float64], index: str) -> str:
    """Append ``table[k, index[n, k]]``, ``[N, K]``."""
    n_classes, length = table.shape
    first = nodes.constant(length * np.arange(n_classes), np.int64)
    return nodes("Gather", nodes.constant(table.ravel()), nodes("Add", index, first), axis=0)
