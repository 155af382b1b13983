import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import expit, log_expit

from focalibrate.calibrate import SigmoidCalibrator, fit_multilabel
from focalibrate.losses import sigmoid_focal_loss

fit_sigmoid_platt = fit_multilabel


def fit_sigmoid_temperature(*args, scope="shared", **options):
    return fit_multilabel(*args, line="temperature", scope=scope, **options)


@pytest.fixture
def example():
    rng = np.random.default_rng(0)
    truth = 2 * rng.normal(size=(3000, 4)) - 1
    labels = (rng.random(truth.shape) < expit(truth)).astype(int)
    return truth * [0.5, 1.0, 2.0, 4.0] + [1.0, 0.0, -1.0, 0.5], labels


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("alpha", [None, 0.25, 0.9])
@pytest.mark.parametrize("posterior", [0.02, 0.3, 0.5, 0.95])
def test_recovery_undoes_the_minimiser_of_the_risk(gamma, alpha, posterior):
    def risks(s):
        both = [
            sigmoid_focal_loss(s, np.full(len(s), label), gamma=gamma, alpha=alpha)
            for label in (1.0, 0.0)
        ]
        return posterior * both[0] + (1 - posterior) * both[1]

    def risk(s):
        return float(risks(np.array([s]))[0])

    grid = np.linspace(-12, 12, 481)
    near = grid[np.argmin(risks(grid))]
    found = minimize_scalar(risk, bracket=(near - 0.05, near, near + 0.05), tol=1e-14).x
    # A minimum is known to about the root of rounding: polish by the root of the slope.

    def slope(s, h=1e-3):
        return risk(s - 2 * h) - 8 * risk(s - h) + 8 * risk(s + h) - risk(s + 2 * h)

    found = brentq(slope, found - 0.01, found + 0.01, xtol=1e-14)
    got = SigmoidCalibrator.recovery(gamma, alpha=alpha).probs(np.array([found]))[0]
    assert_allclose(got, posterior, atol=1e-7)


@pytest.mark.slow
def test_fits_minimise_the_log_loss(example):
    z, y = example
    for c in range(4):
        x, t = z[:, c], y[:, c]

        def loss(p, x=x, t=t):
            s = p[0] * x + (p[1] if len(p) > 1 else 0.0)
            return -np.mean(t * log_expit(s) + (1 - t) * log_expit(-s))

        want = minimize(loss, [1.0], tol=1e-12).x[0]
        got = fit_sigmoid_temperature(z, y, scope="per_label")
        assert_allclose(got.slope[c], want, rtol=1e-4)
        n = t.sum()
        smooth = np.where(t == 1, (n + 1) / (n + 2), 1 / (len(t) - n + 2))
        line = minimize(lambda p, x=x, t=smooth: loss(p, x, t), [1.0, 0.0], tol=1e-12).x
        platt = fit_sigmoid_platt(z, y)
        assert_allclose([platt.slope[c], platt.intercept[c]], line, rtol=1e-3, atol=1e-4)
        alone = fit_sigmoid_platt(x, t)
        assert_allclose(alone.slope[0], platt.slope[c], rtol=1e-8)
    assert_allclose(fit_sigmoid_platt(z, y).slope, [2.0, 1.0, 0.5, 0.25], rtol=0.15)


def test_a_shared_fit_pools_the_labels(example):
    z, y = example
    shared = fit_sigmoid_temperature(z, y)
    flat = fit_sigmoid_temperature(z.ravel(), y.ravel())
    assert shared.n_labels is None
    assert_allclose(shared.slope, flat.slope, rtol=1e-10)


def test_recovery_before_the_fit(example):
    z, y = example
    got = fit_sigmoid_temperature(z, y, gamma=2.0)
    by_hand = fit_sigmoid_temperature(SigmoidCalibrator.recovery(2.0).log_odds(z), y)
    assert_allclose(got.slope, by_hand.slope, rtol=1e-6)
    assert got.gamma == 2.0


def test_whole_weights_count_repeated_rows_and_zero_hides_a_label(example):
    z, y = example
    times = np.arange(3000) % 3
    for fit in (fit_sigmoid_temperature, fit_sigmoid_platt):
        weighted = fit(z, y, sample_weight=times)
        repeated = fit(np.repeat(z, times, axis=0), np.repeat(y, times, axis=0))
        assert_allclose(weighted.slope, repeated.slope, rtol=1e-9)
        known = np.ones(z.shape)
        known[1000:, 1] = 0
        few = fit(z, y, scope="per_label", sample_weight=known)
        assert_allclose(few.slope[1], fit(z[:1000, 1], y[:1000, 1]).slope[0], rtol=1e-9)


def test_labels_that_are_separated_or_absent_have_finite_fits():
    z = np.array([[-2.0, 0.5], [-1.0, 1.0], [1.0, -1.0], [2.0, 0.0]])
    y = np.array([[0, 0], [0, 0], [1, 0], [1, 0]])
    platt = fit_sigmoid_platt(z, y)
    assert np.isfinite([*platt.slope, *platt.intercept]).all()
    assert platt.probs(z)[:, 1].max() < 0.5
    assert fit_sigmoid_temperature(z, y, scope="per_label").slope[0] > 10.0


def test_it_is_saved_described_and_refused(example, tmp_path):
    z, y = example
    fitted = fit_sigmoid_platt(z, y, gamma=1.0)
    fitted.save(tmp_path / "c.json")
    assert SigmoidCalibrator.load(tmp_path / "c.json") == fitted
    assert fitted.describe().startswith(
        "sigmoid calibration of 4 labels: posterior recovery gamma=1"
    )
    assert SigmoidCalibrator().describe() == "sigmoid calibration: identity"
    with pytest.raises(
        ValueError, match=r"must have 4 labels on the last axis, got shape \(2, 3\)"
    ):
        fitted.probs(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="one number, or one per label, got 2 and 3"):
        SigmoidCalibrator((1.0, 1.0), (0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="`alpha` must"):
        SigmoidCalibrator.recovery(2.0, alpha=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("version"), r"missing \['version'\]"),
        (lambda r: r.update(version=True), "`version` must be 1, got True"),
        (lambda r: r.update(version=1.0), "`version` must be 1, got 1.0"),
        (lambda r: r.update(format="other"), "`format` must be 'focalibrate.sigmoid_calibrator'"),
        (lambda r: r["parameters"].update(slope=["1"]), "`slope` must hold finite numbers only"),
        (lambda r: r["parameters"].update(slope=1.0), "is not a sigmoid calibrator"),
        (lambda r: r["parameters"].update(gamma=-2.0), "`gamma` must be a finite number >= -1"),
        (lambda r: r["parameters"].update(scale=2.0), r"not known \['scale'\]"),
    ],
)
def test_a_file_that_is_not_exactly_right_is_refused(change, message, tmp_path):
    path = tmp_path / "c.json"
    SigmoidCalibrator.recovery(2.0, alpha=0.25).save(path)
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=message):
        SigmoidCalibrator.load(path)


def test_torch_tensors_keep_their_graph():
    torch = pytest.importorskip("torch")
    z = torch.tensor([[-2.0, 0.0, 2.0]], requires_grad=True)
    p = SigmoidCalibrator.recovery(2.0, alpha=0.25).probs(z)
    p.sum().backward()
    assert p.dtype == torch.float32
    assert torch.isfinite(z.grad).all()
