import warnings
from functools import cache

import numpy as np
import pytest

from focalibrate.calibrate import METHODS, CalibrationWarning, fit


@pytest.fixture(scope="session")
def fitted_calibrator():
    """Return a function from the name of a method to its calibrator, fitted to a few rows."""

    @cache
    def fitted(method, n_classes, scores="logits"):
        if METHODS[method].classes == "two" and n_classes != 2:
            pytest.skip(f"{method} is for two classes")
        rng = np.random.default_rng(0)
        truth = 2.0 * rng.standard_normal((400, n_classes))
        labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        given = 1.5 * truth
        if scores == "probs":  # such as a forest of ten trees gives, zeros included
            given = np.exp(given) / np.exp(given).sum(axis=1, keepdims=True)
            given = np.round(10 * given[:, 1:]) / 10 if n_classes == 2 else given
        options = {"gamma": 2.0} if METHODS[method].needs_gamma else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            return fit(labels=labels, method=method, **{scores: given}, **options)

    return fitted
