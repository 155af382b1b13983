"""Published outputs of real models: every set beside the checkout, and the table of the docs."""

import csv
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.calibrate import (
    GAMMAS_003,
    CalibrationWarning,
    Identity,
    PosteriorRecovery,
    fit_focal_temperature,
    fit_temperature,
)
from focalibrate.experiments.published_logits import TRAINED_GAMMA, halves, main, read_sets
from focalibrate.metrics import adaptive_ece, ece, error_rate, nll

NAMES = [
    "agnews_gpt2",
    "cifar100_densenetbc100_netcal",
    "cifar100_lenet5_netcal",
    "cifar100_resnet20",
    "cifar100_vgg19_bn",
    "cifar10_crossval_cleanlab",
    "cifar10_lenet5_netcal",
    "cifar10_repvgg_a2",
    "cifar10_resnet20",
    "cifar10_resnet20_akamaster",
    "cifar10_resnet32_akamaster",
    "cifar10_resnet50_focalrepo_aigen",
    "cifar10_resnet50_psrcal",
    "cifar10_wrn16-4_netcal",
    "iemocap_emotion_final_psrcal",
    "imdb_crossval_cleanlab",
]
TABLE = Path(__file__).parents[2] / "results" / "published-logits" / "table.csv"


@pytest.fixture(scope="module")
def folder(shared):
    found = shared / "data" / "logits"
    if not found.is_dir():
        pytest.skip(f"no published logits at {found}")
    return found


@pytest.fixture(scope="module")
def sets(folder):
    return {one.name: one for one in read_sets(folder)}


@pytest.fixture(scope="module")
def table():
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {(row["set"], row["method"]): row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def stated(shared):
    """T and the ECE before and after it, of each set, as the data's own notes state them."""
    text = (shared / "data" / "SOURCES.md").read_text()
    number = r"([\d.]+)"
    line = rf"\| logits/(\S+)\.npz \|.*\| {number}; {number}->{number} \|"
    return {name: tuple(map(float, rest)) for name, *rest in re.findall(line, text)}


def test_every_set_that_has_scores_is_read(sets):
    assert sorted(sets) == sorted(NAMES)
    assert {one.split for one in sets.values()} == {
        "val and test",
        "halves of all",
        "halves of test",
    }


def test_the_halves_are_disjoint_and_complete():
    first, second = halves(7)
    assert sorted([*first, *second]) == list(range(7))
    assert_array_equal(first, halves(7)[0])


def exponents(one, table):
    """The whole grid for small sets; for large ones cross-entropy's and the one of the table."""
    if one.fit_logits.size < 30_000:
        return GAMMAS_003
    found = re.search(r"gamma=(\S+),", table[one.name, "FTS"]["calibrator"])
    return tuple(sorted({0.0, 1.0, float(found[1])}))


@pytest.mark.parametrize("name", NAMES)
def test_every_method_on(name, sets, table, stated):
    one = sets[name]
    fit_rows = one.fit_logits, one.fit_labels
    raw = Identity().probs(one.fit_logits)
    by_nll, nll_report = fit_temperature(*fit_rows, return_report=True)
    with warnings.catch_warnings():  # a minimum at the grid's edge is a finding, not a fault
        warnings.simplefilter("ignore", CalibrationWarning)
        by_ece, ece_report = fit_temperature(
            *fit_rows, criterion="adaptive_ece", return_report=True
        )
        focal, focal_report = fit_focal_temperature(
            *fit_rows, gammas=exponents(one, table), return_report=True
        )
        focal_nll, focal_nll_report = fit_focal_temperature(
            *fit_rows, criterion="nll", search="continuous", return_report=True
        )

    # Each is the best of a family that holds the one before it.
    assert nll_report.value <= nll(raw, one.fit_labels) + 1e-7
    assert focal_nll_report.value <= nll_report.value + 1e-7
    assert by_ece.temperature <= 5.0  # so that the finer grid of both parameters holds it
    assert focal_report.value <= ece_report.value + 1e-4
    for calibrator, value in ((by_ece, ece_report.value), (focal, focal_report.value)):
        assert_allclose(
            adaptive_ece(calibrator.probs(one.fit_logits), one.fit_labels), value, atol=2e-4
        )

    predicted = one.test_logits.argmax(axis=1)
    found = {"raw": Identity(), "TS_NLL": by_nll, "TS_ECE": by_ece, "FTS_NLL": focal_nll}
    found["FTS"] = focal
    if name in TRAINED_GAMMA:
        found["Ψ"] = PosteriorRecovery(TRAINED_GAMMA[name])
    for method, calibrator in found.items():
        probs = calibrator.probs(one.test_logits)
        assert_array_equal(probs.argmax(axis=1), predicted)
        row = table[name, method]
        for metric, column in ((ece, "ece"), (adaptive_ece, "adaptive_ece"), (nll, "nll")):
            assert_allclose(metric(probs, one.test_labels), float(row[column]), atol=2e-5)
        assert_allclose(error_rate(probs, one.test_labels), float(row["error"]), atol=1e-6)

    if name in stated:
        temperature, before, after = stated[name]
        assert round(by_nll.temperature, 3) == temperature
        assert_allclose(100 * float(table[name, "raw"]["ece"]), before, atol=0.006)
        assert_allclose(100 * float(table[name, "TS_NLL"]["ece"]), after, atol=0.006)


def test_the_notes_state_most_sets(stated):
    assert len(stated) >= 14


def test_the_command_writes_its_three_files(tmp_path):
    rng = np.random.default_rng(0)
    truth = 2 * rng.normal(size=(400, 3))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    np.savez(tmp_path / "one.npz", all_logits=2 * truth, all_labels=labels)
    np.savez(tmp_path / "other.npz", confidence=np.ones(3))
    main(["--data", str(tmp_path), "-o", str(tmp_path / "out"), "--resamples", "20"])
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "meta.json",
        "table.csv",
        "table.md",
    ]
    lines = (tmp_path / "out" / "table.csv").read_text().splitlines()
    assert len(lines) == 1 + 5
    assert "| `one` | raw |" in (tmp_path / "out" / "table.md").read_text()


def test_a_folder_without_sets_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--data", str(tmp_path), "-o", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert "--data must be a folder of .npz files with logits" in capsys.readouterr().err
