import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate_papers.engine import Folders, Row, Rows
from focalibrate_papers.networks import GAMMA, fit_line
from focalibrate_papers.p003 import focal_temperature

METHODS = ("raw", "TS_ECE", "FTS_ECE", "TS_NLL", "FTS_NLL")


def made_rows(*, fts_less_ts, curve):
    """Return rows with this difference of FTS − TS, whose best T is `curve` of the exponent."""
    rows = []
    for task in focal_temperature.tasks("reduced"):
        trained_gamma = GAMMA.get(task["loss"], 3.0)
        for method in METHODS:
            moved = fts_less_ts if method.startswith("FTS") else 0.0
            for metric, value in (("adaece", 0.02), ("ece", 0.02), ("nll", 0.9), ("error", 0.3)):
                rows.append(Row(task, f"{metric}, {method}", value + moved))
        numbers = {
            "T, TS_ECE": 2.0 - 0.1 * trained_gamma + 0.001 * task.seed,
            "T, FTS_ECE": 1.0,
            "gamma, FTS_ECE": 0.5,
        }
        rows += [Row(task, metric, value) for metric, value in numbers.items()]
        rows += [Row(task, "best T", curve(gamma), gamma) for gamma in (-0.5, 0.0, 0.5, 1.0, 5.0)]
    return Rows(tuple(rows))


def lines_of(rows):
    return {
        line.claim: line for line in focal_temperature.EXPERIMENT.conclude(rows, "reduced").results
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("difference", "verdict"), [(-0.005, "same direction"), (0.005, "opposite direction")]
)
def test_the_verdict_follows_the_sign_of_fts_less_ts(difference, verdict):
    lines = lines_of(made_rows(fts_less_ts=difference, curve=lambda g: 1 + g))
    assert lines["FTS has a lower AdaECE than TS: CIFAR-10"].verdict == verdict
    over_all = lines["FTS has a lower AdaECE than TS on average over all kinds of networks"]
    assert over_all.verdict == ("supported" if difference < 0 else "not supported")
    share = lines["FTS has a lower AdaECE than TS for every training loss: CIFAR-10"].ours
    assert 0.0 <= share.low <= share.estimate <= share.high <= 1.0
    ours = lines["FTS has a lower AdaECE than TS: CIFAR-10"].ours
    assert_allclose(ours.estimate, 100 * difference)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("curve", "verdict"),
    [(lambda g: 1 + 0.4 * g, "same direction"), (lambda g: (g - 2) ** 2, "opposite direction")],
    ids=["line", "parabola"],
)
def test_linear_means_a_line(curve, verdict):
    lines = lines_of(made_rows(fts_less_ts=0.0, curve=curve))
    name = "The best T is linear in the γ of the map: CIFAR-10, the whole grid of γ"
    assert lines[name].verdict == verdict


@pytest.mark.slow
def test_a_falling_temperature_has_rank_correlation_minus_one():
    lines = lines_of(made_rows(fts_less_ts=0.0, curve=lambda g: 1 + g))
    assert lines["The best T falls with the γ of training: CIFAR-10"].ours.estimate < -0.9


def test_temperatures_that_all_end_at_the_edge_leave_no_line_and_no_crash():
    rows = made_rows(fts_less_ts=0.0, curve=lambda g: 1 + g)
    rows = Rows(tuple(row for row in rows if row.metric != "best T"))
    found = focal_temperature.EXPERIMENT.conclude(rows, "reduced")
    lines = {line.claim: line for line in found.results}
    line = lines["The best T is linear in the γ of the map: CIFAR-10, γ ≤ 1 only"]
    assert np.isnan(line.ours.estimate)
    assert line.verdict == "undecided"


@pytest.mark.slow
def test_a_run_fits_both_ways_and_keeps_the_error(tmp_path):
    pytest.importorskip("torch")
    task = focal_temperature.tasks("smallest")[0]
    numbers = list(focal_temperature.run(task, Folders(None, tmp_path)))
    scores = {n[0]: n[1] for n in numbers if len(n) == 2}
    assert {f"adaece, {m}" for m in METHODS} <= scores.keys()
    assert len({scores[f"error, {m}"] for m in METHODS}) == 1


def test_a_line_explains_a_line_and_needs_three_points():
    fit = fit_line(np.array([-1.0, 0.0, 4.0]), np.array([3.0, 2.0, -2.0]))
    assert_allclose((fit.slope, fit.intercept, fit.r2), (-1.0, 2.0, 1.0))
    assert np.isnan(fit_line(np.array([0.0, 1.0]), np.array([0.0, 1.0])).r2)
