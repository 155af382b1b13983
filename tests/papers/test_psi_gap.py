"""Where Ψ helps, by the generalisation gap."""

import math

import numpy as np
import pytest

from focalibrate_papers.engine import Folders, Row, Rows, Task
from focalibrate_papers.p000 import psi_gap as psi_gap
from focalibrate_papers.p000.psi_gap import (
    GAMMAS,
    mean_changes,
    resampled_by_problem,
    settings_of,
)


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    """A tenth of the draws: the intervals of these made-up worlds are narrow."""
    monkeypatch.setattr(psi_gap, "N_RESAMPLES", psi_gap.N_RESAMPLES // 10)


def made(problem, *, gap, train_error, change, sure=0.0, n=2):
    numbers = {
        "train loss": 0.2,
        "test loss": 0.2 + gap,
        "train error": train_error,
        "test error": 0.2,
        "ECE": 0.05,
        "ECE with Ψ": 0.05 + change,
        "confidence − accuracy": sure,
    }
    if math.isnan(gap):
        numbers |= {"test loss": 1.0}
        numbers.pop("train loss")
    return [
        Row(
            Task.of("psi-gap", table=problem),
            f"{metric}, FL-{gamma:g}",
            value + 1e-6 * trial,
            float(trial),
        )
        for gamma in GAMMAS
        for trial in range(n)
        for metric, value in numbers.items()
    ]


def world(*, near, far):
    rows = []
    for i in range(6):
        change = near + 1e-4 * i
        rows += made(f"near {i}", gap=0.01 * i, train_error=0.1, change=change, sure=-0.1)
        rows += made(f"far {i}", gap=0.5 + i, train_error=0.0, change=far + 1e-4 * i, sure=0.1)
    return Rows(tuple(rows))


def lines_of(rows):
    return {line.claim: line for line in psi_gap.EXPERIMENT.conclude(rows, "reduced").results}


def test_a_world_as_the_theory_has_it_supports_every_question():
    lines = lines_of(world(near=-0.02, far=0.03))
    less = "Underconfidence on held-out examples predicts better than the losses whether Ψ helps"
    assert {c: line.verdict for c, line in lines.items() if line.verdict != "supported"} == {
        less: "not supported"  # as both tell it right
    }
    near = lines["Ψ lowers the ECE if training and test loss agree"]
    np.testing.assert_allclose(near.ours.estimate, -2.0 + 0.025, atol=1e-6)
    assert "18 settings of 6 problems; the ECE falls in 18 of them." in near.note


def test_a_world_in_which_psi_always_helps_does_not():
    lines = lines_of(world(near=-0.02, far=-0.02))
    assert lines["Ψ lowers the ECE exactly if training and test loss agree"].verdict == (
        "not supported"
    )
    hurt = "Ψ raises the ECE if the network fits its training examples but not the test examples"
    assert lines[hurt].verdict == "not supported"


def test_an_unknown_training_loss_is_compared_by_error_only():
    rows = (*world(near=-0.02, far=0.03), *made("p", gap=math.nan, train_error=0.0, change=0.1))
    lines = lines_of(Rows(rows))
    by = "The further the test {0} is above the training {0}, the less Ψ helps"
    assert "36 settings of 12" in lines[by.format("loss")].note
    assert "39 settings of 13" in lines[by.format("error")].note


def test_nothing_near_is_said_to_be_nothing():
    rows = Rows(tuple(made("far", gap=1.0, train_error=0.0, change=0.1)))
    found = psi_gap.EXPERIMENT.conclude(rows, "reduced")
    assert "an unknown amount" in found.finding
    assert found.results[0].verdict == "undecided"


def test_one_problem_is_one_observation():
    rows = Rows(
        (
            *made("a", gap=0, train_error=0, change=0.01, n=5),
            *made("b", gap=0, train_error=0, change=0.03),
        )
    )
    settings = settings_of(rows)
    assert len(settings) == 6
    np.testing.assert_allclose(mean_changes(settings), [1.0, 3.0], atol=1e-9)
    assert resampled_by_problem(len, settings, "change").low == -math.inf


def test_a_line_is_trained_and_measured_on_both_parts(tmp_path):
    pytest.importorskip("torch")
    task = next(t for t in psi_gap.tasks("smallest") if "line" in dict(t.settings))
    numbers = list(psi_gap.run(task, Folders(None, tmp_path)))
    assert {at for _, _, at in numbers} == {0.0, 1.0}
    names = {name for name, _, _ in numbers}
    assert names == {
        f"{m}, FL-{g:g}"
        for g in GAMMAS
        for m in (
            "train loss",
            "test loss",
            "train error",
            "test error",
            "ECE",
            "ECE with Ψ",
            "confidence − accuracy",
        )
    }
