from itertools import product

import numpy as np

from focalibrate_papers.engine import Row, Rows, Task
from focalibrate_papers.p004.curvature_regularised import (
    ECE,
    EXPERIMENT,
    TRACE,
    by_seed,
)

NETWORKS = tuple({"lr": lr, "epochs": 8} for lr in (0.0025, 0.005, 0.01))
SEEDS, TAUS = (0, 1, 2), (0.0, 1e-4, 3e-4, 1e-3)


def made_rows(ece, trace, networks=NETWORKS):
    """Numbers by the position of τ, with a little noise."""
    rng = np.random.default_rng(0)
    rows = []
    for network, seed, (i, tau) in product(networks, SEEDS, enumerate(TAUS)):
        task = Task.of("curvature-regularised", seed=seed, **network)
        values = {ECE: ece[i], TRACE: trace[i], "NLL": 1.4, "Brier": 0.6, "error": 0.5}
        rows += [
            Row(task, metric, value * (1 + 1e-3 * rng.random()), tau)
            for metric, value in values.items()
        ]
    return Rows(tuple(rows))


def standings(rows, scale="full"):
    return [line.verdict for line in EXPERIMENT.conclude(rows, scale).results]


def test_what_the_paper_says_is_the_same_direction_where_it_holds():
    rows = made_rows((0.08, 0.06, 0.04, 0.02), (900, 700, 500, 300))
    assert standings(rows) == ["same direction"] * 9
    assert not EXPERIMENT.is_full("full")  # the paper prints neither epochs nor learning rates


def test_the_paper_is_judged_by_the_longest_runs():
    short = made_rows((0.02, 0.03, 0.04, 0.05), (900, 700, 500, 300))
    long = made_rows((0.3, 0.2, 0.1, 0.05), (900, 700, 500, 300), [{"lr": 0.005, "epochs": 60}])
    found = EXPERIMENT.conclude(Rows((*short, *long)), "full").results
    papers = [result for result in found if result.is_papers]
    assert [result.verdict for result in papers] == ["same direction"] * 5
    assert all("60 epochs" in result.claim for result in papers)
    ours = [result.verdict for result in found if not result.is_papers]
    assert ours == ["not supported"] * 4 + ["supported"] * 4 + ["not supported"]


def test_a_step_up_breaks_consistency_only():
    rows = made_rows((0.08, 0.03, 0.04, 0.02), (900, 700, 500, 300))
    found = standings(rows)
    assert found[:4] == ["same direction"] * 3 + ["opposite direction"]
    assert found[7] == "same direction"


def test_an_ece_that_rises_is_the_opposite():
    rows = made_rows((0.02, 0.03, 0.04, 0.05), (900, 700, 500, 300))
    found = standings(rows)
    assert found[:4] == ["opposite direction"] * 4
    assert found[4:8] == ["same direction"] * 4
    assert found[8] == "opposite direction"


def test_a_run_that_diverged_reproduces_nothing():
    rows = made_rows((0.08, 0.06, 0.04, 0.02), (900, 700, 500, 300))
    gone = Rows(
        tuple(
            row for row in rows if (row.task["lr"], row.task.seed, row.at) != (0.01, 1, TAUS[-1])
        )
    )
    assert np.isnan(by_seed(gone.of(lr=0.01), ECE, TAUS)[1, -1])
    found = standings(gone)
    assert found[2] == "undecided"
    assert found[:2] == ["same direction"] * 2
