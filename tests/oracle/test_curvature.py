"""Curvature against numbers and matrices that share no code with it."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn
from torch.func import functional_call

from focalibrate.curvature import (
    hutchinson_trace,
    lambda_max,
    lambda_min,
    spectral_density,
)
from focalibrate.nn import CurvatureRegularisedLoss, FocalLoss, GGNOperator, HessianOperator


@pytest.fixture(scope="module", params=["g0", "g0.5", "g1"])
def oracle(request, oracles):
    """The exact numbers of the linear-softmax problem, and the operator that should have them."""
    numbers = oracles["hessian_linear_softmax"]
    rs = np.random.RandomState(3)
    X, W, y = rs.randn(200, 5), rs.randn(3, 5) * 0.5, rs.randint(0, 3, 200)
    model = nn.Linear(5, 3, bias=False).double()
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(W))
    inputs, labels = torch.from_numpy(X), torch.from_numpy(y)
    batches = list(zip(inputs.split(64), labels.split(64), strict=True))  # 64, 64, 64, 8
    loss = FocalLoss(float(request.param[1:]))
    return numbers[request.param], model, loss, batches


@pytest.fixture(scope="module", params=[HessianOperator, GGNOperator])
def operator(request, oracle):
    _, model, loss, batches = oracle
    return request.param(model, loss, batches)


@pytest.mark.slow
def test_exact_numbers(oracle, operator):
    want = oracle[0]
    H = operator.block_matvec(np.eye(15))
    assert_allclose(np.trace(H), want["trace"], atol=1e-6)
    assert_allclose(np.linalg.norm(H), want["fro"], atol=1e-6)
    assert_allclose(lambda_max(operator.matvec, 15).value, want["lambda_max"], atol=1e-6)
    assert_allclose(lambda_min(operator.matvec, 15).value, want["lambda_min"], atol=1e-6)
    assert_allclose(operator.loss_value(), want["loss"], atol=1e-6)
    assert_allclose(np.linalg.norm(operator.gradient()), want["grad_norm"], atol=1e-6)


@pytest.mark.slow
def test_estimates_are_within_three_standard_errors(oracle, operator):
    block = operator.block_matvec
    got = hutchinson_trace(operator.matvec, 15, seed=1, block_matvec=block, n_vectors=24)
    assert got.standard_error > 0
    assert abs(got.value - oracle[0]["trace"]) < 3 * got.standard_error


@pytest.mark.slow
def test_the_spectrum_has_the_trace_and_the_norm_as_moments(oracle, operator):
    rho = spectral_density(
        operator.matvec, 15, n_vectors=64, n_steps=3, block_matvec=operator.block_matvec
    )
    for power, name in ((1, "trace"), (2, "fro")):
        moments = 15 * np.sum(rho.weights * rho.nodes**power, axis=1)
        error = moments.std(ddof=1) / 8
        assert abs(moments.mean() - oracle[0][name] ** power) < 3 * error


@pytest.mark.slow
def test_the_penalty_has_the_trace_as_its_mean(oracle):
    want, model, loss, batches = oracle
    inputs, labels = (torch.cat(part) for part in zip(*batches, strict=True))
    rng = torch.Generator().manual_seed(0)
    criterion = CurvatureRegularisedLoss(loss, 1.0, generator=rng)
    with torch.enable_grad():
        penalties = [criterion(model, inputs, labels).item() - want["loss"] for _ in range(100)]
    error = np.std(penalties, ddof=1) / 100**0.5
    assert abs(np.mean(penalties) - want["trace"]) < 3 * error


@pytest.fixture(scope="module")
def trained_mlp():
    """D = 368, after a few training steps: eigenvalues of both signs, some much larger."""
    rng = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(12, 15), nn.Tanh(), nn.Linear(15, 8), nn.Tanh(), nn.Linear(8, 5)
    ).double()
    x = torch.randn(300, 12, generator=rng, dtype=torch.float64)
    y = (x[:, :5] + torch.randn(300, 5, generator=rng, dtype=torch.float64)).argmax(dim=1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(30):
        optimiser.zero_grad()
        FocalLoss(1.0)(model(x), y).backward()
        optimiser.step()
    return model, x, y


@pytest.fixture(scope="module")
def dense_mlp(trained_mlp):
    """Its Hessian in float64 by reverse mode twice, row by row: its trace and eigenvalues."""
    model, x, y = trained_mlp
    names, shapes = zip(*[(n, p.shape) for n, p in model.named_parameters()], strict=True)
    theta = torch.cat([p.detach().flatten() for p in model.parameters()])

    def total(flat):
        parts = flat.split([s.numel() for s in shapes])
        named = {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        return FocalLoss(1.0)(functional_call(model, named, (x,)), y)

    H = torch.autograd.functional.hessian(total, theta).numpy()
    return np.trace(H), np.linalg.eigvalsh(H)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_mlp_against_its_dense_hessian(trained_mlp, dense_mlp, dtype):
    model, x, y = trained_mlp
    model, x = model.to(dtype), x.to(dtype)
    try:
        batches = list(zip(x.split(128), y.split(128), strict=True))
        operator = HessianOperator(model, FocalLoss(1.0), batches)
        trace, eigenvalues = dense_mlp
        assert operator.size == len(eigenvalues) == 368
        assert eigenvalues[0] < -0.01
        block = operator.block_matvec
        got = hutchinson_trace(operator.matvec, 368, seed=2, block_matvec=block, n_vectors=60)
        assert abs(got.value - trace) < 3 * got.standard_error
        top = lambda_max(operator.matvec, 368)
        assert top.converged
        assert_allclose(top.value, eigenvalues[-1], rtol=1e-4)
        assert_allclose(lambda_min(operator.matvec, 368).value, eigenvalues[0], rtol=1e-4)
    finally:
        model.double()
