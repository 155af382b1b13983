import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest


@pytest.fixture
def good(tmp_path):
    """Calibrated logits of 6,000 rows as good.npz."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(6000, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(tmp_path / "good.npz", logits=logits, labels=labels)
    np.savez(tmp_path / "bad.npz", logits=3 * logits, labels=labels)
    return tmp_path / "good.npz"


def test_the_exit_status(cli, good, val):
    done = cli("check", "good.npz", "--max-ece", "0.05")
    assert "PASS: good.npz, 6,000 rows" in done.stdout
    done = cli("check", "bad.npz", "--max-ece", "0.05", ok=False)
    assert done.returncode == 1
    assert "FAIL: bad.npz" in done.stdout
    done = cli("check", "good.npz", "--max-ece", "0.001", ok=False)
    assert done.returncode == 3
    assert "NOT ENOUGH DATA TO TELL" in done.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["good.npz"], "At least one limit"),
        (["none.npz", "--max-ece", "0.05"], "none.npz"),
        (["good.npz", "--max-ece", "-1"], "--max-ece"),
        (["good.npz", "--max-ece", "0.05", "--by", "site"], "site"),
        (["good.npz", "--max-nll-increase", "0.1"], "--baseline"),
        (["good.npz", "--max-ece", "0.05", "--calibrator", "bad.npz"], "bad.npz"),
        (["good.npz", "--max-ece", "0.05", "--junit", "no/where.xml"], "no/where.xml"),
    ],
)
def test_bad_input_has_a_status_of_its_own(cli, good, words, text):
    done = cli("check", *words, ok=False)
    assert done.returncode == 2
    assert text in done.stderr


def test_a_bug_is_not_taken_for_a_failed_limit(cli, good, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr("focalibrate.cli.check.check_predictions", broken)
    monkeypatch.setattr("traceback.print_exc", lambda: None)
    assert cli("check", "good.npz", "--max-ece", "0.05", ok=False).returncode == 2


def test_the_files_it_writes(cli, good, tmp_path):
    (tmp_path / "summary.md").write_text("# Before\n")
    files = ["--markdown", "summary.md", "--junit", "check.xml", "--json", "check.json"]
    cli("check", "good.npz", "--max-ece", "0.05", *files)
    text = (tmp_path / "summary.md").read_text()
    assert text.startswith("# Before\n### Calibration check: ✅ pass")
    assert ET.parse(tmp_path / "check.xml").getroot().tag == "testsuites"
    assert json.loads((tmp_path / "check.json").read_text())["status"] == "pass"
    cli("check", "good.npz", "--max-nll-increase", "0.05", "--baseline", "check.json", *files)
    done = cli("check", "good.npz", "--max-ece", "0.05", "--json", "-")
    assert json.loads(done.stdout)["exit_code"] == 0
    assert "PASS" in done.stderr


@pytest.mark.slow
def test_results_of_calibrate_are_a_baseline(cli, good):
    cli("calibrate", "good.npz", "--methods", "temperature", "--resamples", "20", "-o", "report")
    limit = ["--max-nll-increase", "0.1", "--baseline", "report/results.json"]
    assert "baseline: results.json, other rows" in cli("check", "good.npz", *limit).stdout
    assert cli("check", "bad.npz", *limit, ok=False).returncode == 1


TESTS = """
import numpy as np

rng = np.random.default_rng(0)
z = 2 * rng.normal(size=(3000, 3))
y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)


def test_good(calibration_check):
    assert calibration_check(logits=z, labels=y, max_ece=0.1).status == "pass"


def test_bad(calibration_check):
    calibration_check(logits=3 * z, labels=y, max_ece=0.02)


def test_few(calibration_check):
    calibration_check(logits=z[:50], labels=y[:50], max_ece=0.02)


def test_allowed(calibration_check):
    calibration_check(logits=z[:50], labels=y[:50], max_ece=0.02, allow_undetermined=True)
