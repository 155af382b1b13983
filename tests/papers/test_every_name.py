"""Every experiment at its smallest scale: complete, by its own rules, without data, resumable."""

import json
import math
import re
from importlib import import_module

import pytest
from matplotlib.figure import Figure

from focalibrate_papers import charts
from focalibrate_papers.datasets import VARIABLE
from focalibrate_papers.engine import EXPERIMENTS, OWN_VERDICTS, VERDICTS, find_experiment
from focalibrate_papers.evidence import read_rows, reproduce

SCALES = ("smallest", "reduced", "full")
RESAMPLED = ("p000.psi_gap", "p004.curvature")


class Counting:
    """Makes the runs one after the other in this process, and counts them."""

    def __init__(self):
        self.calls = 0

    def map(self, function, arguments):
        for place, given in enumerate(arguments):
            self.calls += 1
            yield place, function(*given)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of networks that the experiments share, as they do for users."""
    return tmp_path_factory.mktemp("trained")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_from_its_name_to_its_page(name, trained, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    for path in RESAMPLED:  # the numbers themselves are tested in contract/test_results.py
        module = import_module(f"focalibrate_papers.{path}")
        monkeypatch.setattr(module, "N_RESAMPLES", 60)
    # Ticks and the room for them take most of the time of a figure; tests of charts look at them.
    monkeypatch.setattr(Figure, "set_layout_engine", lambda *_, **__: None)
    for option in ("axes.grid", "xtick.labelbottom", "ytick.labelleft"):
        monkeypatch.setitem(charts._STYLE, option, False)
    monkeypatch.setitem(charts._STYLE, "axes.titley", 1.0)
    out, backend = tmp_path / name, Counting()
    found = reproduce(name, out=out, scale="smallest", trained=trained, backend=backend)
    tasks = found.experiment.tasks("smallest")
    assert backend.calls == len({task.key for task in tasks}) > 0

    # Rows: every run has some.
    assert {row.task for row in found.rows} == set(tasks)
    named = [(row.task, row.metric, row.at) for row in found.rows if not math.isnan(row.at)]
    named += [(row.task, row.metric) for row in found.rows if math.isnan(row.at)]
    assert len(set(named)) == len(named)
    assert sorted(map(repr, read_rows(out / "rows.csv", name))) == sorted(map(repr, found.rows))

    # Verdicts: stated whole, never more than the size allows.
    assert found.conclusion.results
    for line in found.conclusion.results:
        assert line.verdict in (VERDICTS if line.is_papers else OWN_VERDICTS)
        assert all((line.claim, line.rule, line.paper_value, line.unit))
        assert line.claimed[0] < line.claimed[1] or line.claimed[0] == line.claimed[1] == 0
    assert found.conclusion.finding
    written = json.loads((out / "verdicts.json").read_text())["claims"]
    assert [line["claim"] for line in written] == [line.claim for line in found.conclusion.results]

    # Page and figures: each chart by its name, and what is smaller is said.
    names = [chart.name for chart in found.conclusion.charts]
    assert names
    assert sorted(names) == sorted(p.stem for p in (out / "figures").iterdir())
    page = (out / "README.md").read_text()
    assert page.count("](figures/") == len(names)
    assert ("Smaller than the paper." in page) == (not found.experiment.is_full("smallest"))

    if name == "linear":  # resuming is a promise of the engine, not of each experiment
        again = Counting()
        second = reproduce(name, out=out, scale="smallest", trained=trained, backend=again)
        assert again.calls == 0
        assert repr(second.rows) == repr(found.rows)
        assert repr(second.conclusion.results) == repr(found.conclusion.results)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_an_experiment_says_of_itself(name):
    experiment = find_experiment(name)
    assert experiment.name == name
    assert re.fullmatch(r"E\d+", experiment.code)
    assert {"smallest"} <= set(experiment.smaller) <= set(SCALES)
    assert all((experiment.source, experiment.title, experiment.protocol))
    for scale in SCALES:
        tasks = experiment.tasks(scale)
        assert {task.experiment for task in tasks} == {name}
        assert len({task.key for task in tasks}) == len(tasks)
        assert [task.key for task in experiment.tasks(scale)] == [task.key for task in tasks]
