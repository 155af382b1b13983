import numpy as np
import pytest

from focalibrate.comparison import choose, compare


def problem(n, *, scale, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, 4)) * 2
    return scale * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


def test_a_calibrated_model_is_left_alone():
    choice = choose(compare(*problem(1500, scale=1.0), n_resamples=200))
    assert choice.row.method == "identity"
    assert "not simpler: temperature (NLL)" in choice.reason


def test_an_overconfident_model_gets_the_simplest_cure():
    found = compare(*problem(1500, scale=3.0), n_resamples=200)
    choice = choose(found)
    assert choice.row.method == "temperature"
    assert choice.row in choice.equals
    assert choose(found, score="brier").score == "brier"


def test_a_better_but_not_provably_better_method_gives_way():
    found = compare(*problem(200, scale=1.3), n_resamples=200)
    choice = choose(found)
    assert choice.best.method != "identity"
    assert choice.row.method == "identity"
    assert "the data cannot tell it from uncalibrated" in choice.reason


def test_the_only_method_needs_no_company():
    choice = choose(compare(*problem(300, scale=1.0), methods=["identity"], n_resamples=50))
    assert choice.row is choice.best
    assert choice.reason.endswith("the data tell every other method from it.")


def test_infinite_scores_never_win():
    found = compare(*problem(300, scale=1.0), methods=["histogram"], n_resamples=50)
    assert np.isinf(found.row("histogram").scores["nll"].estimate)
    assert choose(found).row.method == "identity"


def test_unknown_score():
    found = compare(*problem(300, scale=1.0), methods=["identity"], n_resamples=50)
    with pytest.raises(ValueError, match=r"`score` must be one of .* got 'ece'"):
        choose(found, score="ece")
