"""The code on the page runs, and gives what the calibrator gives."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import (
    Calibrator,
    PosteriorRecovery,
    TemperatureScaling,
    VectorScaling,
)
from focalibrate.report import deployment_snippets

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(20, 3)).astype(np.float32)
TEMPERATURE = TemperatureScaling(temperature=1.7)
VECTOR = VectorScaling(scale=(1.0, 0.5, 2.0), bias=(0.1, 0.0, -0.1))


class Classifier:
    """As scikit-learn's."""

    classes_ = np.arange(3)

    def decision_function(self, X):
        return X

    def predict_proba(self, X):
        return softmax(X)


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def code(calibrator, title, **options):
    found = deployment_snippets(calibrator, method="temperature", **options)
    return next(snippet.code for snippet in found if snippet.title == title)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("calibrator", [TEMPERATURE, VECTOR], ids=["temperature", "vector"])
def test_the_python_snippet_gives_the_calibrators_probabilities(folder, calibrator):
    calibrator.save(folder / "calibrator.json")
    names = {"logits": LOGITS}
    exec(code(calibrator, "Python"), names)
    assert_allclose(names["probs"], calibrator.probs(LOGITS))


def test_the_python_snippet_of_probabilities(folder):
    VECTOR.save(folder / "calibrator.json")
    names = {"model_probs": softmax(LOGITS)}
    exec(code(VECTOR, "Python", scores="probs"), names)
    assert_allclose(names["probs"], VECTOR.probs(probs=softmax(LOGITS)))


@pytest.mark.parametrize("scores", ["logits", "probs"])
def test_temperature_scaling_needs_numpy_only(scores):
    names = {"logits": LOGITS, "model_probs": softmax(LOGITS)}
    exec(code(TEMPERATURE, "NumPy only", scores=scores), names)
    assert_allclose(names["probs"], TEMPERATURE.probs(LOGITS), rtol=1e-5)


def test_what_is_more_than_a_temperature_has_no_short_form():
    titles = [s.title for s in deployment_snippets(VECTOR, method="vector")]
    assert titles == ["Python", "torch", "ONNX", "scikit-learn", "Command line"]


@pytest.mark.parametrize("scores", ["logits", "probs"])
def test_the_torch_snippet_runs(folder, scores):
    torch = pytest.importorskip("torch")
    replace(VECTOR, fitted_on=scores).save(folder / "calibrator.json")
    model = torch.nn.Identity() if scores == "logits" else torch.nn.Softmax(dim=-1)
    names = {"model": model, "batch": torch.from_numpy(LOGITS)}
    exec(code(VECTOR, "torch", scores=scores), names)
    # vector scaling, unlike temperature scaling, tells logits from their log-probabilities
    given = LOGITS if scores == "logits" else np.log(softmax(LOGITS))
    assert_allclose(names["probs"].detach(), VECTOR.probs(given), rtol=1e-4)


def test_the_onnx_snippet_runs(folder):
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    VECTOR.save(folder / "calibrator.json")
    value = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 3])
        for name in ("x", "logits")
    ]
    node = onnx.helper.make_node("Identity", ["x"], ["logits"])
    graph = onnx.helper.make_graph([node], "g", value[:1], value[1:])
    opset = onnx.helper.make_opsetid("", 17)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.save(model, "model.onnx")
    exec(code(VECTOR, "ONNX"), {})
    probs = runtime.InferenceSession("calibrated.onnx").run(["probs"], {"x": LOGITS})[0]
    assert_allclose(probs, VECTOR.probs(LOGITS), rtol=1e-4)


def test_the_onnx_snippet_of_probabilities_runs(folder):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    VECTOR.save(folder / "calibrator.json")
    exec(code(VECTOR, "ONNX", scores="probs"), {})
    session, given = runtime.InferenceSession("calibrator.onnx"), np.log(softmax(LOGITS))
    (probs,) = session.run(["probs"], {session.get_inputs()[0].name: given.astype(np.float32)})
    assert_allclose(probs, VECTOR.probs(given), rtol=1e-4)


@pytest.mark.slow
def test_the_scikit_learn_snippet_runs(folder):
    linear = pytest.importorskip("sklearn.linear_model")
    TEMPERATURE.save(folder / "calibrator.json")
    X = RNG.normal(size=(120, 2))
    y = RNG.integers(3, size=120)
    classifier = linear.LogisticRegression().fit(X, y)
    names = {"classifier": classifier, "X": X, "X_validation": X, "y_validation": y}
    text = code(TEMPERATURE, "scikit-learn")
    exec(text.split("\n\n# or")[0], dict(names), found := dict(names))
    want = TEMPERATURE.probs(classifier.decision_function(X))
    assert_allclose(found["probs"], want)
    exec(text, names)
    assert names["probs"].shape == (120, 3)
    text = code(TEMPERATURE, "scikit-learn", scores="probs")
    exec(text.split("\n\n# or")[0], names)
    assert_allclose(names["probs"], TEMPERATURE.probs(probs=classifier.predict_proba(X)))


def test_the_snippets_load_what_the_command_writes(folder):
    VECTOR.save(folder / "calibrator.json")
    assert Calibrator.load("calibrator.json") == VECTOR
    assert all("calibrator.json" in s.code for s in deployment_snippets(VECTOR, method="vector"))


def test_posterior_recovery_is_written_with_its_settings():
    recovery = PosteriorRecovery(2.0, (1.0, 2.0, 5.0), 0.1, (0.2, 0.3, 0.5), (0.5, 0.3, 0.2))
    text = code(recovery, "Without a file")
    names = {"logits": LOGITS}
    exec(text, names)
    assert_allclose(names["probs"], recovery.probs(LOGITS))
    options = "--focal 2 --class-weight 1,2,5 --trained-prior 0.2,0.3,0.5 --prior 0.5,0.3,0.2"
    assert f"focalibrate apply {options} --label-smoothing 0.1 predictions.csv" in text
    many = PosteriorRecovery(2.0, tuple(range(1, 51)))
    titles = [s.title for s in deployment_snippets(many, method="posterior_recovery")]
    assert "Without a file" not in titles
