from itertools import product

import numpy as np
import pytest

from focalibrate_papers.datasets import load
from focalibrate_papers.engine import Folders, Row, Rows, Task
from focalibrate_papers.p000.psi_tabular import (
    CE,
    ERROR,
    EXPERIMENT,
    GAMMAS,
    METHODS,
    METRICS,
    NAME,
    Found,
    counts_table,
    focal,
    mapped,
    ranks_table,
    run,
    told_apart,
)

SETS = [f"table{i}" for i in range(30)]
TRIALS = 4


def made_rows(level):
    """Numbers about the level of each method, with a little noise."""
    rng = np.random.default_rng(0)
    return Rows(
        tuple(
            Row(Task.of(NAME, dataset=name), f"{method} {metric}", at=float(trial), value=value)
            for name, method, metric, trial in product(
                SETS, METHODS, (*METRICS, ERROR), range(TRIALS)
            )
            for value in [0.3 if metric == ERROR else level(method) + 1e-4 * rng.random()]
        )
    )


def as_the_paper_says(method):
    return 0.03 if method == CE or "Ψ" in method else 0.1


def test_what_the_paper_says_is_the_same_direction_where_it_holds():
    found = EXPERIMENT.conclude(made_rows(as_the_paper_says), "full")
    assert len(found.results) == 3 * 3 + 3 + 1
    papers = [line.verdict for line in found.results if line.is_papers]
    assert papers == ["same direction"] * 9 + ["reproduced"]
    assert {line.verdict for line in found.results if not line.is_papers} == {"supported"}
    assert all("FL" in line.claim or "Ψ" in line.claim for line in found.results)


def test_the_opposite_is_not_reproduced():
    found = EXPERIMENT.conclude(made_rows(lambda method: 0.2 - as_the_paper_says(method)), "full")
    verdict = {line.claim: line.verdict for line in found.results}
    for gamma in GAMMAS[1:]:
        assert (
            verdict[f"Ψ lowers the ECE of {focal(gamma)} on most tables"] == "opposite direction"
        )
    assert verdict["Ψ lowers the NLL of focal loss on most tables"] == "not supported"
    assert verdict["Ψ does not change any prediction"] == "reproduced"


def test_more_than_a_point_above_cross_entropy_is_not_comparable():
    levels = {CE: 0.03, mapped(1.0): 0.035, mapped(2.0): 0.045}
    found = EXPERIMENT.conclude(made_rows(lambda method: levels.get(method, 0.1)), "full")
    verdict = {line.claim: line.verdict for line in found.results}
    assert verdict["FL-1+Ψ has at most 1 point more ECE than cross-entropy"] == "same direction"
    assert (
        verdict["FL-2+Ψ has at most 1 point more ECE than cross-entropy"] == "opposite direction"
    )


def test_tables_count_and_rank():
    found = Found(made_rows(as_the_paper_says))
    counts = {(row[0], row[1]): row[2:] for row in counts_table(found).body}
    assert counts["NLL", "FL-3+Ψ − FL-3"][:3] == ("30", "0", "30 / 0 / 0")
    assert counts["NLL", "FL-3 − CE"][:3] == ("0", "30", "0 / 0 / 30")
    ranks = {row[0]: float(row[1]) for row in ranks_table(found).body}
    assert sum(ranks.values()) == pytest.approx(28.0, abs=0.04)
    assert (
        max(ranks[m] for m in METHODS if m == CE or "Ψ" in m)
        < 4
        < min(ranks[focal(g)] for g in GAMMAS[1:])
    )


def test_paired_intervals():
    gaps = np.array([[-1.0, -1.1, -0.9], [-1.0, 1.0, 0.1], [1.0, 1.1, 0.9], [0.0, 0.0, 0.0]])
    assert told_apart(gaps) == (1, 2, 1)


@pytest.mark.slow
def test_splits_of_unequal_width_are_all_trained(tmp_path):
    rng = np.random.default_rng(1)
    kinds = np.where(np.arange(60) < 2, "rare", np.where(rng.random(60) < 0.5, "a", "b"))
    lines = [
        f"{x:.3f},{kind},{int(x > 0)}" for x, kind in zip(rng.normal(size=60), kinds, strict=True)
    ]
    (tmp_path / "made.csv").write_text("x,kind,label\n" + "\n".join(lines) + "\n")
    widths = {load("made", data=tmp_path, seed=t).train.inputs.shape[1] for t in range(8)}
    assert len(widths) == 2
    task = Task.of(NAME, dataset="made", trials=8, epochs=4, fraction=1.0)
    numbers = list(run(task, Folders(tmp_path, tmp_path)))
    assert sorted({at for _, _, at in numbers}) == list(range(8))
    assert len(numbers) == 8 * len(METHODS) * (len(METRICS) + 1)
    assert {name for name, _, _ in numbers} == {
        f"{method} {metric}" for method in METHODS for metric in (*METRICS, ERROR)
    }
    found = {(name, at): value for name, value, at in numbers}
    for gamma, at in product(GAMMAS[1:], range(8)):
        assert found[f"{focal(gamma)} {ERROR}", at] == found[f"{mapped(gamma)} {ERROR}", at]
        assert found[f"{focal(gamma)} NLL", at] != found[f"{mapped(gamma)} NLL", at]
