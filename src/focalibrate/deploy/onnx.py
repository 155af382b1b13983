"""Calibrators as ONNX graphs, alone or behind a classifier."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto, helper

from focalibrate._atomic import atomic_path
from focalibrate._check import check_choice
from focalibrate.calibrate import Calibrator, SigmoidCalibrator
from focalibrate.deploy._graph import Graph
from focalibrate.io import ScoreKind

OPSET = 17
IR_VERSION = 8
"""Opset that `calibrator_to_onnx` writes: supported by runtimes since 2022."""
MIN_OPSET = 13
"""Oldest opset with the current meaning of Softmax and of the axes of ReduceSum."""
Exported = Calibrator | SigmoidCalibrator
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def calibrator_to_onnx(
    calibrator: Exported, path: str | os.PathLike[str], *, scores: ScoreKind | None = None
) -> None:
    """Write `calibrator` as an ONNX graph from scores to ``probs``, both float32 ``[N, K]``.

    `N` is free, and so is `K` where the calibrator was not fitted to a number of classes. -inf
    marks an impossible class. The graph is traced from the calibrator's own Python code.

    Args:
        calibrator: any calibrator of `focalibrate.calibrate`; that of a sigmoid head takes and
            gives one number per label.
        path: file to write, whole or not at all.
        scores: what goes in: ``"logits"``, or ``"probs"`` for probabilities, with the
            calibrator's rule for zeros; the input is then called ``scores``. Default: what the
            calibrator was fitted on. A sigmoid head has logits.

    Numerics:
        Float32, with the same care as `focalibrate.theory`: within 1e-6 of float64 NumPy for
        rows saturated up to gaps of 1e4. All but temperatures and posterior recovery are
        computed in float64: a scaled logit of 100 would be off by 1e-5 in float32, and a
        probability could fall on the other side of a bin's edge.

    Example:
        >>> import tempfile
        >>> from focalibrate.calibrate import TemperatureScaling
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TemperatureScaling(temperature=1.5).to_onnx(f"{folder}/calibrator.onnx")
        ...     [o.name for o in onnx.load(f"{folder}/calibrator.onnx").graph.output]
        ['probs']
    """
    kind = _kind(calibrator, scores)
    n_classes = _width(calibrator) or "K"
    given, probs = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", n_classes])
        for name in ("logits" if kind == "logits" else "scores", "probs")
    )
    graph = helper.make_graph([], "focalibrate", [given], [])
    _append(graph, calibrator, given, probs, scores=kind, opset=OPSET)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="focalibrate",
        doc_string=calibrator.describe(),
    )
    _write(model, Path(path))


def attach_to_onnx(
    model_path: str | os.PathLike[str],
    calibrator: Exported,
    out_path: str | os.PathLike[str],
    *,
    output: str | None = None,
    scores: ScoreKind | None = None,
) -> str:
    """Append `calibrator` to a classifier's scores, as one more output of the graph.

    All outputs of the classifier stay; the new one is called ``probs``, or ``probs_2`` and so
    on where that name is taken, and has the dtype of the scores.

    Args:
        model_path: the exported classifier, opset 13 or later.
        calibrator: any calibrator of `focalibrate.calibrate`.
        out_path: file to write, whole or not at all; may be `model_path`. A model with its
            weights in files of their own keeps them there: write into the same folder.
        output: name of the scores, a float output ``[N, K]``; needed only where the graph has
            more than one output.
        scores: what that output holds, ``"logits"`` or ``"probs"``. Default: what the calibrator
            was fitted on.

    Returns:
        The name of the new output.

    Numerics:
        As `calibrator_to_onnx`; double logits are computed in double.
    """
    source, target = Path(model_path), Path(out_path)
    content = source.read_bytes()
    try:
        model = onnx.load_model_from_string(content)  # does not read weights in other files
    except Exception as error:  # protobuf's DecodeError, a class onnx does not re-export
        raise ValueError(f"{source} must be an ONNX model, but cannot be read: {error}") from None
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    if opset < MIN_OPSET:
        raise ValueError(
            f"{source} must have opset {MIN_OPSET} or later, got {opset}. Export it again, or "
            "convert it with `onnx.version_converter.convert_version`."
        )
    _check_weights_stay_reachable(model, source, target)
    logits = _logits_of(model.graph, output, source)
    _check_form(logits, calibrator)
    taken = _names(model.graph)
    name = next(n for n in _numbered("probs", "") if n not in taken)
    probs = ValueInfoProto()
    probs.CopyFrom(logits)
    probs.name, probs.doc_string = name, calibrator.describe()
    prefix = next(
        p for p in _numbered("focalibrate", "/") if not any(n.startswith(p) for n in taken)
    )
    kind = _kind(calibrator, scores)
    _append(model.graph, calibrator, logits, probs, scores=kind, opset=opset, prefix=prefix)
    _write(model, target)
    return name


def _append(
    graph: GraphProto,
    calibrator: Exported,
    logits: ValueInfoProto,
    probs: ValueInfoProto,
    *,
    scores: ScoreKind,
    opset: int,
    prefix: str = "focalibrate/",
) -> None:
    """Append the nodes from `logits` to `probs`, and `probs` as an output."""
    given = logits.type.tensor_type.elem_type
    is_double = given == TensorProto.DOUBLE or not _is_formula(calibrator)
    traced = Graph(prefix, opset=opset, dtype=np.float64 if is_double else np.float32)
    result = calibrator.probs(**{scores: traced.input(logits.name, _width(calibrator))})
    is_narrowed = is_double and given != TensorProto.DOUBLE
    if scores == "probs" and is_narrowed and isinstance(calibrator, Calibrator):
        result = calibrator.without_ends(
            traced.astype(result, helper.tensor_dtype_to_np_dtype(given))
        )
    nodes, constants = traced.needed_for(result.full)
    graph.node.extend(nodes)
    graph.node.append(
        helper.make_node("Cast", [result.full], [probs.name], name=f"{prefix}probs", to=given)
    )
    graph.initializer.extend(constants)
    graph.output.append(probs)


def _kind(calibrator: Exported, scores: ScoreKind | None) -> ScoreKind:
    """Return what goes in: `scores`, or else what the calibrator was fitted on."""
    if isinstance(calibrator, SigmoidCalibrator):
        check_choice(scores or "logits", ("logits",), name="scores")
        return "logits"
    kind = scores or calibrator.fitted_on or "logits"
    check_choice(kind, ("logits", "probs"), name="scores")
    return kind


def _width(calibrator: Exported) -> int | None:
    """Return the number of classes or labels; None if any number works."""
    if isinstance(calibrator, SigmoidCalibrator):
        return calibrator.n_labels
    return calibrator.n_classes


def _is_formula(calibrator: Exported) -> bool:
    """Return whether `calibrator` is a temperature and an exponent at most: float32 is enough."""
    if isinstance(calibrator, SigmoidCalibrator):
        return False
    parameters = calibrator.to_dict()["parameters"].values()
    return calibrator.keeps_argmax and all(isinstance(x, (int, float)) for x in parameters)


def _logits_of(graph: GraphProto, output: str | None, source: Path) -> ValueInfoProto:
    outputs: dict[str, ValueInfoProto] = {o.name: o for o in graph.output}
    names = ", ".join(outputs)
    if output is None and len(outputs) != 1:
        raise ValueError(
            f"`output` must name the logits, as {source} has {len(outputs)} outputs: {names}."
        )
    if output is not None and output not in outputs:
        raise ValueError(f"`output` must be an output of {source}: {names}; got {output!r}.")
    return outputs[output] if output is not None else next(iter(outputs.values()))


def _check_form(logits: ValueInfoProto, calibrator: Exported) -> None:
    """Raise `ValueError` unless `logits` are declared as floats ``[N, K]`` of the right K."""
    kind = logits.type.tensor_type
    if not logits.type.HasField("tensor_type") or kind.elem_type not in FLOATS:
        is_tensor = logits.type.HasField("tensor_type")
        found = TensorProto.DataType.Name(kind.elem_type) if is_tensor else "no tensor"
        raise ValueError(
            f"`output` must be a tensor of floats, but {logits.name!r} is {found}. Name the "
            "output that holds the logits, not the predicted class."
        )
    if not kind.HasField("shape"):
        return  # rank not declared: nothing to check
    sizes = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim
    ]
    if len(sizes) != 2:
        raise ValueError(
            f"`output` must have shape [N, K], but {logits.name!r} has {sizes}. Name the output "
            "that holds one row of scores per example."
        )
    n_classes = _width(calibrator)
    if n_classes is not None and isinstance(sizes[1], int) and sizes[1] != n_classes:
        raise ValueError(
            f"`output` must have the {n_classes} classes of the fit, but {logits.name!r} has "
            f"{sizes[1]}."
        )


def _check_weights_stay_reachable(model: ModelProto, source: Path, target: Path) -> None:
    is_external = any(t.data_location == TensorProto.EXTERNAL for t in model.graph.initializer)
    if is_external and target.parent.resolve() != source.parent.resolve():
        raise ValueError(
            f"`out_path` must be in the folder of {source}, whose weights are in files of their "
            f"own beside it, got {target}."
        )


def _names(graph: GraphProto) -> set[str]:
    """Return every name of a tensor or node, those of subgraphs included."""
    names = {x.name for x in (*graph.input, *graph.output, *graph.initializer, *graph.value_info)}
    for node in graph.node:
        names.update((node.name, *node.input, *node.output))
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                names |= _names(inner)
    return names


def _numbered(name: str, end: str) -> Iterator[str]:
    yield name + end
    yield from (f"{name}_{number}{end}" for number in count(2))


def _write(model: ModelProto, target: Path) -> None:
    """Write `model` beside `target`, let onnx check it, then give it its name."""
    with atomic_path(target, force=True) as draft:
        draft.write_bytes(model.SerializeToString())
        onnx.checker.check_model(draft)
