import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.testing import assert_allclose
from onnx import TensorProto, helper, numpy_helper

from focalibrate.calibrate import (
    FocalTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    PosteriorRecovery,
    SigmoidCalibrator,
    TemperatureScaling,
    VectorScaling,
)
from focalibrate.deploy import attach_to_onnx, calibrator_to_onnx

FORMULAS = [  # without parameters per class: computed in float32
    Identity(),
    PosteriorRecovery(2.0),
    TemperatureScaling(1.7),
    FocalTemperatureScaling(-0.5, 0.6),
]
ONE_EACH = [
    *FORMULAS,
    PosteriorRecovery(
        2.0, (5.0, 1.0, 0.5), 0.1, prior=(0.2, 0.3, 0.5), target_prior=(0.5, 0.3, 0.2)
    ),
    VectorScaling((1.0, 0.0, 2.0), (0.5, 0.0, -0.5)),
    IsotonicCalibration(
        ((0.1, 0.4, 0.9), (0.2, 0.2, 0.8), (0.3,)), ((0.0, 0.5, 0.7), (0.1, 0.3, 1.0), (0.4,))
    ),
    HistogramBinning(((0, 0.5, 1), (0, 0.2, 0.9, 1), (0, 1)), ((0.0, 0.9), (0.0, 0.3, 1), (0.2,))),
    PosteriorRecovery(2.0, label_smoothing=0.1),  # of any number of classes
]
KIND = {"argvalues": ONE_EACH, "ids": [f"{i}-{c.kind}" for i, c in enumerate(ONE_EACH)]}
FEW = {"argvalues": ONE_EACH[3:8], "ids": KIND["ids"][3:8]}


EDGE_CASES = [  # a tie puts the probability exactly on a knot with a jump, or on an edge
    IsotonicCalibration(
        ((0.2, 0.5, 0.5, 0.8), (0.2, 0.5, 0.5, 0.8)), ((0.0, 0.1, 0.6, 1.0), (0.0, 0.3, 0.4, 1.0))
    ),
    HistogramBinning(((0.0, 0.5, 1.0), (0.0, 0.5, 1.0)), ((0.3, 0.8), (0.1, 0.9))),
]


def rows(k=3, seed=0):
    """Logits from flat to saturated, with ties, impossible and certain classes."""
    rng = np.random.default_rng(seed)
    z = np.concatenate([s * rng.standard_normal((20, k)) for s in (1e-3, 1, 10, 100, 1e4)])
    z[0], z[1, 1:], z[2, 0] = 0.0, -np.inf, -np.inf
    return z.astype(np.float32)