"""


@pytest.mark.slow
def test_the_pytest_fixture(tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    # not by its entry point, which an older installation may lack or have as well
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "focalibrate.pytest_plugin", "-p",
         "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert "2 failed, 2 passed" in done.stdout
    assert "FAIL: predictions, 3,000 rows" in done.stdout
    assert "NOT ENOUGH DATA TO TELL: predictions, 50 rows" in done.stdout


def test_the_plugin_costs_pytest_nothing():
    code = "import focalibrate.pytest_plugin, sys; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.fixture
def regions(tmp_path):
    """Calibrated in the north and for all rows together, but does not in the south."""
    rng = np.random.default_rng(3)
    logits = 2 * rng.normal(size=(8000, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    region = np.where(np.arange(8000) < 800, "south", "north")
    region[:5] = "islands"
    logits[region == "south"] *= 3
    for i, rows in enumerate((slice(0, None, 2), slice(1, None, 2))):
        path = tmp_path / f"day{i}.npz"
        np.savez(path, logits=logits[rows], labels=labels[rows], region=region[rows])
    np.savez(tmp_path / "all.npz", logits=logits, labels=labels, region=region)


def test_sketches_are_checked_together(cli, regions):
    for i in (0, 1):
        cli("sketch", f"day{i}.npz", "-o", f"day{i}.sketch", "--by", "region")
    words = ["--max-ece", "0.08", "--json", "-"]
    rows = json.loads(cli("check", "all.npz", *words).stdout)
    merged = json.loads(cli("check", "day0.sketch", "day1.sketch", *words).stdout)
    parts = json.loads(cli("check", "day0.npz", "day1.npz", *words, "--workers", "1").stdout)
    assert merged["checks"] == parts["checks"]
    assert merged["status"] == rows["status"] == "pass"
    assert merged["checks"][0]["estimate"] == pytest.approx(
        rows["checks"][0]["estimate"], abs=2e-3
    )
    assert merged["log_loss"] == pytest.approx(rows["log_loss"], rel=1e-9)
    assert merged["name"] == "day0.sketch and 1 more"
    limit = ["--max-nll-increase", "0.1", "--baseline"]
    assert "day1.sketch, other rows" in cli("check", "day0.sketch", *limit, "day1.sketch").stdout
    cli("check", "day0.sketch", *limit, "day1.npz")
    cli("check", "day0.npz", *limit, "day1.sketch")


def test_every_group_has_its_verdict(cli, regions):
    words = ["--max-ece", "0.08", "--by", "region"]
    done = cli("check", "all.npz", *words, "--markdown", "a.md", "--junit", "a.xml", ok=False)
    assert done.returncode == 1
    assert "ECE: pass" in done.stdout
    assert "ECE, region south: fail" in done.stdout
    assert "region north" not in done.stdout
    note = "1 fail, 1 pass, 0 without enough data to tell. Not checked, having fewer than 30"
    assert f"Groups by region: {note} rows: 1." in done.stdout.replace("\n", " ")
    cli("sketch", "all.npz", "-o", "all.sketch", "--by", "region")
    found, want = (
        json.loads(cli("check", name, *words, "--json", "-", ok=False).stdout)
        for name in ("all.sketch", "all.npz")
    )
    for mine, theirs in zip(found["checks"][1:], want["checks"][1:], strict=True):
        assert (mine["group"], mine["status"]) == (theirs["group"], theirs["status"])
        for name in ("estimate", "low", "high"):
            assert mine[name] == pytest.approx(theirs[name], abs=2e-3)
    assert found["small_groups"] == 1
    cli("sketch", "day0.npz", "-o", "plain.sketch")
    done = cli("check", "plain.sketch", *words, ok=False)
    assert done.returncode == 2
    assert "focalibrate sketch PATH -o x.sketch --by region" in " ".join(done.stderr.split())
