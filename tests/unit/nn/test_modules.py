import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.testing import assert_close

from focalibrate import losses
from focalibrate.nn import (
    BrierLoss,
    DualFocalLoss,
    FocalLoss,
    MMCELoss,
    NamedLoss,
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
        (
            lambda: SigmoidFocalLoss(alpha=2.0),
            r"`alpha` must be in \[0, 1\], found 2 to 2\. None means",
        ),
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


@pytest.mark.parametrize(
    ("logits", "labels", "name"),
    [
        (torch.zeros(3, 4), np.array([0, 1, 2]), "labels"),
        (np.zeros((3, 4)), torch.tensor([0, 1, 2]), "logits"),
        (torch.zeros(3, 4), [0, 1, 2], "labels"),
    ],
)
def test_what_is_no_tensor_is_refused_with_the_line_that_makes_it_one(logits, labels, name):
    with pytest.raises(ValueError, match=rf"`{name}` must be a torch tensor.*as_tensor\({name}\)"):
        BrierLoss()(logits, labels)


def test_a_label_is_ignored_only_where_there_is_an_index_for_that():
    with pytest.raises(ValueError, match=r"`labels` must lie in \[0, 3\] .* found \[-100, 1\]"):
        MMCELoss()(torch.randn(2, 4), torch.tensor([1, -100]))
    losses_of_rows = BrierLoss(ignore_index=1, reduction="none")(
        torch.zeros(3, 4), torch.tensor([0, 3, 2])
    )
    assert (losses_of_rows > 0).all()


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


def of_torchvision(z, y, alpha, gamma):
    """The formula of torchvision, optax and Keras, for hard and soft labels."""
    p = torch.sigmoid(z)
    p_t = p * y + (1 - p) * (1 - y)
    loss = binary_cross_entropy_with_logits(z, y, reduction="none") * (1 - p_t) ** gamma
    return loss if alpha is None else (alpha * y + (1 - alpha) * (1 - y)) * loss


@pytest.mark.parametrize("alpha", [None, 0.25, [0.1, 0.5, 0.9]])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_sigmoid_focal_loss_with_soft_labels_in_the_form_of_other_libraries(alpha, gamma):
    z = 3 * torch.randn(20, 3, dtype=torch.float64, requires_grad=True)
    soft = torch.rand(20, 3, dtype=torch.float64)
    a = None if alpha is None else torch.tensor(alpha, dtype=torch.float64)
    ours = SigmoidFocalLoss(gamma, alpha, soft_labels="p_t", reduction="none")
    for y in (soft, soft.round()):
        want = of_torchvision(z, y, a, gamma)
        assert_close(ours(z, y), want)
        grads = [torch.autograd.grad(x.sum(), z)[0] for x in (ours(z, y), want)]
        assert_close(*grads)
    hard = SigmoidFocalLoss(gamma, alpha, reduction="none")
    assert_close(hard(z, soft.round()), ours(z, soft.round()))


def test_sigmoid_focal_loss_of_exponent_0_has_the_weights_of_torch():
    z, y = torch.randn(8, 3), torch.rand(8, 3).round()
    pos, weight, each = (
        torch.tensor([1.0, 2.0, 5.0]),
        torch.tensor([1.0, 0.5, 2.0]),
        torch.rand(8, 3),
    )
    ours = SigmoidFocalLoss(0.0, None, pos_weight=pos, weight=weight.tolist())
    theirs = nn.BCEWithLogitsLoss(pos_weight=pos, weight=weight)
    assert_close(ours(z, y), theirs(z, y))
    theirs = nn.BCEWithLogitsLoss(pos_weight=pos, weight=weight * each)
    assert_close(ours(z, y, weight=each), theirs(z, y))
    assert_close(ours(z, y, normaliser=7.0), ours(z, y) * z.numel() / 7.0)


def test_sigmoid_focal_loss_leaves_out_ignored_labels_and_their_gradient():
    z = torch.tensor([[0.5, float("nan")], [1.0, -2.0]], requires_grad=True)
    y = torch.tensor([[1, -1], [0, 1]])
    kept = y >= 0
    loss = SigmoidFocalLoss(ignore_index=-1)(z, y)
    assert_close(loss, SigmoidFocalLoss()(z[kept], y[kept]))
    each = SigmoidFocalLoss(ignore_index=-1, reduction="none")(z, y)
    assert_close(each[kept], SigmoidFocalLoss(reduction="none")(z[kept], y[kept]))
    assert each[0, 1] == 0
    assert_close(SigmoidFocalLoss(ignore_index=-1, reduction="sum")(z, y), each.sum())
    loss.backward()
    assert z.grad[0, 1] == 0
    assert torch.isfinite(z.grad).all()


def test_sigmoid_recovery_undoes_weights_per_class():
    alpha, pos = torch.tensor([0.25, 0.5]), torch.tensor([1.0, 4.0])
    loss = SigmoidFocalLoss(2.0, alpha, pos_weight=pos, reduction="none")
    truth = torch.tensor([[0.3, 0.8]], dtype=torch.float64)
    z = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([z], max_iter=200, tolerance_grad=1e-12, tolerance_change=0)

    def risk():
        optimiser.zero_grad()
        one, zero = (loss(z, torch.full_like(z, label)) for label in (1.0, 0.0))
        value = (truth * one + (1 - truth) * zero).sum()
        value.backward()
        return value

    optimiser.step(risk)
    assert_close(loss.recovery().probs(z.detach()), truth, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"alpha": 1.5},
        {"pos_weight": -1.0},
        {"weight": [1.0, -0.1]},
        {"weight": [1.0, float("inf")]},
        {"pos_weight": float("nan")},
    ],
    ids=str,
)
def test_sigmoid_focal_loss_refuses_weights_out_of_range(arguments):
    with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` must (be|hold)"):
        SigmoidFocalLoss(**arguments)
    with pytest.raises(ValueError, match="`normaliser` must be a finite number > 0, got -3"):
        SigmoidFocalLoss()(torch.zeros(1), torch.ones(1), normaliser=-3.0)
    with pytest.raises(ValueError, match=r"finite number > 0, got 0.*max\(1, n_objects\)"):
        SigmoidFocalLoss()(torch.zeros(1), torch.ones(1), normaliser=torch.tensor(0))
    for shape in ((2,), (5, 2, 3)):
        with pytest.raises(ValueError, match=r"`weight` must broadcast with `logits`, \(2, 3\)"):
            SigmoidFocalLoss()(torch.zeros(2, 3), torch.ones(2, 3), weight=torch.ones(shape))
    with pytest.raises(ValueError, match="`normaliser` must be left out"):
        SigmoidFocalLoss(reduction="sum")(torch.zeros(1), torch.ones(1), normaliser=2.0)


@pytest.mark.parametrize(
    "module",
    [
        FocalLoss(2.0, weight=[1.0, 2.0, 3.0, 0.5]),
        FocalLoss(0.0, weight=[1.0, 2.0, 3.0, 0.5]),
        FocalLoss(2.0, label_smoothing=0.1),
        FocalLoss("flsd-53"),
        BrierLoss(),
        NamedLoss("bsce", beta=1.0),
    ],
    ids=str,
)
def test_whole_row_weights_are_repeated_rows(module, logits):
    times = torch.tensor([1, 0, 2, 3, 1, 1])
    repeated = module(logits.repeat_interleave(times, 0), LABELS.repeat_interleave(times))
    assert_close(module(logits, LABELS, sample_weight=times), repeated)
    with pytest.raises(ValueError, match="finite and >= 0"):
        module(logits, LABELS, sample_weight=-times)
    assert_close(module(logits, LABELS, sample_weight=times.tolist()), repeated)


def test_class_weights_as_a_list_and_as_alpha(logits):
    weight = [1.0, 2.0, 3.0, 0.5]
    want = FocalLoss(2.0, weight=torch.tensor(weight))(logits, LABELS)
    assert_close(FocalLoss(2.0, weight=weight)(logits, LABELS), want)
    assert_close(FocalLoss(2.0, alpha=weight)(logits, LABELS), want)
    function = losses.focal_loss(logits, LABELS, weight=weight).sum()
    assert_close(FocalLoss(2.0, alpha=weight, reduction="sum")(logits, LABELS), function)
    two = FocalLoss(2.0, alpha=0.25)
    assert_close(two.weight, torch.tensor([0.75, 0.25]))
    with pytest.raises(ValueError, match="must not be given together"):
        FocalLoss(alpha=0.25, weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="`alpha` must hold finite numbers >= 0"):
        FocalLoss(alpha=[1.0, -2.0])
    with pytest.raises(ValueError, match="`weight` must hold finite numbers >= 0"):
        FocalLoss(weight=[1.0, float("inf")])
    with pytest.raises(ValueError, match=r"`alpha` must .* one entry per class, shape \(4,\)"):
        FocalLoss(alpha=0.25)(logits, LABELS)
    with pytest.raises(ValueError, match=r"`alpha` must be a number in \[0, 1\], got 1.5"):
        FocalLoss(alpha=1.5)
    with pytest.raises(ValueError, match="`weight` must hold finite numbers >= 0"):
        losses.focal_loss(logits, LABELS, weight=[1.0, 1.0, 1.0, -1.0])


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_class_indices_with_a_channel_axis(gamma):
    z, y = torch.randn(2, 3, 4, 5), torch.randint(3, (2, 4, 5))
    loss = FocalLoss(gamma)
    for labels in (y[:, None], y[:, None].float()):
        assert_close(loss(z, labels), loss(z, y))
    with pytest.raises(ValueError, match="integer class indices"):
        loss(z, y[:, None] + 0.5)


def test_every_loss_says_its_way_back(logits):
    for module in (BrierLoss(), ProperFocalLoss(2.0), FocalLoss(0.0)):
        assert_close(module.recovery().probs(logits), logits.softmax(1))
    named = NamedLoss("bsce", beta=1.0)
    assert_close(named.recovery().probs(logits), named.recover(logits))
    for module in (DualFocalLoss(), MMCELoss()):
        with pytest.raises(ValueError, match="has no posterior recovery"):
            module.recovery()
