"""The curvature-regularised loss, against the dense Hessian and its gradient."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, hessian
from torch.nn.functional import cross_entropy

from focalibrate.nn import BrierLoss, CurvatureRegularisedLoss, DualFocalLoss, FocalLoss
from focalibrate.nn.curvature import AlongRay, random_signs

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


class Odd(nn.Module):
    """Parameters used in ways other than as a layer's weight."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([0.5, -1.0, 0.3]))
        self.matrix = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        return torch.stack([x @ self.matrix.T, x * self.scale.exp()]).sum(0) / self.scale.norm()


MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3, bias=False)),
    "norm": lambda: nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.GELU(), nn.Linear(3, 3)),
    "conv": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3, padding=1), nn.SiLU(), nn.Flatten(),
        nn.Linear(8, 3),
    ),
    "odd": lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), Odd()),
    "linear": lambda: nn.Linear(4, 3),
}  # fmt: skip


def problem(name):
    torch.manual_seed(0)
    model = MODELS[name]().double()
    return model, torch.randn(7, 4, dtype=torch.float64), torch.randint(3, (7,))


def flat(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def as_function(model, loss, x, y):
    shapes = {name: p.shape for name, p in model.named_parameters()}

    def total(theta):
        parts = theta.split([s.numel() for s in shapes.values()])
        named = {n: p.view(s) for (n, s), p in zip(shapes.items(), parts, strict=True)}
        return loss(functional_call(model, named, (x,)), y)

    return total


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def drawn_signs(criterion, model, seed):
    criterion.generator.manual_seed(seed)
    signs = torch.cat(
        [random_signs(p.shape, p, criterion.generator).flatten() for p in model.parameters()]
    )
    criterion.generator.manual_seed(seed)
    return signs


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "loss",
    [cross_entropy, FocalLoss(2.0), BrierLoss(), DualFocalLoss(1.0)],
    ids=["cross-entropy", "focal", "brier", "dual"],
)
def test_value_and_gradient_for_given_signs(name, loss):
    model, x, y = problem(name)
    criterion = CurvatureRegularisedLoss(loss, 0.7, generator=torch.Generator())
    v = drawn_signs(criterion, model, seed=3)
    total = as_function(model, loss, x, y)

    theta = flat(model).requires_grad_()
    (slope,) = torch.autograd.grad(total(theta), theta, create_graph=True)
    (Hv,) = torch.autograd.grad(slope, theta, v, create_graph=True)
    want = total(theta) + 0.7 * v @ Hv
    value = criterion(model, x, y)
    value.backward()
    torch.testing.assert_close(value, want)
    torch.testing.assert_close(gradient(model), torch.autograd.grad(want, theta)[0])


@pytest.mark.slow
def test_the_penalty_is_unbiased():
    model, x, y = problem("mlp")
    total = as_function(model, cross_entropy, x, y)
    trace = hessian(total)(flat(model)).trace()
    criterion = CurvatureRegularisedLoss(
        cross_entropy, 1.0, n_vectors=500, generator=torch.Generator().manual_seed(0)
    )
    H = hessian(total)(flat(model))
    spread = (2 * (H**2).sum() - 2 * (H.diag() ** 2).sum()).sqrt() / 500**0.5
    penalty = criterion(model, x, y).detach() - total(flat(model))
    assert abs(penalty - trace) < 3 * spread


@pytest.mark.slow
def test_one_layer():
    model, x, y = problem("mlp")
    criterion = CurvatureRegularisedLoss(
        cross_entropy, 1.0, n_vectors=400, parameters=["2"], generator=torch.Generator()
    )
    total = as_function(model, cross_entropy, x, y)
    block = hessian(total)(flat(model))[25:, 25:]
    spread = (2 * (block**2).sum() - 2 * (block.diag() ** 2).sum()).sqrt() / 20
    penalty = criterion(model, x, y).detach() - total(flat(model))
    assert abs(penalty - block.trace()) < 4 * spread


def test_zero_tau_is_the_loss_alone():
    model, x, y = problem("mlp")
    assert CurvatureRegularisedLoss(cross_entropy, 0.0)(model, x, y) == cross_entropy(model(x), y)


def test_a_loss_linear_in_the_parameters_has_no_curvature():
    model, x, y = problem("linear")
    criterion = CurvatureRegularisedLoss(lambda z, y: z.sum(), 1.0)
    loss = criterion(model, x, y)
    loss.backward()
    torch.testing.assert_close(loss.detach(), model(x).sum().detach())


def test_signs_are_even_and_seeded():
    signs = random_signs((333, 301), torch.empty(0), torch.Generator().manual_seed(1))
    assert signs.shape == (333, 301)
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert abs(signs.mean()) < 4 / (333 * 301) ** 0.5
    neighbours = (signs[:, 1:] * signs[:, :-1]).mean()
    assert abs(neighbours) < 4 / (333 * 301) ** 0.5


def test_the_global_seed_decides_without_a_generator():
    model, x, y = problem("mlp")
    criterion = CurvatureRegularisedLoss(cross_entropy, 1.0)

    def once(seed):
        torch.manual_seed(seed)
        return criterion(model, x, y).item()

    assert once(1) == once(1) != once(2)


def test_batch_norm_in_training_mode_keeps_its_statistics():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3))
    other = copy.deepcopy(model)
    x, y = torch.randn(7, 4), torch.randint(3, (7,))
    CurvatureRegularisedLoss(cross_entropy, 0.1)(model, x, y).backward()
    other(x)
    torch.testing.assert_close(model[1].running_mean, other[1].running_mean)
    assert model[1].num_batches_tracked == 1


@pytest.mark.slow
def test_training_with_it_flattens_the_loss():
    def trained(tau):
        torch.manual_seed(0)
        x = torch.randn(200, 5)
        y = (x[:, 0] + 0.5 * torch.randn(200) > 0).long()
        model = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 2))
        criterion = CurvatureRegularisedLoss(cross_entropy, tau)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.2)
        for _ in range(150):
            optimiser.zero_grad()
            criterion(model, x, y).backward()
            optimiser.step()
        return hessian(as_function(model, cross_entropy, x, y))(flat(model)).trace()

    assert trained(0.05) < 0.7 * trained(0.0)


def test_outside_the_ray_nothing_is_moved():
    weight = torch.ones(2, 2)
    step = torch.ones((), requires_grad=True)
    with AlongRay({id(weight): torch.ones(2, 2)}, step):
        assert torch.equal(weight + 0.0, torch.full((2, 2), 2.0))
    assert torch.equal(weight + 0.0, torch.ones(2, 2))


def test_bad_input():
    with pytest.raises(ValueError, match="`tau` must be a finite number >= 0"):
        CurvatureRegularisedLoss(cross_entropy, -1.0)
    with pytest.raises(ValueError, match="`n_vectors` must be a whole number >= 1"):
        CurvatureRegularisedLoss(cross_entropy, 1.0, n_vectors=0)
    model, x, y = problem("mlp")
    with pytest.raises(ValueError, match=r"got 'head'"):
        CurvatureRegularisedLoss(cross_entropy, 1.0, parameters=["head"])(model, x, y)
    shown = repr(CurvatureRegularisedLoss(FocalLoss(1.0), 0.5))
    assert "tau=0.5, n_vectors=1" in shown
