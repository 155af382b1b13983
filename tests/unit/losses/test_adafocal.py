import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate._array import to_numpy
from focalibrate.losses import AdaFocal, focal_loss, gamma_policy
from focalibrate.losses.policy import next_exponent
from focalibrate.metrics import Cells
from focalibrate.metrics.binning import log_odds_edges

EXPONENTS = [-2.0, -0.7, -0.2, 0.2, 0.7, 3.0, 20.0]


def plain_update(gammas, confidence, correct, *, rate=1.0):
    """AdaFocal by hand: sort, cut into equal masses, move each exponent. No ties."""
    rows = sorted(zip(confidence, correct, strict=True))
    size, larger = divmod(len(rows), len(gammas))
    cuts, moved, start = [], [], 0
    for b, gamma in enumerate(gammas):
        part = rows[start : start + size + (b < larger)]
        start += len(part)
        gap = sum(c for c, _ in part) / len(part) - sum(hit for _, hit in part) / len(part)
        new = gamma * math.exp(rate * gap) if gamma > 0 else gamma * math.exp(-rate * gap)
        if gamma > 0 and new < 0.2:
            new = -0.2
        elif gamma < 0 and new > -0.2:
            new = 0.2
        moved.append(min(max(new, -2.0), 20.0))
        cuts.append(part[-1][0])
    return cuts[:-1], moved


