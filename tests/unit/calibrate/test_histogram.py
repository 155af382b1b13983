from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from focalibrate.calibrate import HistogramBinning, fit

fit_histogram_binning = partial(fit, method="histogram")


def test_values_are_the_frequencies_of_a_plain_loop(rows_of):
    logits, labels = rows_of(600, 4, dtype=np.float64)
    found = fit_histogram_binning(logits, labels, n_bins=6)
    probs = softmax(logits, axis=1)
    for k in range(4):
        for b in range(6):
            inside = (probs[:, k] > b / 6) & (probs[:, k] <= (b + 1) / 6)
            want = (labels[inside] == k).mean() if inside.any() else (b + 0.5) / 6
            assert_allclose(found.values[k][b], want, atol=1e-12)


def test_one_bin_gives_the_class_frequencies(rows_of):
    logits, labels = rows_of(500, 3, dtype=np.float64)
    found = fit_histogram_binning(logits, labels, n_bins=1)
    assert_allclose(found.probs(logits)[0], np.bincount(labels) / 500)


def test_bad_parameters_are_refused(rows_of):
    with pytest.raises(ValueError, match="`n_bins` must be"):
        fit_histogram_binning(*rows_of(10, 3), n_bins=0)
    with pytest.raises(ValueError, match="must match"):
        HistogramBinning(((0.0, 1.0),) * 2, ((0.5, 0.5),) * 2)
