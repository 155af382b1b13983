"""The trace of an operator by example and layer, against the dense matrix."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.nn.functional import cross_entropy

from focalibrate.curvature import hutchinson_trace
from focalibrate.nn import DualFocalLoss, FocalLoss, GGNOperator, HessianOperator, MMCELoss
from focalibrate_papers.models.resnet import ResNet

OPERATORS = [HessianOperator, GGNOperator]
K = 5


def mlp(activation, width=6, n_classes=K):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, width), activation, nn.Linear(width, width), activation,
        nn.Linear(width, n_classes),
    ).double()  # fmt: skip


def data(n=23, n_classes=K):
    rng = torch.Generator().manual_seed(1)
    x = 2.0 * torch.randn(n, 4, generator=rng, dtype=torch.float64)
    return x, torch.randint(n_classes, (n,), generator=rng)


def batches_of(x, y):
    return list(zip(x.split(10), y.split(10), strict=True))


def dense_trace(operator):
    return np.trace(operator.block_matvec(np.eye(operator.size)))


LOSSES = {
    "cross-entropy": cross_entropy,
    "focal": FocalLoss(2.0),
    "focal-sum": FocalLoss(3.0, reduction="sum"),
    "dual": DualFocalLoss(2.0),
    "weights": nn.CrossEntropyLoss(torch.arange(1.0, K + 1, dtype=torch.float64)),
    "squares": lambda z, y: (z**2).sum(dim=1).mean(),
    "linear": lambda z, y: z.mean(),
}


@pytest.mark.parametrize("operator_class", OPERATORS)
@pytest.mark.parametrize("name", LOSSES)
def test_it_is_exact_where_the_model_is_linear_in_pieces(name, operator_class):
    operator = operator_class(mlp(nn.ReLU()), LOSSES[name], batches_of(*data()))
    got = operator.trace(n_vectors=K)
    assert got.method == "by example and layer"
    assert got.standard_error == 0.0
    assert got.n_products <= K
    assert_allclose(got.value, dense_trace(operator), rtol=1e-10)


@pytest.mark.slow
def test_a_residual_network_in_eval_mode():
    torch.manual_seed(0)
    model = ResNet(n_classes=3, width=2, depths=(1, 1), image_size=8, padded=True).double()
    x, y = torch.randn(6, 3, 8, 8, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    model(x)  # running statistics
    operator = HessianOperator(model, FocalLoss(1.0), [(x[:4], y[:4]), (x[4:], y[4:])])
    got = operator.trace(n_vectors=4)
    assert model.training
    assert got.standard_error == 0.0
    assert_allclose(got.value, dense_trace(operator), rtol=1e-10)


@pytest.mark.parametrize("names", [["0"], ["2.weight"], ["2.bias", "4"]])
def test_some_layers(names):
    x, y = data()
    operator = HessianOperator(mlp(nn.ReLU()), FocalLoss(2.0), batches_of(x, y), parameters=names)
    assert_allclose(operator.trace(n_vectors=K).value, dense_trace(operator), rtol=1e-10)


def test_ignored_labels():
    x, y = data()
    y[[0, 5, 20, 21, 22]] = -100  # the last batch as a whole
    operator = HessianOperator(mlp(nn.ReLU()), nn.CrossEntropyLoss(), batches_of(x, y))
    assert_allclose(operator.trace(n_vectors=K).value, dense_trace(operator), rtol=1e-10)


class Tied(nn.Module):
    """A ReLU network whose logits are quadratic in the parameters of one inner layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.inner, self.last = nn.Linear(4, 4).double(), nn.Linear(4, K).double()

    def forward(self, x):
        return self.last(torch.relu(self.inner(torch.relu(self.inner(x)))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "operator_class", "n_vectors"),
    [
        (mlp(nn.Tanh()), HessianOperator, 2),  # layers share vectors
        (mlp(nn.Tanh()), HessianOperator, 7),
        (mlp(nn.Tanh()), HessianOperator, 15),  # exact in the examples
        (mlp(nn.Tanh(), n_classes=8), GGNOperator, 4),
        (Tied(), HessianOperator, 6),
    ],
    ids=["shared", "apart", "exact", "gauss-newton", "tied"],
)
def test_it_is_unbiased_and_its_error_is_right(model, operator_class, n_vectors):
    operator = operator_class(model, FocalLoss(3.0), batches_of(*data(14)))
    runs = [operator.trace(n_vectors=n_vectors, seed=s) for s in range(32)]
    values = np.array([r.value for r in runs])
    spread = values.std(ddof=1)
    assert abs(values.mean() - dense_trace(operator)) < 4 * spread / np.sqrt(len(runs))
    claimed = np.sqrt(np.mean([r.standard_error**2 for r in runs]))
    assert 1 / 1.5 < claimed / spread < 1.5


