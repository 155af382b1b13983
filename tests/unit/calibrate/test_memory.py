"""Peak memory of the fits, beyond the logits themselves."""

import tracemalloc
from functools import partial

import numpy as np
import pytest

from focalibrate.calibrate import fit, fit_focal_temperature, fit_temperature

fit_histogram_binning = partial(fit, method="histogram")
fit_isotonic = partial(fit, method="isotonic")
fit_vector_scaling = partial(fit, method="vector")

pytestmark = pytest.mark.filterwarnings("ignore::focalibrate.calibrate.CalibrationWarning")

GRID = {"gammas": [-0.5, 0.0, 1.0, 5.0], "temperatures": np.arange(1, 40, 4) / 10}
FITS = {
    "nll": lambda z, y: fit_temperature(z, y),
    "focal": lambda z, y: fit_temperature(z, y, criterion="focal", gamma=2.0),
    "ece": lambda z, y: fit_temperature(z, y, criterion="ece"),
    "fts": lambda z, y: fit_focal_temperature(z, y, criterion="adaptive_ece", **GRID),
    "fts report": lambda z, y: fit_focal_temperature(
        z, y, **GRID, criterion="adaptive_ece", whole_grid=True
    ),
    "fts nll": lambda z, y: fit_focal_temperature(z, y, criterion="nll", **GRID),
    "histogram": lambda z, y: fit_histogram_binning(z, y),
    "isotonic": lambda z, y: fit_isotonic(z, y),
    "vector": lambda z, y: fit_vector_scaling(z, y),
}


@pytest.fixture(scope="module")
def many(rows_of):
    """32 MB of logits, and their labels."""
    return rows_of(8000, 1000)


def peak_of(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_extra_memory_is_bounded_by_the_logits(many, name, monkeypatch):
    monkeypatch.setattr("focalibrate.calibrate.rows.available_cores", lambda: 2)
    monkeypatch.setattr("focalibrate.calibrate.optimise.MAX_NEWTON", 3)
    logits, labels = many
    FITS[name](logits[:200], labels[:200])  # imports what it imports
    # A regression keeps probabilities and products of all rows, the others work in blocks.
    most = 8.0 if name == "vector" else 0.25
    assert peak_of(lambda: FITS[name](logits, labels)) <= most * logits.nbytes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nll", "fts"])
def test_a_memory_map_is_streamed(many, name, tmp_path, monkeypatch):
    monkeypatch.setattr("focalibrate.calibrate.rows.available_cores", lambda: 2)
    logits, labels = many
    np.save(tmp_path / "z.npy", logits)
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    found = []
    assert peak_of(lambda: found.append(FITS[name](mapped, labels))) <= 0.25 * logits.nbytes
    assert found[0] == FITS[name](logits, labels)
