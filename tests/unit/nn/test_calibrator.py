import copy
import io

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from focalibrate.calibrate import (
    METHODS,
    Calibrator,
    FocalTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    PosteriorRecovery,
    TemperatureScaling,
    VectorScaling,
)
from focalibrate.nn import CalibratedModel, CalibratorModule

ONE_EACH = [
    Identity(),
    PosteriorRecovery(2.0),
    TemperatureScaling(1.7),
    FocalTemperatureScaling(-0.5, 0.6),
    PosteriorRecovery(2.0, (5.0, 1.0, 0.5)),
    VectorScaling((1.0, 0.0, 2.0), (0.5, 0.0, -0.5)),
    IsotonicCalibration(
        ((0.1, 0.4, 0.9), (0.2, 0.2, 0.8), (0.3,)), ((0.0, 0.5, 0.7), (0.1, 0.3, 1.0), (0.4,))
    ),
    HistogramBinning(((0, 0.5, 1), (0, 0.2, 0.9, 1), (0, 1)), ((0.0, 0.9), (0.0, 0.3, 1), (0.2,))),
]
KIND = {"argvalues": ONE_EACH, "ids": [f"{i}-{c.kind}" for i, c in enumerate(ONE_EACH)]}


EDGE_CASES = [  # a tie puts the probability exactly on a knot with a jump, or on an edge
    IsotonicCalibration(
        ((0.2, 0.5, 0.5, 0.8), (0.2, 0.5, 0.5, 0.8)), ((0.0, 0.1, 0.6, 1.0), (0.0, 0.3, 0.4, 1.0))
    ),
    HistogramBinning(((0.0, 0.5, 1.0), (0.0, 0.5, 1.0)), ((0.3, 0.8), (0.1, 0.9))),
]


def unused(calibrator):
    """Return an equal calibrator that has not computed anything yet, as after loading it."""
    return Calibrator.from_dict(calibrator.to_dict())


def rows(k=3, seed=0):
    """Logits from flat to saturated, with ties, impossible and certain classes."""
    rng = np.random.default_rng(seed)
    z = np.concatenate([s * rng.standard_normal((20, k)) for s in (1e-3, 1, 10, 100, 1e4)])
    z[0], z[1, 1:], z[2, 0] = 0.0, -np.inf, -np.inf
    return z


@pytest.mark.parametrize("calibrator", **KIND)
def test_every_kind_is_the_calibrator(calibrator):
    z = rows()
    module = calibrator.to_torch()
    got = module(torch.tensor(z))
    assert got.dtype == torch.float64
    assert_allclose(got, calibrator.probs(z), rtol=1e-9, atol=1e-300)
    want = calibrator.log_probs(z)
    assert_allclose(module.log_probs(torch.tensor(z)), want, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("calibrator", EDGE_CASES, ids=["isotonic", "histogram"])
def test_a_probability_on_a_knot_or_edge(calibrator):
    z = np.zeros((1, 2))
    want = [[0.6, 0.4]] if isinstance(calibrator, IsotonicCalibration) else [[0.75, 0.25]]
    assert_allclose(calibrator.probs(z), want, rtol=1e-12)
    assert_allclose(calibrator.to_torch()(torch.tensor(z)), want, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_of_the_shelf(method, k, fitted_calibrator):
    calibrator = fitted_calibrator(method, k)
    z = rows(k)
    got = calibrator.to_torch().log_probs(torch.tensor(z))
    assert_allclose(got, calibrator.log_probs(z), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("gamma", [-1.0, -0.99, -0.25, 0.05, 1.0, 20.0])
def test_saturated_rows_in_float32(gamma):
    for k in (2, 1000):
        z = rows(k).astype(np.float32)
        for temperature in (0.01, 5.0):
            calibrator = FocalTemperatureScaling(gamma, temperature)
            got = calibrator.to_torch()(torch.tensor(z)).numpy()
            assert_allclose(got, calibrator.probs(z.astype(np.float64)), rtol=0, atol=2e-6)
            assert_allclose(got.sum(axis=-1), 1.0, atol=2e-6)


@pytest.mark.parametrize("calibrator", **KIND)
@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float32, 1e-6), (torch.float16, 1e-3), (torch.bfloat16, 5e-3)]
)
def test_the_dtype_of_the_logits_is_kept(calibrator, dtype, atol):
    z = torch.tensor(rows()[3:60]).to(dtype)
    module = calibrator.to_torch().to(dtype)
    got = module(z)
    assert got.dtype == module.log_probs(z).dtype == dtype
    assert_allclose(got.double(), calibrator.probs(z.double().numpy()), rtol=0, atol=atol)


