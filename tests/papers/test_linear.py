from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate_papers.engine import Folders, Rows, Task
from focalibrate_papers.p002.linear import (
    EXPERIMENT,
    LOSSES,
    _figures,
    _looks,
)

FOLDERS = Folders(None, Path("trained"))


@pytest.fixture(scope="module")
def rows():
    found = []
    for task in EXPERIMENT.tasks("smallest"):
        found += EXPERIMENT.rows(task, FOLDERS)
    return Rows(tuple(found))


def test_looks_end_at_the_last_step_and_never_repeat():
    for steps in (2, 120, 5_000):
        looks = _looks(steps)
        assert looks[-1] == steps
        assert looks == sorted(set(looks))
    assert len(_looks(5_000)) == 8


@pytest.mark.slow
def test_the_last_look_is_also_the_number_of_the_run(rows):
    at, norm = rows.curve("CE weight norm")
    assert at[-1] == 120
    assert_allclose(rows.values("CE weight norm").mean(), norm[-1])


def test_a_short_run_is_the_beginning_of_a_long_one():
    def curve(steps):
        task = Task.of("linear", seed=1, n=40, steps=steps)
        return [n[1] for n in EXPERIMENT.run(task, FOLDERS) if n[0] == "CE weight norm"]

    assert_allclose(curve(2)[0], curve(18)[0], rtol=1e-6)


def test_figures_of_known_logits():
    found = dict(_figures(np.array([3.0, 4.0]), np.array([4.0, -1.0, 2.0]), np.array([1, 1, 1])))
    assert found["weight norm"] == 5.0
    assert_allclose(found["logit norm"], 7 / 3)
    assert_allclose(found["error"], 1 / 3)
    assert_allclose(found["confidence of mistakes"], 1 / (1 + np.exp(-1.0)))
    assert found["share of confident mistakes"] == 0.0


def test_shares_of_mistakes_sum_to_one(rows):
    for loss in LOSSES:
        _, share = rows.curve(f"{loss} mistakes", seed=0)
        assert_allclose(share.sum(), 1.0)


def test_the_two_sentences_on_the_norm_cannot_both_stand(rows):
    lines = EXPERIMENT.conclude(rows, "full").results
    assert lines[0].ours.estimate == -lines[2].ours.estimate
    assert {lines[0].verdict, lines[2].verdict} & {"not reproduced"}
