from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate._array import to_numpy
from focalibrate.losses import cross_entropy, focal_loss
from focalibrate.theory import focal_minimiser, phi

GAMMAS = [0.0, 0.03, 0.5, 1.0, 2.0, 5.0]
seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds, gamma=st.floats(0, 20), scale=st.floats(0.01, 1e4))
def test_between_zero_and_cross_entropy(seed, gamma, scale):
    rng = np.random.default_rng(seed)
    z, y = rng.normal(size=(6, 5)) * scale, rng.integers(5, size=6)
    loss = focal_loss(z, y, gamma=gamma)
    assert (loss >= 0).all()
    assert (loss <= cross_entropy(z, y)).all()


@given(seed=seeds, scale=st.floats(0.01, 1e4))
def test_gamma_zero_is_cross_entropy_to_the_last_bit(seed, scale):
    rng = np.random.default_rng(seed)
    z, y = rng.normal(size=(6, 5)) * scale, rng.integers(5, size=6)
    z[0, (y[0] + 1) % 5] = -np.inf
    z[1, np.arange(5) != y[1]] = -np.inf
    assert_array_equal(focal_loss(z, y, gamma=0.0), cross_entropy(z, y))
    assert_array_equal(focal_loss(z, y, gamma=np.zeros(6)), cross_entropy(z, y))
    assert cross_entropy(z, y)[1] == 0


@given(seed=seeds, gamma=st.floats(0.01, 10))
def test_gradient_is_phi_times_that_of_cross_entropy(seed, gamma):
    rng = np.random.default_rng(seed)
    z, y = rng.normal(size=(6, 5)) * 4, rng.integers(5, size=6)
    t = torch.tensor(z, requires_grad=True)
    (got,) = torch.autograd.grad(focal_loss(t, torch.tensor(y), gamma=gamma).sum(), t)
    v = torch.softmax(t.detach(), -1).numpy()
    p = v[np.arange(6), y]
    want = phi(p, gamma)[:, None] * (v - np.eye(5)[y])
    assert_allclose(got, want, rtol=1e-9, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_the_focal_minimiser_minimises_its_expectation(gamma):
    eta = np.array([0.6, 0.3, 0.1])
    best = focal_loss(np.log(focal_minimiser(eta, gamma)), eta, gamma=gamma)
    rng = np.random.default_rng(0)
    for _ in range(50):
        z = np.log(focal_minimiser(eta, gamma)) + rng.normal(size=3) * 0.2
        assert focal_loss(z, eta, gamma=gamma) > best


@pytest.mark.parametrize("shift", [-1e4, 1e4])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 5.0])
def test_a_constant_added_to_a_row_costs_no_digits(shift, gamma):
    rng = np.random.default_rng(0)
    z = np.round(rng.normal(size=(50, 5)) * 8 * 2**20) / 2**20  # exact after the shift
    y = rng.integers(5, size=50)
    for labels in (y, np.eye(5)[y]):
        got, want = (focal_loss(x, labels, gamma=gamma) for x in (z + shift, z))
        assert_allclose(got, want, rtol=1e-13)


def test_one_hot_targets_equal_class_indices():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(6, 5)) * 30, rng.integers(5, size=6)
    want = focal_loss(z, y, gamma=0.5)
    assert_allclose(focal_loss(z, np.eye(5)[y], gamma=0.5), want, rtol=1e-13)
    policy = focal_loss(z, np.eye(5)[y], gamma="flsd-53")
    assert_allclose(policy, focal_loss(z, y, gamma="flsd-53"), rtol=1e-13)


def test_label_smoothing_is_a_soft_target():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(6, 5)) * 3, rng.integers(5, size=6)
    soft = 0.9 * np.eye(5)[y] + 0.1 / 5
    want = focal_loss(z, soft, gamma=2.0)
    assert_allclose(focal_loss(z, y, gamma=2.0, label_smoothing=0.1), want, rtol=1e-13)


def test_weight_counts_by_class():
    z, y = np.zeros((2, 2)), np.array([0, 1])
    got = focal_loss(z, y, weight=np.array([1.0, 3.0]))
    assert got[1] == 3 * got[0]


def test_impossible_classes_with_soft_targets_cost_nothing():
    z = np.array([[0.0, 1.0, -np.inf]])
    soft = np.array([[0.5, 0.5, 0.0]])
    assert_allclose(
        focal_loss(z, soft, gamma=2.0), focal_loss(z[:, :2], soft[:, :2], gamma=2.0), rtol=1e-14
    )


