import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from focalibrate.calibrate.choice import standard_error
from focalibrate.comparison import PairedMeans
from focalibrate.comparison.paired import MAX_GROUPS, paired_p_value


def test_whole_number_weights_are_repeated_rows():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(50, 2)), rng.integers(1, 4, size=50)
    repeated = np.repeat(x, w, axis=0)
    error = standard_error(x, w.astype(float), size=w.sum())
    assert_allclose(error, standard_error(repeated, None), rtol=1e-12)
    got = PairedMeans.of(x, weights=w.astype(float), n_resamples=10)
    assert_allclose(got.estimates, repeated.mean(axis=0), rtol=1e-12)


def test_the_standard_error_of_a_mean():
    x = np.random.default_rng(0).normal(size=(200, 3))
    assert_allclose(standard_error(x, None), x.std(axis=0, ddof=1) / np.sqrt(200), rtol=1e-12)
    assert np.isinf(standard_error(x[:1], None)).all()


def test_intervals_of_many_rows_are_those_of_the_normal_law():
    """More rows than groups: sums of random groups have the variance of the rows."""
    x = np.random.default_rng(0).exponential(size=(3 * MAX_GROUPS, 1))
    found = PairedMeans.of(x, n_resamples=200).interval(0)
    half = 1.96 * x.std() / np.sqrt(len(x))
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.2)


def test_infinite_values_make_a_mean_infinite_and_no_other():
    x = np.ones((20, 2))
    x[3, 0] = np.inf
    found = PairedMeans.of(x, n_resamples=5)
    assert found.interval(0).estimate == np.inf
    assert found.interval(1).estimate == 1
    assert found.difference(0, 1).estimate == np.inf
    assert found.difference(1, 0).estimate == -np.inf


def test_the_p_value_of_a_mean_difference_is_that_of_the_normal_law():
    a, b = np.random.default_rng(0).normal(size=(2, 300))
    z = (a - b).mean() / ((a - b).std(ddof=1) / np.sqrt(300))
    assert_allclose(paired_p_value(a, b), 2 * norm.sf(abs(z)), rtol=1e-10)
    assert paired_p_value(a, a) == 1.0


def test_a_model_with_an_infinite_loss_differs_from_those_without_and_from_no_other():
    finite, infinite = np.ones(20), np.ones(20)
    infinite[3] = np.inf
    assert paired_p_value(finite, infinite) == paired_p_value(infinite, finite) == 0.0
    assert paired_p_value(infinite, infinite) == 1.0


def test_intervals_stay_in_range():
    x = np.array([[0.0], [1.0], [1.0]])
    found = PairedMeans.of(x, n_resamples=50).interval(0).clipped("error")
    assert 0 <= found.low <= found.estimate <= found.high <= 1


def test_whole_sampling_weights_are_not_taken_for_copies():
    """Weights say how rows count against each other, whether or not they are whole."""
    rng = np.random.default_rng(0)
    x, times = rng.normal(size=(60, 2)), rng.integers(1, 5, size=60).astype(float)
    assert_allclose(standard_error(x, times), standard_error(x, 7.0 * times))
    assert_allclose(standard_error(x, times), standard_error(x, 0.3 * times))
    copies = standard_error(np.repeat(x, times.astype(int), axis=0), None)
    assert (standard_error(x, times) > copies).all()
