import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from focalibrate.losses import BySample, focal_loss
from focalibrate.losses.policy import SignedSteps
from focalibrate.nn.focal import FocalLoss, FusedFocal, focal_rows

SIGNED = SignedSteps((0.1, 0.4, 0.8), (-2.0, 0.3, -0.2, 5.0))
GAMMAS = [0.03, 0.5, 1.0, 2.0, 5.0, BySample((0.2, 0.6), (5.0, 0.0, 0.5)), SIGNED]
SCALES = [1e-3, 1.0, 5.0, 30.0, 200.0, 1e4]
TOLERANCE = {torch.float64: 2e-13, torch.float32: 1e-5}


def batch(n, k, *, scale=1.0, shift=0.0, dtype=torch.float64, seed=0):
    rng = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(n, k, generator=rng, dtype=torch.float64) + shift
    labels = torch.randint(k, (n,), generator=rng)
    return logits.to(dtype).requires_grad_(), labels


def value_and_gradient(logits, labels, gamma, function):
    value = function(logits, labels, gamma=gamma)
    cotangent = torch.linspace(0.5, 2.0, len(value), dtype=value.dtype)
    return value, torch.autograd.grad(value, logits, cotangent)[0]


def assert_agrees(logits, labels, gamma):
    got = value_and_gradient(logits, labels, gamma, focal_rows)
    # The plain formula rounds at the size of the logits, so they are centred for it, exactly.
    exact = logits.detach().double()
    exact = (exact - exact.amax(dim=-1, keepdim=True)).requires_grad_()
    want = value_and_gradient(exact, labels, gamma, focal_loss)
    # Below the smallest normal number there are no relative errors to speak of.
    atol = 10 * torch.finfo(logits.dtype).tiny
    for ours, theirs in zip(got, want, strict=True):
        assert_close(ours.double(), theirs, rtol=TOLERANCE[logits.dtype], atol=atol)


@pytest.mark.parametrize("gamma", GAMMAS, ids=str)
@pytest.mark.parametrize("scale", SCALES)
def test_value_and_gradient_equal_the_plain_formula(gamma, scale):
    for k in (2, 3, 100):
        for dtype in (torch.float32, torch.float64):
            assert_agrees(*batch(40, k, scale=scale, dtype=dtype), gamma)


@pytest.mark.parametrize("gamma", GAMMAS, ids=str)
def test_a_common_shift_of_the_logits_harms_neither(gamma):
    for shift in (-1e4, -300.0, -30.0, -3.0, 40.0, 60.0, 300.0, 1e4):
        assert_agrees(*batch(40, 10, scale=4.0, shift=shift), gamma)


@pytest.mark.parametrize("gamma", [0.03, 0.5, 2.0])
def test_saturated_rows_keep_their_digits_in_float32(gamma):
    for margin in (-1e4, -100.0, -60.0, 10.0, 30.0, 60.0, 80.0, 1e4):
        logits = torch.tensor([[margin, 0.0], [margin - 5.0, -5.0]], requires_grad=True)
        assert_agrees(logits, torch.tensor([0, 0]), gamma)


@given(
    rows=st.lists(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=3), min_size=1, max_size=5),
    label=st.integers(0, 2),
    gamma=st.floats(0.01, 10.0),
)
def test_everything_is_finite_in_float32(rows, label, gamma):
    logits = torch.tensor(rows, requires_grad=True)
    value, gradient = value_and_gradient(
        logits, torch.full((len(rows),), label), gamma, focal_rows
    )
    assert torch.isfinite(value).all()
    assert torch.isfinite(gradient).all()
    assert_close(gradient.sum(dim=-1), torch.zeros(len(rows)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[::2, 1::3], lambda x: x.flip(0)])
def test_input_need_not_be_contiguous(view):
    base = batch(12, 12, scale=3.0)[0].detach()
    logits = view(base).requires_grad_()
    labels = torch.arange(len(logits)) % logits.shape[1]
    want = value_and_gradient(
        logits.detach().contiguous().requires_grad_(), labels, 2.0, focal_rows
    )
    assert_close(value_and_gradient(logits, labels, 2.0, focal_rows), want)


