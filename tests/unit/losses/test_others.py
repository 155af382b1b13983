"""Properties that the other losses share, on every library, to second order."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from focalibrate._array import to_numpy
from focalibrate.losses import (
    brier_loss,
    cross_entropy,
    dual_focal_loss,
    focal_loss,
    mmce,
    named_loss,
    proper_focal_loss,
    sigmoid_focal_loss,
    weighted_mmce,
)
from focalibrate.theory import loss_form

LOSSES = {
    "dual": lambda z, y: dual_focal_loss(z, y, gamma=2.0),
    "dual-half": lambda z, y: dual_focal_loss(z, y, gamma=0.5),
    "brier": brier_loss,
    "brier-smooth": lambda z, y: brier_loss(z, y, label_smoothing=0.1),
    "proper": lambda z, y: proper_focal_loss(z, y, 0.5),
    "mmce": mmce,
    "weighted-mmce": weighted_mmce,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in LOSSES if n != "proper"])
def test_every_library_gives_the_same_numbers(xp, whole, name):
    """That of the proper loss is in test_proper.py."""
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(8, 6)) * 5, rng.integers(6, size=8)
    got = whole(LOSSES[name])(xp.asarray(z), xp.asarray(y))
    assert got.dtype == xp.float64
    assert_allclose(to_numpy(got), LOSSES[name](z, y), rtol=1e-12)


CASES = [
    (scale * torch.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -1.0]]), torch.tensor(labels))
    for scale in (0.0, 1e-3, 1.0, 50.0, 1e4)
    for labels in ([0, 0], [1, 1], [2, 0])
]
WHOLE = tuple(torch.cat(part) for part in zip(*CASES, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_gradient_and_hessian_are_finite(name, dtype):
    for z, y in CASES if "mmce" in name else [WHOLE]:  # only there do rows mix
        assert torch.isfinite(LOSSES[name](z.to(dtype), y)).all()

        def total(z, y=y):
            return LOSSES[name](z, y).sum()

        hessian = torch.autograd.functional.hessian(total, z.to(dtype), vectorize=True)
        assert torch.isfinite(hessian).all()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_value_and_gradient_are_finite_in_half_precision(name, dtype):
    for z, y in CASES if "mmce" in name else [WHOLE]:
        z = z.to(dtype).requires_grad_()
        loss = LOSSES[name](z, y)
        (gradient,) = torch.autograd.grad(loss.sum(), z)
        assert loss.dtype == dtype
        assert torch.isfinite(loss).all()
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_that_of_finite_differences(name):
    rng = np.random.default_rng(0)
    z = torch.tensor(rng.normal(size=(5, 4)) * 2, requires_grad=True)
    y = torch.tensor([0, 1, 2, 3, 0])
    assert torch.autograd.gradcheck(lambda z: LOSSES[name](z, y), (z,), atol=1e-7, fast_mode=True)


def test_dual_focal_loss_by_hand():
    z = np.log([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    got = dual_focal_loss(z, np.array([0, 1, 2]), gamma=2.0)
    want = [-(0.8**2) * np.log(0.5), -(0.9**2) * np.log(0.3), -(0.8**2) * np.log(0.2)]
    assert_allclose(got, want, rtol=1e-13)


def test_dual_focal_loss_ignores_ties():
    got = dual_focal_loss(np.log([[0.4, 0.4, 0.2]]), np.array([0]), gamma=1.0)
    assert_allclose(got, [-0.8 * np.log(0.4)], rtol=1e-13)


def test_dual_focal_loss_needs_one_true_class():
    with pytest.raises(ValueError, match=r"`labels` must be class indices"):
        dual_focal_loss(np.zeros((1, 2)), np.array([[0.5, 0.5]]))


def test_gamma_zero_is_cross_entropy():
    z, y = np.array([[1.0, -np.inf, 2.0]]), np.array([0])
    assert_allclose(dual_focal_loss(z, y, gamma=0.0), cross_entropy(z, y), rtol=0)


def test_brier_loss_of_soft_targets():
    got = brier_loss(np.zeros((1, 2)), np.array([[0.9, 0.1]]))
    assert_allclose(got, [2 * 0.4**2], rtol=1e-13)


def test_mmce_of_a_certain_and_right_batch_is_zero_with_zero_gradient():
    z = torch.tensor([[300.0, 0.0], [0.0, 300.0]], requires_grad=True)
    y = torch.tensor([0, 1])
    for f in (mmce, weighted_mmce):
        loss = f(z, y)
        assert loss == 0
        assert (torch.autograd.grad(loss, z)[0] == 0).all()


def test_mmce_by_the_double_sum():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(12, 3)), rng.integers(3, size=12)
    v = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    r, c = v.max(-1), v.argmax(-1) == y
    pairs = [(i, j, np.exp(-abs(r[i] - r[j]) / 0.4)) for i in range(12) for j in range(12)]
    plain = np.mean([(c[i] - r[i]) * (c[j] - r[j]) * k for i, j, k in pairs])
    right = np.mean([(1 - r[i]) * (1 - r[j]) * k for i, j, k in pairs if c[i] and c[j]])
    wrong = np.mean([r[i] * r[j] * k for i, j, k in pairs if not c[i] and not c[j]])
    mixed = np.mean([(1 - r[i]) * r[j] * k for i, j, k in pairs if c[i] and not c[j]])
    assert_allclose(mmce(z, y), np.sqrt(plain), rtol=1e-12)
    assert_allclose(weighted_mmce(z, y), np.sqrt(right + wrong - 2 * mixed), rtol=1e-12)


def test_weighted_mmce_with_an_empty_group():
    z = np.log([[0.8, 0.2], [0.7, 0.3]])
    r = np.array([0.8, 0.7])
    k = np.exp(-np.abs(r[:, None] - r) / 0.4)
    want = np.sqrt(np.mean((1 - r)[:, None] * (1 - r) * k))
    assert_allclose(weighted_mmce(z, np.array([0, 0])), want, rtol=1e-12)


def test_mmce_needs_a_batch():
    with pytest.raises(ValueError, match=r"`logits` must be \[N, K\] with class indices"):
        mmce(np.zeros(2), np.array(0))
    with pytest.raises(ValueError, match=r"`kernel_width` must be a finite number > 0, got 0"):
        mmce(np.zeros((1, 2)), np.array([0]), kernel_width=0)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.bool_])
def test_sigmoid_focal_loss_takes_any_labels(dtype):
    z = np.array([[2.0, -1.0], [0.0, 700.0]])
    y = np.array([[1, 0], [1, 0]], dtype=dtype)
    got = sigmoid_focal_loss(z, y, gamma=2.0, alpha=None)
    two = np.stack([np.zeros_like(z), z], -1)
    assert_allclose(got, focal_loss(two, y.astype(int), gamma=2.0), rtol=1e-13)


def test_sigmoid_focal_loss_on_every_library(xp):
    z, y = np.array([[2.0, -1.0], [0.0, 700.0]]), np.array([[1, 0], [1, 0]])
    got = sigmoid_focal_loss(xp.asarray(z), xp.asarray(y), gamma=0.5)
    assert_allclose(to_numpy(got), sigmoid_focal_loss(z, y, gamma=0.5), rtol=1e-13)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
@pytest.mark.parametrize("z", [-1e4, -1.0, 0.0, 1e4])
@pytest.mark.parametrize("y", [0, 1])
def test_sigmoid_focal_loss_is_finite_to_second_order(gamma, z, y):
    x = torch.tensor([z])
    label = torch.tensor([y])
    hessian = torch.autograd.functional.hessian(
        lambda x: sigmoid_focal_loss(x, label, gamma=gamma).sum(), x
    )
    assert torch.isfinite(hessian).all()


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (np.zeros((2, 2)), np.zeros(2), r"`labels` must have the shape of `logits`, \(2, 2\)"),
        (np.zeros(2), np.array([0, 2]), r"`labels` must lie in \[0, 1\], found .* 0 to 2"),
        (np.array([np.nan]), np.array([0]), r"`logits` must not contain nan"),
        (np.array([1]), np.array([1]), r"`logits` must be floating point"),
        ([0.0], np.array([1]), r"`logits` must be an array, got list"),
    ],
)
def test_sigmoid_bad_input_is_named(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        sigmoid_focal_loss(logits, labels)


def test_a_named_loss_takes_the_options_of_focal_loss():
    rng = np.random.default_rng(3)
    z, y, form = (
        rng.normal(size=(9, 3)) * 4,
        rng.integers(3, size=9),
        loss_form("focal", gamma=2.0),
    )
    soft = rng.dirichlet(np.ones(3), size=9)
    for labels in (y, soft):
        for options in ({}, {"label_smoothing": 0.1}, {"weight": np.array([1.0, 2.0, 5.0])}):
            want = focal_loss(z, labels, gamma=2.0, **options)
            assert_allclose(named_loss(form, z, labels, **options), want, rtol=1e-12)
    want = focal_loss(z[:, 0], (y > 0).astype(int), gamma=2.0, binary=True)
    assert_allclose(named_loss(form, z[:, 0], (y > 0).astype(int), binary=True), want, rtol=1e-12)


@pytest.mark.parametrize(
    "options", [{"label_smoothing": 0.1}, {"weight": np.ones(2)}, {"binary": True}], ids=str
)
def test_a_loss_of_single_labels_takes_none_of_them(options):
    form = loss_form("asymmetric", gamma_pos=0.0, gamma_neg=4.0, margin=0.05)
    with pytest.raises(ValueError, match="must be left out for 'asymmetric', a loss of single"):
        named_loss(form, np.zeros(2), np.array([0, 1]), **options)
