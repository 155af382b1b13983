import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate.fit_focal_temperature import FOCAL_GAMMAS
from focalibrate.calibrate.focal_rows import MAX_SHARE, focal_rows
from focalibrate.theory import recover_log_posterior

TEMPERATURES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.8, 1.0, 1.5, 2.5, 5.0]


def both(logits, labels):
    return [focal_rows(logits, labels, compressed=c) for c in (False, True)]


def confidences(rows, temperature, gammas=FOCAL_GAMMAS):
    at = rows.at(temperature, gammas)
    return np.stack([at.confidence(i, g) for i, g in enumerate(gammas)])


@pytest.mark.parametrize("temperature", [0.01, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("gamma", [-1.0, -0.95, *FOCAL_GAMMAS])
def test_exact_rows_equal_the_theory(rows_of, gamma, temperature):
    logits, labels = rows_of(60, 7, dtype=np.float64)
    logits[3, 2] = -np.inf if labels[3] != 2 else logits[3, 2]
    log_probs = recover_log_posterior(logits / temperature, gamma)
    got = focal_rows(logits, labels)
    assert_allclose(
        got.confidence(gamma=gamma, temperature=temperature),
        np.exp(log_probs.max(axis=1)),
        rtol=1e-13,
    )
    assert_allclose(
        got.log_loss(gamma=gamma, temperature=temperature),
        -log_probs[np.arange(60), labels],
        rtol=1e-11,
        atol=1e-13,
    )


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_compressed_confidence_is_within_1e_5_for_1000_classes(rows_of, scale):
    logits, labels = rows_of(300, 1000, scale=scale)
    exact, small = both(logits, labels)
    worst = max(np.abs(confidences(exact, t) - confidences(small, t)).max() for t in TEMPERATURES)
    assert worst < 1.5e-5
    assert small.atoms.nbytes + small.weights.nbytes < 0.1 * logits.nbytes


@pytest.mark.parametrize("kind", ["uniform", "heavy", "bimodal", "quantised"])
def test_compressed_confidence_is_within_2e_4_on_odd_rows(kind):
    rng = np.random.default_rng(0)
    z = {
        "uniform": rng.uniform(-10, 0, (100, 1000)),
        "heavy": rng.standard_t(3, (100, 1000)),
        "bimodal": np.where(rng.random((100, 1000)) < 0.5, -5.0, 0.0)
        + 0.1 * rng.standard_normal((100, 1000)),
        "quantised": np.floor(8 * rng.standard_normal((100, 1000))) / 4,
    }[kind].astype(np.float32)
    labels = np.zeros(100, dtype=int)
    exact, small = both(z, labels)
    worst = max(np.abs(confidences(exact, t) - confidences(small, t)).max() for t in TEMPERATURES)
    assert worst < 2e-4


def test_compressed_log_loss_is_close_for_labels_deep_in_the_tail(rows_of):
    logits, labels = rows_of(200, 1000)
    labels = np.argsort(logits, axis=1)[np.arange(200), np.arange(200) * 5]
    for gamma in (-0.5, 0.0, 2.0):
        a, b = (rows.log_loss(gamma=gamma, temperature=1.0) for rows in both(logits, labels))
        assert_allclose(a, b, atol=2e-4)


def test_saturated_rows_stay_finite():
    logits = np.array([[0.0, -2000.0, -3000.0], [5000.0, 0.0, 4000.0]])
    got = focal_rows(logits, np.array([0, 1]))
    for gamma in (-1.0, -0.5, 0.0, 5.0):
        with np.errstate(all="raise", under="ignore"):
            assert_allclose(got.confidence(gamma=gamma, temperature=0.01), 1.0)
            loss = got.log_loss(gamma=gamma, temperature=0.01)
        want = -recover_log_posterior(logits / 0.01, gamma)[[0, 1], [0, 1]]
        assert_allclose(loss, want, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("compressed", [False, True])
def test_take_picks_rows(rows_of, compressed):
    index = np.array([3, 3, 49, 0])
    whole = focal_rows(*rows_of(50, 500), compressed=compressed)
    part = whole.take(index)
    for gamma in (0.0, 2.0):
        assert_allclose(
            part.log_loss(gamma=gamma, temperature=2.0),
            whole.log_loss(gamma=gamma, temperature=2.0)[index],
            rtol=1e-13,
        )


def test_exact_rows_copy_nothing(rows_of):
    logits, labels = rows_of(100, 50)
    held = focal_rows(logits, labels)
    assert np.shares_memory(held.atoms, logits)


@pytest.mark.parametrize(
    ("k", "dtype", "is_exact"), [(100, np.float32, True), (1000, np.float32, False)]
)
def test_rows_are_compressed_only_where_that_saves_memory(rows_of, k, dtype, is_exact):
    logits, labels = rows_of(40, k, dtype=dtype)
    held = focal_rows(logits, labels)
    assert (held.weights is None) is is_exact
    if not is_exact:
        assert held.atoms.nbytes + held.weights.nbytes <= MAX_SHARE * logits.nbytes


@pytest.mark.parametrize(
    ("gamma", "temperature", "message"),
    [(-2.0, 1.0, "`gamma` must be"), (0.0, 0.0, "`temperature` must be"), (0.0, np.nan, "> 0")],
)
def test_bad_parameters_are_refused(rows_of, gamma, temperature, message):
    with pytest.raises(ValueError, match=message):
        focal_rows(*rows_of(5, 3)).confidence(gamma=gamma, temperature=temperature)
