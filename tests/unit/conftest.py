import importlib.util
import os
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from focalibrate.calibrate import METHODS, CalibrationWarning, fit
from focalibrate.experiments.engine import registry

HERE = Path(__file__).parent / "experiments"


class Serial:
    """Makes the runs one after the other in this process."""

    def map(self, function, arguments):
        for place, given in enumerate(arguments):
            try:
                outcome = function(*given)
            except Exception as error:
                outcome = error
            yield place, outcome


@pytest.fixture
def serial():
    return Serial()


@pytest.fixture(scope="session")
def logged_runs():
    """The module `logged_runs`, not registered."""
    spec = importlib.util.spec_from_file_location("logged_runs", HERE / "logged_runs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def registered(logged_runs, monkeypatch):
    """The module `logged_runs`, whose experiment is known here while the test runs."""
    monkeypatch.setattr(registry, "EXPERIMENTS", registry.EXPERIMENTS)
    monkeypatch.delitem(sys.modules, "focalibrate.experiments.logged_runs", raising=False)
    logged_runs.register()
    yield logged_runs
    del sys.modules["focalibrate.experiments.logged_runs"]


@pytest.fixture
def environment(tmp_path_factory, monkeypatch):
    """The environment of processes that know the experiment from their start."""
    folder = tmp_path_factory.mktemp("site")
    lines = (f"import sys; sys.path.insert(0, {str(HERE)!r})", "import logged_runs")
    (folder / "sitecustomize.py").write_text("\n".join([*lines, "logged_runs.register()\n"]))
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), before])))
    return os.environ


@pytest.fixture(scope="session")
def fitted_calibrator():
    """Return a function from the name of a method to its calibrator, fitted to a few rows."""

    @cache
    def fitted(method, n_classes, scores="logits"):
        if METHODS[method].classes == "two" and n_classes != 2:
            pytest.skip(f"{method} is for two classes")
        rng = np.random.default_rng(0)
        truth = 2.0 * rng.standard_normal((400, n_classes))
        labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        given = 1.5 * truth
        if scores == "probs":  # such as a forest of ten trees gives, zeros included
            given = np.exp(given) / np.exp(given).sum(axis=1, keepdims=True)
            given = np.round(10 * given[:, 1:]) / 10 if n_classes == 2 else given
        options = {"gamma": 2.0} if METHODS[method].needs_gamma else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            return fit(method, labels=labels, **{scores: given}, **options)

    return fitted
