"""Metrics against numbers and code that share nothing with them."""

import warnings
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from numpy.testing import assert_allclose
from sklearn.metrics import brier_score_loss, log_loss

from focalibrate.metrics import (
    Cells,
    adaptive_ece,
    brier_score,
    classwise_ece,
    confident_fraction,
    debiased_ece,
    ece,
    entropy,
    error_rate,
    kl_divergence,
    mce,
    nll,
    smooth_ece,
)


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def torchmetrics_error(probs, labels, **options):
    # Imported when called: it imports transformers, which takes seconds.
    from torchmetrics.functional.classification import multiclass_calibration_error

    tensors = torch.tensor(probs), torch.tensor(labels)
    return float(multiclass_calibration_error(*tensors, probs.shape[1], **options))


@pytest.fixture(scope="module")
def logits():
    return np.random.RandomState(0).randn(2000, 10) * 3


@pytest.fixture(scope="module")
def labels(logits):
    return (logits / 1.7 + np.random.RandomState(2).gumbel(size=(2000, 10))).argmax(axis=1)


@pytest.fixture(scope="module")
def probs(logits):
    return softmax(logits)


@pytest.fixture(scope="module")
def want(oracles):
    return oracles["labels2_independent_float64"]


@pytest.mark.parametrize("n_bins", [10, 15])
def test_binned_errors_of_the_oracle(n_bins, probs, labels, want):
    assert_allclose(ece(probs, labels, n_bins=n_bins), want[f"ECE{n_bins}"], rtol=1e-12)
    assert_allclose(mce(probs, labels, n_bins=n_bins), want[f"MCE{n_bins}"], rtol=1e-12)
    assert_allclose(
        classwise_ece(probs, labels, n_bins=n_bins), want[f"CWECE{n_bins}"], rtol=1e-12
    )
    assert_allclose(
        adaptive_ece(probs, labels, n_bins=n_bins), want[f"AdaECE{n_bins}_array_split"], rtol=1e-12
    )


def test_scores_of_the_oracle(logits, probs, labels, want):
    assert_allclose(brier_score(probs, labels), want["Brier_sum"], rtol=1e-12)
    got = kl_divergence(softmax(logits / 1.7), probs)
    assert_allclose(got, want["KLD_eta_vs_softmax(logits)"], rtol=1e-12)
    sure = confident_fraction(probs, labels)
    assert_allclose(
        [sure.fraction, sure.accuracy], [want["S99_frac"], want["S99_acc"]], rtol=1e-12
    )


def rational(rows, labels):
    """Confidence and correctness as exact fractions."""
    for row, y in zip(rows.tolist(), labels.tolist(), strict=True):
        top = max(row)
        yield Fraction(top), int(row.index(top) == y)


def rational_ece(rows, labels, n_bins):
    """ECE and MCE in exact rational arithmetic, edges at the float64 nearest to b / B."""
    bins = defaultdict(list)
    for conf, hit in rational(rows, labels):
        bins[sum(conf > Fraction(b / n_bins) for b in range(1, n_bins))].append(conf - hit)
    gaps = [abs(sum(cell)) for cell in bins.values()]
    worst = max(abs(sum(cell)) / len(cell) for cell in bins.values())
    return float(sum(gaps) / len(rows)), float(worst)


def rational_adaptive_ece(rows, labels, n_bins):
    """AdaECE in exact rational arithmetic: tied rows share their mean correctness."""
    ties = defaultdict(list)
    for conf, hit in rational(rows, labels):
        ties[conf].append(hit)
    flat = [
        conf - Fraction(sum(hits), len(hits)) for conf, hits in sorted(ties.items()) for _ in hits
    ]
    size, larger = divmod(len(flat), n_bins)
    total, start = Fraction(0), 0
    for b in range(n_bins):
        stop = start + size + (b < larger)
        total += abs(sum(flat[start:stop], Fraction(0)))
        start = stop
    return float(total / len(flat))


