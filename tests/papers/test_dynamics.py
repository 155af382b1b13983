from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate_papers.engine import Row, Rows, Task, at_size
from focalibrate_papers.p002 import dynamics
from focalibrate_papers.p002.dynamics import (
    EXPERIMENT,
    FIGURES,
    claims,
    first_drop,
    looked_at,
    median_of,
    spaced,
    tasks,
)

EDGES = np.concatenate([[0.0], np.logspace(-8, 4, 61), [np.inf]])
N_EPOCHS = 10
CE = {
    "rise of nll": 0.2,
    "rise of nll_incorrect": 1.0,
    "rise of nll_correct": -0.1,
    "rise of ece": 0.05,
    "test entropy_incorrect": 0.3,
    "test p_true_incorrect": 0.1,
    "test p_true_correct": 0.99,
    "test ece": 0.1,
    "weight norm before the drop": 2.0,
    "weight norm": 3.0,
    "log10 gradient norm, first look": -0.5,
    "log10 gradient norm, last look": -2.0,
}
SHIFT = {
    "rise of nll_incorrect": -0.3,
    "test entropy_incorrect": 0.1,
    "test p_true_incorrect": 0.05,
    "test p_true_correct": -0.01,
    "test ece": -0.02,
    "weight norm before the drop": 0.1,
    "weight norm": -0.2,
    "log10 gradient norm, first look": -0.05,
    "log10 gradient norm, last look": -0.5,
}


def rows_of(sign: float) -> Rows:
    """Return runs as the paper describes them, or (sign -1) the opposite."""
    return Rows(
        tuple(
            Row(
                Task.of("dynamics", problem=problem, loss=loss, seed=seed),
                metric,
                _value(metric, sign, step, seed),
            )
            for problem in ("cifar10", "fashion_mnist")
            for step, loss in enumerate(("ce", "fl1", "fl2", "fl3"))
            for seed in range(3)
            for metric in CE
        )
    )


def _value(metric: str, sign: float, step: int, seed: int) -> float:
    start = sign * CE[metric] if metric.startswith("rise") else CE[metric]
    return start + sign * step * SHIFT.get(metric, 0.0) + 0.001 * seed


def seen_by_a_run() -> dict[str, np.ndarray]:
    """Return arrays in the form that training writes, evaluated every fourth epoch."""
    rng = np.random.default_rng(0)
    looks = [e for e in range(N_EPOCHS) if (e + 1) % 4 == 0 or e + 1 == N_EPOCHS]
    seen = {"gradient_edges": EDGES, "weight_norm": rng.random(N_EPOCHS)}
    for split in ("train", "validation", "test"):
        kept = np.full(N_EPOCHS, 1.0 if split == "validation" else np.nan)
        kept[looks] = 1.0
        for figure in (*FIGURES, "entropy_correct"):
            seen[f"{split}_{figure}"] = rng.random(N_EPOCHS) * kept
        counts = rng.integers(0, 9, size=(N_EPOCHS, 62)) + 1.0
        seen[f"{split}_gradient_histogram"] = counts * kept[:, None]
        table = rng.integers(1, 9, size=(N_EPOCHS, 3, 15)).astype(float)
        seen[f"{split}_reliability"] = table * kept[:, None, None]
    return seen


@pytest.fixture
def run_of(monkeypatch):
    found = SimpleNamespace(dynamics=seen_by_a_run())
    monkeypatch.setattr(dynamics, "trained", lambda recipe, folders: found)
    recipe = SimpleNamespace(milestone_epochs=(4,), epochs=N_EPOCHS)
    monkeypatch.setattr(dynamics, "pool_recipe", lambda task: recipe)
    return lambda task: list(EXPERIMENT.run(task, None))


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40))
def test_the_median_lies_in_the_bin_of_the_sample_s(seed, n):
    norms = 10.0 ** np.random.default_rng(seed).uniform(-7, 3, size=2 * n + 1)
    counts = np.histogram(norms, EDGES)[0].astype(float)
    assert abs(median_of(counts, EDGES) - np.log10(np.median(norms))) <= 0.2 + 1e-9


@pytest.mark.parametrize(("place", "power"), [(0, -8.0), (61, 4.0)])
def test_norms_beyond_the_edges_count_at_them(place, power):
    counts = np.zeros(62)
    counts[place] = 5.0
    assert_allclose(median_of(counts, EDGES), power)


def test_looks_are_spaced_from_the_first_to_the_last():
    assert spaced([3, 7, 11, 15, 19, 23], 3) == [3, 11, 23]
    assert spaced([3], 4) == [3, 3, 3, 3]
    assert looked_at(seen_by_a_run()) == [3, 7, 9]


def test_without_a_milestone_the_run_is_cut_half_way():
    assert first_drop(SimpleNamespace(milestone_epochs=(9,), epochs=24)) == 9
    assert first_drop(SimpleNamespace(milestone_epochs=(), epochs=8)) == 4


def test_a_run_s_numbers_are_finite_and_its_rises_start_after_the_drop(run_of):
    task = tasks("reduced")[0]
    seen, numbers = seen_by_a_run(), run_of(task)
    assert np.isfinite([number[1] for number in numbers]).all()
    whole = {n[0]: n[1] for n in numbers if len(n) == 2}
    curve = seen["validation_ece"]
    assert_allclose(whole["rise of ece"], curve[-1] - curve[4])
    assert_allclose(whole["weight norm before the drop"], seen["weight_norm"][:4].mean())


def test_shares_of_gradients_and_of_bins_sum_to_one(run_of):
    sums: dict[str, float] = {}
    for name, value, *_ in run_of(tasks("reduced")[0]):
        if name.startswith(("gradients", "share")):
            sums[name] = sums.get(name, 0.0) + value
    assert len(sums) == 3 + 4
    assert_allclose(list(sums.values()), 1.0, atol=1e-3)


def test_what_the_paper_tells_is_reproduced_at_full_size():
    found = [line for line in at_size(claims(rows_of(1.0)), is_full=True) if "CIFAR" in line.claim]
    assert len(found) == 4 + 5 + 6 + 3 + 4
    assert {line.verdict for line in found} == {"reproduced"}


def test_a_set_the_paper_lacks_and_smaller_runs_have_directions_only():
    other = [
        line for line in at_size(claims(rows_of(1.0)), is_full=True) if "Fashion" in line.claim
    ]
    smaller = list(at_size(claims(rows_of(1.0)), is_full=False))
    assert {line.verdict for line in other} == {"supported"}
    assert not any(line.is_papers for line in other)
    papers = [line.verdict for line in smaller if line.is_papers]
    assert set(papers) == {"same direction", "not run at full size"}
    assert papers.count("not run at full size") == 1


def test_the_opposite_is_not_reproduced():
    found = list(at_size(claims(rows_of(-1.0)), is_full=False))
    kept = {line.claim for line in found if line.verdict in ("same direction", "supported")}
    assert all("similar" in claim or "over 0.95" in claim for claim in kept)
