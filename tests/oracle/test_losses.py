"""Losses against 60-digit arithmetic, torch's own cross-entropy and given numbers."""

import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from numpy.testing import assert_allclose

from focalibrate.losses import (
    brier_loss,
    cross_entropy,
    dual_focal_loss,
    focal_loss,
    mmce,
    proper_focal_loss,
    sigmoid_focal_loss,
    weighted_mmce,
)

GAMMAS = [0.0, 0.03, 0.5, 1.0, 2.0, 5.0]
LOGITS = [
    [0.0, 0.0],
    [1.0, 0.0],
    [-700.0, 0.0],
    [80.0, 0.0],
    [30.0, -1.0, 2.0],
    [-1e-3, 0.0, 1e-3],
    [3.0, 3.0, -8.0, 0.5],
]


def exact_softmax(logits):
    e = [mp.exp(mpf(float(z))) for z in logits]
    return [x / mp.fsum(e) for x in e]


@pytest.mark.parametrize("logits", LOGITS, ids=str)
@pytest.mark.parametrize("label", [0, 1])
def test_focal_loss_to_400_digits(logits, label):
    for gamma in GAMMAS:
        with mp.workdps(700):
            p = exact_softmax(logits)[label]
            want = float(-((1 - p) ** mpf(gamma)) * mp.log(p))
        got = focal_loss(np.array(logits), np.array(label), gamma=gamma)
        assert_allclose(got, want, rtol=1e-13, err_msg=f"{gamma=}")


@pytest.mark.parametrize("logits", LOGITS, ids=str)
def test_soft_focal_loss(logits):
    targets = np.linspace(1, 2, len(logits)) / np.linspace(1, 2, len(logits)).sum()
    for gamma in GAMMAS:
        with mp.workdps(700):
            rows = zip(targets, exact_softmax(logits), strict=True)
            losses = (-mpf(t) * (1 - p) ** mpf(gamma) * mp.log(p) for t, p in rows)
            want = float(mp.fsum(losses))
        got = focal_loss(np.array(logits), targets, gamma=gamma)
        assert_allclose(got, want, rtol=1e-13, err_msg=f"{gamma=}")


@pytest.mark.parametrize("logits", LOGITS, ids=str)
@pytest.mark.parametrize("label", [0, 1])
def test_dual_focal_loss(logits, label):
    for gamma in GAMMAS:
        with mp.workdps(700):
            v = exact_softmax(logits)
            p = v[label]
            runner_up = max([x for x in v if x < p], default=mpf(0))
            want = float(-((1 - p + runner_up) ** mpf(gamma)) * mp.log(p))
        got = dual_focal_loss(np.array(logits), np.array(label), gamma=gamma)
        assert_allclose(got, want, rtol=1e-13, err_msg=f"{gamma=}")


@pytest.mark.parametrize("logits", LOGITS, ids=str)
def test_brier_loss(logits):
    with mp.workdps(400):
        v = exact_softmax(logits)
        want = float(mp.fsum((x - (k == 0)) ** 2 for k, x in enumerate(v)))
    assert_allclose(brier_loss(np.array(logits), np.array(0)), want, rtol=1e-13)


@pytest.mark.parametrize("z", [-300.0, -2.0, 0.0, 1e-3, 40.0])
@pytest.mark.parametrize("label", [0, 1])
def test_sigmoid_focal_loss(z, label):
    for gamma in GAMMAS:
        with mp.workdps(400):
            p = 1 / (1 + mp.exp(-mpf(z)))
            p_true = p if label else 1 - p
            alpha = mpf("0.25") if label else mpf("0.75")
            want = float(-alpha * (1 - p_true) ** mpf(gamma) * mp.log(p_true))
        got = sigmoid_focal_loss(np.array([z]), np.array([label]), gamma=gamma)
        assert_allclose(got, [want], rtol=1e-13, err_msg=f"{gamma=}")


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
def test_proper_focal_loss_by_minimising_the_risk(gamma):
    """Find the minimiser by 50-digit root finding in the binary case, sharing no code."""
    with mp.workdps(50):
        eta = mpf("0.8")

        def risk_slope(q):
            def d(p):
                return gamma * (1 - p) ** (gamma - 1) * mp.log(p) - (1 - p) ** gamma / p

            return eta * d(q) - (1 - eta) * d(1 - q)

        q = mp.findroot(risk_slope, (mpf("0.5"), mpf("0.79")), solver="anderson")
        want = [float(-((1 - x) ** mpf(gamma)) * mp.log(x)) for x in (q, 1 - q)]
    log_probs = np.log([[0.8, 0.2], [0.8, 0.2]])
    assert_allclose(proper_focal_loss(log_probs, np.array([0, 1]), gamma), want, rtol=1e-13)


@pytest.mark.slow
def test_given_mmce(oracles):
    given = oracles["labels2_independent_float64"]
    logits = np.random.RandomState(0).randn(2000, 10) * 3
    noise = np.random.RandomState(2).gumbel(size=(2000, 10))
    labels = (logits / 1.7 + noise).argmax(1)
    assert_allclose(float(mmce(logits, labels)) ** 2, given["MMCE2_m"], rtol=1e-12)
    want = given["MMCE2_w_correct_norm"]
    assert_allclose(float(weighted_mmce(logits, labels)) ** 2, want, rtol=1e-12)


def test_the_weighted_mmce_of_published_code_is_normalised_twice():
    # It divides the mean over the pairs by their number once more, so that ten copies of a batch
    # have a hundredth of its error. Ours is the same for both.
    logits, labels = np.log([[0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]), np.array([0, 1, 0])

    def published(copies):
        r, right = np.repeat([0.8, 0.7, 0.6], copies), np.repeat([True, False, True], copies)
        gap, kernel = np.where(right, 1 - r, -r), np.exp(-np.abs(r[:, None] - r) / 0.4)
        pairs = gap[:, None] * gap * kernel
        groups = (right, right), (~right, ~right), (right, ~right)
        blocks = [pairs[np.ix_(a, b)] for a, b in groups]
        return [
            blocks[0].mean() / sizes[0]
            + blocks[1].mean() / sizes[1]
            + 2 * blocks[2].mean() / sizes[2]
            for sizes in ([1, 1, 1], [block.size for block in blocks])
        ]

    for copies in (1, 10):
        ours = weighted_mmce(np.repeat(logits, copies, 0), np.repeat(labels, copies))
        assert_allclose(ours**2, published(copies)[0], rtol=1e-12)
    assert_allclose(published(10)[1], published(1)[1] / 100, rtol=1e-12)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("with_weight", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_cross_entropy_is_torchs(label_smoothing, with_weight, soft):
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(20, 7, generator=rng, dtype=torch.float64) * 4
    y = torch.randint(7, (20,), generator=rng)
    if soft:
        y = torch.softmax(torch.randn(20, 7, generator=rng, dtype=torch.float64), -1)
    weight = torch.rand(7, generator=rng, dtype=torch.float64) if with_weight else None
    want = torch.nn.functional.cross_entropy(
        z, y, weight=weight, label_smoothing=label_smoothing, reduction="none"
    )
    got = cross_entropy(z, y, weight=weight, label_smoothing=label_smoothing)
    assert_allclose(got, want, rtol=1e-13)