@pytest.mark.parametrize("calibrator", **KIND)
def test_leading_axes_and_empty_batches(calibrator):
    z = torch.tensor(rows())
    module = calibrator.to_torch()
    assert torch.equal(module(z.reshape(4, 25, 3)), module(z).reshape(4, 25, 3))
    assert_allclose(module(z[5]), module(z)[5], rtol=1e-15)
    assert module(z[:0]).shape == (0, 3)


@pytest.mark.parametrize("calibrator", **KIND)
def test_gradients_are_finite_and_those_of_finite_differences(calibrator):
    module = calibrator.to_torch()
    z = torch.tensor(rows(), requires_grad=True)
    (gradient,) = torch.autograd.grad((module(z) * torch.arange(3.0)).sum(), z)
    assert torch.isfinite(gradient).all()
    smooth = torch.tensor(rows()[21:23], requires_grad=True)
    assert torch.autograd.gradcheck(module, smooth)
    if not isinstance(calibrator, (IsotonicCalibration, HistogramBinning)):
        assert torch.autograd.gradgradcheck(module, smooth)


# Recovery and temperature alone are the map of both with one of them at rest.
@pytest.mark.slow
@pytest.mark.parametrize("calibrator", ONE_EACH[2:4] + ONE_EACH[5:], ids=lambda c: c.kind)
def test_export_leaves_the_batch_and_where_possible_the_classes_free(calibrator):
    module = unused(calibrator).to_torch()
    n, k = torch.export.Dim("n"), torch.export.Dim("k", min=2)
    is_free = calibrator.n_classes is None
    shapes = {0: n, 1: k} if is_free else {0: n}
    program = torch.export.export(module, (torch.randn(5, 3),), dynamic_shapes=(shapes,)).module()
    for shape in ((1, 3), (0, 3), (7, 3), *([(4, 50), (2, 2)] if is_free else [])):
        z = 5 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
        assert torch.equal(program(z), module(z))


@pytest.mark.slow
@pytest.mark.parametrize("calibrator", ONE_EACH[5:8], ids=KIND["ids"][5:8])
def test_it_compiles(calibrator):
    module = unused(calibrator).to_torch()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    z = torch.tensor(rows())
    assert torch.equal(compiled(z), module(z))


@pytest.mark.parametrize("calibrator", **KIND)
def test_a_state_dict_carries_the_calibrator_over(calibrator):
    source, target = calibrator.to_torch(), TemperatureScaling(3.0).to_torch()
    assert list(source.parameters()) == []
    file = io.BytesIO()
    torch.save(nn.Sequential(source.half()).state_dict(), file)  # the numbers keep their digits
    file.seek(0)
    nn.Sequential(target).load_state_dict(torch.load(file, weights_only=True))
    assert target.calibrator == source.calibrator == copy.deepcopy(source).calibrator
    assert repr(target) == f"CalibratorModule({calibrator.describe()})"


def test_a_calibrated_model_passes_its_arguments_on():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x, *, scale):
            return scale * self.layer(x)

    model, calibrator = Model(), FocalTemperatureScaling(1.0, 1.3)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    for given in (calibrator, calibrator.to_torch()):
        calibrated = CalibratedModel(model, given)
        want = calibrator.probs(model(x, scale=2.0).detach())
        assert_allclose(calibrated(x, scale=2.0).detach(), want, atol=1e-6)
        names = calibrated.state_dict().keys()
        assert names == {"model.layer.weight", "model.layer.bias", "calibrator._extra_state"}
    calibrated(x, scale=2.0).square().sum().backward()
    assert model.layer.weight.grad.abs().sum() > 0


def test_bad_input():
    with pytest.raises(ValueError, match="`logits` must be floating point"):
        Identity().to_torch()(torch.tensor([[1, 2]]))
    for calibrator in ONE_EACH[5:]:
        with pytest.raises(ValueError, match=r"must have the 3 classes .* got shape \(2, 4\)"):
            calibrator.to_torch()(torch.zeros(2, 4))
    with pytest.raises(TypeError, match=r"must be a calibrator of .*, got float"):
        CalibratorModule(1.5)
    with pytest.raises(TypeError, match="one tensor of scores, got tuple"):
        CalibratedModel(nn.LSTM(2, 3), Identity())(torch.zeros(1, 1, 2))
