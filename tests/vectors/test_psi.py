"""Every writing of posterior recovery against the one table of exact values (see make.py)."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from numpy.testing import assert_allclose
from onnx import TensorProto, helper, save

from focalibrate.calibrate import (
    CalibrationWarning,
    FocalTemperatureScaling,
    fit_focal_temperature,
)
from focalibrate.calibrate.focal_rows import focal_rows
from focalibrate.deploy import attach_to_onnx
from focalibrate.losses import focal_loss
from focalibrate.nn import FocalLoss
from focalibrate.theory import phi, recover_log_odds, recover_log_posterior, recover_posterior

TABLE = json.loads(Path(__file__).with_name("psi.json").read_text(encoding="utf-8"))
GAMMAS = [case["gamma"] for case in TABLE["rows"][0]["cases"]]


@dataclass(frozen=True)
class Row:
    """One row of the table at one exponent, a number for every class."""

    name: str
    gamma: float
    logits: np.ndarray
    log_v: np.ndarray
    log_rest: np.ndarray
    log_phi: np.ndarray
    log_psi: np.ndarray

    @property
    def labels(self):
        """One class of each distinct, possible logit."""
        first = np.unique(self.logits, return_index=True)[1]
        return first[np.isfinite(self.logits[first])]


def rows_at(gamma):
    found = []
    for row in TABLE["rows"]:
        (case,) = (c for c in row["cases"] if c["gamma"] == gamma)

        def spread(values, row=row):
            filled = [-np.inf if x is None else x for x in values]
            return np.repeat(np.array(filled, dtype=float), row["counts"])

        names = ("log_v", "log_rest", "log_phi", "log_psi")
        arrays = {name: spread(case[name]) for name in names}
        found.append(Row(row["name"], gamma, spread(row["logits"]), **arrays))
    return found


@pytest.fixture(params=GAMMAS)
def rows(request):
    return rows_at(request.param)


def test_the_function(rows):  # the other libraries are held to NumPy by its own tests
    for row in rows:
        got = recover_log_posterior(row.logits, row.gamma)
        # Relative to the logarithm, also to that of a top class a hair below 1.
        assert_allclose(got, row.log_psi, rtol=1e-12, atol=1e-300, err_msg=row.name)


def test_the_function_of_probabilities(rows):
    for row in rows:
        got = recover_posterior(np.exp(row.log_v), row.gamma)
        if row.log_v[np.isfinite(row.log_v)].min() > -700:  # smaller ones are no floats
            assert_allclose(got, np.exp(row.log_psi), rtol=1e-11, atol=1e-300, err_msg=row.name)


def test_phi(rows):
    for row in rows:
        known = np.isfinite(row.log_phi) & (row.log_rest > -3)  # below, 1 - v has lost its digits
        got = phi(np.exp(row.log_v[known]), row.gamma)
        assert_allclose(np.log(got), row.log_phi[known], rtol=1e-11, atol=2e-15, err_msg=row.name)


def test_two_classes_on_the_log_odds_scale(rows):
    for row in rows:
        if len(row.logits) == 2:
            got = recover_log_odds(row.logits[0] - row.logits[1], row.gamma)
            assert_allclose(got, row.log_psi[0] - row.log_psi[1], rtol=1e-12, err_msg=row.name)


def test_the_kernels_of_the_fits(rows):
    """The grid and joint searches: their mean log loss of a single row is -log psi."""
    for row in rows:
        if row.gamma == -0.999 and row.name == "two classes, beyond every float":
            continue  # exp(-800) is 0 for the kernels, and 4e-4 of loss is lost with it
        for label in row.labels:
            z, y = row.logits[None], np.array([label])
            want = -row.log_psi[label]
            got = focal_rows(z, y).nll(gamma=row.gamma, temperature=1.0)
            assert_allclose(got, want, rtol=1e-12, atol=1e-15, err_msg=row.name)


@pytest.mark.filterwarnings(f"ignore::{CalibrationWarning.__module__}.CalibrationWarning")
def test_a_grid_of_one_point():
    for row in rows_at(2.0)[5:8]:
        z, y = np.stack([row.logits] * 2), row.labels[:2]
        report = fit_focal_temperature(
            z, y, criterion="nll", gammas=[2.0], temperatures=[1.0]
        ).report  # fmt: skip
        assert_allclose(report.value, -row.log_psi[y].mean(), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_fused_focal_loss_and_its_gradient(rows, dtype):
    """It writes phi, the factor that recovery divides by, a second time."""
    if rows[0].gamma < 0:
        pytest.skip("the focal loss has gamma >= 0")
    rtol, atol = (1e-12, 1e-15) if dtype == torch.float64 else (2e-5, 1e-6)
    for row in rows:
        for label in row.labels:
            z = torch.tensor(row.logits[None], dtype=dtype, requires_grad=True)
            y = torch.tensor([label])
            with np.errstate(invalid="ignore"):
                power = np.exp(row.gamma * row.log_rest[label]) if row.gamma else 1.0
                want = -power * row.log_v[label]
                slope = -np.exp(row.log_phi[label] + row.log_rest[label])
            loss = FocalLoss(row.gamma)(z, y)
            assert_allclose(loss.item(), want, rtol=rtol, atol=atol, err_msg=row.name)
            (gradient,) = torch.autograd.grad(loss, z)
            assert_allclose(gradient[0, label], slope, rtol=rtol, atol=atol, err_msg=row.name)
            plain = focal_loss(row.logits[None], np.array([label]), gamma=row.gamma)
            assert_allclose(plain, [want], rtol=1e-12, atol=1e-300, err_msg=row.name)


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-12), (torch.float32, 3e-5)])
def test_the_torch_module(rows, dtype, rtol):
    module = FocalTemperatureScaling(rows[0].gamma, 1.0).to_torch()
    for row in rows:
        got = module.log_probs(torch.tensor(row.logits, dtype=dtype))
        atol = 1e-300 if dtype == torch.float64 else 1e-7
        assert_allclose(got.double(), row.log_psi, rtol=rtol, atol=atol, err_msg=row.name)


@pytest.mark.parametrize(
    ("dtype", "atol"), [(TensorProto.DOUBLE, 2e-14), (TensorProto.FLOAT, 1e-6)]
)
def test_the_onnx_graph(rows, dtype, atol, tmp_path):
    numpy_dtype = helper.tensor_dtype_to_np_dtype(dtype)
    z, out = (helper.make_tensor_value_info(name, dtype, ["N", "K"]) for name in ("z", "logits"))
    graph = helper.make_graph([helper.make_node("Identity", ["z"], ["logits"])], "g", [z], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, tmp_path / "model.onnx")
    calibrator = FocalTemperatureScaling(rows[0].gamma, 1.0)
    attach_to_onnx(tmp_path / "model.onnx", calibrator, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(
        str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    for row in rows:
        (got,) = session.run(["probs"], {"z": row.logits[None].astype(numpy_dtype)})
        assert_allclose(got[0], np.exp(row.log_psi), rtol=0, atol=atol, err_msg=row.name)
