"""The committed evidence is what the code concludes from the committed rows."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.experiments.registry import EXPERIMENTS, find_experiment
from focalibrate.experiments.reproduce import read_rows

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(path.parent for path in RESULTS.glob("*/verdicts.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_the_verdicts_follow_from_the_rows(folder):
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    written = json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))
    rows = read_rows(folder / "rows.csv")
    found = find_experiment(folder.name).conclude(rows, meta["scale"])
    assert [line.standing for line in found.lines] == [line["standing"] for line in written]
    for line, was in zip(found.lines, written, strict=True):
        assert (line.claim, line.rule, line.paper) == (was["claim"], was["rule"], was["paper"])
        ours = [line.ours.estimate, line.ours.low, line.ours.high]
        want = [was["ours"][end] for end in ("estimate", "low", "high")]
        assert_allclose(ours, np.array(want, dtype=np.float64), rtol=1e-6, atol=1e-9)
    names = {chart.name for chart in found.charts}
    assert names == {path.stem for path in (folder / "figures").iterdir()}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_the_conditions_are_recorded(folder):
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    assert meta["experiment"] == folder.name
    assert meta["command"].startswith(f"focalibrate reproduce {folder.name} ")
    assert meta["scale"] != "smallest"
    assert {row.run for row in read_rows(folder / "rows.csv")} == set(meta["runs"])
    assert meta["seconds_of_all_runs"] > 0
    assert {"python", "focalibrate", "numpy"} <= set(meta["versions"])


def test_the_evidence_is_small():
    sizes = [
        path.stat().st_size
        for path in RESULTS.rglob("*")
        if path.is_file() and not {"runs", "trained"} & set(path.parts)
    ]
    assert sum(sizes) < 20e6


def test_every_folder_of_evidence_is_of_an_experiment():
    assert {folder.name for folder in FOLDERS} <= set(EXPERIMENTS)
