import copy

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from focalibrate.calibrate import (
    FOCAL_GAMMAS,
    FocalLossTemperature,
    FocalTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    PosteriorRecovery,
    TemperatureScaling,
    VectorScaling,
)
from focalibrate.nn import CalibratedModel, CalibratorModule
from focalibrate.nn._maps import keep_precision

ONE_EACH = [
    Identity(),
    PosteriorRecovery(2.0),
    TemperatureScaling(1.7),
    FocalTemperatureScaling(-0.5, 0.6),
    FocalLossTemperature(3.0, 1.2),
    VectorScaling((1.0, 0.0, 2.0), (0.5, 0.0, -0.5)),
    IsotonicCalibration(
        ((0.1, 0.4, 0.9), (0.2, 0.2, 0.8), (0.3,)), ((0.0, 0.5, 0.7), (0.1, 0.3, 1.0), (0.4,))
    ),
    HistogramBinning(((0, 0.5, 1), (0, 0.2, 0.9, 1), (0, 1)), ((0.0, 0.9), (0.0, 0.3, 1), (0.2,))),
]
KIND = {"argvalues": ONE_EACH, "ids": [c.kind for c in ONE_EACH]}


EDGE_CASES = [  # a tie puts the probability exactly on a knot with a jump, or on an edge
    IsotonicCalibration(
        ((0.2, 0.5, 0.5, 0.8), (0.2, 0.5, 0.5, 0.8)), ((0.0, 0.1, 0.6, 1.0), (0.0, 0.3, 0.4, 1.0))
    ),
    HistogramBinning(((0.0, 0.5, 1.0), (0.0, 0.5, 1.0)), ((0.3, 0.8), (0.1, 0.9))),
]


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


@pytest.mark.parametrize("k", [2, 3, 1000])
@pytest.mark.parametrize("gamma", [-1.0, -0.99, *FOCAL_GAMMAS, 20.0])
def test_saturated_rows_in_float32(gamma, k):
    z = rows(k).astype(np.float32)
    for temperature in (0.01, 1.0, 5.0):
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
    smooth = torch.tensor(rows()[21:40], requires_grad=True)
    assert torch.autograd.gradcheck(module, smooth)
    if not isinstance(calibrator, (IsotonicCalibration, HistogramBinning)):
        assert torch.autograd.gradgradcheck(module, smooth)


@pytest.mark.parametrize("calibrator", **KIND)
def test_export_leaves_the_batch_and_where_possible_the_classes_free(calibrator):
    module = calibrator.to_torch()
    n, k = torch.export.Dim("n"), torch.export.Dim("k", min=2)
    is_free = hasattr(calibrator, "gamma") or calibrator.kind in (
        "identity",
        "temperature",
    )
    shapes = {0: n, 1: k} if is_free else {0: n}
    program = torch.export.export(module, (torch.randn(5, 3),), dynamic_shapes=(shapes,)).module()
    for shape in ((1, 3), (0, 3), (7, 3), *([(4, 50), (2, 2)] if is_free else [])):
        z = 5 * torch.randn(shape, generator=torch.Generator().manual_seed(0))
        assert torch.equal(program(z), module(z))


# TorchScript itself is deprecated, of which every use of it warns; people still deploy with it.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("calibrator", **KIND)
def test_it_scripts(calibrator):
    module = calibrator.to_torch()
    scripted = torch.jit.script(module)
    z = torch.tensor(rows())
    assert torch.equal(scripted(z), module(z))
    assert torch.equal(scripted(z.float()), module(z.float()))


def test_it_compiles():
    module = FocalTemperatureScaling(1.0, 1.5).to_torch()
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    z = torch.tensor(rows())
    assert torch.equal(compiled(z), module(z))


@pytest.mark.parametrize("calibrator", **KIND)
def test_parameters_are_state_that_keeps_its_precision(calibrator):
    module = calibrator.to_torch()
    before = {k: v.clone() for k, v in module.state_dict().items()}
    nn.Sequential(nn.Linear(3, 3), module).half().bfloat16()
    assert before
    for name, value in module.state_dict().items():
        assert value.dtype == torch.float64
        assert torch.equal(value, before[name])
    assert list(module.parameters()) == []
    assert all(v.is_meta for v in module.to("meta").state_dict().values())


def test_a_state_dict_carries_the_calibrator_over():
    source, target = TemperatureScaling(2.5).to_torch(), TemperatureScaling(1.0).to_torch()
    z = torch.tensor(rows())
    assert not torch.equal(target(z), source(z))
    target.load_state_dict(source.state_dict())
    assert torch.equal(target(z), source(z))
    assert torch.equal(copy.deepcopy(source)(z), source(z))


def test_a_device_without_float64_gets_float32():
    def refuses_double(tensor):
        if tensor.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        return tensor.half()

    kept = keep_precision(refuses_double, torch.tensor(1.5, dtype=torch.float64))
    assert kept.dtype == torch.float32
    assert kept == 1.5


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
        assert {"model.layer.weight", "calibrator.map.gamma"} <= calibrated.state_dict().keys()
    calibrated(x, scale=2.0).square().sum().backward()
    assert model.layer.weight.grad.abs().sum() > 0


def test_bad_input():
    with pytest.raises(ValueError, match="`logits` must be floating point"):
        Identity().to_torch()(torch.tensor([[1, 2]]))
    for calibrator in ONE_EACH[5:]:
        with pytest.raises(ValueError, match="the 3 classes of the fit on the last axis, got 4"):
            calibrator.to_torch()(torch.zeros(2, 4))
    with pytest.raises(TypeError, match=r"must be a calibrator of .*, got float"):
        CalibratorModule(1.5)
    with pytest.raises(TypeError, match="one tensor of logits, got tuple"):
        CalibratedModel(nn.LSTM(2, 3), Identity())(torch.zeros(1, 1, 2))
