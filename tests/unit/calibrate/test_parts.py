"""Fits to several parts of the same rows equal separate fits to each part."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import METHODS, CalibrationWarning, Parts, fit, fit_parts, read_scores
from focalibrate.calibrate.parts import KEEP_BYTES
from focalibrate.calibrate.shared_fits import SHARED_FITS

NAMES = sorted(set(SHARED_FITS) - {"focal_temperature_ece"})


def parts_of(n, seed=0):
    folds = np.array_split(np.random.default_rng(seed).permutation(n), 3)
    return [slice(None), *(np.setdiff1d(np.arange(n), fold) for fold in folds)]


@pytest.mark.slow
@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_each_part_gets_what_it_gets_alone(rows_of, name, has_weights):
    logits, labels = rows_of(400, 4)
    weights = np.random.default_rng(1).uniform(0.2, 2.0, 400) if has_weights else None
    index = parts_of(400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        found = fit_parts(name, Parts(read_scores(logits, labels, sample_weight=weights), index))
        for part, calibrator in zip(index, found, strict=True):
            some = None if weights is None else weights[part]
            alone = fit(name, logits[part], labels[part], sample_weight=some)
            assert type(calibrator) is type(alone)
            assert_allclose(calibrator.probs(logits), alone.probs(logits), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["structured_matrix", "vector"])
def test_single_precision_finds_the_same(rows_of, name):
    logits, labels = rows_of(9000, 60)
    index = parts_of(9000)[:2]
    found = fit_parts(name, Parts(read_scores(logits.astype(np.float32), labels), index))
    exact = fit(name, logits[index[1]], labels[index[1]])
    rows = np.arange(9000)
    losses = [-np.mean(np.log(c.probs(logits)[rows, labels])) for c in (found[1], exact)]
    assert_allclose(*losses, rtol=2e-6)


def test_a_part_is_copied_once_where_copies_are_small(rows_of):
    rows = read_scores(*rows_of(300, 3))
    parts = Parts(rows, [slice(None), np.arange(100)])
    assert rows.logits.nbytes < KEEP_BYTES
    assert parts[0] is rows
    assert parts[1] is parts[1]
    assert len(parts[1].labels) == 100


def test_warnings_are_those_of_the_first_part(rows_of):
    logits, labels = rows_of(200, 3)
    labels[labels == 2] = 0
    labels[0] = 2  # the second part lacks the class, the first does not
    parts = Parts(read_scores(logits, labels), [slice(None), np.arange(1, 200)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrationWarning)
        assert len(fit_parts("isotonic", parts)) == 2


def test_fits_with_nothing_to_share_are_made_one_by_one(rows_of):
    name = "histogram"
    assert name in METHODS
    assert name not in SHARED_FITS
    logits, labels = rows_of(300, 3)
    parts = Parts(read_scores(logits, labels), [slice(None), np.arange(200)])
    assert fit_parts(name, parts) == [
        fit(name, logits, labels),
        fit(name, logits[:200], labels[:200]),
    ]
