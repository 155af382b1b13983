import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from focalibrate.theory import (
    nearest_temperature,
    recover_log_odds,
    recover_log_posterior,
    recover_posterior,
)
from focalibrate_papers.claims import temperature_bounds, tight_temperature_bounds

S = np.concatenate([np.geomspace(1e-2, 600, 400)])


@given(gamma=st.floats(0.01, 50.0))
def test_bounds_enclose_every_logit_and_the_tight_ones_lie_inside(gamma):
    temperature = S / recover_log_odds(S, gamma)
    proven, tight = temperature_bounds(gamma), tight_temperature_bounds(gamma)
    assert proven.low == tight.low
    assert (temperature >= tight.low - 1e-12).all()
    assert (temperature <= tight.high + 1e-9).all()
    assert tight.high <= proven.high


def test_low_bound_is_approached():
    assert_allclose(1e6 / recover_log_odds(np.array(1e6), 3.0), 0.25, rtol=1e-6)


def test_log_odds_agree_with_the_two_class_map():
    z = np.stack([S, np.zeros_like(S)], -1)
    log_psi = recover_log_posterior(z, 2.0)
    assert_allclose(recover_log_odds(S, 2.0), log_psi[:, 0] - log_psi[:, 1], rtol=1e-12)
    assert_array_equal(recover_log_odds(-S, 2.0), -recover_log_odds(S, 2.0))


@pytest.mark.parametrize(
    ("gamma", "k", "want"), [(3.0, 2, 0.276), (1.0, 3, 0.66), (3.0, 3, 0.356)]
)
def test_figures_that_the_paper_captions_wrongly(gamma, k, want):
    digits = len(str(want).split(".")[1])
    assert round(nearest_temperature(gamma, k).temperature, digits) == want


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("gamma", [0.2, 1.0, 5.0])
def test_no_logits_are_worse_and_no_temperature_better(gamma, k):
    found = nearest_temperature(gamma, k)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(40_000, k)) * rng.choice([0.3, 1, 3, 10], size=(40_000, 1))
    z[::3, rng.integers(k)] -= 50  # near a face of the simplex
    psi = np.exp(recover_log_posterior(z, gamma))
    worst = np.abs(psi - softmax(z / found.temperature, axis=-1)).max()
    assert worst <= found.largest_difference * (1 + 1e-4)
    assert worst >= found.largest_difference * 0.9
    for factor in (0.97, 1.03):
        other = np.abs(psi - softmax(z / (found.temperature * factor), axis=-1)).max()
        assert other > found.largest_difference


@pytest.mark.slow
def test_many_classes_and_gamma_zero():
    assert nearest_temperature(0.0, 5).largest_difference == 0.0
    few, many = nearest_temperature(1.0, 4), nearest_temperature(1.0, 1000)
    assert many.temperature > few.temperature
    # The overconfidence that no temperature below 1 can show, with 1000 classes.
    top = recover_posterior(np.array([0.05] + [0.95 / 999] * 999), 1.0)[0]
    assert round(float(top), 5) == 0.04592


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: temperature_bounds(-1), r"`gamma` must be a finite number >= 0, got -1"),
        (lambda: nearest_temperature(1.0, 1), r"`n_classes` must be a whole number >= 2, got 1"),
        (lambda: nearest_temperature(1.0, 2.5), r"`n_classes` must be .* got 2.5"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_infinite_log_odds_stay_infinite():
    ends = np.array([-np.inf, np.inf, 0.0])
    with np.errstate(all="raise"):
        assert_array_equal(recover_log_odds(ends, 2.0), ends)
        assert_array_equal(recover_log_odds(ends, -1.0, alpha=0.5), ends)


def test_every_library_gives_the_same_log_odds(xp):
    got = recover_log_odds(xp.asarray(S), 2.0)
    assert_allclose(np.asarray(got), recover_log_odds(S, 2.0), rtol=1e-12, atol=1e-14)
    assert_allclose(recover_log_odds([0, 2], 2.0), recover_log_odds(np.array([0.0, 2.0]), 2.0))
