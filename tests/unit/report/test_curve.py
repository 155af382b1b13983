"""The reliability curve: isotonic regression, and a band that calibrated models stay in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.isotonic import IsotonicRegression

from focalibrate.report import reliability_curve
from focalibrate.report.curve import curve_record


@given(
    p=st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9, 1.0]), min_size=1, max_size=30),
    seed=st.integers(0, 99),
)
def test_it_is_scikit_learns_isotonic_regression(p, seed):
    p = np.array(p)
    y = np.random.default_rng(seed).integers(2, size=len(p))
    curve = reliability_curve(p, y)
    want = IsotonicRegression().fit(p, y).predict(np.unique(p))
    block = np.searchsorted(curve.high, np.unique(p))
    assert_allclose(curve.rate[block], want, atol=1e-12)
    assert (np.diff(curve.rate) > 0).all()
    assert curve.count.sum() == len(p)


def test_whole_weights_repeat_rows():
    rng = np.random.default_rng(0)
    p, y, w = rng.random(50), rng.integers(2, size=50), rng.integers(4, size=50)
    weighted = reliability_curve(p, y, sample_weight=w)
    repeated = reliability_curve(np.repeat(p, w), np.repeat(y, w))
    assert_allclose(weighted.x, repeated.x)
    assert_allclose(weighted.y, repeated.y)
    assert_allclose(weighted.count, repeated.count)


@pytest.mark.parametrize("n", [30, 3000])
def test_calibrated_models_stay_in_the_band_and_others_leave_it(n):
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(20):
        p = rng.random(n)
        curve = reliability_curve(p, rng.random(n) < p)
        rate = np.interp(curve.band_at, curve.x, curve.y)
        inside.append(np.mean((rate >= curve.band_low - 1e-9) & (rate <= curve.band_high + 1e-9)))
    assert 0.85 < np.mean(inside) <= 1.0
    p = rng.random(3000)
    curve = reliability_curve(p, rng.random(3000) < p**3)
    rate = np.interp(curve.band_at, curve.x, curve.y)
    assert np.mean(rate < curve.band_low) > 0.5


def test_the_record_is_short_json():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    record = curve_record(reliability_curve(p, rng.random(20_000) < p))
    assert len(record["band_at"]) <= 400
    assert record["rate"] == sorted(record["rate"])
