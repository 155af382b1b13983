import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.metrics import Cells, binary_brier_score, corp, nll
from focalibrate.metrics.binning import log_odds_edges
from focalibrate.metrics.corp import corp_of_cells


def pool_adjacent_violators(p, y, w):
    """The textbook algorithm on rows, written for this test: blocks of [weight, sum, rows]."""
    blocks = []
    for value in np.unique(p):
        at = np.flatnonzero(p == value)
        blocks.append([w[at].sum(), (w[at] * y[at]).sum(), list(at)])
        while len(blocks) > 1 and blocks[-2][1] * blocks[-1][0] >= blocks[-1][1] * blocks[-2][0]:
            weight, total, rows = blocks.pop()
            blocks[-1] = [blocks[-1][0] + weight, blocks[-1][1] + total, blocks[-1][2] + rows]
    fitted = np.empty(len(p))
    for weight, total, rows in blocks:
        fitted[rows] = total / weight
    return fitted


def mean_scores(p, y, w):
    with np.errstate(divide="ignore", invalid="ignore"):
        log = -np.where(y == 1, np.log(p), np.log1p(-p))
    return (w @ log) / w.sum(), (w @ (p - y) ** 2) / w.sum()


@given(st.integers(2, 80), st.integers(0, 999), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_decomposition_is_that_of_an_independent_regression(n, seed, ties, weighted):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, size=n)
    if ties:
        p = p.round(1).clip(0.1, 0.9)
    y = (rng.random(n) < p).astype(int)
    w = rng.gamma(1.0, size=n) if weighted else np.ones(n)
    found = corp(p, y, event=1, sample_weight=w if weighted else None, n_draws=0)
    fitted = pool_adjacent_violators(p, y, w)
    base = np.full(n, (w @ y) / w.sum())
    own, best, constant = (mean_scores(x, y, w) for x in (p, fitted, base))
    for i, part in enumerate((found.log_loss, found.brier)):
        assert_allclose(
            [part.miscalibration, part.discrimination, part.uncertainty],
            [own[i] - best[i], constant[i] - best[i], constant[i]],
            atol=1e-10,
        )
        assert_allclose(
            part.score,
            part.miscalibration - part.discrimination + part.uncertainty,
            rtol=1e-12,
            atol=1e-12,
        )
        assert part.miscalibration >= -1e-12
        assert part.discrimination >= -1e-12


def test_scores_are_those_of_the_metrics():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=500)
    y = (rng.random(500) < p**2).astype(int)
    found = corp(p, y, event=1)
    assert_allclose(found.brier.score, binary_brier_score(p, y), rtol=1e-12)
    assert_allclose(found.log_loss.score, nll(p, y, binary=True), rtol=1e-12)


def test_top_label_and_classes():
    rng = np.random.default_rng(1)
    probs = rng.dirichlet(np.ones(3), size=300)
    labels = (rng.random((300, 1)) > probs.cumsum(axis=1)[:, :-1]).sum(axis=1)
    top = corp(probs, labels, n_draws=0)
    assert top.event == "top label"
    right = (probs.argmax(axis=1) == labels).astype(float)
    assert_allclose(top.brier.score, np.mean((probs.max(axis=1) - right) ** 2))
    second = corp(probs, labels, event=2, n_draws=0)
    assert_allclose(second.brier.score, np.mean((probs[:, 2] - (labels == 2)) ** 2))
    with pytest.raises(ValueError, match="a class below 3, got 3"):
        corp(probs, labels, event=3)


def test_the_band_holds_the_curve_of_a_calibrated_model_and_not_of_another():
    rng = np.random.default_rng(2)
    p = rng.uniform(size=2000)
    inside = []
    for truth in (p, p**2):
        curve = corp(p, (rng.random(2000) < truth).astype(int), event=1).curve
        at = np.interp(curve.band_probability, curve.probability, curve.frequency)
        inside.append(np.mean((at >= curve.band_low) & (at <= curve.band_high)))
    assert inside[0] > 0.8
    assert inside[1] < 0.5


def test_cells_merge_into_nearly_the_same_curve():
    rng = np.random.default_rng(3)
    p = rng.uniform(size=3000)
    y = (rng.random(3000) < p).astype(int)
    parts = [
        Cells.of(p[s], y[s], bins=log_odds_edges()) for s in (slice(0, 1000), slice(1000, 3000))
    ]
    merged = corp_of_cells(parts[0] + parts[1], n_draws=0)
    whole = corp(p, y, event=1, n_draws=0)
    assert_allclose(merged.brier.miscalibration, whole.brier.miscalibration, atol=1e-3)
    grid = np.linspace(0.1, 0.9, 20)
    curves = [np.interp(grid, c.curve.probability, c.curve.frequency) for c in (merged, whole)]
    assert_allclose(*curves, atol=0.02)
    with pytest.raises(ValueError, match="they are empty"):
        corp_of_cells(Cells.empty())


def test_whole_weights_are_repeated_rows():
    rng = np.random.default_rng(4)
    p, w = rng.uniform(size=100), rng.integers(0, 3, size=100)
    y = (rng.random(100) < p).astype(int)
    one = corp(p, y, event=1, sample_weight=w)
    two = corp(np.repeat(p, w), np.repeat(y, w), event=1)
    assert_allclose(one.log_loss.miscalibration, two.log_loss.miscalibration, rtol=1e-12)
    assert_allclose(one.curve.band_low, two.curve.band_low, rtol=1e-12)


def test_certain_and_wrong_is_infinitely_miscalibrated():
    found = corp(np.array([1.0, 0.5, 0.2]), np.array([0, 1, 0]), event=1, n_draws=0)
    assert found.log_loss.score == found.log_loss.miscalibration == np.inf
    assert np.isfinite(found.log_loss.discrimination)
