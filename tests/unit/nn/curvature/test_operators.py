"""Products with the Hessian and the Gauss-Newton matrix, against dense float64 matrices."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from focalibrate.curvature import lambda_max, lambda_min
from focalibrate.nn import (
    BrierLoss,
    DualFocalLoss,
    FocalLoss,
    GGNOperator,
    HessianOperator,
    MMCELoss,
    ProperFocalLoss,
)

LOSSES = {
    "cross_entropy": cross_entropy,
    "focal": FocalLoss(2.0),
    "focal-sum": FocalLoss(0.5, reduction="sum"),
    "focal-none": FocalLoss(2.0, reduction="none"),
    "flsd": FocalLoss("flsd-53"),
    "brier": BrierLoss(),
    "dual": DualFocalLoss(3.0),
    "proper": ProperFocalLoss(1.0),
    "torch": nn.CrossEntropyLoss(label_smoothing=0.1),
}


def mlp(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)


def data(n=23, dtype=torch.float64):
    rng = torch.Generator().manual_seed(1)
    return (
        torch.randn(n, 4, generator=rng, dtype=dtype),
        torch.randint(3, (n,), generator=rng),
    )


def batches_of(x, y, sizes=(10, 10, 3)):
    return list(zip(x.split(sizes), y.split(sizes), strict=True))


def dense(model, mean_loss, x, y):
    """The Hessian of ``mean_loss(logits, y)`` in all parameters, by torch's own double loop."""
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for p in model.parameters()]

    def total(flat):
        parts = flat.split([s.numel() for s in shapes])
        parameters = {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        return mean_loss(functional_call(model, parameters, (x,)), y)

    flat = torch.cat([p.detach().flatten() for p in model.parameters()])
    return torch.autograd.functional.hessian(total, flat).numpy()


def as_matrix(operator):
    return operator.block_matvec(np.eye(operator.size))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_against_the_dense_hessian_with_batches_of_unequal_size(name):
    model, loss, (x, y) = mlp(), LOSSES[name], data()

    def mean_loss(logits, labels):
        value = loss(logits, labels)
        return value.sum() / len(labels) if name in ("focal-sum", "focal-none") else value.mean()

    operator = HessianOperator(model, loss, batches_of(x, y))
    assert operator.size == sum(p.numel() for p in model.parameters())
    assert_allclose(as_matrix(operator), dense(model, mean_loss, x, y), atol=1e-12)
    assert_allclose(operator.loss_value(), mean_loss(model(x), y).item(), rtol=1e-12)
    mean_loss(model(x), y).backward()
    want = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert_allclose(operator.gradient(), want, atol=1e-14)


@pytest.mark.parametrize("loss_class", [FocalLoss, nn.CrossEntropyLoss])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_class_weights_and_ignored_labels_count_as_in_one_batch(loss_class, reduction):
    model, (x, y) = mlp(), data()
    y[[0, 5, 20, 21, 22]] = -100  # the last batch is ignored as a whole
    weight = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    loss = loss_class(weight=weight, reduction=reduction)
    operator = HessianOperator(model, loss, batches_of(x, y))
    want = dense(model, loss_class(weight=weight), x, y)
    assert_allclose(as_matrix(operator), want, atol=1e-12)


def test_matvec_is_a_column_of_the_block():
    x, y = data()
    operator = HessianOperator(mlp(), FocalLoss(1.0), batches_of(x, y))
    V = np.random.default_rng(0).standard_normal((operator.size, 3))
    block = operator.block_matvec(V)
    assert block.dtype == np.float64
    for i in range(3):
        assert_allclose(operator.matvec(V[:, i]), block[:, i], atol=1e-13)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-6)])
@pytest.mark.parametrize("loss", [cross_entropy, FocalLoss(2.0)], ids=["ce", "focal"])
def test_forward_over_reverse_gives_the_same_numbers(loss, dtype, tolerance):
    model, (x, y) = mlp(dtype), data(dtype=dtype)
    operator = HessianOperator(model, loss, [(x, y)])
    own = {name: p.detach() for name, p in model.named_parameters()}
    slope = torch.func.grad(lambda p: loss(functional_call(model, p, (x,)), y))
    v = {name: torch.ones_like(p) for name, p in own.items()}
    product = torch.func.jvp(slope, (own,), (v,))[1]
    want = torch.cat([part.flatten() for part in product.values()]).numpy()
    assert_allclose(operator.matvec(np.ones(operator.size)), want, atol=tolerance)


