"""Fits by passes over streamed rows, against the fits in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import METHODS, STREAMED, RowStream, ScoredRows, fit, fit_streamed

EXACT = [m for m in METHODS if m in STREAMED]


def data(n=3000, k=4, seed=0, dtype=np.float64, weighted=False):
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.normal(size=(n, k)) + np.linspace(-0.5, 0.5, k)
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    weights = rng.uniform(0.5, 2.0, size=n) if weighted else None
    return (2.0 * truth - [0.3] + 0.2 * truth**2).astype(dtype), labels, weights


def stream_of(z, y, w, size, order=None):
    cuts = [slice(i, i + size) for i in range(0, len(y), size)]
    cuts = cuts if order is None else [cuts[i] for i in order(len(cuts))]

    def batches():
        for cut in cuts:
            yield ScoredRows(z[cut], y[cut], None if w is None else w[cut])

    return RowStream.of(batches)


def log_loss(calibrator, z, y):
    return -np.asarray(calibrator.log_probs(z))[np.arange(len(y)), y].mean()


def numbers(calibrator):
    return np.concatenate([np.ravel(v) for v in calibrator.to_dict()["parameters"].values()])


@pytest.mark.slow
@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_parameters_are_those_of_the_fit_in_memory(method, weighted):
    z, y, w = data(n=600, weighted=weighted)
    new, labels, _ = data(n=600, seed=1)
    want = fit(method, z, y, sample_weight=w)
    for size in (37, 250, 10_000):
        found = fit_streamed(method, stream_of(z, y, w, size))
        assert_allclose(numbers(found), numbers(want), rtol=2e-5, atol=1e-6)
        assert_allclose(
            log_loss(found, new, labels), log_loss(want, new, labels), rtol=0, atol=1e-7
        )


@pytest.mark.slow
@pytest.mark.parametrize("method", EXACT)
def test_the_order_of_the_parts_changes_the_last_digits_only(method):
    z, y, _ = data()
    found = fit_streamed(method, stream_of(z, y, None, 500))
    other = fit_streamed(method, stream_of(z, y, None, 500, order=lambda n: range(n)[::-1]))
    assert_allclose(numbers(other), numbers(found), rtol=2e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["temperature", "focal_temperature"])
def test_in_single_precision_and_with_many_classes(method):
    z, y, _ = data(n=900, k=500, dtype=np.float32)  # in float32, and compressed rows
    want = fit(method, z, y)
    found = fit_streamed(method, stream_of(z, y, None, 300))
    assert_allclose(numbers(found), numbers(want), rtol=1e-4, atol=1e-5)
    assert_allclose(log_loss(found, z, y), log_loss(want, z, y), rtol=0, atol=1e-6)


def test_a_start_nearby_gives_the_same():
    z, y, _ = data()
    whole = stream_of(z, y, None, 500)
    fit_streamed("structured_matrix", whole)
    half = stream_of(z[::2], y[::2], None, 500)
    found = fit_streamed("structured_matrix", half, near=whole)
    want = fit("structured_matrix", z[::2], y[::2])
    assert_allclose(numbers(found), numbers(want), rtol=1e-5, atol=1e-7)


def test_what_cannot_be_fitted_in_passes_is_refused():
    z, y, _ = data()
    with pytest.raises(ValueError, match="one that is fitted in passes, temperature"):
        fit_streamed("isotonic", stream_of(z, y, None, 500))
    z, y, _ = data(n=60, k=60)
    with pytest.raises(ValueError, match=r"it has 3,660 parameters, too many"):
        fit_streamed("structured_matrix", stream_of(z, y, None, 500))
    with pytest.raises(ValueError, match="at least one row"):
        RowStream.of(lambda: iter(()))