def run(path, **inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


@pytest.mark.parametrize("calibrator", **KIND)
def test_every_kind_is_the_calibrator(calibrator, tmp_path):
    path = tmp_path / "calibrator.onnx"
    calibrator.to_onnx(path)
    onnx.checker.check_model(path, full_check=True)
    z = rows()
    for part in (z, z[:1], z[:0]):
        got = run(path, logits=part)["probs"]
        assert got.dtype == np.float32
        assert got.shape == part.shape
        if len(part):
            assert_allclose(got, calibrator.probs(part.astype(np.float64)), rtol=0, atol=1e-6)
            assert_allclose(got.sum(axis=1), 1.0, atol=1e-6)
    assert [p.name for p in tmp_path.iterdir()] == ["calibrator.onnx"]


@pytest.mark.parametrize("calibrator", EDGE_CASES, ids=["isotonic", "histogram"])
def test_a_probability_on_a_knot_or_edge(calibrator, tmp_path):
    calibrator.to_onnx(tmp_path / "c.onnx")
    want = [[0.6, 0.4]] if isinstance(calibrator, IsotonicCalibration) else [[0.75, 0.25]]
    got = run(tmp_path / "c.onnx", logits=np.zeros((1, 2), dtype=np.float32))["probs"]
    assert_allclose(got, want, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [-1.0, -0.99, -0.25, 0.0, 0.05, 1.0, 5.0])
def test_any_class_count_and_saturated_rows(gamma, tmp_path):
    for temperature in (0.01, 5.0):
        calibrator = FocalTemperatureScaling(gamma, temperature)
        calibrator.to_onnx(tmp_path / "c.onnx")
        for k in (2, 10, 1000):
            z = rows(k)
            got = run(tmp_path / "c.onnx", logits=z)["probs"]
            assert_allclose(got, calibrator.probs(z.astype(np.float64)), rtol=0, atol=1e-6)
            assert_allclose(got.sum(axis=1), 1.0, atol=1e-6)


def test_small_probabilities_keep_their_digits(tmp_path):
    """The minor entry of a saturated row is about (1 + gamma) eps ** (1 + gamma)."""
    calibrator = PosteriorRecovery(1.0)
    calibrator.to_onnx(tmp_path / "c.onnx")
    z = np.stack([np.zeros(40), -np.linspace(0, 40, 40)], axis=1).astype(np.float32)
    got = run(tmp_path / "c.onnx", logits=z)["probs"]
    want = calibrator.probs(z.astype(np.float64))
    assert want.min() < 1e-34
    assert_allclose(got, want, rtol=3e-5)


def classifier(path, *, dtype=TensorProto.FLOAT, opset=17, names=("scores",), shape=("N", 3)):
    """Write ``x @ W`` with one output per name: the logits, then their argmax, then their sum."""
    numpy_dtype = helper.tensor_dtype_to_np_dtype(dtype)
    weight = np.arange(12.0).reshape(4, 3).astype(numpy_dtype) / 10
    nodes = [helper.make_node("MatMul", ["x", "probs"], [names[0]], name="focalibrate/0_Cast")]
    outputs = [helper.make_tensor_value_info(names[0], dtype, list(shape))]
    if len(names) > 1:
        nodes.append(helper.make_node("ArgMax", [names[0]], [names[1]], axis=-1, keepdims=0))
        outputs.append(helper.make_tensor_value_info(names[1], TensorProto.INT64, ["N"]))
    if len(names) > 2:
        nodes.append(helper.make_node("Flatten", [names[0]], [names[2]], axis=0))
        outputs.append(helper.make_tensor_value_info(names[2], dtype, [1, "M"]))
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", dtype, ["N", 4])],
        outputs,
        [numpy_helper.from_array(weight, "probs")],  # a name the new output would like
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(model, path)
    return weight.astype(np.float64)


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
@pytest.mark.parametrize("calibrator", **FEW)
def test_attached_to_a_classifier(calibrator, opset, tmp_path):
    weight = classifier(tmp_path / "in.onnx", opset=opset, names=("scores", "label"))
    name = attach_to_onnx(tmp_path / "in.onnx", calibrator, tmp_path / "out.onnx", output="scores")
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)
    assert name == "probs_2"
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    got = run(tmp_path / "out.onnx", x=x)
    assert list(got) == ["scores", "label", "probs_2"]
    assert_allclose(got["scores"], x @ weight, atol=1e-6)
    want = calibrator.probs(got["scores"].astype(np.float64))
    assert_allclose(got[name], want, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "atol"), [(TensorProto.DOUBLE, 1e-12), (TensorProto.FLOAT16, 1e-3)]
)
@pytest.mark.parametrize("calibrator", **FEW)
def test_attached_in_the_dtype_of_the_logits(calibrator, dtype, atol, tmp_path):
    classifier(tmp_path / "in.onnx", dtype=dtype)
    name = attach_to_onnx(tmp_path / "in.onnx", calibrator, tmp_path / "out.onnx")
    x = np.random.default_rng(0).standard_normal((6, 4))
    got = run(tmp_path / "out.onnx", x=x.astype(helper.tensor_dtype_to_np_dtype(dtype)))
    assert got[name].dtype == got["scores"].dtype
    want = calibrator.probs(got["scores"].astype(np.float64))
    assert_allclose(got[name], want, rtol=0, atol=atol)


def test_attached_twice_in_place(tmp_path):
    path = tmp_path / "model.onnx"
    classifier(path)
    first = attach_to_onnx(path, TemperatureScaling(2.0), path)
    second = attach_to_onnx(path, FocalTemperatureScaling(1.0, 3.0), path, output="scores")
    third = attach_to_onnx(path, FocalTemperatureScaling(1.0, 3.0), path, output="scores")
    assert (first, second, third) == ("probs_2", "probs_3", "probs_4")
    got = run(path, x=np.ones((1, 4), dtype=np.float32))
    assert_allclose(got["probs_3"], got["probs_4"], rtol=0)
    assert np.abs(got["probs_2"] - got["probs_3"]).max() > 1e-3
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_weights_in_files_of_their_own_stay_there(tmp_path):
    classifier(tmp_path / "in.onnx")
    model = onnx.load(tmp_path / "in.onnx")
    onnx.save(
        model,
        tmp_path / "in.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    attach_to_onnx(tmp_path / "in.onnx", Identity(), tmp_path / "out.onnx")
    got = run(tmp_path / "out.onnx", x=np.ones((2, 4), dtype=np.float32))
    assert_allclose(got["probs_2"].sum(axis=1), 1.0, rtol=1e-6)
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match=r"`out_path` must be in the folder of .*in.onnx"):
        attach_to_onnx(tmp_path / "in.onnx", Identity(), tmp_path / "other" / "out.onnx")


