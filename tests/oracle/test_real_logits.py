"""Published outputs of real models: every set in the shared folder, and the committed rows."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.calibrate import (
    CalibrationWarning,
    Identity,
    PosteriorRecovery,
    fit_focal_temperature,
    fit_temperature,
)
from focalibrate.calibrate.fit_focal_temperature import FINE_TEMPERATURES
from focalibrate.metrics import adaptive_ece, ece, error_rate, nll
from focalibrate_papers.engine import Folders
from focalibrate_papers.evidence import read_rows
from focalibrate_papers.networks import halves
from focalibrate_papers.published_logits import SETS, TRAINED_GAMMA, read_set, run, tasks

NAMES = list(SETS)
ROWS = Path(__file__).parents[2] / "results" / "published-logits" / "rows.csv"


@pytest.fixture(scope="module")
def folder(shared):
    found = shared / "data"
    if not (found / "logits").is_dir():
        pytest.skip(f"no published logits in {found}")
    return found


@pytest.fixture(scope="module")
def committed():
    return {
        (row.task["set"], row.metric): row.value for row in read_rows(ROWS, "published-logits")
    }


@pytest.fixture(scope="module")
def stated(shared):
    """T and the ECE before and after it, of each set, as the data's own notes state them."""
    text = (shared / "data" / "SOURCES.md").read_text()
    number = r"([\d.]+)"
    line = rf"\| logits/(\S+)\.npz \|.*\| {number}; {number}->{number} \|"
    return {name: tuple(map(float, rest)) for name, *rest in re.findall(line, text)}


def test_every_set_that_has_scores_is_named(folder):
    usable = set()
    for path in (folder / "logits").glob("*.npz"):
        with np.load(path) as arrays:
            if any(key.endswith(("_logits", "_probs")) for key in arrays.files):
                usable.add(path.stem)
    assert set(NAMES) == usable


def test_the_halves_are_disjoint_and_complete():
    first, second = halves(7)
    assert sorted([*first, *second]) == list(range(7))
    assert_array_equal(first, halves(7)[0])


def focal_grid(one, committed):
    """A coarse grid, and the fine grid around the committed values.

    The whole grid of real logits is compared with double loops in test_calibrate.py.
    """
    gamma, temperature = committed[one.name, "FTS γ"], committed[one.name, "FTS T"]
    near = [t for t in FINE_TEMPERATURES if abs(t - temperature) < 0.055]
    return {
        "gammas": sorted({0.0, 1.0, gamma}),
        "temperatures": sorted({*near, *FINE_TEMPERATURES[9::10]}),
    }


def gamma_range(one, committed):
    """The whole range, or, if that takes long, the part around the committed values."""
    if one.fit_logits.shape[1] <= 10 or one.name == "cifar100_resnet20":
        return {}
    gamma = committed[one.name, "FTS_NLL γ"]
    return {"gammas": (max(gamma - 0.5, -1.0), gamma + 0.5)}


def fitted(fit, one, criterion, **options):
    """Return the calibrator and its criterion; for few classes, checked against the fit's
    report."""
    rows = one.fit_logits, one.fit_labels
    measure = {"nll": nll, "adaptive_ece": adaptive_ece}[criterion]
    if one.fit_logits.shape[1] > 10:  # a report evaluates the whole grid
        calibrator = fit(*rows, criterion=criterion, **options)
        return calibrator, measure(calibrator.probs(one.fit_logits), one.fit_labels)
    calibrator = fit(*rows, criterion=criterion, **options)
    report = calibrator.report
    value = measure(calibrator.probs(one.fit_logits), one.fit_labels)
    assert_allclose(value, report.value, atol=2e-4)
    return calibrator, report.value


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_method_on(name, folder, committed, stated):
    one = read_set(name, folder)
    assert one.checksum == SETS[name]
    raw = Identity().probs(one.fit_logits)
    by_nll, nll_value = fitted(fit_temperature, one, "nll")
    with warnings.catch_warnings():  # a minimum at the grid's edge is a finding, not a fault
        warnings.simplefilter("ignore", CalibrationWarning)
        by_ece, ece_value = fitted(fit_temperature, one, "adaptive_ece")
        focal, focal_value = fitted(
            fit_focal_temperature, one, "adaptive_ece", **focal_grid(one, committed)
        )
        focal_nll, focal_nll_value = fitted(
            fit_focal_temperature, one, "nll", **gamma_range(one, committed)
        )

    # Each is the best of a family that holds the one before it.
    assert nll_value <= nll(raw, one.fit_labels) + 1e-7
    assert focal_nll_value <= nll_value + 1e-7
    assert by_ece.temperature <= 5.0  # so that the finer grid of both parameters holds it
    assert focal_value <= ece_value + 1e-4

    predicted = one.test_logits.argmax(axis=1)
    found = {"raw": Identity(), "TS_NLL": by_nll, "TS_ECE": by_ece, "FTS_NLL": focal_nll}
    found["FTS"] = focal
    if name in TRAINED_GAMMA:
        found["Ψ"] = PosteriorRecovery(TRAINED_GAMMA[name])
    for method, calibrator in found.items():
        probs = calibrator.probs(one.test_logits)
        assert_array_equal(probs.argmax(axis=1), predicted)
        for metric, column in ((ece, "ece"), (adaptive_ece, "adaptive_ece"), (nll, "nll")):
            want = committed[name, f"{method} {column}"]
            assert_allclose(metric(probs, one.test_labels), want, atol=2e-5)
        want = committed[name, f"{method} error"]
        assert_allclose(error_rate(probs, one.test_labels), want, atol=1e-6)

    if name in stated:
        temperature, before, after = stated[name]
        assert round(by_nll.temperature, 3) == temperature
        assert_allclose(100 * committed[name, "raw ece"], before, atol=0.006)
        assert_allclose(100 * committed[name, "TS_NLL ece"], after, atol=0.006)


def test_the_notes_state_most_sets(stated):
    assert len(stated) >= 14


def test_a_file_of_other_bytes_is_refused(tmp_path):
    (tmp_path / "logits").mkdir()
    rng = np.random.default_rng(0)
    name = NAMES[0]
    arrays = {"all_logits": rng.normal(size=(40, 3)), "all_labels": rng.integers(3, size=40)}
    np.savez(tmp_path / "logits" / f"{name}.npz", **arrays)
    task = next(task for task in tasks("full") if task["set"] == name)
    with pytest.raises(ValueError, match=rf"{name}.npz: its SHA-256 must be {SETS[name]}"):
        run(task, Folders(tmp_path, tmp_path))
