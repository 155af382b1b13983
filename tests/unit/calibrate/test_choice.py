"""The automatic choice: the model as it is, a single method, or an average."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import focalibrate
from focalibrate.calibrate import (
    Average,
    Calibrator,
    Identity,
    TemperatureScaling,
    fit,
)
from focalibrate.calibrate.choice import (
    FitSettings,
    Fitted,
    candidates_for,
    cross_fit,
    pick,
    refit_checked,
)
from focalibrate.calibrate.methods import METHODS
from focalibrate.calibrate.mixtures import average_weights
from focalibrate.calibrate.rows import random_folds, read_scores

fit_average = partial(fit, method="average")

RNG = np.random.default_rng(0)
N = 1000
MODEL = RNG.exponential(size=N)


def sample(n, k, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    truth = scale * rng.standard_normal((n, k))
    return truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


def shifted(mean, spread, seed=1):
    """Return losses whose difference from the model has exactly this mean and spread."""
    noise = np.random.default_rng(seed).standard_normal(N)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    return MODEL + mean + spread * noise


def chosen(*losses, model=0, weights=None):
    return pick(np.stack([MODEL, *losses], axis=1), model=model, weights=weights)[0]


@pytest.mark.parametrize(("errors", "want"), [(0.95, 0), (1.05, 1)])
def test_the_model_is_kept_within_one_standard_error_of_the_best(errors, want):
    """The spread of the difference counts, not that of the rows."""
    better = shifted(-errors * 0.1 / np.sqrt(N), 0.1)
    assert chosen(better) == want
    assert chosen(better, model=None) == 1  # where nothing is to be kept


@pytest.mark.parametrize(("errors", "want"), [(0.45, 1), (0.55, 2)])
def test_the_first_within_half_a_standard_error_of_the_best(errors, want):
    simple = shifted(-0.2, 0.1)
    noise = shifted(-errors * 0.1 / np.sqrt(N), 0.1, seed=2) - MODEL
    assert chosen(simple, simple + noise) == want


def test_whole_weights_move_the_choice_to_the_rows_that_have_them():
    helps = MODEL - np.where(np.arange(N) < 100, 1.0, -0.1) * RNG.uniform(0.5, 1.0, size=N)
    assert chosen(helps) == 0
    assert chosen(helps, weights=np.where(np.arange(N) < 100, 10.0, 1.0)) == 1


def test_means_of_groups_are_observations_and_whole_weights_are_copies():
    better = shifted(-1.4 * 0.1 / np.sqrt(N), 0.1)
    groups = np.stack([MODEL, better], axis=1).reshape(N // 2, 2, 2).mean(axis=1)
    twos = np.full(N // 2, 2.0)
    assert pick(groups, weights=twos)[0] == pick(groups)[0]
    copied = np.repeat(groups, 2, axis=0)
    assert pick(groups, weights=twos, size=float(N)) == pick(copied)


@pytest.mark.parametrize(
    ("n_classes", "gamma", "ladder", "others"),
    [
        (2, None, "identity temperature platt beta", "spline isotonic"),
        (2, 2.0, "identity posterior_recovery temperature platt beta", "spline isotonic"),
        (10, None, "identity temperature structured_vector structured_matrix",
         "isotonic dirichlet"),
        (11, None, "identity temperature structured_vector structured_matrix", "isotonic"),
    ],
)  # fmt: skip
def test_the_candidates(n_classes, gamma, ladder, others):
    rows = read_scores(np.zeros((5, n_classes)), np.zeros(5, dtype=int))
    found = candidates_for(rows, gamma, n_fits=6)
    assert found.ladder == tuple(ladder.split())
    assert found.members == (*found.ladder, *others.split())
    assert found.names == (*found.members, "average")


def test_large_data_and_many_classes_leave_out_what_takes_too_long():
    rows = read_scores(np.zeros((4000, 1000), dtype=np.float32), np.zeros(4000, dtype=int))
    found = candidates_for(rows, None, n_fits=4)
    assert found.ladder == ("identity", "temperature")
    assert found.members == ("identity", "temperature", "isotonic")


def test_weights_of_an_average_have_the_least_log_loss():
    losses = np.random.default_rng(0).exponential(size=(400, 4)) + np.array([0.0, 0.1, 0.2, 5.0])
    mass = np.random.default_rng(1).uniform(0.5, 2.0, size=400)
    found = average_weights(losses, mass)
    assert found.sum() == pytest.approx(1.0)
    assert found[3] == 0.0  # below .02

    def loss(w):
        return -np.average(np.log(np.exp(-losses) @ w), weights=mass)

    best = minimize(
        loss, np.full(4, 0.25), bounds=[(0, 1)] * 4, method="SLSQP", options={"ftol": 1e-12},
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
    )  # fmt: skip
    assert loss(found) < best.fun + 1e-4


def test_an_average_is_judged_with_weights_of_the_other_folds():
    logits, labels = sample(600, 3)
    rows = read_scores(1.7 * np.tanh(logits), labels)
    folds = random_folds(rows, 5, 0)
    names = ("identity", "temperature", "isotonic")
    found = cross_fit(rows, (*names, "average"), folds, members=names)
    values = np.stack([found.losses[name] for name in names], axis=1)
    for fold in folds:
        others = np.setdiff1d(np.arange(600), fold)
        want = -np.log(np.exp(-values[fold]) @ average_weights(values[others]))
        assert_allclose(found.losses["average"][fold], want, rtol=1e-12)
    assert_allclose(
        found.fits["average"].held_out_losses(rows, folds), found.losses["average"], rtol=1e-9
    )


def test_an_average_with_one_member_is_that_member():
    logits, labels = sample(2000, 20, seed=1)
    found = fit(2.0 * logits, labels)
    assert "average" not in found.report.held_out
    assert found.kind == "temperature"
    assert fit_average(2.0 * logits, labels) == found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_average_keeps_probabilities_that_are_too_small_for_its_numbers(dtype):
    average = Average((TemperatureScaling(1.0), TemperatureScaling(2.0)), (0.5, 0.5))
    z = np.array([[0.0, -3000.0], [0.0, -300.0]], dtype=dtype)
    expected = np.array([[np.log(0.5 + 0.5), -1500.0 - np.log(2)], [0.0, -150.0 - np.log(2)]])
    assert_allclose(average.log_probs(z), expected, rtol=1e-6, atol=1e-7)


def test_an_average_round_trips_and_refuses_nonsense(tmp_path):
    parts = (TemperatureScaling(2.0, uniform_mix=0.1), Identity())
    found = Average(parts, (0.25, 0.75))
    z = np.array([[0.0, 2.0, -np.inf], [800.0, 0.0, -800.0]])
    want = 0.25 * parts[0].probs(z) + 0.75 * parts[1].probs(z)
    assert_allclose(found.probs(z), want, atol=1e-15)
    found.save(tmp_path / "a.json")
    assert Calibrator.load(tmp_path / "a.json") == found
    assert found.describe() == "average: 25 % temperature, 75 % identity"
    for weights in ((0.5, 0.6), (1.0, 0.0), (1.0,)):
        with pytest.raises(ValueError, match=r"`weights`|`members`"):
            Average(parts, weights)
    with pytest.raises(ValueError, match="must not be averages"):
        Average((found,), (1.0,))


def test_it_is_at_the_top_level_and_takes_logits_or_probs():
    truth, labels = sample(600, 3)
    logits = 2.5 * truth
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    by_logits = focalibrate.fit(labels=labels, logits=logits)
    by_probs = focalibrate.fit(labels=labels, probs=probs)
    assert by_logits.kind == "temperature"
    assert_allclose(by_logits.probs(logits), by_probs.probs(probs=probs), atol=1e-4)


def test_a_calibrated_model_is_kept():
    truth, labels = sample(600, 3)
    found = fit(truth, labels)
    assert found == Identity(n_classes=3)
    assert found.report.reason == "The uncalibrated model has the lowest cross-validated log loss."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "n", "n_draws"), [(2, 300, 10), (20, 1000, 8), (100, 2000, 4)]
)
def test_calibrated_models_are_kept_whatever_the_number_of_classes(n_classes, n, n_draws):
    """Stratified folds would reward a bias per class for the chance in the class frequencies."""
    draws = [sample(n, n_classes, seed=seed) for seed in range(n_draws)]
    kept = [fit(z, y).kind == "identity" for z, y in draws]
    assert sum(kept) >= n_draws - 1


def test_a_simple_choice_is_one_method():
    truth, labels = sample(600, 3)
    found = fit(3.0 * truth, labels, simple=True)
    assert found.kind == "temperature"
    losses = found.report.held_out
    assert losses["temperature"] < losses["identity"]
    assert "average" not in losses


def test_zeros_and_a_focal_model(tmp_path):
    truth, labels = sample(600, 3)
    votes = np.round(np.exp(truth) / np.exp(truth).sum(axis=1, keepdims=True), 1)
    votes /= votes.sum(axis=1, keepdims=True)
    assert (votes == 0).any()
    found = fit(labels=labels, probs=votes, trained_gamma=2.0)
    assert found.zero_mix > 0
    assert np.isfinite(found.log_probs(probs=votes)).all()
    found.save(tmp_path / "auto.json")
    again = Calibrator.load(tmp_path / "auto.json")
    assert again == found
    assert_allclose(again.probs(probs=votes), found.probs(probs=votes))


def test_rows_without_an_error_bound_the_confidence_by_the_rule_of_succession():
    labels = np.arange(60) % 3
    logits = 5.0 * np.eye(3)[labels] + np.random.default_rng(0).normal(size=(60, 3))
    found = fit(labels=labels, logits=logits)
    probs = found.probs(np.array([[90.0, 0.0, -30.0]]))
    assert probs.max() == pytest.approx(1 - (2 / 3) / 61)
    assert found.uniform_mix == 1 / 61


def test_the_refit_is_not_worse_than_its_folds():
    truth, labels = sample(600, 3)
    rows = read_scores(2.0 * truth, labels)
    folds = random_folds(rows, 5, 0)
    good = cross_fit(rows, ["temperature"], folds)
    lost = Fitted(TemperatureScaling(0.2), good.fits["temperature"].without_fold)
    settings = (METHODS["temperature"], FitSettings())
    found = refit_checked(lost, rows, good.losses["temperature"], *settings)
    best = good.fits["temperature"].whole.temperature
    assert found.whole.temperature == pytest.approx(best, rel=1e-4)
    assert "fit on all rows ended at a log loss of" in found.notes[0]
    same = good.fits["temperature"]
    assert refit_checked(same, rows, good.losses["temperature"], *settings) is same


def test_the_choice_does_not_depend_on_the_order_of_the_rows():
    truth, labels = sample(300, 4, seed=3)
    order = np.random.default_rng(0).permutation(300)
    one = fit(2.5 * truth, labels)
    other = fit(2.5 * truth[order], labels[order])
    assert one.kind == other.kind
    assert one.report.held_out == pytest.approx(other.report.held_out)


def test_every_fold_leaves_a_row_of_each_class_to_fit_on():
    logits = np.random.default_rng(0).normal(size=(100, 4))
    for seed in range(50):
        labels = np.array([0] * 50 + [1] * 46 + [2] * 2 + [3] * 2)
        for fold in random_folds(read_scores(logits, labels), 5, seed):
            assert set(np.delete(labels, fold)) == {0, 1, 2, 3}
