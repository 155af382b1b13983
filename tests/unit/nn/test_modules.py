import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from focalibrate import losses
from focalibrate.nn import (
    BrierLoss,
    DualFocalLoss,
    FocalLoss,
    MMCELoss,
    ProperFocalLoss,
    SigmoidFocalLoss,
)


@pytest.fixture
def logits():
    rng = torch.Generator().manual_seed(0)
    return 2 * torch.randn(6, 4, generator=rng, dtype=torch.float64)


LABELS = torch.tensor([0, 1, 2, 3, 0, 1])
PAIRS = [
    (BrierLoss, {}, losses.brier_loss),
    (
        BrierLoss,
        {"label_smoothing": 0.1},
        lambda z, y: losses.brier_loss(z, y, label_smoothing=0.1),
    ),
    (DualFocalLoss, {"gamma": 3.0}, lambda z, y: losses.dual_focal_loss(z, y, gamma=3.0)),
    (ProperFocalLoss, {"gamma": 3.0}, lambda z, y: losses.proper_focal_loss(z, y, 3.0)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("module", "arguments", "function"), PAIRS)
def test_reductions_of_the_function(module, arguments, function, logits):
    rows = function(logits, LABELS)
    assert_close(module(**arguments, reduction="none")(logits, LABELS), rows)
    assert_close(module(**arguments, reduction="sum")(logits, LABELS), rows.sum())
    assert_close(module(**arguments)(logits, LABELS), rows.mean())


@pytest.mark.parametrize(("module", "arguments", "function"), PAIRS)
def test_ignored_rows_do_not_count(module, arguments, function, logits):
    labels = torch.where(LABELS == 1, 7, LABELS)
    padded = torch.where((LABELS == 1)[:, None], torch.nan, logits).requires_grad_()
    counts = labels != 7
    loss = module(**arguments, ignore_index=7)(padded, labels)
    assert_close(loss, function(logits[counts], labels[counts]).mean())
    (gradient,) = torch.autograd.grad(loss, padded)
    assert gradient[~counts].eq(0).all()
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize(("module", "arguments", "function"), PAIRS)
def test_class_axis_is_1(module, arguments, function, logits):
    images = logits.reshape(2, 3, 4).movedim(-1, 1)
    loss = module(**arguments, reduction="none")(images, LABELS.reshape(2, 3))
    assert_close(loss, function(logits, LABELS).reshape(2, 3))


@pytest.mark.parametrize("module", [BrierLoss, ProperFocalLoss])
def test_soft_targets(module, logits):
    soft = torch.nn.functional.one_hot(LABELS, 4).double()
    assert_close(module()(logits, soft), module()(logits, LABELS))


def test_dual_focal_loss_refuses_soft_targets(logits):
    with pytest.raises(ValueError, match="`labels` must be class indices, as one class"):
        DualFocalLoss()(logits, logits.softmax(-1))


@pytest.mark.parametrize(
    ("weighted", "penalty"), [(False, losses.mmce), (True, losses.weighted_mmce)]
)
def test_mmce_is_added_to_cross_entropy(weighted, penalty, logits):
    cross_entropy = torch.nn.functional.cross_entropy(logits, LABELS)
    want = cross_entropy + 8.0 * penalty(logits, LABELS, kernel_width=0.2)
    loss = MMCELoss(8.0, weighted=weighted, kernel_width=0.2)
    assert_close(loss(logits, LABELS), want)
    assert_close(MMCELoss()(logits, LABELS), cross_entropy + 2.0 * losses.mmce(logits, LABELS))


def test_mmce_needs_a_batch(logits):
    with pytest.raises(ValueError, match=r"`logits` must be \[N, K\] with class indices \[N\]"):
        MMCELoss()(logits, logits.softmax(-1))
    with pytest.raises(ValueError, match=r"`labels` must lie in \[0, 3\]"):
        MMCELoss()(logits, torch.full((6,), -100))


@pytest.mark.parametrize("alpha", [None, 0.25])
def test_sigmoid_focal_loss_reduces_over_all_labels(alpha, logits):
    labels = (logits + 0.5 > 0).double()
    entries = losses.sigmoid_focal_loss(logits, labels, gamma=1.5, alpha=alpha)
    assert_close(SigmoidFocalLoss(1.5, alpha, reduction="none")(logits, labels), entries)
    assert_close(SigmoidFocalLoss(1.5, alpha, reduction="sum")(logits, labels), entries.sum())
    assert_close(SigmoidFocalLoss(1.5, alpha)(logits, labels), entries.mean())


def test_sigmoid_focal_loss_of_exponent_0_is_binary_cross_entropy(logits):
    labels = (logits > 0.5).double()
    want = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
    assert_close(SigmoidFocalLoss(0.0, None)(logits, labels), want)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: DualFocalLoss(-1.0), "`gamma` must be a finite number >= 0, got -1.0"),
        (lambda: ProperFocalLoss(reduction="avg"), "`reduction` must be one of mean, sum, none"),
        (lambda: MMCELoss(0.0), "`lambda_` must be a finite number > 0, got 0.0"),
        (lambda: MMCELoss(kernel_width=-1.0), "`kernel_width` must be a finite number > 0"),
        (lambda: SigmoidFocalLoss(alpha=2.0), r"`alpha` must be a number in \[0, 1\], got 2.0"),
        (lambda: BrierLoss(label_smoothing=-0.1), r"`label_smoothing` must be .* got -0.1"),
    ],
)
def test_bad_arguments_are_refused(build, text):
    with pytest.raises(ValueError, match=text):
        build()


