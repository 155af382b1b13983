from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate_papers.engine import Folders, Row, Rows, Task
from focalibrate_papers.p000.synthetic_posterior import (
    EXACT,
    EXPERIMENT,
    FOCAL,
    GRID,
    LOSSES,
    SIZES,
    size_name,
)

FOLDERS = Folders(None, Path("trained"))


def rows_of(*tasks):
    found = []
    for task in tasks:
        recipe, seed = EXPERIMENT.describe(task)
        for metric, value, *at in EXPERIMENT.run(task, FOLDERS):
            found.append(Row(task.key, recipe, seed, metric, value, *at))
    return Rows(tuple(found))


@pytest.fixture(scope="module")
def exact():
    return rows_of(Task.of("synthetic-posterior", n=0, seed=0, tested=2000, short=False))


@pytest.fixture(scope="module")
def trained():
    return rows_of(*EXPERIMENT.tasks("smallest"))


def test_recovery_of_the_exact_minimiser_is_the_posterior(exact):
    for loss in FOCAL:
        assert exact.values(EXACT, f"{loss} Ψ KLD")[0] < 1e-12
        assert exact.values(EXACT, f"{loss} raw KLD")[0] > 0.01
        assert exact.values(EXACT, f"{loss} raw best class")[0] == 1.0
    assert exact.values(EXACT, "CE raw KLD")[0] < 1e-12


def test_the_exact_minimiser_is_less_confident_with_a_larger_exponent(exact):
    under = [exact.values(EXACT, f"{loss} raw under")[0] for loss in LOSSES]
    assert_allclose(under[0], 0.0, atol=1e-12)
    assert under[0] < under[1] < under[2]


@pytest.mark.slow
def test_recovery_keeps_the_error_of_trained_networks(trained):
    for n in SIZES["smallest"]:
        for loss in FOCAL:
            before, after = (trained.values(size_name(n), f"{loss} {m} ERR") for m in ("raw", "Ψ"))
            assert_allclose(after, before, rtol=0, atol=0)
            assert len(before) == 3


def test_curves_are_distributions_and_of_the_first_seed_only(trained):
    size = size_name(SIZES["smallest"][-1])
    curves = [trained.curve(size, f"FL-5 Ψ class {k}", seed=0) for k in range(3)]
    assert_allclose(sum(y for _, y in curves), np.ones(len(GRID)), atol=2e-6)  # six digits
    assert_allclose(curves[0][0], GRID)
    assert not len(trained.curve(size, "FL-5 Ψ class 0", seed=1)[0])


def altered(rows, metric, factor):
    return Rows(
        tuple(
            Row(r.run, r.recipe, r.seed, r.metric, r.value * factor, r.at)
            if r.metric.endswith(metric)
            else r
            for r in rows
        )
    )


@pytest.mark.slow
def test_verdicts_follow_the_bar(trained):
    def verdict(rows):
        return EXPERIMENT.conclude(as_full(rows), "full").results[0].verdict

    def as_full(rows):  # the rule alone is at stake: call the small sizes by the names of the full
        names = {
            size_name(a): size_name(b)
            for a, b in zip(SIZES["smallest"], SIZES["full"], strict=True)
        }
        return Rows(
            tuple(
                Row(r.run, names.get(r.recipe, r.recipe), r.seed, r.metric, r.value, r.at)
                for r in rows
            )
        )

    # Far above the floor that a few examples leave, so that the bar alone decides.
    far = altered(trained, "FL-1 raw KLD", 1e6)
    assert verdict(altered(far, "FL-1 Ψ KLD", 1e-9)) == "reproduced"
    assert verdict(altered(far, "FL-1 Ψ KLD", 1e9)) == "not reproduced"