@pytest.mark.parametrize("names", [["2"], ["0.weight"], ["0.bias", "2.weight"]])
def test_one_layer_is_a_block_of_the_whole(names):
    model, (x, y) = mlp(), data()
    whole = dense(model, cross_entropy, x, y)
    rows = np.concatenate(
        [
            np.full(p.numel(), any(name == n or name.startswith(n + ".") for n in names))
            for name, p in model.named_parameters()
        ]
    )
    operator = HessianOperator(model, cross_entropy, batches_of(x, y), parameters=names)
    assert_allclose(as_matrix(operator), whole[np.ix_(rows, rows)], atol=1e-12)


def test_frozen_parameters_do_not_count():
    model, (x, y) = mlp(), data()
    model[0].requires_grad_(False)
    operator = HessianOperator(model, cross_entropy, batches_of(x, y))
    assert operator.parameter_names == ["2.weight", "2.bias"]


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_gauss_newton_against_its_definition(gamma):
    model, loss, (x, y) = mlp(), FocalLoss(gamma), data()
    names = dict(model.named_parameters())
    want = 0.0
    for xi, yi in zip(x, y, strict=True):
        jacobian = torch.func.jacrev(lambda p, xi=xi: functional_call(model, p, (xi,)))(
            {k: p.detach() for k, p in names.items()}
        )
        J = torch.cat([j.reshape(3, -1) for j in jacobian.values()], dim=1)
        H = torch.autograd.functional.hessian(
            lambda z, yi=yi: loss(z[None], yi[None]), model(xi).detach()
        )
        want = want + J.T @ H @ J / len(x)
    operator = GGNOperator(model, loss, batches_of(x, y))
    assert_allclose(as_matrix(operator), want, atol=1e-12)


def test_gauss_newton_of_a_linear_model_is_the_hessian():
    torch.manual_seed(0)
    model, (x, y) = nn.Linear(4, 3).double(), data()
    batches = batches_of(x, y)
    hessian = as_matrix(HessianOperator(model, FocalLoss(2.0), batches))
    assert_allclose(as_matrix(GGNOperator(model, FocalLoss(2.0), batches)), hessian, atol=1e-13)


def test_float32_and_a_loader():
    x, y = data(dtype=torch.float32)
    loader = DataLoader(TensorDataset(x, y), batch_size=7, shuffle=True)
    model = mlp(torch.float32)
    want = dense(model.double(), cross_entropy, x.double(), y)
    got = as_matrix(HessianOperator(model.float(), cross_entropy, loader))
    assert_allclose(got, want, atol=2e-6)


def test_batch_norm_and_dropout_are_in_eval_mode_and_left_as_they_were():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.GELU(), nn.Linear(5, 3)
    ).double()
    x, y = data()
    model(x)  # running statistics that are not those of the batch
    model.train()
    model[1].eval()
    statistics = model[1].running_mean.clone()
    operator = HessianOperator(model, cross_entropy, batches_of(x, y))
    got = as_matrix(operator)
    assert model.training
    assert model[2].training
    assert not model[1].training
    assert torch.equal(model[1].running_mean, statistics)
    assert_allclose(got, dense(model.eval(), cross_entropy, x, y), atol=1e-12)


def test_convolutions_and_pooling():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)
    ).double()
    x, y = torch.randn(5, 1, 6, 6, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    operator = HessianOperator(model, FocalLoss(1.0), [(x[:2], y[:2]), (x[2:], y[2:])])
    assert_allclose(as_matrix(operator), dense(model, FocalLoss(1.0), x, y), atol=1e-12)


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3).double()

    def forward(self, a, b):
        return self.linear(a) * b


@pytest.mark.parametrize("spread", [lambda a, b: (a, b), lambda a, b: {"b": b, "a": a}])
def test_inputs_of_several_arguments(spread):
    torch.manual_seed(0)
    x, y = data()
    scale = torch.rand(23, 1, dtype=torch.float64)
    model = TwoInputs()
    operator = HessianOperator(model, cross_entropy, [(spread(x, scale), y)])
    want = dense(model.linear, lambda z, y: cross_entropy(z * scale, y), x, y)
    assert_allclose(as_matrix(operator), want, atol=1e-12)


def test_a_loss_of_the_whole_batch():
    x, y = data()
    operator = HessianOperator(mlp(), MMCELoss(2.0), [(x, y)])
    assert_allclose(as_matrix(operator), dense(mlp(), MMCELoss(2.0), x, y), atol=1e-10)


