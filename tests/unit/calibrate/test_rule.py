"""The rule of the automatic choice, on losses made for the purpose."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate.pool_weights import LEAST_WEIGHT, faded
from focalibrate.calibrate.rule import pick

RNG = np.random.default_rng(0)
N = 1000
MODEL = RNG.exponential(size=N)


def shifted(mean: float, spread: float, seed: int = 1) -> np.ndarray:
    """Return losses whose difference from the model has exactly this mean and spread."""
    noise = np.random.default_rng(seed).standard_normal(N)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    return MODEL + mean + spread * noise


def chosen(*losses, pool=None, model=0, weights=None):
    table = np.stack([MODEL, *losses], axis=1)
    return pick(table, range(table.shape[1]), model=model, pool=pool, weights=weights).chosen


@pytest.mark.parametrize(("errors", "want"), [(1.2, 0), (1.4, 1)])
def test_the_model_gives_way_to_a_clear_gain_only(errors, want):
    """The spread of the difference counts, not that of the rows."""
    assert chosen(shifted(-errors * 0.1 / np.sqrt(N), 0.1)) == want
    # where the model's own log loss is infinite there is nothing to keep
    assert chosen(shifted(-errors * 0.1 / np.sqrt(N), 0.1), model=None) == want or errors < 1.28


@pytest.mark.parametrize(("errors", "want"), [(0.9, 1), (1.1, 2)])
def test_the_simplest_within_one_standard_error_of_the_best(errors, want):
    simple = shifted(-0.2, 0.1)
    noise = shifted(-errors * 0.1 / np.sqrt(N), 0.1, seed=2) - MODEL
    assert chosen(simple, simple + noise) == want


@pytest.mark.parametrize(("errors", "want"), [(0.4, 1), (0.6, 2)])
def test_the_pool_must_beat_the_simple_method_by_half_a_standard_error(errors, want):
    simple = shifted(-0.2, 0.1)
    noise = shifted(-errors * 0.1 / np.sqrt(N), 0.1, seed=2) - MODEL
    assert chosen(simple, simple + noise, pool=2) == want


def test_the_pool_is_kept_out_where_it_does_not_beat_the_model():
    assert chosen(shifted(0.0, 0.1), shifted(-1.2 * 0.1 / np.sqrt(N), 0.1), pool=2) == 0


def test_whole_weights_move_the_choice_to_the_rows_that_have_them():
    helps = MODEL - np.where(np.arange(N) < 100, 1.0, -0.1) * RNG.uniform(0.5, 1.0, size=N)
    assert chosen(helps) == 0
    assert chosen(helps, weights=np.where(np.arange(N) < 100, 10.0, 1.0)) == 1


def test_small_weights_fade_without_a_jump():
    """A weight at the threshold may differ in its last digit on another machine."""
    for share in (LEAST_WEIGHT, 2 * LEAST_WEIGHT):
        below, above = (faded(np.array([0.7, 0.7 * share * (1 + s)])) for s in (-1e-12, 1e-12))
        assert_allclose(below, above, rtol=0, atol=1e-10)
    assert faded(np.array([0.7, 0.003]))[1] == 0.0
    assert_allclose(faded(np.array([0.5, 0.4, 0.001])).sum(), 0.901)
    assert faded(np.zeros(3)).tolist() == [LEAST_WEIGHT, 0.0, 0.0]


def test_means_of_groups_are_observations_and_whole_weights_are_copies():
    better = shifted(-1.4 * 0.1 / np.sqrt(N), 0.1)
    groups = np.stack([MODEL, better], axis=1).reshape(N // 2, 2, 2).mean(axis=1)
    twos = np.full(N // 2, 2.0)
    assert (
        pick(groups, range(2), model=0, weights=twos).chosen
        == pick(groups, range(2), model=0).chosen
    )
    copied = np.repeat(groups, 2, axis=0)
    weighted = pick(groups, range(2), model=0, weights=twos, size=float(N))
    assert weighted == pick(copied, range(2), model=0)
