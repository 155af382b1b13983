import copy
import io
import itertools

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from focalibrate.calibrate import PosteriorRecovery
from focalibrate.losses import ByEpoch, BySample, focal_loss
from focalibrate.nn import FocalLoss

REDUCTIONS = ["mean", "sum", "none"]
SHAPES = [(6, 4), (4,), (5, 4, 3), (2, 4, 3, 2)]
N_CLASSES = 4


def example(shape, *, kind="index", dtype=torch.float64, seed=0):
    rng = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(shape, generator=rng, dtype=dtype)
    axis = min(1, len(shape) - 1)
    if kind == "soft":
        labels = torch.randn(shape, generator=rng, dtype=dtype).softmax(axis)
    else:
        labels = torch.randint(N_CLASSES, shape[:axis] + shape[axis + 1 :], generator=rng)
    if kind == "ignored" and labels.ndim:
        labels.view(-1)[::3] = -100
    return logits.requires_grad_(), labels


def value_and_gradient(loss, logits, labels):
    value = loss(logits, labels)
    return value, torch.autograd.grad(value.sum(), logits)[0]


def shared_arguments(last_weight):
    """Every combination of what `FocalLoss` shares with torch's cross-entropy."""
    weight = torch.tensor([0.5, 1.0, 2.0, last_weight]).double()
    for reduction, smoothing, given in itertools.product(REDUCTIONS, [0.0, 0.1], [None, weight]):
        yield {"weight": given, "label_smoothing": smoothing, "reduction": reduction}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["index", "soft", "ignored"])
def test_exponent_0_is_cross_entropy_in_every_shared_argument(shape, kind):
    logits, labels = example(shape, kind=kind)
    for arguments in shared_arguments(last_weight=0.0):
        want = value_and_gradient(nn.CrossEntropyLoss(**arguments), logits, labels)
        got = value_and_gradient(FocalLoss(0.0, **arguments), logits, labels)
        assert_close(got, want, rtol=0, atol=0, msg=lambda m, x=arguments: f"{x}: {m}")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["index", "soft", "ignored"])
def test_reductions_weights_and_ignored_rows_follow_cross_entropy(shape, kind):
    # An exponent that no longer matters: (1 - p)^1e-14 is 1, but the code is that of gamma > 0.
    logits, labels = example(shape, kind=kind)
    for arguments in shared_arguments(last_weight=0.3):
        want = value_and_gradient(nn.CrossEntropyLoss(**arguments), logits, labels)
        got = value_and_gradient(FocalLoss(1e-14, **arguments), logits, labels)
        assert_close(got, want, rtol=1e-11, atol=1e-12, msg=lambda m, x=arguments: f"{x}: {m}")


@pytest.mark.parametrize("gamma", [0.0, 2.0])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("labels", [[2, 2, 2], [2, 0, 2]])
def test_a_class_can_be_ignored(gamma, reduction, labels):
    logits, labels = example((3, 4))[0].detach(), torch.tensor(labels)
    loss = FocalLoss(gamma, ignore_index=2, reduction=reduction)(logits, labels)
    if gamma == 0.0:
        want = nn.CrossEntropyLoss(ignore_index=2, reduction=reduction)(logits, labels)
    else:
        rows = focal_loss(logits, labels, gamma=gamma) * (labels != 2)
        want = {"none": rows, "sum": rows.sum(), "mean": rows.sum() / (labels != 2).sum()}
        want = want[reduction]
    assert_close(loss, want, equal_nan=True)


@pytest.mark.parametrize("gamma", [0.0, 2.0, "flsd-53"])
def test_a_batch_without_counting_rows_gives_what_torch_gives(gamma):
    logits, labels = torch.zeros(3, 4), torch.full((3,), -100)
    assert torch.isnan(FocalLoss(gamma)(logits, labels))
    assert FocalLoss(gamma, reduction="sum")(logits, labels) == 0.0
    assert FocalLoss(gamma, reduction="none")(logits, labels).tolist() == [0.0, 0.0, 0.0]


def test_padding_rows_may_hold_anything():
    logits, labels = example((4, 4), kind="ignored")
    want = FocalLoss(2.0, label_smoothing=0.1)(logits, labels)
    padded = logits.detach().clone()
    padded[labels == -100] = torch.nan
    assert_close(FocalLoss(2.0, label_smoothing=0.1)(padded, labels), want)
    assert_close(FocalLoss(2.0)(padded, labels), FocalLoss(2.0)(logits, labels))