def test_expanded_input():
    row = torch.randn(1, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(5)
    (got,) = torch.autograd.grad(focal_rows(row.expand(5, 5), labels, 2.0).sum(), row)
    (want,) = torch.autograd.grad(focal_loss(row.expand(5, 5), labels, gamma=2.0).sum(), row)
    assert_close(got, want)


def test_input_is_left_alone():
    logits, labels = batch(6, 4)
    before = logits.detach().clone()
    torch.autograd.grad(focal_rows(logits, labels, 2.0).sum(), logits)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_a_retained_graph_gives_the_same_gradient_again(scale):
    # Backward spends the array of forward; the second must not see what is left of it.
    logits, labels = batch(6, 4, scale=scale)
    loss = focal_rows(logits, labels, 0.5).sum()
    first = torch.autograd.grad(loss, logits, retain_graph=True)[0].clone()
    second = torch.autograd.grad(loss, logits, retain_graph=True)[0]
    third = torch.autograd.grad(loss, logits, create_graph=True)[0]
    assert_close(second, first, rtol=0, atol=0)
    assert_close(third, first)


def test_gradients_accumulate_over_batches():
    logits, labels = batch(6, 4)
    for _ in range(2):
        focal_rows(logits, labels, 2.0).sum().backward()
    once = torch.autograd.grad(focal_loss(logits, labels, gamma=2.0).sum(), logits)[0]
    assert_close(logits.grad, 2 * once)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, BySample((0.5,), (3.0, 0.5)), SIGNED], ids=str)
def test_first_and_second_derivatives_by_finite_differences(gamma):
    logits, labels = batch(3, 4, scale=2.0, seed=1)

    def mean(z):
        return focal_rows(z, labels, gamma).mean()

    assert torch.autograd.gradcheck(mean, logits)
    assert torch.autograd.gradgradcheck(mean, logits)


def test_value_alone_keeps_nothing():
    logits, labels = batch(6, 4)
    with torch.no_grad():
        assert not focal_rows(logits, labels, 2.0).requires_grad
    kept = focal_rows(logits, labels, 2.0)
    assert type(kept.grad_fn).__name__ == f"{FusedFocal.__name__}Backward"


def test_backward_adds_no_array_of_the_size_of_the_logits():
    logits, labels = batch(64, 1000, dtype=torch.float32)
    loss = focal_rows(logits, labels, 2.0).sum()
    kept = loss.grad_fn.next_functions[0][0].others.data_ptr()
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient.data_ptr() == kept


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_no_subnormal_numbers_are_kept(dtype):
    # Arithmetic on them is a hundred times slower, as cross-entropy of such logits shows.
    tiny = torch.finfo(dtype).tiny
    gaps = torch.linspace(-1.2, 0.0, 997, dtype=dtype) * -torch.tensor(tiny, dtype=dtype).log()
    logits = (200.0 + gaps)[None].requires_grad_()
    kept = focal_rows(logits, torch.tensor([500]), 2.0).grad_fn.others
    assert kept.eq(0).any()
    assert kept[kept > 0].min() >= tiny


def test_answers_do_not_vary_from_run_to_run():
    logits, labels = batch(200, 50, dtype=torch.float32)
    runs = [value_and_gradient(logits, labels, 2.0, focal_rows) for _ in range(3)]
    for run in runs[1:]:
        assert torch.equal(run[0], runs[0][0])
        assert torch.equal(run[1], runs[0][1])


def test_devices_whose_values_cannot_be_read_are_served():
    logits = torch.empty(6, 4, device="meta", requires_grad=True)
    loss = FocalLoss("flsd-53")(logits, torch.empty(6, dtype=torch.int64, device="meta"))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient.shape == (6, 4)


def test_formula_without_reading_values_is_the_same(monkeypatch):
    logits, labels = batch(40, 10, scale=10.0)
    want = value_and_gradient(logits, labels, 0.5, focal_rows)
    monkeypatch.setattr("focalibrate.nn.focal.can_look", lambda _: False)
    assert_close(
        value_and_gradient(logits, labels, 0.5, focal_rows), want, rtol=1e-12, atol=1e-300
    )
