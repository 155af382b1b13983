"""Every metric refuses bad input in one way: argument, rule, value found, next step."""

import numpy as np
import pytest

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

BINNED = [ece, mce, adaptive_ece, classwise_ece, debiased_ece]
LABELLED = [*BINNED, nll, brier_score, error_rate, confident_fraction, smooth_ece]
LABELLED += [Cells.of_top_label, Cells.of_classes]
GOOD = np.array([[0.9, 0.1], [0.2, 0.8]])
LABELS = np.array([0, 1])

BAD_PROBS = [
    (np.array([[0.9, 0.3], [0.2, 0.8]]), r"worst row sum is off by 0.2\. If these are logits"),
    (np.array([[0.9, 0.1013], [0.2, 0.8]]), r"off by 0.0013\. If they were rounded: "),
    (np.array([[1.1, -0.1], [0.2, 0.8]]), r"`probs` must be probabilities .* entry is -0.1 "),
    (np.array([[3.0, -1.0], [0.2, 0.8]]), r"smallest entry is -1 .* apply `softmax` first"),
    (np.array([[3.0, 1.0], [0.2, 0.8]]), r"row sum is off by 3\. .* apply `softmax` first"),
    (np.array([[np.nan, 0.1], [0.2, 0.8]]), r"`probs` must not contain nan, but row 0 does"),
    (np.array([[np.inf, 0.1], [0.2, 0.8]]), r"row sum is off by inf"),
    (np.array([0.9, 0.2]), r"`probs` must have shape \[..., K\] .* \(2,\).* pass `binary=True`"),
    (np.array([[1.0], [1.0]]), r"at least 2 classes on its last axis, got shape \(2, 1\)"),
    (np.empty((0, 2)), r"`probs` must not be empty, got shape \(0, 2\)\. Pass at least one"),
    (np.array([[1, 0], [0, 1]]), r"`probs` must be floating point, got dtype int64"),
    ("[[0.9, 0.1]]", r"`probs` must be an array, got str\. Wrap it: `np.asarray"),
]
BAD_LABELS = [
    (np.array([0, 2]), r"`labels` must lie in \[0, 1\] for 2 classes, found \[0, 2\], .* row 1"),
    (np.array([-1, 0]), r"`labels` must lie in \[0, 1\] .* found \[-1, 0\], first at row 0"),
    (np.array([0.0, 1.0]), r"`labels` must be integer class indices, got dtype float64"),
    (np.array([0, 1, 1]), r"`labels` must have shape \(2,\), got \(3,\)\. Pass one label per"),
    ("01", r"`labels` must be an array of class indices, got str"),
]


@pytest.mark.parametrize("metric", LABELLED)
def test_bad_probs(metric):
    for probs, message in BAD_PROBS:
        with pytest.raises(ValueError, match=message):
            metric(probs, LABELS)


def test_the_allowed_error_of_a_sum_grows_with_the_number_of_classes():
    for k, off, is_taken in ((151_936, 5e-4, True), (151_936, 5e-3, False), (100, 3e-5, False)):
        probs = np.full((1, k), (1 + off) / k)
        probs[0, 0] += 1e-9  # of no decimal: rounding does not explain it
        if is_taken:
            assert nll(probs, np.array([1])) > 0
        else:
            with pytest.raises(ValueError, match="worst row sum is off by"):
                nll(probs, np.array([1]))


@pytest.mark.parametrize(("probs", "message"), BAD_PROBS)
def test_bad_probs_without_labels(probs, message):
    with pytest.raises(ValueError, match=message):
        entropy(probs)
    with pytest.raises(ValueError, match=message):
        kl_divergence(GOOD, probs)
    with pytest.raises(ValueError, match=message.replace("`probs`", "`posterior`")):
        kl_divergence(probs, GOOD)


@pytest.mark.parametrize("metric", LABELLED)
def test_bad_labels(metric):
    for labels, message in BAD_LABELS:
        with pytest.raises(ValueError, match=message):
            metric(GOOD, labels)


@pytest.mark.parametrize("metric", BINNED)
def test_bad_n_bins(metric):
    message = r"`n_bins` must be a whole number >= 1, got .* use 15"
    for n_bins in (0, -3, 2.5, True, "15"):
        with pytest.raises(ValueError, match=message):
            metric(GOOD, LABELS, n_bins=n_bins)


@pytest.mark.parametrize("metric", LABELLED)
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (
            np.array([0.9, 3.0]),
            r"found entries from 0.9 to 3\. .* apply `sigmoid` first",
        ),
        (np.array([0.9, np.nan]), r"`probs` must lie in \[0, 1\].* pass probabilities of class 1"),
        (
            GOOD,
            r"must be a floating array of shape \[N\], .* got \(2, 2\)\. .* leave `binary` out",
        ),
        (np.array([]), r"`probs` must not be empty, got shape \(0,\)"),
    ],
)
def test_bad_binary_scores(metric, scores, message):
    with pytest.raises(ValueError, match=message):
        metric(scores, LABELS, binary=True)


@pytest.mark.parametrize("as_saved", [lambda p: p.round(4), lambda p: p.astype(np.float16)])
def test_probabilities_of_few_digits_are_accepted_with_a_note(as_saved):
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(10), size=500), rng.integers(0, 10, 500)
    saved = as_saved(probs).astype(np.float64)
    with pytest.warns(UserWarning, match="as their few digits explain"):
        found = ece(saved, labels)
    assert found == pytest.approx(ece(probs, labels), abs=0.02)
