from dataclasses import replace
from pathlib import Path

import pytest
from numpy.testing import assert_allclose

from focalibrate.theory import gamma_star, tau_over, tau_under
from focalibrate_papers.engine import Folders, Rows, Task
from focalibrate_papers.p000.regimes import (
    COUNTEREXAMPLES,
    EXPERIMENT,
    SEARCHED_CLASSES,
    SEARCHED_GAMMAS,
    SLIDES,
)

FOLDERS = Folders(None, Path("trained"))


def run_all(scale):
    rows = []
    for task in EXPERIMENT.tasks(scale):
        rows += EXPERIMENT.rows(task, FOLDERS)
    return Rows(tuple(rows))


@pytest.fixture(scope="module")
def rows():
    return run_all("smallest")


def numbers(**settings):
    return {n[0]: n[1] for n in EXPERIMENT.run(Task.of("regimes", **settings), FOLDERS)}


@pytest.mark.slow
def test_thresholds_are_those_of_the_theory(rows):
    assert_allclose(rows.values("tau_over", part="factor", gamma=3.0), [tau_over(3.0)])
    assert_allclose(rows.values("phi at tau_under", gamma=3.0), [1.0], rtol=1e-12)
    at, high = rows.curve("tau_under", part="thresholds")
    assert_allclose(high, [tau_under(g) for g in at])


@pytest.mark.parametrize("n_classes", [4, 5, 6])
def test_tied_classes_are_overconfident_up_to_gamma_star(n_classes):
    found = numbers(part="footnote", n_classes=n_classes, n=8)
    assert_allclose(found["limit at tied classes"], gamma_star(1 / (n_classes - 1)), rtol=1e-4)


def test_near_uniform_the_limit_is_where_tau_over_is_that_of_uniform():
    found = numbers(part="footnote", n_classes=5, n=8)
    assert_allclose(tau_over(found["limit near uniform"]), 1 / 5, rtol=1e-5)
    assert numbers(part="footnote", n_classes=4, n=8)["limit near uniform"] == 0.0


@pytest.mark.slow
def test_two_classes_are_never_overconfident(rows):
    falls = [rows.one("largest fall", n_classes=2, gamma=g) for g in SEARCHED_GAMMAS]
    assert max(falls) <= 0.0
    assert rows.one("largest fall", n_classes=4, gamma=1.0) > 0.0


def test_psi_lowers_the_confidence_of_every_counterexample(rows):
    for i in range(1, len(COUNTEREXAMPLES) + 1):
        before, after = (rows.one(m, case=i) for m in ("max q", "max psi"))
        assert after < before


def test_conclusion_at_full_size(rows):
    found = EXPERIMENT.conclude(rows, "full")  # the rules, on the coarse grids
    wrong = [line.theory for line in found.results if line.verdict == "not reproduced"]
    assert wrong == ["003-prop-5", "001-scores"]
    (footnote,) = (line for line in found.results if line.theory == "000-footnote-2")
    assert footnote.verdict == "reproduced"
    (extension,) = (line for line in found.results if not line.is_papers)
    assert extension.verdict == "supported"
    assert extension.ours.estimate == 4
    assert len(found.results) == 12 + len(SLIDES)
    assert len({chart.name for chart in found.charts}) == 3
    assert len(found.tables[1].body) == len(SEARCHED_CLASSES)


def test_a_vector_in_the_wrong_regime_is_held_against_the_theorem(rows):
    spoilt = Rows(
        tuple(replace(r, value=1.0) if r.metric == "in the wrong regime" else r for r in rows)
    )
    line = EXPERIMENT.conclude(spoilt, "full").results[1]
    assert line.verdict == "not reproduced"
    assert line.ours.estimate == 3.0