@pytest.mark.parametrize("gamma", [2.0, 0.5, "flsd-53", "flsd-532", BySample((0.3,), (4.0, 0.0))])
def test_weighted_mean_divides_by_the_weight_of_the_rows_that_count(gamma):
    logits, labels = example((8, 4), kind="ignored")
    weight = torch.tensor([0.5, 1.0, 2.0, 3.0]).double()
    counts = labels != -100
    rows = focal_loss(logits[counts], labels[counts], gamma=gamma)
    share = weight[labels[counts]]
    loss = FocalLoss(gamma, weight=weight)
    assert_close(loss(logits, labels), (rows * share).sum() / share.sum())


def test_soft_one_hot_targets_equal_class_indices():
    logits, labels = example((6, 4))
    soft = nn.functional.one_hot(labels, 4).double()
    assert_close(FocalLoss(2.0)(logits, soft), FocalLoss(2.0)(logits, labels))


def test_int32_labels_and_float32_weights_serve():
    logits, labels = example((6, 4))
    weight = torch.tensor([0.5, 1.0, 2.0, 3.0])
    for gamma in (0.0, 2.0):
        want = FocalLoss(gamma, weight=weight.double())(logits, labels)
        assert_close(FocalLoss(gamma, weight=weight)(logits, labels.int()), want)


def test_logits_masked_to_minus_infinity():
    logits = torch.tensor([[1.0, -torch.inf, 0.0], [-torch.inf, 3.0, -torch.inf]])
    logits.requires_grad_()
    value, gradient = value_and_gradient(
        FocalLoss(2.0, reduction="none"), logits, torch.tensor([0, 1])
    )
    assert_close(value, torch.tensor([0.022658, 0.0]), rtol=1e-4, atol=0)
    assert torch.isfinite(gradient).all()
    assert gradient[:, [1]].eq(0).all()
    impossible = FocalLoss(2.0)(logits[:1], torch.tensor([1]))
    assert impossible == torch.inf  # as cross-entropy


def test_schedule_advances_with_the_epoch():
    logits, labels = example((6, 4))
    loss = FocalLoss("fls-532")
    for epoch, gamma in [(0, 5.0), (9, 5.0), (10, 3.0), (24, 3.0), (25, 2.0)]:
        loss.set_epoch(epoch, 35)
        assert_close(loss(logits, labels), FocalLoss(gamma)(logits, labels))
    with pytest.raises(ValueError, match=r"`epoch` must lie in \[0, n_epochs - 1 = 34\], got 35"):
        loss.set_epoch(35, 35)


def test_schedule_may_end_in_cross_entropy():
    logits, labels = example((6, 4))
    loss = FocalLoss(ByEpoch((3.0, 0.0), (0.5,)))
    loss.set_epoch(9, 10)
    assert loss(logits, labels) == nn.functional.cross_entropy(logits, labels)


def test_schedule_without_epoch_is_refused_with_advice():
    with pytest.raises(ValueError, match=r"Call `loss.set_epoch\(epoch, n_epochs\)` at the start"):
        FocalLoss("fls-532")(torch.zeros(1, 2), torch.tensor([0]))


def test_epoch_means_nothing_to_other_exponents():
    loss = FocalLoss("flsd-53")
    loss.set_epoch(3, 10)
    assert loss.gamma_now == FocalLoss("flsd-53").gamma_now


def test_schedule_survives_a_checkpoint_and_a_copy():
    loss = FocalLoss("fls-532", weight=torch.ones(4))
    loss.set_epoch(12, 35)
    file = io.BytesIO()
    torch.save(nn.Sequential(loss).state_dict(), file)
    file.seek(0)
    restored = nn.Sequential(FocalLoss("fls-532", weight=torch.zeros(4)))
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert restored[0].gamma_now == copy.deepcopy(loss).gamma_now == 3.0
    assert restored[0].weight.tolist() == [1.0] * 4


def test_checkpoint_of_a_schedule_that_never_started_starts_nothing():
    restored = FocalLoss("fls-532")
    restored.load_state_dict(FocalLoss("fls-532").state_dict())
    assert restored.gamma_now is None


def test_copies_keep_their_own_epoch():
    loss = FocalLoss("fls-532")
    twin = copy.deepcopy(loss)
    loss.set_epoch(0, 35)
    twin.load_state_dict(loss.state_dict())
    twin.set_epoch(30, 35)
    assert (loss.gamma_now, twin.gamma_now) == (5.0, 2.0)
    assert loss.progress.tolist() == [0, 35]


def test_state_of_a_fixed_exponent_is_that_of_cross_entropy():
    weight = torch.rand(4)
    state = nn.CrossEntropyLoss(weight=weight).state_dict()
    loss = FocalLoss(2.0, weight=torch.zeros(4))
    loss.load_state_dict(state)
    assert_close(loss.weight, weight)
    assert FocalLoss(2.0).state_dict() == {}


