import json
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import METHODS, Calibrator, FitReport, Identity, PosteriorRecovery, fit
from focalibrate.metrics import nll

OPTIONS = {
    "posterior_recovery": {"gamma": 2.0},
    "focal_loss_temperature": {"gamma": 2.0},
    "focal_temperature_ece": {
        "temperatures": [0.5, 1.0, 1.5, 2.0, 2.5],
        "gammas": [-0.5, 0.0, 5.0],
    },
}


@pytest.mark.filterwarnings("ignore::focalibrate.calibrate.CalibrationWarning")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_fits_by_name_with_and_without_report(rows_of, method):
    k = 4 if METHODS[method].applies_to(4, 2.0) else 2
    logits, labels = rows_of(300, k)
    options = OPTIONS.get(method, {})
    found = fit(logits, labels, method=method, **options)
    again = fit(logits, labels, method=method, **options)
    report = again.report
    assert isinstance(found, Calibrator)
    assert isinstance(report, FitReport)
    assert found == again
    assert report.method == found.kind
    assert (report.n_rows, report.n_classes) == (300, k)
    assert np.isfinite(report.value)
    assert found.probs(logits).shape == (300, k)
    assert Calibrator.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_fixed_methods_report_their_log_loss(rows_of):
    logits, labels = rows_of(300, 4, dtype=np.float64)
    for found in (
        fit(logits, labels, method="identity"),
        fit(logits, labels, gamma=1.0, method="posterior_recovery"),
    ):
        assert_allclose(found.report.value, nll(found.probs(logits), labels), rtol=1e-9)
    assert fit(logits, labels, method="identity") == Identity(n_classes=4)
    expected = PosteriorRecovery(1, n_classes=4)
    assert fit(logits, labels, gamma=1, method="posterior_recovery") == expected


def test_an_unknown_method_is_refused_with_the_known_ones(rows_of):
    with pytest.raises(
        ValueError, match=r"`method` must be one of auto, identity, .*; got 'plat'"
    ):
        fit(*rows_of(10, 3), method="plat")


@pytest.mark.slow
def test_importing_and_fitting_a_temperature_loads_no_framework():
    code = (
        "import sys, numpy as np, focalibrate.calibrate as c;"
        "c.fit_temperature(np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 2, 1]));"
        "print([m for m in ('torch', 'sklearn', 'jax', 'pandas') if m in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=900
    )
    assert out.stdout.strip() == "[]"