@pytest.mark.parametrize("module", [BrierLoss(), DualFocalLoss(), ProperFocalLoss(), MMCELoss()])
def test_nan_logits_are_refused(module):
    with pytest.raises(ValueError, match=r"must not contain nan or \+inf, but row 0 contains nan"):
        module(torch.tensor([[torch.nan, 0.0]]), torch.tensor([0]))


def test_reprs_show_the_arguments():
    assert repr(MMCELoss(8.0)) == "MMCELoss(lambda_=8.0, weighted=False, kernel_width=0.4)"
    assert repr(SigmoidFocalLoss()) == "SigmoidFocalLoss(gamma=2.0, alpha=0.25, reduction=mean)"
    assert repr(BrierLoss()) == (
        "BrierLoss(ignore_index=-100, label_smoothing=0.0, reduction=mean)"
    )
    for module in (DualFocalLoss, ProperFocalLoss):
        shown = f"{module.__name__}(gamma=3.0, ignore_index=-100, reduction=sum)"
        assert repr(module(3.0, reduction="sum")) == shown


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4, 4), (2, 3, 0)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    "module", [FocalLoss, BrierLoss, DualFocalLoss, ProperFocalLoss, SigmoidFocalLoss]
)
def test_the_loss_of_no_examples_is_torchs(module, reduction, shape):
    logits = torch.zeros(shape, requires_grad=True)
    labels = torch.zeros((shape[0], *shape[2:]), dtype=torch.int64)
    given = torch.zeros(shape) if module is SigmoidFocalLoss else labels
    found = module(reduction=reduction)(logits, given)
    want = cross_entropy(logits, labels, reduction=reduction)
    if reduction == "none" and module is SigmoidFocalLoss:
        want = logits
    assert_close(found, want, equal_nan=True)
    found.sum().backward()
    assert logits.grad.shape == shape


def test_the_penalised_loss_of_no_examples_is_nan():
    assert MMCELoss()(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)).isnan()


@pytest.mark.parametrize(
    "function",
    [losses.focal_loss, losses.cross_entropy, losses.brier_loss, losses.dual_focal_loss],
)
def test_functions_give_no_losses_for_no_examples(function):
    found = function(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    assert found.shape == (0,)