@pytest.mark.slow
@given(
    n_bins=st.integers(1, 15),
    n=st.integers(15, 200),
    rate=st.sampled_from([1.0, 5.0]),
    skill=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_update_rule_against_plain_python_over_epochs(n_bins, n, rate, skill, seed):
    rng = np.random.default_rng(seed)
    policy, gammas = AdaFocal(n_bins=n_bins, rate=rate), [1.0] * n_bins
    for _ in range(12):
        confidence = rng.permutation(np.linspace(0.3, 1, n)) ** rng.uniform(0.5, 2)
        correct = rng.random(n) < skill
        policy = policy.updated(confidence, correct)
        cuts, gammas = plain_update(gammas, confidence.tolist(), correct.tolist(), rate=rate)
        assert_allclose(policy.cuts, cuts, rtol=0, atol=0)
        assert_allclose(policy.gammas, gammas, rtol=1e-9)


@given(gamma=st.sampled_from([*EXPONENTS, 1.0]), gap=st.floats(-1, 1), rate=st.floats(0.1, 1e4))
def test_an_exponent_rises_with_overconfidence_and_stays_in_range(gamma, gap, rate):
    moved = next_exponent(gamma, gap, rate=rate)
    assert -2.0 <= moved <= 20.0
    assert abs(moved) >= 0.2
    if gap > 0:
        assert moved >= gamma
    elif gap < 0:
        assert moved <= gamma


def test_an_exponent_crosses_zero_in_both_directions():
    assert next_exponent(0.25, -0.5) == -0.2
    assert next_exponent(-0.25, 0.5) == 0.2
    assert next_exponent(-0.2, -0.1) == pytest.approx(-0.2 * math.exp(0.1))
    assert next_exponent(19.0, 0.9) == 20.0
    assert next_exponent(-1.9, -0.9) == -2.0


def test_a_miscalibrated_model_drives_exponents_where_the_paper_says():
    confidence = np.linspace(0.5, 1, 300)
    over, under = AdaFocal(), AdaFocal()
    for _ in range(30):
        over = over.updated(confidence, np.zeros(300))
        under = under.updated(confidence, np.ones(300))
    assert set(over.gammas) == {20.0}
    assert min(under.gammas) == -2.0
    assert under.gammas[-1] > 0.2  # a confidence of 1 that is right needs nothing


@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_validation_rows_does_not_matter_even_with_ties(seed):
    rng = np.random.default_rng(seed)
    confidence, correct = rng.integers(1, 6, 60) / 5, rng.integers(2, size=60)
    order = rng.permutation(60)
    one = AdaFocal().updated(confidence, correct)
    other = AdaFocal().updated(confidence[order], correct[order])
    assert one.cuts == other.cuts
    assert_allclose(one.gammas, other.gammas, rtol=1e-12)


def test_a_table_of_fine_cells_does_as_well_as_the_rows():
    rng = np.random.default_rng(0)
    confidence = 1 - 10 ** -rng.uniform(0, 6, 20_000)
    correct = rng.random(20_000) < confidence**3
    rows = AdaFocal().updated(confidence, correct)
    table = Cells.of(confidence, correct, bins=log_odds_edges())
    cells = AdaFocal().updated_from(table)
    assert_allclose(cells.gammas, rows.gammas, atol=2e-3)
    assert_allclose(cells.cuts, rows.cuts, atol=2e-3)


def test_a_training_example_takes_the_exponent_of_its_bin(xp):
    policy = AdaFocal(3, cuts=(0.4, 0.8), gammas=(-1.0, 0.5, 3.0))
    p = xp.asarray(np.array([[0.0, 0.4], [0.41, 0.8], [0.81, 1.0]]))
    assert_array_equal(to_numpy(policy(p)), [[-1, -1], [0.5, 0.5], [3, 3]])


def test_exponents_start_at_one_and_the_name_stands_for_that():
    assert gamma_policy("adafocal") == AdaFocal()
    assert AdaFocal().gammas == (1.0,) * 15
    assert_array_equal(AdaFocal()(np.linspace(0, 1, 40)), 1.0)
    z, y = np.random.default_rng(0).normal(size=(9, 4)), np.arange(9) % 4
    assert_allclose(focal_loss(z, y, gamma="adafocal"), focal_loss(z, y, gamma=1.0), rtol=1e-14)


def signed_loss(z, gamma):
    """The loss of one margin in 400 digits."""
    with mp.workdps(400):
        p = 1 / (1 + mp.exp(-mpf(z)))
        factor = (1 - p) ** mpf(gamma) if gamma > 0 else (1 + p) ** mpf(-gamma)
        return float(-factor * mp.log(p))


@pytest.mark.slow
@pytest.mark.parametrize("gamma", EXPONENTS)
def test_the_signed_loss_against_400_digits(gamma, xp):
    margins = [-700.0, -30.0, -1e-3, 0.0, 1.0, 30.0, 80.0]
    logits, labels = np.array([[z, 0.0] for z in margins]), np.zeros(7, dtype=int)
    policy = AdaFocal(1, gammas=(gamma,))
    got = focal_loss(xp.asarray(logits), xp.asarray(labels), gamma=policy)
    assert_allclose(to_numpy(got), [signed_loss(z, gamma) for z in margins], rtol=1e-12)


@pytest.mark.parametrize("gamma", EXPONENTS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_value_gradient_and_hessian_are_finite_in_float32(scale, gamma, label):
    z, y = scale * torch.tensor([1.0, -1.0, 0.0]), torch.tensor(label)
    policy = AdaFocal(1, gammas=(gamma,))

    def loss(z):
        return focal_loss(z, y, gamma=policy)

    assert torch.isfinite(loss(z))
    assert torch.isfinite(torch.autograd.functional.jacobian(loss, z)).all()
    assert torch.isfinite(torch.autograd.functional.hessian(loss, z)).all()


@pytest.mark.slow
def test_derivatives_of_the_signed_loss_against_finite_differences():
    policy = AdaFocal(3, cuts=(0.3, 0.6), gammas=(-1.5, 0.7, -0.3))
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(12, 4, generator=rng, dtype=torch.float64).requires_grad_()
    y = torch.arange(12) % 4
    assert torch.autograd.gradcheck(lambda z: focal_loss(z, y, gamma=policy), z)
    assert torch.autograd.gradgradcheck(lambda z: focal_loss(z, y, gamma=policy), z)


def test_soft_targets_look_at_their_largest_class_and_keep_the_formula():
    policy = AdaFocal(1, gammas=(-0.8,))
    z, t = np.log([[0.5, 0.3, 0.2]]), np.array([[0.6, 0.4, 0.0]])
    want = -0.6 * 1.5**0.8 * np.log(0.5) - 0.4 * 1.3**0.8 * np.log(0.3)
    assert_allclose(focal_loss(z, t, gamma=policy), [want], rtol=1e-12)


@pytest.mark.slow
def test_jax_compiles_it(jax):
    policy = AdaFocal(2, cuts=(0.5,), gammas=(-1.0, 2.0))
    z, y = np.random.default_rng(0).normal(size=(8, 3)), np.arange(8) % 3
    got = jax.jit(lambda z: focal_loss(z, jax.numpy.asarray(y), gamma=policy))(z)
    assert_allclose(np.asarray(got), focal_loss(z, y, gamma=policy), rtol=1e-12)


def test_a_policy_is_a_value():
    rows = np.linspace(0.2, 1, 30), np.arange(30) % 2
    assert AdaFocal().updated(*rows) == AdaFocal().updated(*rows) != AdaFocal()
    assert hash(AdaFocal()) == hash(AdaFocal())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AdaFocal(0), r"`n_bins` must be a whole number >= 1, got 0"),
        (lambda: AdaFocal(rate=0.0), r"`rate` must be a finite number > 0"),
        (lambda: AdaFocal(3, gammas=(1.0,)), r"must have 2 and 3 entries .* got 2 and 1"),
        (lambda: AdaFocal(1, gammas=(-2.5,)), r"`gammas` must lie in \[-2, 20\]"),
        (lambda: AdaFocal(2, cuts=(1.5,)), r"`cuts` must rise within \[0, 1\]"),
        (
            lambda: AdaFocal().updated(np.full(14, 0.5), np.ones(14)),
            r"at least `n_bins` = 15, one in each bin, got 14\. Pass more",
        ),
        (lambda: AdaFocal().updated(np.zeros(0), np.zeros(0)), r"one number per row"),
        (lambda: AdaFocal().updated(np.full(20, 90.0), np.ones(20)), r"must lie in \[0, 1\]"),
        (lambda: AdaFocal().updated(np.full(20, 0.9), np.full(20, 2)), r"row 0 has 2\. Pass"),
        (lambda: AdaFocal().updated(np.full(20, 0.9), np.ones(19)), r"same length"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
