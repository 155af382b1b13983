import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate._array import to_numpy
from focalibrate.theory import phi
from focalibrate.theory.factor import one_minus_r


@pytest.mark.parametrize(
    ("gamma", "at_one"), [(-1.0, 0.5), (-0.5, np.inf), (0.0, 1.0), (0.3, 0.0), (5.0, 0.0)]
)
def test_ends_of_the_interval(gamma, at_one):
    assert phi(np.array([0.0, 1.0]), gamma).tolist() == [1.0, at_one]


@given(p=st.floats(0.0, 1.0), gamma=st.floats(0.0, 50.0))
def test_positive_and_at_most_one_above_one_half(p, gamma):
    value = float(phi(np.array(p), gamma))
    assert value >= 0
    if p >= 0.5:
        assert value <= 1 + 1e-15


def test_series_meets_the_direct_form():
    p = 0.9 + np.linspace(-1e-9, 1e-9, 5)
    for gamma in (-1.0, 0.5, 3.0):
        assert_allclose(np.diff(phi(p, gamma), 2), 0, atol=1e-14)


def test_one_minus_r_keeps_its_digits_near_one():
    eps = np.array([1e-300, 1e-15, 1e-5])
    got = one_minus_r(np.log1p(-eps), np.log(eps))
    assert_allclose(got, eps / 2 + eps**2 / 6 + eps**3 / 12, rtol=2e-13)


@pytest.mark.slow
def test_every_library_and_broadcasting(xp):
    p = np.linspace(0, 1, 7)
    gamma = np.array([[0.5], [2.0]])
    got = phi(xp.asarray(p), xp.asarray(gamma))
    assert_allclose(to_numpy(got), phi(p, gamma), rtol=1e-14)


@pytest.mark.parametrize(
    ("p", "gamma", "message"),
    [
        (np.array([1.5]), 1.0, r"`p` must lie in \[0, 1\], found entries from 1.5 to 1.5"),
        (np.array([1]), 1.0, r"`p` must be a floating array, got int64"),
        (np.array([0.5]), -2, r"`gamma` must be a finite number >= -1, got -2"),
        (np.array([0.5]), np.array([np.nan]), r"smallest entry of nan"),
        (np.array([0.5]), "flsd-53", r"got 'flsd-53'"),
    ],
)
def test_bad_input_is_named(p, gamma, message):
    with pytest.raises(ValueError, match=message):
        phi(p, gamma)
