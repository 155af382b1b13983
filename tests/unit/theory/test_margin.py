import numpy as np
from numpy.testing import assert_allclose

from focalibrate._array import to_numpy
from focalibrate.theory.factor import true_class_margin


def test_log_odds_of_the_true_class(xp):
    z = np.array([[1.0, 2.0, 3.0], [1e4, -1e4, 0.0]])
    got = true_class_margin(xp.asarray(z), xp.asarray(np.array([0, 0])))
    assert_allclose(to_numpy(got), [1 - np.logaddexp(2, 3), 1e4], rtol=1e-14)


def test_the_only_possible_class_has_infinite_log_odds():
    z = np.array([0.0, -np.inf])
    assert true_class_margin(z, np.array(0)) == np.inf
    assert true_class_margin(z, np.array(1)) == -np.inf
