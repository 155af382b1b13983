"""The committed verdicts follow from the committed rows."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import METHODS
from focalibrate_papers.claims import CLAIMS
from focalibrate_papers.engine import EXPERIMENTS, find_experiment, tally
from focalibrate_papers.evidence import canonical_command, read_rows

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent for path in RESULTS.glob("*/verdicts.json"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_the_verdicts_follow_from_the_rows(folder):
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    written = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
    rows = read_rows(folder / "rows.csv", folder.name)
    found = find_experiment(folder.name).conclude(rows, meta["scale"])
    claims = written["claims"]
    assert [line.verdict for line in found.results] == [line["verdict"] for line in claims]
    assert (found.finding, tally(found.results)) == (written["finding"], written["tally"])
    for line, was in zip(found.results, claims, strict=True):
        words = (was["claim"], was["rule"], was["paper_value"])
        assert (line.claim, line.rule, line.paper_value) == words
        ours = [line.ours.estimate, line.ours.low, line.ours.high]
        want = [was["ours"][end] for end in ("estimate", "low", "high")]
        finite = [x if np.isfinite(x) else np.nan for x in ours]
        assert_allclose(finite, np.array(want, dtype=np.float64), rtol=1e-6, atol=1e-9)
    names = {chart.name for chart in found.charts}
    assert names == {path.stem for path in (folder / "figures").iterdir()}
    assert written["figures"] == {chart.name: chart.caption for chart in found.charts}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_interval_holds_its_estimate_and_makes_its_verdict(folder):
    for line in json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))["claims"]:
        estimate, low, high = (line["ours"][end] for end in ("estimate", "low", "high"))
        if None in (estimate, low, high):
            assert line["verdict"] in ("undecided", "not run at full size"), line["claim"]
            continue
        assert low <= estimate <= high, line["claim"]
        bottom, top = (
            x if x is not None else sign * np.inf
            for x, sign in zip(line["claimed"], (-1, 1), strict=True)
        )
        if line["verdict"] in ("reproduced", "same direction", "supported"):
            assert bottom <= low, line["claim"]
            assert high <= top, line["claim"]
        if line["verdict"] in ("not reproduced", "opposite direction", "not supported"):
            assert high < bottom or low > top, line["claim"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_the_conditions_are_recorded(folder):
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    assert meta["experiment"] == folder.name
    assert meta["command"] == canonical_command(folder.name, meta["scale"])
    assert meta["scale"] != "smallest"
    assert {row.task.key for row in read_rows(folder / "rows.csv", folder.name)} == set(
        meta["runs"]
    )
    assert meta["seconds_of_all_runs"] > 0
    assert {"python", "focalibrate", "numpy"} <= set(meta["versions"])


def test_the_evidence_is_small():
    sizes = [
        path.stat().st_size
        for path in RESULTS.rglob("*")
        if path.is_file() and not {"runs", "trained"} & set(path.parts)
    ]
    assert sum(sizes) < 4e6


def test_no_path_of_a_machine_is_published():
    for path in RESULTS.rglob("*"):
        if path.suffix in (".md", ".json", ".csv") and not {"runs", "trained"} & set(path.parts):
            assert not re.search(r"(?<![\w.])/(work|home|root|tmp|mnt)/", path.read_text()), path


def test_every_folder_of_evidence_is_of_an_experiment():
    assert {folder.name for folder in FOLDERS} <= set(EXPERIMENTS)


def test_a_sentence_has_one_verdict_everywhere():
    """An erratum of `focalibrate theory` is "not reproduced" in an experiment, and vice versa."""
    expected = {claim.id: claim.expected for claim in CLAIMS}
    for folder in FOLDERS:
        written = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
        found = {}
        for claim in written["claims"]:
            if claim["theory"]:
                found.setdefault(claim["theory"], set()).add(claim["verdict"])
        for name, verdicts in found.items():
            is_wrong = expected[name] in ("false", "slip", "digit")
            assert ("not reproduced" in verdicts) == is_wrong, (folder.name, name)


def test_the_warning_about_one_curve_per_class_is_what_the_arena_measured():
    rows = json.loads((RESULTS / "arena" / "summary.json").read_text())["many classes"]
    for name, share, words in (("isotonic", 0.25, "one of four"), ("histogram", 0.75, "three of")):
        assert abs(rows[f"focalibrate {name}"]["worse_than_model"][0] - share) < 0.05
        assert words in METHODS[name].caution
