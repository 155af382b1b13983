import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focalibrate.theory import gamma_star, phi, tau_over, tau_under


def test_closed_forms_for_gamma_one():
    assert math.isclose(tau_over(1), math.exp(-2), rel_tol=1e-15)
    assert math.isclose(tau_under(1), math.exp(-1), rel_tol=1e-15)


@pytest.mark.parametrize(
    ("gamma", "over", "under"), [(3.0, 0.08546, 0.25258), (5.0, 0.06388, 0.19680)]
)
def test_printed_values(gamma, over, under):
    assert (round(tau_over(gamma), 5), round(tau_under(gamma), 5)) == (over, under)


@pytest.mark.parametrize(
    ("p0", "want"),
    [(0.1, 14.924), (0.19, 5.337), (0.2, 4.8506), (0.25, 3.0702), (1 / 3, 1.4289), (0.4, 0.6805)],
)
def test_printed_gamma_star(p0, want):
    digits = len(str(want).split(".")[1])
    assert round(gamma_star(p0), digits) == want


@given(gamma=st.floats(1e-9, 1e6))
def test_order_maximum_and_level(gamma):
    over, under = tau_over(gamma), tau_under(gamma)
    assert 0 < over < under < 0.5
    near = over * np.array([0.999, 1.0, 1.001])
    low, top, high = phi(near, gamma)
    assert top >= max(low, high)
    assert math.isclose(float(phi(np.array(under), gamma)), 1.0, rel_tol=1e-9)


@given(p0=st.floats(1e-9, 0.4999))
def test_gamma_star_is_the_inverse_of_tau_under(p0):
    assert math.isclose(tau_under(gamma_star(p0)), p0, rel_tol=1e-12)


@pytest.mark.parametrize("p0", [0.5, 0.7, 0.999])
def test_gamma_star_vanishes_from_one_half_on(p0):
    assert gamma_star(p0) == 0.0


def test_close_to_one_half_the_branch_point_is_survived():
    p0 = 0.5 - 1e-10
    assert math.isclose(tau_under(gamma_star(p0)), p0, rel_tol=1e-14)


@pytest.mark.parametrize("f", [tau_over, tau_under])
@pytest.mark.parametrize("gamma", [0, -1.0, math.nan, math.inf, "2"])
def test_gamma_must_be_positive(f, gamma):
    with pytest.raises(ValueError, match=r"`gamma` must be"):
        f(gamma)


@pytest.mark.parametrize("p0", [0.0, 1.0, -0.1, math.nan])
def test_p0_must_be_inside(p0):
    with pytest.raises(ValueError, match=r"`p0` must be a number in \(0, 1\), got"):
        gamma_star(p0)