THREE = ("scores", "label", "row")


@pytest.mark.parametrize(
    ("options", "output", "message"),
    [
        ({"names": THREE}, None, r"`output` must name the logits, .* 3 outputs: scores, label"),
        ({"names": THREE}, "logits", r"must be an output of .*: scores, .*; got 'logits'"),
        ({"names": THREE}, "label", r"a tensor of floats, but 'label' is INT64"),
        ({"names": THREE, "shape": ("N", 3)}, "row", r"3 classes of the fit, but 'row' has 12"),
        ({"shape": ("N", 3, 1)}, None, r"shape \[N, K\], but 'scores' has \['N', 3, 1\]"),
        ({"shape": ("N", 4)}, None, r"the 3 classes of the fit, but 'scores' has 4"),
        ({"opset": 11}, None, r"must have opset 13 or later, got 11. Export it again"),
    ],
)
def test_what_cannot_be_attached_to(options, output, message, tmp_path):
    classifier(tmp_path / "in.onnx", **options)
    if output == "row":
        model = onnx.load(tmp_path / "in.onnx")
        model.graph.output[2].type.tensor_type.shape.dim[1].dim_value = 12
        onnx.save(model, tmp_path / "in.onnx")
    with pytest.raises(ValueError, match=message):
        attach_to_onnx(tmp_path / "in.onnx", ONE_EACH[6], tmp_path / "out.onnx", output=output)
    assert not (tmp_path / "out.onnx").exists()


def test_a_file_that_is_no_model(tmp_path):
    (tmp_path / "in.onnx").write_bytes(b"not a model")
    with pytest.raises(ValueError, match="must be an ONNX model, but cannot be read"):
        attach_to_onnx(tmp_path / "in.onnx", Identity(), tmp_path / "out.onnx")
    with pytest.raises(FileNotFoundError):
        attach_to_onnx(tmp_path / "none.onnx", Identity(), tmp_path / "out.onnx")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "calibrator.onnx"
    Identity().to_onnx(path)
    before = path.read_bytes()

    def broken(model):
        raise onnx.checker.ValidationError("broken")

    monkeypatch.setattr(onnx.checker, "check_model", broken)
    with pytest.raises(onnx.checker.ValidationError):
        TemperatureScaling(2.0).to_onnx(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["calibrator.onnx"]


@pytest.mark.parametrize(
    "calibrator",
    [
        SigmoidCalibrator(),
        SigmoidCalibrator.recovery(2.0, alpha=0.25),
        SigmoidCalibrator((0.5, 2.0, 1.0), (0.1, -1.0, 0.0), gamma=0.5),
    ],
    ids=["identity", "recovery", "platt"],
)
def test_a_sigmoid_head(calibrator, tmp_path):
    path = tmp_path / "sigmoid.onnx"
    calibrator.to_onnx(path)
    onnx.checker.check_model(path, full_check=True)
    z = np.concatenate([s * np.random.default_rng(0).normal(size=(20, 3)) for s in (1, 10, 300)])
    z = z.astype(np.float32)
    got = run(path, logits=z)["probs"]
    assert_allclose(got, calibrator.probs(z.astype(np.float64)), rtol=0, atol=1e-6)


def test_a_sigmoid_head_behind_a_classifier(tmp_path):
    calibrator = SigmoidCalibrator((0.5, 2.0, 1.0), (0.1, -1.0, 0.0), gamma=2.0)
    path = tmp_path / "model.onnx"
    Identity().to_onnx(path)  # stands for a network; its output is what is calibrated
    name = attach_to_onnx(path, calibrator, tmp_path / "both.onnx", output="probs")
    z = rows()
    found = run(tmp_path / "both.onnx", logits=z)
    assert_allclose(
        found[name], calibrator.probs(found["probs"].astype(np.float64)), rtol=0, atol=1e-6
    )
    with pytest.raises(ValueError, match="`scores` must be one of logits"):
        calibrator_to_onnx(calibrator, path, scores="probs")