@pytest.mark.slow
@pytest.mark.parametrize("n_bins", [1, 7, 10, 15])
@pytest.mark.parametrize("levels", [4, 20, 10**6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_against_rational_arithmetic(n_bins, levels, dtype):
    rng = np.random.default_rng(n_bins + levels)
    rows = np.ceil(rng.dirichlet(np.full(4, 0.5), size=300) * levels)
    rows = (rows / rows.sum(axis=1, keepdims=True)).astype(dtype)
    y = rng.integers(4, size=300)
    want_ece, want_mce = rational_ece(rows, y, n_bins)
    assert_allclose(ece(rows, y, n_bins=n_bins), want_ece, atol=1e-14)
    assert_allclose(mce(rows, y, n_bins=n_bins), want_mce, atol=1e-14)
    want_ada = rational_adaptive_ece(rows, y, n_bins)
    assert_allclose(adaptive_ece(rows, y, n_bins=n_bins), want_ada, atol=1e-14)


def test_scores_against_60_digits(probs, labels):
    rows, other = probs[:50], probs[50:100]
    with mp.workdps(60):
        p = [[mpf(v) for v in row] for row in rows.tolist()]
        q = [[mpf(v) for v in row] for row in other.tolist()]
        want_nll = -sum(mp.log(row[y]) for row, y in zip(p, labels, strict=False)) / 50
        want_entropy = -sum(v * mp.log(v) for row in p for v in row) / 50
        want_kl = sum(
            v * mp.log(v / w) for a, b in zip(p, q, strict=True) for v, w in zip(a, b, strict=True)
        )
        want = [float(want_nll), float(want_entropy), float(want_kl / 50)]
    got = [nll(rows, labels[:50]), entropy(rows), kl_divergence(rows, other)]
    assert_allclose(got, want, rtol=1e-13)


def test_against_scikit_learn(probs, labels):
    assert_allclose(nll(probs, labels), log_loss(labels, probs), rtol=1e-12)
    p, y = probs[:, 0], (labels == 0).astype(int)
    assert_allclose(brier_score(p, y, binary=True), 2 * brier_score_loss(y, p), rtol=1e-12)
    assert error_rate(probs, labels) == np.mean(probs.argmax(axis=1) != labels)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("n_bins", [10, 15])
def test_against_torchmetrics_away_from_edges(norm, n_bins, probs, labels):
    want = torchmetrics_error(probs, labels, n_bins=n_bins, norm=norm)
    assert_allclose(ece(probs, labels, n_bins=n_bins, norm=norm), want, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_the_error_of_the_positive_class_is_that_of_torchmetrics(norm):
    """Its bins are [a, b): probabilities on edges, 0 too, fall in the bin that starts there."""
    from torchmetrics.functional.classification import binary_calibration_error

    rng = np.random.default_rng(0)
    p = rng.integers(0, 64, size=3000) / 64
    y = (rng.random(3000) < p**2).astype(int)
    want = float(binary_calibration_error(torch.tensor(p), torch.tensor(y), n_bins=8, norm=norm))
    options = {"n_bins": 8, "norm": norm, "event": 1}
    assert_allclose(ece(p, y, binary=True, closed="left", **options), want, rtol=1e-6)
    two = np.column_stack([1 - p, p])
    assert_allclose(ece(two, y, closed="left", **options), want, rtol=1e-6)
    if norm == "max":
        assert abs(ece(p, y, binary=True, **options) - want) > 1e-3  # (a, b] by default


@pytest.mark.parametrize("n", [500, 20_000])
@pytest.mark.parametrize("power", [0.6, 1.0, 1.7])
def test_smooth_ece_against_relplot(n, power):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import relplot
    rng = np.random.default_rng(n)
    f = 0.5 + rng.random(n) / 2
    y = rng.random(n) < f**power
    rows = np.stack([f, 1 - f], axis=1)
    want = relplot.smECE(f, y.astype(float))  # bandwidth to 1/1024, density raised by 1e-4
    assert_allclose(smooth_ece(rows, (~y).astype(int)), want, atol=1.5e-3)


def test_debiased_ece_against_its_definition():
    rng = np.random.default_rng(0)
    f = 0.5 + rng.random(997) / 2
    y = rng.random(997) < f**2
    total = 0.0
    for part in np.array_split(np.argsort(f), 15):
        accuracy = y[part].mean()
        variance = accuracy * (1 - accuracy) / (len(part) - 1)
        total += len(part) / 997 * ((f[part].mean() - accuracy) ** 2 - variance)
    got = debiased_ece(np.stack([f, 1 - f], axis=1), (~y).astype(int))
    assert_allclose(got, np.sqrt(total), rtol=1e-12)


class TestKnownDefectsOfPublicCode:
    """Each shows the defect in other code or by construction, and its absence here."""

    def test_interpolated_edges_drop_rows_and_ours_keep_them(self, probs, labels, want):
        assert want["AdaECE15_dropped_samples"] == 1
        top, hit = probs.max(axis=1), probs.argmax(axis=1) == labels
        cells = np.unique(np.concatenate([[0.0], np.sort(top), [1.0]]))
        table = Cells.of(top, hit, bins=cells).equal_mass(15)
        assert table.weight.sum() == 2000
        assert np.ptp(table.weight) <= 1

    def test_constant_confidence_is_not_scored_zero(self):
        rows, y = np.tile([0.9, 0.1], (100, 1)), np.arange(100) % 2
        assert_allclose(adaptive_ece(rows, y), 0.4, rtol=1e-12)

    def test_classes_are_not_counted_by_the_largest_label(self):
        rows, y = np.tile([0.5, 0.3, 0.2], (10, 1)), np.zeros(10, dtype=int)
        assert_allclose(classwise_ece(rows, y), (0.5 + 0.3 + 0.2) / 3, rtol=1e-12)

    def test_confidence_zero_does_not_wrap_to_the_last_bin(self):
        table = Cells.of(np.array([0.0, 1e-300]), np.array([0, 0]))
        assert table.weight.tolist() == [2] + [0] * 14

    @pytest.mark.slow
    def test_confidence_one_shares_the_last_bin(self):
        rows = np.array([[1.0, 0.0], [0.95, 0.05]])
        y = np.array([1, 0])  # gaps +1 and -0.05 cancel inside one bin
        assert_allclose(ece(rows, y), 0.475, rtol=1e-12)
        assert_allclose(torchmetrics_error(rows, y, n_bins=15), 0.525, rtol=1e-6)

    def test_values_do_not_decide_whether_they_are_logits(self):
        rows = np.array([[0.6, 0.6], [0.2, 0.8]])  # would be taken for logits and normalised
        with pytest.raises(ValueError, match=r"row sum is off by 0.2"):
            ece(rows, np.array([0, 1]))
