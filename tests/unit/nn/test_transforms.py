"""Every module under autocast, `torch.func`, forward-mode autograd and `torch.compile`."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap
from torch.testing import assert_close

from focalibrate.losses import AdaFocal
from focalibrate.nn import (
    BrierLoss,
    DualFocalLoss,
    FocalLoss,
    MMCELoss,
    ProperFocalLoss,
    SigmoidFocalLoss,
)

# torch's own transforms and compiler still call its deprecated `torch.jit`.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

WEIGHT = torch.tensor([0.5, 1.0, 2.0])
MODULES = {
    "focal": FocalLoss(2.0),
    "focal, 0.5": FocalLoss(0.5),
    "cross-entropy": FocalLoss(0.0),
    "flsd-53, weighted": FocalLoss("flsd-53", weight=WEIGHT),
    "adafocal": FocalLoss(AdaFocal(4, cuts=(0.1, 0.4, 0.8), gammas=(-2.0, 0.3, -0.2, 5.0))),
    "smoothed": FocalLoss(2.0, label_smoothing=0.1),
    "Brier": BrierLoss(),
    "dual": DualFocalLoss(2.0),
    "proper": ProperFocalLoss(2.0),
    "MMCE": MMCELoss(),
    "weighted MMCE": MMCELoss(weighted=True),
    "sigmoid": SigmoidFocalLoss(),
}


@pytest.fixture(params=list(MODULES))
def loss(request):
    return MODULES[request.param]


def batch(loss, dtype=torch.float64):
    rng = torch.Generator().manual_seed(3)
    logits = 1.5 * torch.randn(4, 3, generator=rng, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 2])
    if isinstance(loss, SigmoidFocalLoss):
        labels = torch.nn.functional.one_hot(labels, 3)
    return logits.to(dtype), labels


def plain_focal(logits, labels, gamma):
    """The textbook formula, which is exact enough in float64 far from saturation."""
    p = logits.softmax(-1).gather(1, labels[:, None])[:, 0]
    return -((1 - p) ** gamma) * p.log()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_in_half_precision_out(loss, dtype):
    logits, labels = batch(loss, dtype)
    logits.requires_grad_()
    value = loss(logits, labels)
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.dtype == gradient.dtype == dtype
    exact = logits.detach().float().requires_grad_()
    want = loss(exact, labels)
    assert_close(value.float(), want, rtol=1e-2, atol=0)
    assert_close(gradient.float(), torch.autograd.grad(want, exact)[0], rtol=2e-2, atol=1e-3)


def test_autocast_gives_float32_as_cross_entropy_does(loss):
    logits, labels = batch(loss, torch.bfloat16)
    logits.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(logits, labels)
    assert value.dtype == torch.float32
    assert_close(value, loss(logits.float(), labels))
    (gradient,) = torch.autograd.grad(value, logits)
    assert gradient.dtype == torch.bfloat16
    assert torch.isfinite(gradient).all()


def test_a_linear_model_trains_under_autocast(loss):
    model = torch.nn.Linear(5, 3)
    inputs, labels = torch.randn(4, 5), batch(loss)[1]
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(model(inputs), labels)
    value.backward()
    assert torch.isfinite(model.weight.grad).all()
    assert model.weight.grad.any()


def test_func_grad_equals_backward(loss):
    logits, labels = batch(loss)
    leaf = logits.clone().requires_grad_()
    (want,) = torch.autograd.grad(loss(leaf, labels), leaf)
    assert_close(grad(loss)(logits, labels), want)
    assert_close(jacrev(loss)(logits, labels), want)


@pytest.mark.slow
def test_forward_mode_is_the_gradient_along_the_tangent(loss):
    logits, labels = batch(loss)
    tangent = torch.randn(
        logits.shape, dtype=logits.dtype, generator=torch.Generator().manual_seed(1)
    )
    want = (grad(loss)(logits, labels) * tangent).sum()
    value, slope = jvp(lambda z: loss(z, labels), (logits,), (tangent,))
    assert_close(value, loss(logits, labels))
    assert_close(slope, want)
    with forward_ad.dual_level():
        dual = loss(forward_ad.make_dual(logits, tangent), labels)
        assert_close(forward_ad.unpack_dual(dual).tangent, want)


@pytest.mark.slow
def test_vmap_over_batches(loss):
    logits, labels = batch(loss)
    logits, labels = torch.stack([logits, -logits]), torch.stack([labels, labels.flip(0)])
    want = torch.stack([loss(z, y) for z, y in zip(logits, labels, strict=True)])
    assert_close(vmap(loss)(logits, labels), want)
    assert_close(vmap(loss, in_dims=(0, None))(logits, labels[0])[0], want[0])
    assert_close(vmap(grad(loss))(logits, labels)[1], grad(loss)(logits[1], labels[1]))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0, "flsd-53"])
def test_per_sample_gradients(gamma):
    loss = FocalLoss(gamma)
    model = torch.nn.Linear(5, 3).double()
    inputs = torch.randn(4, 5, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 2])

    def of_one(parameters, x, y):
        return loss(functional_call(model, parameters, (x,)), y)

    parameters = {name: p.detach() for name, p in model.named_parameters()}
    got = vmap(grad(of_one), in_dims=(None, 0, 0))(parameters, inputs, labels)
    for i in range(4):
        model.zero_grad()
        loss(model(inputs[i]), labels[i]).backward()
        assert_close(got["weight"][i], model.weight.grad)


def test_ignored_rows_under_vmap():
    logits, labels = batch(None)
    labels[1] = -100
    stacked = vmap(FocalLoss(2.0))(torch.stack([logits, logits]), torch.stack([labels, labels]))
    assert_close(stacked[0], FocalLoss(2.0)(logits, labels))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_dense_hessian_of_the_focal_loss(gamma, reduction):
    logits, labels = batch(None)

    def textbook(z):
        rows = plain_focal(z, labels, gamma)
        return rows.mean() if reduction == "mean" else rows.sum()

    loss = FocalLoss(gamma, reduction=reduction)
    want = torch.autograd.functional.hessian(textbook, logits)
    got = torch.autograd.functional.hessian(lambda z: loss(z, labels), logits)
    assert_close(got, want, rtol=1e-9, atol=1e-12)
    assert_close(hessian(loss)(logits, labels), want, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_dense_hessian_by_differences_of_the_gradient(loss):
    logits, labels = batch(loss)
    step = 1e-5

    def slopes(z):
        return grad(loss)(z.reshape(logits.shape), labels).reshape(-1)

    flat = logits.reshape(-1)
    steps = step * torch.eye(flat.numel(), dtype=flat.dtype)
    differences = (vmap(slopes)(flat + steps) - vmap(slopes)(flat - steps)) / (2 * step)
    shape = (flat.numel(), flat.numel())
    got = torch.autograd.functional.hessian(lambda z: loss(z, labels), logits).reshape(shape)
    assert_close(got, differences, rtol=1e-6, atol=1e-8)
    assert_close(hessian(loss)(logits, labels).reshape(shape), got, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.5, 2.0, "flsd-53"])
@pytest.mark.parametrize("scale", [50.0, 1e4])
def test_hessian_of_saturated_rows_is_finite_in_float32(gamma, scale):
    logits, labels = batch(None, torch.float32)
    loss = FocalLoss(gamma)
    curvature = torch.autograd.functional.hessian(lambda z: loss(z, labels), scale * logits)
    assert torch.isfinite(curvature).all()


def test_hessian_vector_product_through_a_model():
    model = torch.nn.Linear(5, 3).double()
    inputs, labels = torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 2])
    vector = torch.randn_like(model.weight)

    def product(loss):
        (slope,) = torch.autograd.grad(
            loss(model(inputs), labels), model.weight, create_graph=True
        )
        return torch.autograd.grad((slope * vector).sum(), model.weight)[0]

    want = product(lambda z, y: plain_focal(z, y, 2.0).mean())
    assert_close(product(FocalLoss(2.0)), want)


@pytest.mark.slow
def test_compiled_whole_with_the_default_backend():
    logits, labels = batch(None, torch.float32)
    logits.requires_grad_()
    labels[1] = -100
    loss = FocalLoss("flsd-53", weight=WEIGHT)
    value = torch.compile(loss, fullgraph=True)(logits, labels)
    assert_close(value, loss(logits, labels))
    (got,) = torch.autograd.grad(value, logits)
    assert_close(got, torch.autograd.grad(loss(logits, labels), logits)[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["cross-entropy", "focal, 0.5", "smoothed", "Brier", "dual", "proper", "MMCE", "sigmoid"],
)
def test_traced_whole(name, monkeypatch):
    # Newton steps are unrolled, and tracing each takes a second: only the last two are left.
    monkeypatch.setattr("focalibrate.theory.minimiser.MAX_STEPS", 0)
    loss = MODULES[name]
    logits, labels = batch(loss)
    logits.requires_grad_()
    # What comes after tracing is torch's own: one loss goes through it, another to the end above.
    backend = "aot_eager" if name == "focal, 0.5" else "eager"
    value = torch.compile(loss, fullgraph=True, backend=backend)(logits, labels)
    assert_close(value, loss(logits, labels))
    (got,) = torch.autograd.grad(value, logits)
    assert_close(got, torch.autograd.grad(loss(logits, labels), logits)[0])


@pytest.mark.slow
def test_compiled_schedule_follows_the_epoch():
    # A float that changes between calls is traced as a symbol, about which less can be asked.
    loss = FocalLoss("fls-532")
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    logits, labels = batch(loss)
    for epoch, gamma in [(0, 5.0), (15, 3.0), (30, 2.0)]:
        loss.set_epoch(epoch, 35)
        assert_close(compiled(logits, labels), FocalLoss(gamma)(logits, labels))