def test_a_loss_linear_in_the_parameters_has_no_curvature():
    torch.manual_seed(0)
    x, y = data()
    operator = HessianOperator(nn.Linear(4, 3).double(), lambda z, y: z.mean(), [(x, y)])
    assert not operator.matvec(np.ones(15)).any()
    assert not operator.block_matvec(np.ones((15, 2))).any()


@torch.no_grad()
def test_products_without_gradient_tracking():
    x, y = data()
    operator = HessianOperator(mlp(), cross_entropy, [(x, y)])
    assert operator.matvec(np.ones(51)).any()
    assert operator.block_matvec(np.ones((51, 2))).any()


def test_parameters_are_read_at_each_product():
    model, (x, y) = mlp(), data()
    operator = HessianOperator(model, cross_entropy, batches_of(x, y))
    with torch.no_grad():
        model[0].weight.mul_(2.0)
    assert_allclose(as_matrix(operator), dense(model, cross_entropy, x, y), atol=1e-12)


@pytest.mark.slow
def test_trace_and_eigenvalues_of_a_model():
    x, y = data()
    operator = HessianOperator(mlp(), FocalLoss(1.0), batches_of(x, y))
    trace = operator.trace(n_vectors=50)
    high, low = (f(operator.matvec, operator.size) for f in (lambda_max, lambda_min))
    H = as_matrix(operator)
    assert abs(trace.value - np.trace(H)) < 4 * trace.standard_error
    eigenvalues = np.linalg.eigvalsh(H)
    assert_allclose(high.value, eigenvalues[-1], rtol=1e-5)
    assert_allclose(low.value, eigenvalues[0], rtol=1e-5)


class TestBadInput:
    def test_an_iterator(self):
        x, y = data()
        with pytest.raises(ValueError, match=r"list or a loader.* Pass `list\(batches\)`"):
            HessianOperator(mlp(), cross_entropy, iter(batches_of(x, y)))

    def test_no_batches(self):
        with pytest.raises(ValueError, match="must hold an example that counts, found none"):
            HessianOperator(mlp(), cross_entropy, []).matvec(np.zeros(51))

    def test_unknown_layer(self):
        with pytest.raises(ValueError, match=r"got 'head'\. There are 0\.weight, .*, 2"):
            HessianOperator(mlp(), cross_entropy, [], parameters=["head"])

    def test_a_bare_name(self):
        with pytest.raises(ValueError, match="must be a list of names, got the string '2'"):
            HessianOperator(mlp(), cross_entropy, [], parameters="2")

    def test_nothing_to_train(self):
        with pytest.raises(ValueError, match="must have a parameter that requires a gradient"):
            HessianOperator(mlp().requires_grad_(False), cross_entropy, [])

    def test_half_precision(self):
        with pytest.raises(
            ValueError, match=r"0\.weight is torch\.bfloat16, .*`model\.float\(\)`"
        ):
            HessianOperator(mlp(torch.bfloat16), cross_entropy, [])

    def test_size(self):
        x, y = data()
        with pytest.raises(ValueError, match=r"must have 51 rows, .* got shape \[50, 1\]"):
            HessianOperator(mlp(), cross_entropy, [(x, y)]).matvec(np.zeros(50))


@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.HuberLoss(delta=0.5), nn.SmoothL1Loss()])
def test_losses_of_regression(loss):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x, y = torch.randn(9, 3).double(), torch.randn(9, 2).double()
    names = [name for name, _ in model.named_parameters()]
    sizes = [p.numel() for p in model.parameters()]

    def output(flat):
        parts = zip(flat.split(sizes), model.parameters(), strict=True)
        own = dict(zip(names, (part.view_as(p) for part, p in parts), strict=True))
        return torch.func.functional_call(model, own, (x,)).flatten()

    theta = torch.cat([p.detach().flatten() for p in model.parameters()])
    J = torch.autograd.functional.jacobian(output, theta)
    H = torch.autograd.functional.hessian(lambda z: loss(z.view_as(y), y), output(theta).detach())
    operator = GGNOperator(model, loss, [(x[:4], y[:4]), (x[4:], y[4:])])
    assert_allclose(as_matrix(operator), (J.T @ H @ J).numpy(), atol=1e-14)
    assert_allclose(operator.trace().value, torch.trace(J.T @ H @ J), rtol=1e-12)
