"""Functions written here because SciPy takes long to import; SciPy is their oracle."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import fft, optimize, special

from focalibrate._stable.cosine import cosine_transform, inverse_cosine_transform
from focalibrate._stable.laws import (
    NoncentralChiSquare,
    log_gamma,
    normal_cdf,
    normal_quantile,
    x_log1p_y,
    x_log_y,
)
from focalibrate._stable.monotone import MAX_PASSES, isotonic_regression
from focalibrate._stable.roots import minimum, root


@given(st.integers(0, 10_000), st.integers(1, 300), st.booleans())
def test_isotonic_regression(seed: int, n: int, outcomes: bool) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n).astype(float) if outcomes else rng.normal(size=n)
    weights = rng.uniform(0.1, 3.0, size=n)
    found, expected = (
        isotonic_regression(y, weights),
        optimize.isotonic_regression(y, weights=weights),
    )
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(found.blocks, expected.blocks)


ONE_AT_A_TIME = np.concatenate([np.linspace(0.0, 1.0, 10 * MAX_PASSES), -np.ones(10 * MAX_PASSES)])


def test_isotonic_regression_that_pools_one_value_at_a_time() -> None:
    y = ONE_AT_A_TIME
    found, expected = isotonic_regression(y, np.ones(len(y))), optimize.isotonic_regression(y)
    np.testing.assert_allclose(found.x, expected.x, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(found.blocks, expected.blocks)


def test_isotonic_regression_of_several_sequences() -> None:
    rng = np.random.default_rng(0)
    several = np.stack([ONE_AT_A_TIME, rng.normal(size=ONE_AT_A_TIME.shape), -ONE_AT_A_TIME])
    weights = rng.uniform(0.1, 3.0, size=several.shape)
    found = isotonic_regression(several.ravel(), weights.ravel(), length=several.shape[1])
    expected = [
        optimize.isotonic_regression(y, weights=w).x for y, w in zip(several, weights, strict=True)
    ]
    np.testing.assert_allclose(found.x.reshape(several.shape), expected, rtol=0, atol=1e-13)


@given(st.floats(0.01, 0.99), st.sampled_from([np.cos, lambda x: x**9, lambda x: np.exp(-30 * x)]))
def test_root(at, function) -> None:
    expected = optimize.brentq(lambda x: function(x) - function(at), 0.0, 1.0, xtol=1e-14)
    found = root(lambda x: float(function(x) - function(at)), 0.0, 1.0)
    assert abs(function(found) - function(expected)) <= 1e-11


def test_root_at_an_end_and_without_one() -> None:
    assert root(lambda x: x, 0.0, 1.0) == 0.0
    assert root(lambda x: x - 1.0, 0.0, 1.0) == 1.0
    with pytest.raises(ValueError, match="opposite signs"):
        root(lambda x: x + 1.0, 0.0, 1.0)


@given(st.floats(-0.5, 1.5), st.sampled_from([1.0, 1e-3, 30.0]))
def test_minimum(at: float, scale: float) -> None:
    seen = []

    def function(x: float) -> float:
        seen.append(x)
        return float(np.cosh(scale * (x - at)))

    found = minimum(function, 0.0, 1.0, xtol=1e-7)
    expected = optimize.minimize_scalar(
        function, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-7}
    )
    assert abs(function(found) - expected.fun) <= 1e-12 * expected.fun
    assert min(seen) > 0.0
    assert max(seen) < 1.0


def test_cosine_transform() -> None:
    x = np.random.default_rng(0).normal(size=(3, 65))
    np.testing.assert_allclose(cosine_transform(x), fft.dct(x, type=1), atol=1e-12)
    np.testing.assert_allclose(inverse_cosine_transform(x), fft.idct(x, type=1), atol=1e-13)


@pytest.mark.parametrize("nu", [0.3, 1.0, 5.5, 15.0, 400.0])
@pytest.mark.parametrize("x", [0.0, 1e-3, 0.5, 20.0, 1999.0])
def test_noncentral_chi_square(x: float, nu: float) -> None:
    law = NoncentralChiSquare(x, nu)
    for noncentrality in (0.0, 1e-3, 1.0, 30.0, 1000.0, 3000.0):
        expected = special.chndtr(x, nu, noncentrality)
        assert law.cdf(noncentrality) == pytest.approx(expected, abs=1e-11)


def test_normal_and_gamma() -> None:
    x = np.array([-40.0, -8.0, -1.0, 0.0, 0.3, 5.0])
    np.testing.assert_allclose(normal_cdf(x), special.ndtr(x), rtol=1e-12)
    for p in (1e-300, 1e-9, 0.025, 0.5, 0.975, 1 - 1e-12):
        assert normal_quantile(p) == pytest.approx(special.ndtri(p), rel=1e-9, abs=1e-15)
    assert (normal_quantile(0.0), normal_quantile(1.0)) == (-np.inf, np.inf)
    n = np.array([[1.0, 2.5], [7.0, 1e6]])
    np.testing.assert_allclose(log_gamma(n), special.gammaln(n), rtol=1e-13)


def test_x_log_y() -> None:
    x, y = np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(x_log_y(x, y), special.xlogy(x, y))
    np.testing.assert_allclose(x_log1p_y(x, -y[::-1]), special.xlog1py(x, -y[::-1]))


@pytest.mark.slow
@pytest.mark.parametrize("command", [["calibrate", "-o", "out"], ["evaluate"]])
def test_the_main_commands_do_not_import_scipy(command: list[str], tmp_path) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 4)) * 3
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(tmp_path / "val.npz", logits=logits, labels=labels)
    code = (
        "import sys; from focalibrate.cli import main; "
        f"main([{command[0]!r}, 'val.npz', *{command[1:]!r}], standalone_mode=False); "
        "sys.exit(sorted(m for m in sys.modules if m.split('.')[0] == 'scipy')[:3] or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
