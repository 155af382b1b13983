import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate._array import to_numpy
from focalibrate.theory import recover_log_posterior, recover_posterior

seeds = st.integers(0, 2**32 - 1)
gammas = st.one_of(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 5.0]), st.floats(-1.0, 30.0))


@given(seed=seeds, gamma=gammas, k=st.integers(2, 20), scale=st.floats(0.01, 300.0))
def test_rows_sum_to_one_and_keep_their_order(seed, gamma, k, scale):
    z = np.random.default_rng(seed).normal(size=(5, k)) * scale
    log_psi = recover_log_posterior(z, gamma)
    assert np.isfinite(log_psi).all()
    assert_allclose(np.exp(log_psi).sum(-1), 1.0, rtol=1e-13)
    assert_array_equal(log_psi.argmax(-1), z.argmax(-1))
    if gamma >= 0:
        assert_array_equal(np.argsort(log_psi, -1, kind="stable"), np.argsort(z, -1))


@given(seed=seeds, gamma=gammas, shift=st.floats(-1e3, 1e3))
def test_adding_a_constant_changes_nothing(seed, gamma, shift):
    z = np.random.default_rng(seed).normal(size=(3, 6)) * 5
    got, want = recover_log_posterior(z + shift, gamma), recover_log_posterior(z, gamma)
    assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@given(seed=seeds, gamma=gammas)
def test_permuting_classes_permutes_the_answer(seed, gamma):
    rng = np.random.default_rng(seed)
    z, order = rng.normal(size=(3, 6)) * 5, rng.permutation(6)
    got = recover_log_posterior(z[:, order], gamma)
    assert_allclose(got, recover_log_posterior(z, gamma)[:, order], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("gamma", [-1.0, -0.5, 0.0, 0.5, 1.0, 5.0])
@pytest.mark.parametrize(
    "probs", [[1, 0, 0], [0.5, 0.5, 0], [1 / 3] * 3, [0, 0, 1, 0], [0.25] * 4, [0, 1]]
)
def test_vectors_uniform_on_a_subset_are_fixed_points(probs, gamma):
    probs = np.array(probs, dtype=float)
    got = recover_posterior(probs, gamma)
    assert_allclose(got, probs, rtol=1e-15)
    assert_array_equal(got == 0, probs == 0)


def test_gamma_zero_is_the_identity():
    z = np.random.default_rng(0).normal(size=(4, 9)) * 10
    v = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    assert_allclose(np.exp(recover_log_posterior(z, 0.0)), v, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_library_gives_the_same_numbers(xp, whole, dtype):
    z = np.random.default_rng(0).normal(size=(4, 3, 6)) * 10
    x = xp.asarray(z, dtype=getattr(xp, dtype))
    got = whole(lambda x: recover_log_posterior(x, 2.0))(x)
    assert type(got) is type(x)
    assert got.dtype == x.dtype
    assert got.shape == x.shape
    rtol = 1e-13 if dtype == "float64" else 1e-5
    assert_allclose(to_numpy(got), recover_log_posterior(z, 2.0), rtol=rtol)
    probs = xp.asarray(np.exp(recover_log_posterior(z, 0.0)), dtype=x.dtype)
    again = whole(lambda probs: recover_posterior(probs, 2.0))(probs)
    assert_allclose(to_numpy(again), np.exp(to_numpy(got)), rtol=10 * rtol)


@pytest.mark.slow
def test_one_gamma_per_row(xp, whole):
    z = np.random.default_rng(0).normal(size=(4, 6)) * 3
    gamma = np.array([-1.0, 0.0, 0.5, 4.0])
    got = whole(recover_log_posterior)(xp.asarray(z), xp.asarray(gamma))
    want = np.stack(
        [recover_log_posterior(row, g) for row, g in zip(z, gamma.tolist(), strict=True)]
    )
    assert_allclose(to_numpy(got), want, rtol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once(dtype):
    z = torch.tensor([[1e4, -1e4, 0.0], [3.0, 2.0, 1.0]], dtype=dtype)
    got = recover_log_posterior(z, 5.0)
    assert got.dtype == dtype
    want = recover_log_posterior(z.double(), 5.0).to(dtype)  # -1e5 overflows float16 to -inf
    assert_array_equal(got.float(), want.float())


@pytest.mark.parametrize("gamma", [-1.0, -0.3, 0.5, 2.0])
@pytest.mark.parametrize(
    "z", [[1.0, 0.2, -3.0], [2.0, 2.0, 2.0], [5.0, 5.0, -1.0], [40.0, 0.0, 1.0]]
)
def test_gradient_is_that_of_finite_differences(z, gamma):
    z = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    g = torch.tensor(gamma, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda z: recover_log_posterior(z, g).exp(), (z,))


def test_differentiable_in_gamma():
    z = torch.tensor([[1.0, 0.2, -3.0]], dtype=torch.float64)
    g = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda g: recover_log_posterior(z, g), (g,))


def test_masked_classes_stay_impossible_and_harm_no_gradient():
    z = torch.tensor([[0.0, -torch.inf, 1.0], [0.0, -torch.inf, -torch.inf]], requires_grad=True)
    out = recover_log_posterior(z, 2.0)
    assert_array_equal(out.detach().exp()[1], [1.0, 0.0, 0.0])
    assert out[0, 1] == -torch.inf
    (gradient,) = torch.autograd.grad(out.exp()[:, 0].sum(), z)
    assert torch.isfinite(gradient).all()


def test_negative_gamma_lowers_confidence_but_not_at_minus_one():
    # The binary map's slope at 0 exceeds 1 again below gamma = 2 - 2/ln 2 = -0.885.
    probs = np.array([0.9, 0.1])
    assert recover_posterior(probs, -0.5)[0] < 0.9 < recover_posterior(probs, -1.0)[0]


@pytest.mark.parametrize(
    ("logits", "gamma", "message"),
    [
        ([[0.0, 1.0]], -1.5, r"`gamma` must be a finite number >= -1, got -1.5"),
        ([[0.0, 1.0]], float("nan"), r"`gamma` must be a finite number >= -1, got nan"),
        ([[0.0, np.nan]], 1.0, r"`logits` must not contain nan or \+inf, but row 0 contains nan"),
        ([[0.0, 1.0], [0.0, np.inf]], 1.0, r"but row 1 contains inf\. Drop the row"),
        ([[-np.inf, -np.inf]], 1.0, r"every entry of row 0 is -inf\. Unmask"),
        ([[1.0]], 1.0, r"at least 2 classes .* got shape \(1, 1\)"),
        (np.zeros((0, 3)), 1.0, r"must not be empty, got shape \(0, 3\)"),
    ],
)
def test_bad_input_is_named(logits, gamma, message):
    with pytest.raises(ValueError, match=message):
        recover_log_posterior(np.array(logits), gamma)


def test_wrong_number_of_gammas():
    with pytest.raises(ValueError, match=r"one per row, shape \(2,\), got \(3,\)"):
        recover_log_posterior(np.zeros((2, 3)), np.zeros(3))


def test_logits_are_refused_as_probabilities():
    with pytest.raises(ValueError, match=r"smallest entry is -1 .* apply `softmax`"):
        recover_posterior(np.array([[3.0, -1.0]]), 1.0)
