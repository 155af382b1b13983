"""One answer everywhere: each calibrator through NumPy, JSON, torch, ONNX and scikit-learn."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import (
    METHODS,
    CalibrationWarning,
    Calibrator,
    GroupedCalibrator,
    Identity,
    SigmoidCalibrator,
    fit,
    fit_multilabel,
)
from focalibrate.estimators import LogitCalibrator

OPTIONS = {"posterior_recovery": {"gamma": 2.0}, "focal_loss_temperature": {"gamma": 2.0}}
NAMES = list(METHODS)


def classes_of(method):
    return 2 if METHODS[method].classes == "two" else 3


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def training_rows(method, kind, *, with_zeros=False):
    rng = np.random.default_rng(5)
    k = classes_of(method)
    truth = 2.0 * rng.standard_normal((200, k))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    if kind == "logits":
        return 1.5 * truth, labels
    probs = softmax(1.5 * truth)
    if with_zeros:
        probs = np.rint(16 * probs) / 16
        probs[probs.sum(axis=1) == 0] = 1.0
        probs /= probs.sum(axis=1, keepdims=True)
    return probs, labels


def new_rows(method, kind):
    k = classes_of(method)
    if kind == "logits":
        rows = [[0.3, -1.0, 2.0], [40.0, 0.0, -3.0], [1.0, 0.5, -np.inf], [2.0, 1.0, -1e9]]
        rows += [[-np.inf, -np.inf, 3.0], [1e4, 0.0, -1e4], [0.0, 0.0, 0.0]]
        rows = [row[:k] if k == 3 else [row[0], row[2]] for row in rows]
        random = 3.0 * np.random.default_rng(1).standard_normal((50, k))
    else:
        rows = [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]
        rows = rows if k == 3 else [[0.3, 0.7], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
        random = np.random.default_rng(1).dirichlet(np.ones(k), 50)
    return np.concatenate([rows, random])


def fitted(method, kind, **options):
    scores, labels = training_rows(method, kind, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit(**{kind: scores}, labels=labels, method=method, **OPTIONS.get(method, {}))


def by_onnx(calibrator, path, x):
    runtime = pytest.importorskip("onnxruntime")
    calibrator.to_onnx(path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    return session.run(None, {given.name: x.astype(np.float32)})[0]


@pytest.mark.parametrize("kind", ["logits", "probs", "zeros"])
@pytest.mark.parametrize("method", NAMES)
def test_every_door_gives_the_same_probabilities(method, kind, tmp_path):
    torch = pytest.importorskip("torch")
    with_zeros, kind = kind == "zeros", "logits" if kind == "logits" else "probs"
    found = fitted(method, kind, with_zeros=with_zeros)
    assert found.fitted_on == kind
    x = new_rows(method, kind).astype(np.float32)
    want = np.asarray(found.probs(**{kind: x.astype(np.float64)}))
    assert_allclose(want.sum(axis=1), 1.0, rtol=1e-9)
    assert found.log_probs(**{kind: x[None]}).shape == (1, *x.shape)  # leading axes are kept
    predicted = want[np.arange(len(x)), x.argmax(axis=1)]
    assert not found.keeps_argmax or (predicted >= want.max(axis=1) - 1e-15).all()

    found.save(tmp_path / "c.json")
    again = Calibrator.load(tmp_path / "c.json")
    assert again == found
    assert_allclose(again.probs(**{kind: x.astype(np.float64)}), want, rtol=1e-12)
    # A finite mask of -1e9, and zeros far below float32, have no digits left in float32.
    near = {"rtol": 2e-5, "atol": 1e-6}
    assert_allclose(found.probs(**{kind: x}), want, **near)
    module = again.to_torch()
    assert_allclose(module(torch.tensor(x.astype(np.float64))), want, rtol=1e-9, atol=1e-12)
    assert_allclose(module(torch.tensor(x)), want, **near)
    assert_allclose(by_onnx(again, tmp_path / "c.onnx", x), want, **near)
    for n in (0, 1):
        assert_allclose(found.probs(**{kind: x[:n]}), want[:n], **near)
        assert_allclose(module(torch.tensor(x[:n])), want[:n], **near)
        assert_allclose(by_onnx(again, tmp_path / "c.onnx", x[:n]), want[:n], **near)

    if method not in OPTIONS:
        scores, labels = training_rows(method, kind, with_zeros=with_zeros)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            model = LogitCalibrator(method, scores=kind).fit(scores, labels)
        assert_allclose(model.predict_proba(x.astype(np.float64)), want, rtol=1e-9)


@pytest.mark.parametrize("with_zeros", [False, True])
@pytest.mark.parametrize("method", NAMES)
def test_a_zero_or_one_at_prediction_time_is_none_afterwards(method, with_zeros, tmp_path):
    torch = pytest.importorskip("torch")
    found = fitted(method, "probs", with_zeros=with_zeros)
    x = new_rows(method, "probs")
    if found.has_zeros:
        pytest.skip("gives some classes 0 by definition")
    for got in (
        found.probs(probs=x),
        found.probs(probs=x.astype(np.float32)),
        found.to_torch()(torch.tensor(x)).numpy(),
        by_onnx(found, tmp_path / "c.onnx", x),
    ):
        assert (np.asarray(got) > 0).all()
        assert (np.asarray(got) < 1).all()
    assert np.isfinite(found.log_probs(probs=x)).all()


@pytest.mark.parametrize("method", [name for name, one in METHODS.items() if one.treats_alike])
def test_permuting_options_permutes_probabilities_exactly(method):
    rng = np.random.default_rng(3)
    options = [2.0 * rng.standard_normal(rng.integers(2, 12)) for _ in range(300)]
    labels = [(row / 2 + rng.gumbel(size=len(row))).argmax() for row in options]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        found = fit(option_logits=options, labels=labels, method=method, **OPTIONS.get(method, {}))
    width = max(map(len, options))
    x = np.array([np.append(row, np.full(width - len(row), -np.inf)) for row in options])
    order = rng.permuted(np.tile(np.arange(width), (300, 1)), axis=1)
    moved = np.take_along_axis(x, order, axis=1)
    for one in (found.probs, found.log_probs):
        assert (one(moved) == np.take_along_axis(one(x), order, axis=1)).all()


def test_a_calibrator_by_group_gives_a_row_the_same_alone_and_in_a_batch(tmp_path):
    own = fitted("temperature", "probs", with_zeros=True)
    shared = fitted("average", "probs", with_zeros=True)
    found = GroupedCalibrator("dose", shared, ("1", "0.5"), (own, None), zero_mix=own.zero_mix)
    found.save(tmp_path / "c.json")
    x = new_rows("temperature", "probs")[:4]
    want = np.concatenate([own.probs(probs=x[:2]), shared.probs(probs=x[2:])])
    for one in (found, Calibrator.load(tmp_path / "c.json")):
        for groups in ([1.0, 1, 0.5, "new"], ["1.0", "1", "0.5", "2"], [1.0, 1.0, 0.5, 2.0]):
            assert_allclose(one.probs(probs=x, groups=groups), want, rtol=1e-12)
            for i in range(4):
                alone = one.probs(probs=x[i : i + 1], groups=groups[i : i + 1])
                assert_allclose(alone, want[i : i + 1], rtol=1e-12)
        near = one.probs(probs=x.astype(np.float32), groups=[1, 1, 2, 2])
        assert_allclose(near, want, rtol=2e-5)
        assert one.probs(probs=x[:0], groups=[]).shape == (0, 3)


def test_a_sigmoid_calibrator_gives_the_same_through_every_door(tmp_path):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    z = rng.standard_normal((60, 2))
    found = fit_multilabel(z, (z + rng.logistic(size=z.shape) > 0).astype(int), gamma=1.0)
    found.save(tmp_path / "c.json")
    x = np.array([[0.0, np.inf], [-np.inf, 80.0], [1e4, -1e4], [0.3, -2.0]], np.float32)
    want = found.probs(x.astype(np.float64))
    assert SigmoidCalibrator.load(tmp_path / "c.json") == found
    for n in (0, 1, 4):
        assert_allclose(found.probs(x[:n]), want[:n], rtol=2e-5)
        assert_allclose(found.probs(torch.tensor(x[:n])), want[:n], rtol=2e-5)
        assert_allclose(by_onnx(found, tmp_path / "c.onnx", x[:n]), want[:n], atol=1e-6)


def test_an_impossible_class_stays_impossible():
    for method in NAMES:
        probs = fitted(method, "logits").probs(new_rows(method, "logits"))
        assert probs[2, -1] == 0.0, method


def test_keeping_the_model_does_not_keep_hard_zeros():
    found = Identity(zero_mix=0.3)
    assert_allclose(found.probs(probs=[[1.0, 0.0, 0.0]]), [[0.8, 0.1, 0.1]])


def test_probabilities_given_as_logits_are_warned_of():
    probs, labels = training_rows("temperature", "probs")
    with pytest.warns(CalibrationWarning, match="Pass probabilities as `probs=`"):
        fit(probs, labels, method="temperature")
    found = fitted("temperature", "logits")
    with pytest.warns(CalibrationWarning, match="`logits` look like probabilities"):
        found.probs(probs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.probs(np.log(probs))
        found.probs(probs=probs)


@pytest.mark.parametrize("method", ["auto", "posterior_recovery", "structured_vector"])
def test_probabilities_given_as_logits_are_warned_of_once(method):
    probs, labels = training_rows("temperature", "probs")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(probs, labels, method=method, **({"gamma": 1.0} if method[0] == "p" else {}))
    found = [one for one in said if "`logits` look like" in str(one.message)]
    assert [one.filename for one in found] == [__file__]


def test_a_graph_or_module_takes_the_other_kind_of_score_if_asked(tmp_path):
    torch = pytest.importorskip("torch")
    onnx = pytest.importorskip("onnx")
    found = fitted("temperature", "probs")
    z = new_rows("temperature", "logits")[:2]
    want = found.probs(z)
    assert_allclose(found.to_torch(scores="logits")(torch.tensor(z)), want, rtol=1e-12)
    found.to_onnx(tmp_path / "c.onnx", scores="logits")
    assert [i.name for i in onnx.load(tmp_path / "c.onnx").graph.input] == ["logits"]
    found.to_onnx(tmp_path / "c.onnx")
    assert [i.name for i in onnx.load(tmp_path / "c.onnx").graph.input] == ["scores"]
