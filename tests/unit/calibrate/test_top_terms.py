"""Scores of rows with very many classes, against those of the full probabilities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.calibrate import (
    FocalTemperatureScaling,
    Identity,
    TemperatureScaling,
    TopScorer,
    VectorScaling,
    form_of,
)

CALIBRATORS = (
    Identity(),
    TemperatureScaling(0.5),
    TemperatureScaling(3.0),
    *(FocalTemperatureScaling(gamma, t) for gamma in (-1.0, -0.5, 2.0, 20.0) for t in (0.5, 1.7)),
)

SOME = (Identity(), *(FocalTemperatureScaling(gamma, 0.6) for gamma in (-1.0, -0.5, 20.0)))


def rows_of(scale, lift, dtype=np.float32, n_classes=25_000):
    rng = np.random.default_rng(0)
    logits = scale * rng.standard_normal((10, n_classes))
    labels = rng.integers(n_classes, size=10)
    logits[np.arange(10), labels] += lift
    labels[::3] = 5  # a label that is not on top
    logits[1, 100:200] = -np.inf
    logits[2, 300:400] = -1e9
    return logits.astype(dtype), labels


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "lift"), [(2.0, 12.0), (1.0, 0.0), (6.0, 0.0), (2.0, 60.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_terms_are_those_of_the_probabilities(scale, lift, dtype):
    logits, labels = rows_of(scale, lift, dtype)
    with TopScorer(CALIBRATORS) as scorer:
        assert scorer.can_score
        found = scorer.terms(logits, labels)
    for calibrator, terms in zip(CALIBRATORS, found, strict=True):
        log_probs = np.asarray(calibrator.log_probs(logits.astype(np.float64)))
        own = log_probs[np.arange(10), labels]
        assert_allclose(terms.nll, -own, rtol=2e-6, atol=5e-6)
        assert_allclose(np.log(terms.confidence), log_probs.max(axis=1), rtol=0, atol=5e-6)
        squares = np.exp(2.0 * log_probs).sum(axis=1)
        assert_allclose(terms.squares, squares, rtol=1e-5, atol=1e-7)
        assert_allclose(terms.brier, squares - 2.0 * np.exp(own) + 1.0, rtol=0, atol=1e-5)
        assert_array_equal(terms.top, logits.argmax(axis=1))


@pytest.mark.parametrize(("scale", "lift"), [(2.0, 12.0), (1.0, 0.0), (6.0, 0.0), (2.0, 60.0)])
@pytest.mark.parametrize("offset", [0.0, -30.0, 1000.0])
def test_terms_in_half_precision_are_those_of_the_probabilities(scale, lift, offset):
    logits, labels = rows_of(scale, lift, n_classes=1000)
    logits[3] = -np.abs(logits[3])
    logits[4, 7] = 0.0
    logits = np.maximum(logits + offset, -60_000.0).astype(np.float16)
    logits[1, 100:200] = -np.inf
    with TopScorer(SOME) as scorer:
        found = scorer.terms(logits, labels)
    for calibrator, terms in zip(SOME, found, strict=True):
        log_probs = np.asarray(calibrator.log_probs(logits.astype(np.float64)))
        own = log_probs[np.arange(10), labels]
        assert_allclose(terms.nll, -own, rtol=1e-7, atol=1e-7)
        assert_allclose(np.log(terms.confidence), log_probs.max(axis=1), rtol=0, atol=1e-7)
        squares = np.exp(2.0 * log_probs).sum(axis=1)
        assert_allclose(terms.squares, squares, rtol=1e-6, atol=1e-12)
        assert_array_equal(terms.top, logits.argmax(axis=1))


@pytest.mark.parametrize("row", [[-0.0, 0.0, -1.0], [-3.0, -1.0, -np.inf], [0.0, -0.0, -0.0]])
def test_the_top_of_few_numbers_in_half_precision(row):
    logits = np.array([row], np.float16)
    with TopScorer([TemperatureScaling(2.0), FocalTemperatureScaling(1.0, 0.5)]) as scorer:
        terms = scorer.terms(logits, np.array([1]))
    for calibrator, found in zip(scorer.calibrators, terms, strict=True):
        log_probs = np.asarray(calibrator.log_probs(logits.astype(np.float64)))
        assert found.top[0] == logits[0].argmax()
        assert_allclose(found.nll, -log_probs[:, 1], rtol=1e-9)


def test_a_row_does_not_depend_on_the_rows_around_it():
    logits, labels = rows_of(2.0, 12.0)
    with TopScorer(CALIBRATORS) as scorer:
        whole = scorer.terms(logits, labels)
        alone = scorer.terms(logits[7:8], labels[7:8])
    for a, b in zip(whole, alone, strict=True):
        assert_allclose([a.nll[7], a.squares[7]], [b.nll[0], b.squares[0]], rtol=1e-13)


def test_what_it_cannot_score_is_known():
    assert form_of(VectorScaling((1.0, 1.0), (0.0, 0.0))) is None
    assert not TopScorer([Identity(), VectorScaling((1.0, 1.0), (0.0, 0.0))]).can_score
    assert not TopScorer([TemperatureScaling(0.01), TemperatureScaling(10.0)]).can_score
    assert not TopScorer([]).can_score
