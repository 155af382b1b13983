"""The page's bands need no random numbers: the bootstrap of a bin has a formula."""

import numpy as np
import pytest
from scipy.stats import binom


@pytest.mark.slow
def test_drawing_rows_again_gives_the_binomial_band():
    rng = np.random.default_rng(0)
    n, in_bin, hits = 4000, 400, 300
    is_in = np.arange(n) < in_bin
    is_hit = np.arange(n) < hits
    drawn = rng.integers(n, size=(4000, n))
    accuracy = (is_hit[drawn]).sum(axis=1) / is_in[drawn].sum(axis=1)
    want = binom.ppf([0.025, 0.975], in_bin, hits / in_bin) / in_bin
    np.testing.assert_allclose(np.quantile(accuracy, [0.025, 0.975]), want, atol=0.004)
