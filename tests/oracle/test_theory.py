"""Theory against 60-digit arithmetic and against numbers computed independently."""

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.testing import assert_allclose

from focalibrate.theory import (
    focal_minimiser,
    gamma_star,
    phi,
    recover_log_odds,
    recover_log_posterior,
    recover_posterior,
    tau_over,
    tau_under,
)
from focalibrate_papers.claims import temperature_bounds, tight_temperature_bounds

DIGITS = 80
GAMMAS = [-1.0, -0.999, -0.5, -0.25, 0.0, 0.03, 0.5, 1.0, 2.0, 3.0, 5.0, 20.0]


def exact_phi(p, gamma):
    rest = 1 - p
    if p == 0:
        return mpf(1)
    return rest**gamma - gamma * rest ** (gamma - 1) * p * mp.log(p)


def exact_log_psi(logits, gamma):
    with mp.workdps(DIGITS + int(max(logits) - min(logits))):  # keeps 1 - v exact enough
        z = [mpf(float(x)) for x in logits]
        e = [mp.exp(x) for x in z]
        v = [x / mp.fsum(e) for x in e]
        h = [x / exact_phi(x, mpf(gamma)) for x in v]
        return [float(mp.log(x / mp.fsum(h))) for x in h]


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("p", [1e-300, 1e-12, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1 - 2**-40])
def test_phi(p, gamma):
    with mp.workdps(DIGITS):
        want = float(exact_phi(mpf(p), mpf(gamma)))
    assert_allclose(phi(np.array(p), gamma), want, rtol=1e-13)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize(
    "logits",
    [
        [1.0, 0.0],
        [1e-6, 0.0],
        [40.0, 0.0],
        [300.0, 0.0, -20.0],
        [2.0, 1.0, -1.0, 0.5],
        [0.0, 0.0, -3.0],
        [-5.0, 3.0, 3.0 - 2**-30],
        list(np.linspace(-3, 3, 50)),
    ],
    ids=lambda z: f"K{len(z)}:{z[0]:g}",
)
def test_recovery_from_logits(logits, gamma):
    want = exact_log_psi(logits, gamma)
    got = recover_log_posterior(np.array(logits), gamma)
    # Relative to the logarithm, also that of a top class a hair below 1.
    assert_allclose(got, want, rtol=2e-13, atol=1e-300)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 5.0])
def test_minor_entry_far_below_the_smallest_float(gamma):
    gap = 690.0
    minor = recover_log_posterior(np.array([gap, 0.0]), gamma)[1]
    assert_allclose(minor, np.log1p(gamma) - (1 + gamma) * gap, rtol=1e-14)


def test_given_phi(oracles):
    for key, value in oracles["g(p,gamma)"].items():
        p, gamma = (float(x) for x in key.split(","))
        # 0.999999 is no float: 1 - p is off by 1e-10 before we begin.
        rtol = 1e-13 if p < 0.99 else 1e-9
        assert_allclose(phi(np.array(p), gamma), float(value), rtol=rtol, err_msg=key)


VECTORS = {
    "K2:[1-1e-300,1e-300]": [1, 1e-300],
    "K2:[0.9,0.1]": [0.9, 0.1],
    "K3:[1-1e-16-1e-300,1e-16,1e-300]": [1, 1e-16, 1e-300],
    "K3:[0.7,0.2,0.1]": [0.7, 0.2, 0.1],
    "K4:[0.331,0.3295,0.3295,0.01]": [0.331, 0.3295, 0.3295, 0.01],
    "K1000:[0.2,rest equal]": [0.2] + [0.8 / 999] * 999,
    "K1000:[0.9,rest equal]": [0.9] + [0.1 / 999] * 999,
}


@pytest.mark.parametrize("name", VECTORS)
def test_given_recovery(oracles, name):
    probs = np.array(VECTORS[name], dtype=float)
    for gamma, entries in oracles["psi_extremes"][name].items():
        got = recover_posterior(probs, float(gamma))
        log_got = recover_log_posterior(np.log(probs), float(gamma))
        for i, value in entries.items():
            if i == "1-top":
                continue
            assert_allclose(got[int(i)], float(value), rtol=1e-12, atol=1e-307)
            assert_allclose(log_got[int(i)], float(mp.log(mpf(value))), rtol=1e-15, atol=1e-12)


def test_given_thresholds(oracles):
    for gamma, tau in oracles["tau"].items():
        assert_allclose(tau_over(float(gamma)), float(tau["tau_oc"]), rtol=1e-14)
        assert_allclose(tau_under(float(gamma)), float(tau["tau_uc"]), rtol=1e-14)
    for p0, value in oracles["gamma_star"].items():
        assert_allclose(gamma_star(float(p0)), float(value), rtol=1e-13, atol=0)


def test_given_minimisers(oracles):
    posteriors = {
        "K2:[0.9,0.1]": [0.9, 0.1],
        "K2:[0.999,0.001]": [0.999, 0.001],
        "K3:[0.7,0.2,0.1]": [0.7, 0.2, 0.1],
        "K1000:[0.05,0.95/999 x999]": [0.05] + [0.95 / 999] * 999,
    }
    for name, by_gamma in oracles["focal_risk_minimisers"].items():
        for gamma, entries in by_gamma.items():
            got = focal_minimiser(np.array(posteriors[name]), float(gamma))
            assert_allclose(got[: len(entries)], [float(x) for x in entries], rtol=1e-13)


def test_given_binary_map_and_bounds(oracles):
    for gamma, given in oracles["binary_focal_map"].items():
        for s, value in given["logit_FC"].items():
            got = recover_log_odds(np.array(float(s)), float(gamma))
            assert_allclose(got, float(value), rtol=1e-14, atol=1e-15)
        proven, tight = temperature_bounds(float(gamma)), tight_temperature_bounds(float(gamma))
        assert_allclose(proven.low, float(given["T_low=1/(g+1)"]), rtol=1e-15)
        assert_allclose(proven.high, float(given["T_high_paper"]), rtol=1e-15)
        key = "T_high_tight=1/(g+1-2g(ln2-1/2)/(1+g ln2))"
        assert_allclose(tight.high, float(given[key]), rtol=1e-14)


def test_supremum_for_large_gamma_is_between_the_ends():
    # At gamma = 9 the limit for small logits is .105045, the supremum .105084.
    with mp.workdps(DIGITS):
        grid = [mpf(k) / 50 for k in range(1, 400)]

        def ratio(s):
            up, down = mp.log1p(mp.exp(-s)), mp.log1p(mp.exp(s))
            return s / (10 * s - mp.log((1 + 9 * mp.exp(s) * up) / (1 + 9 * mp.exp(-s) * down)))

        best = float(max(ratio(s) for s in grid))
    assert_allclose(tight_temperature_bounds(9.0).high, best, rtol=1e-6)
    assert round(best, 6) == 0.105084