@pytest.mark.slow
def test_it_needs_fewer_passes_than_products():
    operator = HessianOperator(mlp(nn.Tanh(), width=20), cross_entropy, batches_of(*data()))

    def error(estimate):
        return np.sqrt(np.mean([(estimate(s) - want) ** 2 for s in range(20)]))

    want, D, block = dense_trace(operator), operator.size, operator.block_matvec
    split = error(lambda s: operator.trace(n_vectors=12, seed=s).value)
    plain = error(
        lambda s: hutchinson_trace(block, D, n_vectors=12, seed=s, block_matvec=block).value
    )
    assert split < plain / 2


def test_a_seed_decides_the_answer():
    operator = HessianOperator(mlp(nn.Tanh()), cross_entropy, batches_of(*data()))
    a, b, c = (operator.trace(n_vectors=4, seed=s).value for s in (1, 1, 2))
    assert a == b != c


@torch.no_grad()
def test_float32_without_gradient_tracking():
    x, y = data()
    model = mlp(nn.ReLU())
    want = dense_trace(HessianOperator(model, FocalLoss(2.0), batches_of(x, y)))
    single = HessianOperator(model.float(), FocalLoss(2.0), batches_of(x.float(), y))
    assert_allclose(single.trace().value, want, rtol=1e-5)


@torch.no_grad()
def test_curved_layers_without_gradient_tracking():
    operator = HessianOperator(mlp(nn.Tanh()), cross_entropy, batches_of(*data()))
    without = operator.trace(seed=1)
    with torch.enable_grad():
        assert operator.trace(seed=1) == without


def test_several_inputs():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = mlp(nn.ReLU())

        def forward(self, a, b):
            return self.body(a) * b

    x, y = data()
    inputs = {"b": torch.linspace(0.5, 2.0, 23, dtype=torch.float64)[:, None], "a": x}
    operator = HessianOperator(Scaled(), cross_entropy, [(inputs, y)])
    assert_allclose(operator.trace().value, dense_trace(operator), rtol=1e-10)


class Centred(nn.Module):
    def forward(self, z):
        return z - z.mean(dim=0)


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp(nn.ReLU())

    def forward(self, x, n):
        return self.body(x[:n])


class Branching(Listed):
    def forward(self, x):
        return self.body(x) if x.sum() > -1e9 else x


def spread(logits, labels):
    return cross_entropy(logits.flatten(0, 1), labels.repeat_interleave(2))


CASES = {
    "loss": (mlp(nn.ReLU()), MMCELoss(2.0), "the loss of a batch is not a sum over it"),
    "model": (
        nn.Sequential(mlp(nn.ReLU()), Centred()),
        cross_entropy,
        "an example's logits depend on other examples",
    ),
    "inputs": (Listed(), cross_entropy, "the inputs are not tensors with one row per example"),
    "rows": (
        nn.Sequential(mlp(nn.ReLU(), n_classes=10), nn.Unflatten(1, (2, K))),
        spread,
        "does not return one row of logits per example",
    ),
    "classes": (mlp(nn.ReLU(), n_classes=257), cross_entropy, "257 classes, more than 256"),
    "vmap": (Branching(), cross_entropy, "torch cannot run the model by example"),
}


@pytest.mark.parametrize("name", CASES)
def test_products_take_over_with_a_reason(name):
    model, loss, reason = CASES[name]
    x, y = data()
    operator = HessianOperator(model, loss, [((x, 23) if name == "inputs" else x, y)])
    got = operator.trace(n_vectors=6, seed=5)
    assert got.method.startswith("Hutchinson, as ")
    assert reason in got.method
    want = hutchinson_trace(
        operator.matvec, operator.size, n_vectors=6, seed=5, block_matvec=operator.block_matvec
    )
    assert (got.value, got.standard_error) == (want.value, want.standard_error)


class TestBadInput:
    def test_too_few_vectors(self):
        operator = HessianOperator(mlp(nn.ReLU()), cross_entropy, batches_of(*data()))
        with pytest.raises(ValueError, match="`n_vectors` must be a whole number >= 2, got 1"):
            operator.trace(n_vectors=1)

    def test_no_batches(self):
        with pytest.raises(ValueError, match="must hold an example that counts, found none"):
            HessianOperator(mlp(nn.ReLU()), cross_entropy, []).trace()

    def test_nan(self):
        x, y = data()
        x[3, 0] = torch.nan
        operator = HessianOperator(mlp(nn.ReLU()), cross_entropy, batches_of(x, y))
        with pytest.raises(ValueError, match="must return finite numbers"):
            operator.trace()