def test_binary_door():
    s, y = np.array([-2.0, 0.0, 3.0]), np.array([0, 1, 1])
    two = np.stack([np.zeros(3), s], -1)
    assert_array_equal(focal_loss(s, y, binary=True), focal_loss(two, y))


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.5, "flsd-53"])
def test_every_library_gives_the_same_numbers(xp, whole, gamma):
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(4, 3, 6)) * 10, rng.integers(6, size=(4, 3))
    x, labels = xp.asarray(z), xp.asarray(y)
    got = whole(partial(focal_loss, gamma=gamma))(x, labels)
    assert type(got) is type(x)
    assert got.dtype == x.dtype
    assert_allclose(to_numpy(got), focal_loss(z, y, gamma=gamma), rtol=1e-13)
    smoothed = whole(partial(focal_loss, gamma=gamma, label_smoothing=0.1))
    smooth = smoothed(x, labels, weight=xp.arange(1.0, 7.0))
    want = focal_loss(z, y, gamma=gamma, label_smoothing=0.1, weight=np.arange(1.0, 7.0))
    assert_allclose(to_numpy(smooth), want, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("label", [0, 1, 2])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_gradient_and_hessian_are_finite(gamma, label, smoothing, dtype):
    scales = torch.tensor([0.0, 1e-3, 1.0, 50.0, 1e4], dtype=dtype)
    z = scales[:, None] * torch.tensor([1.0, -1.0, 0.0], dtype=dtype)
    y = torch.full((5,), label)

    def f(z):
        return focal_loss(z, y, gamma=gamma, label_smoothing=smoothing)

    assert torch.isfinite(f(z)).all()
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(f(z).sum(), z, create_graph=True)
    assert torch.isfinite(gradient).all()
    for k in range(3):  # rows do not mix: column k of every row's Hessian at once
        (column,) = torch.autograd.grad(gradient[:, k].sum(), z, retain_graph=True)
        assert torch.isfinite(column).all()


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("label", [0, 1])
def test_value_and_gradient_are_finite_in_half_precision(gamma, dtype, label):
    z = torch.tensor([[1e4, -1e4, 0.0], [0.1, 0.2, 0.3]], dtype=dtype, requires_grad=True)
    loss = focal_loss(z, torch.tensor([label, label]), gamma=gamma)
    (gradient,) = torch.autograd.grad(loss.sum(), z)
    assert loss.dtype == dtype
    assert torch.isfinite(loss).all()
    assert torch.isfinite(gradient).all()


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_jax_transforms(jax, gamma):
    z, y = np.random.default_rng(0).normal(size=(4, 5)) * 50, np.array([0, 1, 2, 3])
    want = focal_loss(z, y, gamma=gamma)

    def f(z, y):
        return focal_loss(z, y, gamma=gamma)

    # Compiled whole: one by one, the operations of a Hessian take seconds to compile.
    assert_allclose(jax.jit(f)(z, y), want, rtol=1e-12)
    assert_allclose(jax.jit(jax.vmap(f))(z, y), want, rtol=1e-12)
    assert np.isfinite(jax.jit(jax.hessian(lambda z, y: f(z, y).sum()))(z, y)).all()


@pytest.mark.parametrize(
    ("logits", "labels", "options", "message"),
    [
        ([[0.0, 1.0]], [2], {}, r"`labels` must lie in \[0, 1\] for 2 classes, found \[2, 2\]"),
        ([[0.0, 1.0]], [-1], {}, r"found \[-1, -1\], first at row 0\. Number the classes from 0"),
        ([[0.0, 1.0]], [0.0], {}, r"`labels` must be integer class indices, got dtype float64"),
        ([[0.0, 1.0]], [0, 1], {}, r"`labels` must have shape \(1,\), got \(2,\)"),
        ([0.3, 0.1], [0, 1], {}, r"For one score per example pass `binary=True`"),
        ([0.3, 0.1], [1.0, 1.0], {}, r"one soft target that sums to 1\. For one score per"),
        ([[0.0, np.nan]], [0], {}, r"`logits` must not contain nan or \+inf"),
        ([[0.0, 1.0]], [0], {"gamma": -1.0}, r"`gamma` must be a finite number >= 0, got -1.0"),
        ([[0.0, 1.0]], [0], {"gamma": float("nan")}, r"`gamma` must be .* got nan"),
        ([[0.0, 1.0]], [[0.2, 0.2]], {}, r"`labels` must be probabilities over its last axis"),
        ([[0.0, 1.0]], [0], {"label_smoothing": 1.5}, r"`label_smoothing` must be a number in"),
        ([[0.0, 1.0]], [0], {"weight": np.ones(3)}, r"`weight` must be an array .* got \(3,\)"),
        ([[1], [2]], [0, 0], {}, r"`logits` must be floating point, got dtype int64"),
        ([[0.0, 1.0]], [0], {"binary": True}, r"`logits` with `binary=True` .* got \(1, 2\)"),
    ],
)
def test_bad_input_is_named(logits, labels, options, message):
    with pytest.raises(ValueError, match=message):
        focal_loss(np.array(logits), np.array(labels), **options)