def test_repr_shows_the_arguments():
    assert repr(FocalLoss(2.0, weight=torch.ones(3), reduction="sum")) == (
        "FocalLoss(gamma=2.0, weight=[3 classes], ignore_index=-100, label_smoothing=0.0, "
        "reduction=sum)"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"gamma": -1.0}, "`gamma` must be a finite number >= 0, got -1.0"),
        ({"gamma": float("nan")}, "`gamma` must be a finite number >= 0, got nan"),
        ({"gamma": "flsd-54"}, "`gamma` must be a number or one of flsd-53, .* got 'flsd-54'"),
        ({"reduction": "avg"}, "`reduction` must be one of mean, sum, none; got 'avg'"),
        ({"label_smoothing": 1.5}, r"`label_smoothing` must be a number in \[0, 1\], got 1.5"),
    ],
)
def test_bad_arguments_are_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        FocalLoss(**arguments)


@pytest.mark.parametrize("gamma", [0.0, 2.0])
@pytest.mark.parametrize(
    ("logits", "labels", "text"),
    [
        (torch.zeros(2, 3), [0, 3], r"must lie in \[0, 2\] for 3 classes, found \[0, 3\].* row 1"),
        (torch.zeros(2, 3), [0, -1], r"must lie in \[0, 2\] for 3 classes, found \[-1, 0\]"),
        (torch.zeros(2, 3), [-100, 7], r"must lie in \[0, 2\] for 3 classes, found \[0, 7\]"),
        (torch.zeros(2, 3), [0, 1, 2], r"must have shape \(2,\), got \(3,\)\. Pass one label per"),
        (torch.zeros(2, 3), [0.0, 1.0], "must be integer class indices, got dtype torch.float32"),
        (torch.zeros(2, 3), [[1.0, 1, 1]] * 2, "must be probabilities .* off by 2"),
        (torch.zeros(2, 3, 5), [0, 1], r"must have shape \(2, 5\), got \(2,\)"),
        (torch.zeros(0, 3), [1], r"must not be empty, got shape \(0, 3\)"),
        (torch.zeros(2, 1), [0, 0], "at least 2 classes .* use `SigmoidFocalLoss`"),
        (torch.zeros(2, 3).long(), [0, 1], "must be a floating tensor .* got torch.int64"),
        (torch.tensor(0.0), 0, r"must be a floating tensor of shape \[K\] or \[N, K, ...\]"),
        (torch.tensor([[0.0, 0], [torch.nan, 0]]), [0, 0], "nan or .inf, but row 1 contains nan"),
        (torch.tensor([[torch.inf, 0.0]]), [1], "nan or .inf, but row 0 contains inf"),
        (torch.tensor([[-torch.inf, -torch.inf]]), [1], "every entry of row 0 is -inf. Unmask"),
    ],
)
def test_bad_input_is_refused_with_advice(gamma, logits, labels, text):
    labels = torch.tensor(labels) if labels != [] else torch.zeros(0, dtype=torch.int64)
    with pytest.raises(ValueError, match=text):
        FocalLoss(gamma)(logits, labels)


def test_weight_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"`weight` must be .* shape \(4,\), got \(3,\)"):
        FocalLoss(2.0, weight=torch.ones(3))(torch.zeros(2, 4), torch.tensor([0, 1]))


def test_soft_targets_cannot_be_ignored():
    with pytest.raises(ValueError, match="`ignore_index` must be negative for soft targets"):
        FocalLoss(2.0, ignore_index=1)(torch.zeros(1, 2), torch.tensor([[0.5, 0.5]]))


def test_the_recovery_has_the_exponent_of_the_loss():
    assert FocalLoss(2.5).recovery() == PosteriorRecovery(gamma=2.5)
    scheduled = FocalLoss("fls-532")
    scheduled.set_epoch(349, 350)
    assert scheduled.recovery() == PosteriorRecovery(gamma=2.0)
    for policy in ("flsd-53", "adafocal"):
        with pytest.raises(ValueError, match=r"`gamma` must be one number .* Fit a calibrator on"):
            FocalLoss(policy).recovery()


def test_the_recovery_has_the_weights_and_the_smoothing_of_the_loss():
    weight = torch.tensor([1.0, 4.0, 0.5], dtype=torch.float64)
    loss = FocalLoss(2.0, weight=weight, label_smoothing=0.1, reduction="none")
    truth = torch.tensor([0.6, 0.1, 0.3], dtype=torch.float64)
    z = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [z],
        max_iter=500,
        tolerance_grad=1e-13,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimiser.zero_grad()
        risk = truth @ loss(z.expand(3, 3), torch.arange(3))
        risk.backward()
        return risk

    optimiser.step(closure)
    found = loss.recovery().probs(z.detach()[None])[0]
    assert torch.allclose(found, truth, atol=1e-6)
