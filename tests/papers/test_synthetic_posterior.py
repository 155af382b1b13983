from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate_papers.engine import Folders, Rows, Task
from focalibrate_papers.p000.synthetic_posterior import (
    EXPERIMENT,
    FOCAL,
    GRID,
    LOSSES,
    SIZES,
)

FOLDERS = Folders(None, Path("trained"))


def rows_of(*tasks):
    found = []
    for task in tasks:
        found += EXPERIMENT.rows(task, FOLDERS)
    return Rows(tuple(found))


@pytest.fixture(scope="module")
def exact():
    return rows_of(Task.of("synthetic-posterior", n=0, seed=0, tested=2000, short=False))


@pytest.fixture(scope="module")
def trained():
    return rows_of(*EXPERIMENT.tasks("smallest"))


def test_recovery_of_the_exact_minimiser_is_the_posterior(exact):
    for loss in FOCAL:
        assert exact.one(f"{loss} Ψ KLD") < 1e-12
        assert exact.one(f"{loss} raw KLD") > 0.01
        assert exact.one(f"{loss} raw best class") == 1.0
    assert exact.one("CE raw KLD") < 1e-12


def test_the_exact_minimiser_is_less_confident_with_a_larger_exponent(exact):
    under = [exact.one(f"{loss} raw under") for loss in LOSSES]
    assert_allclose(under[0], 0.0, atol=1e-12)
    assert under[0] < under[1] < under[2]


@pytest.mark.slow
def test_recovery_keeps_the_error_of_trained_networks(trained):
    for n in SIZES["smallest"]:
        for loss in FOCAL:
            before, after = (trained.values(f"{loss} {m} ERR", n=n) for m in ("raw", "Ψ"))
            assert_allclose(after, before, rtol=0, atol=0)
            assert len(before) == 3


def test_curves_are_distributions_and_of_the_first_seed_only(trained):
    n = SIZES["smallest"][-1]
    curves = [trained.curve(f"FL-5 Ψ class {k}", n=n, seed=0) for k in range(3)]
    assert_allclose(sum(y for _, y in curves), np.ones(len(GRID)), atol=2e-6)  # six digits
    assert_allclose(curves[0][0], GRID)
    assert not len(trained.curve("FL-5 Ψ class 0", n=n, seed=1)[0])


def altered(rows, metric, factor):
    return Rows(
        tuple(replace(r, value=r.value * factor) if r.metric.endswith(metric) else r for r in rows)
    )


@pytest.mark.slow
def test_verdicts_follow_the_bar(trained):
    def verdict(rows):
        return EXPERIMENT.conclude(rows, "full").results[0].verdict

    # Far above the floor that a few examples leave, so that the bar alone decides.
    far = altered(trained, "FL-1 raw KLD", 1e6)
    assert verdict(altered(far, "FL-1 Ψ KLD", 1e-9)) == "reproduced"
    assert verdict(altered(far, "FL-1 Ψ KLD", 1e9)) == "not reproduced"
