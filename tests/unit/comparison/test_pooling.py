import numpy as np
from numpy.testing import assert_allclose

from focalibrate.calibrate import read_scores
from focalibrate.calibrate.pool_weights import pool_weights
from focalibrate.comparison import compare
from focalibrate.comparison.pooling import fold_weights


def members(rng, n=400, k=4):
    truth = 2 * rng.normal(size=(n, k))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    log_probs = []
    for noise in (0.5, 0.8, 1.5):
        z = truth + noise * rng.normal(size=truth.shape)
        log_probs.append(z - np.log(np.exp(z).sum(axis=1, keepdims=True)))
    return read_scores(truth, labels), log_probs


def test_weights_without_a_fold_are_those_of_the_other_rows():
    rng = np.random.default_rng(0)
    rows, log_probs = members(rng)
    folds = np.array_split(rng.permutation(rows.n_rows), 5)
    whole, without = fold_weights(rows, log_probs, folds)
    assert_allclose(whole, pool_weights(rows, log_probs), atol=1e-6)
    for fold, weights in zip(folds, without, strict=True):
        kept = np.setdiff1d(np.arange(rows.n_rows), fold)
        alone = pool_weights(rows.take(kept), [p[kept] for p in log_probs])
        assert_allclose(weights, alone, atol=0.02)


def test_a_pool_is_compared_without_fitting_its_members_again(overconfident):
    z, y = overconfident
    found = compare(z[:400], y[:400], methods=["pool"], n_resamples=10)
    pool = found.row("pool").calibrator
    fitted = {row.calibrator for row in found.rows}
    assert set(pool.members) <= fitted
    lowest = min(row.scores["nll"].estimate for row in found.rows[:-1])
    assert found.row("pool").scores["nll"].estimate < lowest + 0.01
