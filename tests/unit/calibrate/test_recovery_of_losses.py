"""Recovery behind named losses as a calibrator: JSON, torch, ONNX and the command line."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from numpy.testing import assert_allclose

from focalibrate.calibrate import Calibrator, PosteriorRecovery
from focalibrate.cli import main
from focalibrate.theory import loss_form, recover_posterior

FORMS = [
    loss_form("poly_focal", gamma=2.0, epsilon=1.0),
    loss_form("bsce", beta=1.0),
    loss_form("bsce_gra", beta=1.0),
    loss_form("focal_calibration", gamma=2.0, weight=0.5),
    loss_form("class_balanced", counts=(10, 100, 1000), beta=0.99),
    loss_form("logit_adjusted", frequencies=(0.2, 0.3, 0.5), tau=1.0),
    loss_form("sigmoid_focal", gamma=2.0, alpha=0.25),
    loss_form("asymmetric", gamma_pos=1.0, gamma_neg=4.0, margin=0.0),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_door_gives_the_theory(form, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    n_classes = 2 if form.head == "sigmoid" else 3
    z = np.random.default_rng(0).normal(size=(40, n_classes)) * 3
    if form.head == "sigmoid":
        p = recover_posterior(logits=z[:, 1] - z[:, 0], loss=form)
        want = np.stack([1 - p, p], axis=1)
    else:
        want = recover_posterior(logits=z, loss=form)
    calibrator = PosteriorRecovery(loss=form)  # also without a number of classes
    assert_allclose(calibrator.probs(z), want, atol=1e-12)
    calibrator.save(tmp_path / "c.json")
    loaded = Calibrator.load(tmp_path / "c.json")
    assert loaded.describe() == calibrator.describe()
    assert_allclose(loaded.probs(z), want, atol=1e-12)
    assert_allclose(calibrator.to_torch()(torch.tensor(z)), want, atol=1e-9)
    for one in (calibrator, PosteriorRecovery(loss=form)):  # of any number of classes too
        one.to_onnx(tmp_path / "c.onnx")
        session = onnxruntime.InferenceSession(str(tmp_path / "c.onnx"))
        (found,) = session.run(None, {session.get_inputs()[0].name: z.astype(np.float32)})[:1]
        assert_allclose(found, want, atol=2e-5)


def test_a_loss_and_an_exponent_exclude_each_other():
    for settings in ({}, {"gamma": 1.0, "loss": FORMS[0]}):
        with pytest.raises(ValueError, match="either `gamma`"):
            PosteriorRecovery(**settings)
    with pytest.raises(ValueError, match=r"loss_form\(name, \.\.\.\)` returns, got 'bsce'"):
        PosteriorRecovery(loss="bsce")
    with pytest.raises(ValueError, match="of single labels"):
        PosteriorRecovery(loss=FORMS[-1], class_weight=(1.0, 2.0))


def test_a_file_with_another_loss_is_refused(tmp_path):
    PosteriorRecovery(loss=FORMS[0]).save(tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    for change in ({"name": "unheard"}, {"name": 3}, {"gamma": "2"}):
        broken = json.loads(json.dumps(document))
        broken["parameters"]["loss"] |= change
        (tmp_path / "broken.json").write_text(json.dumps(broken))
        with pytest.raises(ValueError, match=r"loss|number"):
            Calibrator.load(tmp_path / "broken.json")


def test_the_command_takes_a_loss_with_its_parameters(tmp_path):
    p = np.random.default_rng(1).uniform(0.1, 0.9, size=20)
    lines = "\n".join(f"{k},{float(x)!r}" for k, x in enumerate(p))
    (tmp_path / "b.csv").write_text(f"id,prob_spam\n{lines}\n")
    out = tmp_path / "out.csv"
    words = "apply --loss asymmetric --gamma-pos 1 --gamma-neg 4 --margin .05"
    result = CliRunner().invoke(main, [*words.split(), str(tmp_path / "b.csv"), "-o", str(out)])
    assert result.exit_code == 0, result.output
    found = np.loadtxt(out, delimiter=",", skiprows=1)[:, 1]
    want = recover_posterior(
        logits=np.log(p / (1 - p)), loss="asymmetric", gamma_pos=1.0, gamma_neg=4.0, margin=0.05
    )
    assert_allclose(found, want, rtol=1e-9)
    result = CliRunner().invoke(
        main, ["apply", "--loss", "bsce", str(tmp_path / "b.csv"), "-o", str(out), "--force"]
    )
    assert "['beta'] were not given" in result.output
