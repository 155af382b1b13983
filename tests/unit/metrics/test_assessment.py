import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ncx2

from focalibrate.metrics import (
    adaptive_ece,
    assess,
    classwise_ece,
    ece,
    mce,
    smooth_ece,
)
from focalibrate.metrics._noise import _binomial_mad
from focalibrate.metrics._null import draw_residuals
from focalibrate.metrics._random import generator
from focalibrate.metrics.assessment import cells_of, multi_scale_test

METRICS = {
    "ece": ece,
    "adaptive_ece": adaptive_ece,
    "mce": mce,
    "classwise_ece": classwise_ece,
    "smooth_ece": smooth_ece,
}


def predictions(n, k, *, sharpness=1.0, seed=0):
    """Probabilities and labels: calibrated for ``sharpness=1``, overconfident above."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(n, k))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    scores = np.exp(sharpness * logits)
    return scores / scores.sum(axis=1, keepdims=True), labels


def numbers(result):
    """All numbers of an assessment in one list."""
    record = result.to_dict()
    flat = [record["p_value"], record["detectable"], record["effective_n"]]
    for key in ("gap", "rms"):
        flat += list(record[key].values())
    for floor in record["noise_floor"].values():
        flat += list(floor.values())
    return flat


def rms_by_rows(confidence, correct, n_bins=15):
    """The debiased error and its interval from its definition, row by row, without ties."""
    order = np.argsort(confidence)
    n = len(order)
    bins = ((np.arange(n) + 0.5) / n * n_bins).astype(int)
    squares, parts = 0.0, []
    for b in range(n_bins):
        at = order[bins == b]
        c, r = confidence[at], confidence[at] - correct[at]
        m = len(at)
        squares += m / n * (r.sum() ** 2 - (r**2).sum()) / (m * (m - 1))
        parts.append((m / n, r.mean(), max(r.var(ddof=1) / m, (c * (1 - c)).sum() / m**2 / 2)))
    w, g, s2 = np.array(parts).T
    a = (w**2 * s2**2).sum() / (w * s2).sum()
    nu = (w * s2).sum() ** 2 / (w**2 * s2**2).sum()
    return np.sqrt(max(0.0, squares)), a, nu, (w * g**2).sum() / a


@pytest.mark.parametrize("n", [300, 5000])
def test_rms_is_its_definition_with_noncentral_limits(n):
    probs, labels = predictions(n, 5, sharpness=2.0)
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    result = assess(probs, labels)
    estimate, a, nu, x = rms_by_rows(confidence, correct)
    assert_allclose(result.rms.estimate, estimate, rtol=1e-9)
    for limit, probability in ((result.rms.low, 0.975), (result.rms.high, 0.025)):
        assert_allclose(ncx2.cdf(x, nu, limit**2 / a), probability, atol=1e-6)
    residual = confidence - correct
    assert_allclose(result.gap.estimate, residual.mean(), rtol=1e-9)
    half = 1.96 * residual.std(ddof=1) / np.sqrt(n)
    assert_allclose(result.gap.high - result.gap.estimate, half, rtol=0.02)


@pytest.mark.parametrize("k", [2, 4])
def test_whole_weights_are_repeated_rows_and_order_does_not_matter(k):
    probs, labels = predictions(400, k, seed=2)
    probs[:100] = probs[100:200]  # ties
    weights = np.random.default_rng(0).integers(0, 4, size=400)
    weighted = assess(probs, labels, sample_weight=weights)
    repeated = assess(np.repeat(probs, weights, axis=0), np.repeat(labels, weights))
    assert weighted.n == repeated.n == weights.sum()
    assert_allclose(numbers(weighted), numbers(repeated), rtol=1e-12, atol=1e-12)
    shuffled = np.random.default_rng(1).permutation(400)
    again = assess(probs[shuffled], labels[shuffled], sample_weight=weights[shuffled])
    assert_allclose(numbers(again), numbers(weighted), rtol=1e-12, atol=1e-12)


def test_other_weights_scale_rows_and_widen_intervals():
    probs, labels = predictions(2000, 3)
    weights = np.random.default_rng(0).gamma(1.0, size=2000)
    result = assess(probs, labels, sample_weight=weights)
    assert_allclose(result.effective_n, weights.sum() ** 2 / (weights**2).sum())
    assert_allclose(
        numbers(assess(probs, labels, sample_weight=7.3 * weights)), numbers(result), rtol=1e-9
    )
    plain = assess(probs, labels)
    wider = (result.gap.high - result.gap.low) / (plain.gap.high - plain.gap.low)
    assert_allclose(wider, np.sqrt(2000 / result.effective_n), rtol=0.1)
    assert result.detectable > 1.2 * plain.detectable


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 5])
def test_noise_floor_is_that_of_outcomes_drawn_from_the_predictions(k):
    probs, labels = predictions(200, k, seed=3)
    rng = np.random.default_rng(5)
    cumulative = np.cumsum(probs, axis=1)
    found = {name: [] for name in METRICS}
    for _ in range(80):
        drawn = np.minimum((rng.random((200, 1)) > cumulative).sum(axis=1), k - 1)
        for name, metric in METRICS.items():
            found[name].append(metric(probs, drawn))
    floor = assess(probs, labels).noise_floor
    for name, values in found.items():
        assert 0.3 <= np.mean(np.array(values) > floor[name].median) <= 0.7, name
        assert np.mean(np.array(values) > floor[name].q95) <= 0.14, name
        assert np.max(values) >= 0.8 * floor[name].q95, name


def test_floors_and_weights_share_out_ties_as_the_metric_does():
    probs = np.tile([0.7, 0.2, 0.1], (200, 1))
    probs[:70] = [0.8, 0.1, 0.1]
    labels = np.zeros(200, dtype=int)
    rng = np.random.default_rng(0)
    values = [adaptive_ece(probs, (rng.random(200) > probs[:, 0]).astype(int)) for _ in range(200)]
    floor = assess(probs, labels).noise_floor["adaptive_ece"]
    assert_allclose(floor.median, np.median(values), rtol=0.1)


def test_binomial_mean_absolute_deviation_is_exact():
    from scipy.stats import binom

    for n, p in ((1, 0.3), (7, 0.5), (30, 0.01), (200, 0.97)):
        k = np.arange(n + 1)
        exact = (binom.pmf(k, n, p) * np.abs(k - n * p)).sum()
        assert_allclose(_binomial_mad(np.array([n * 1.0]), np.array([p]))[0], exact, rtol=1e-10)


@pytest.mark.slow
def test_the_detectable_error_is_found_four_times_in_five():
    rng = np.random.default_rng(0)
    n, found = 1000, []
    p = rng.uniform(0.05, 0.95, size=n)
    labels = (rng.random(n) < p).astype(int)
    size = assess(p, labels).detectable
    slope = p * (1 - p)
    shift = size * slope / np.sqrt((slope**2).mean())
    for seed in range(25):
        drawn = (rng.random(n) < p - shift).astype(int)
        found.append(assess(p, drawn, seed=seed, n_draws=199).p_value < 0.05)
    assert np.mean(found) >= 0.6


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 10])
def test_calibrated_models_are_rejected_about_one_time_in_twenty(k):
    rng = np.random.default_rng(7)
    p_values = []
    for seed in range(200):
        cells, views = cells_of(*predictions(200, k, seed=seed), None)
        p_values.append(multi_scale_test(cells, views, draw_residuals(cells, 99, rng)).p_value)
    assert 0.015 <= np.mean(np.array(p_values) <= 0.05) <= 0.1


def test_summaries_say_what_was_found():
    calibrated = assess(*predictions(2000, 10))
    assert calibrated.verdict == "no evidence of miscalibration"
    assert calibrated.summary.startswith(
        "no evidence of miscalibration: 2,000 rows would reveal an error of about 3."
    )
    over = assess(*predictions(2000, 10, sharpness=1.5))
    assert over.direction == "overconfident"
    assert over.summary.startswith("miscalibrated (p ≤ .001), overconfident by 1")
    under = assess(*predictions(2000, 10, sharpness=0.5))
    assert under.direction == "underconfident"
    few = assess(*predictions(30, 3))
    assert few.verdict == "too few rows to judge"
    assert few.summary.startswith("too few rows to judge: 30 rows would reveal only an error")


def test_an_error_without_a_direction_is_found_and_sized():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 0.9, size=5000)
    truth = p + 0.1 * np.sign(p - 0.7)
    labels = (rng.random(5000) < truth).astype(int)
    result = assess(np.column_stack([p, (1 - p) / 2, (1 - p) / 2]), 1 - labels)
    assert result.verdict == "miscalibrated"
    assert "too high for some predictions and too low for others" in result.summary
    assert result.rms.low < 0.1 < result.rms.high
    with_gap = assess(np.column_stack([p, (1 - p) / 2, (1 - p) / 2]), 1 - (labels & (p < 0.89)))
    assert "points on average, typically off by" in with_gap.summary


def test_two_classes_are_judged_by_the_probability_of_class_1_too():
    rng = np.random.default_rng(1)
    p = rng.uniform(size=3000)
    labels = (rng.random(3000) < np.clip(p + 0.06, 0, 1)).astype(int)  # confidence cancels
    result = assess(p, labels)
    assert result.positive is not None
    assert result.positive.gap.high < 0
    assert result.positive.p_value == 0.001
    assert result.p_value < 0.01
    both = assess(np.column_stack([1 - p, p]), labels)
    assert_allclose(numbers(both), numbers(result), rtol=1e-9)


def test_certain_predictions():
    probs = np.tile([1.0, 0.0], (50, 1))
    right = assess(probs, np.zeros(50, dtype=int))
    assert right.p_value == 1.0
    assert right.rms.estimate == right.gap.estimate == 0.0
    assert right.verdict == "too few rows to judge"
    assert right.to_dict()["detectable"] is None
    wrong = assess(probs, np.r_[1, np.zeros(49, dtype=int)])
    assert wrong.p_value == 0.001


def test_constant_confidence_is_one_bin():
    probs = np.tile([0.7, 0.2, 0.1], (500, 1))
    labels = (np.arange(500) >= 350).astype(int)  # right 70 % of the time
    result = assess(probs, labels)
    assert result.p_value == 1.0
    assert result.rms.estimate == 0.0


def test_the_record_is_json():
    record = json.loads(json.dumps(assess(*predictions(100, 2)).to_dict()))
    assert set(record) >= {"gap", "rms", "p_value", "noise_floor", "detectable", "summary"}
    assert set(record["noise_floor"]) == set(METRICS)
    assert record["positive"]["rms"]["low"] >= 0.0


def test_bad_weights_are_named():
    probs, labels = predictions(10, 3)
    with pytest.raises(ValueError, match="one weight per example, 10, got 3"):
        assess(probs, labels, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match=r"row 2 has -1\.0"):
        assess(probs, labels, sample_weight=np.r_[1, 1, -1, np.ones(7)])
    with pytest.raises(ValueError, match="must not be zero for every example"):
        assess(probs, labels, sample_weight=np.zeros(10))


def test_seeds_and_generators():
    probs, labels = predictions(200, 3)
    first = assess(probs, labels, seed=np.random.default_rng(4))
    assert numbers(first) == numbers(assess(probs, labels, seed=np.random.default_rng(4)))
    assert numbers(assess(probs, labels, seed=4)) == numbers(assess(probs, labels, seed=4))


def test_a_seed_is_not_the_stream_that_people_simulate_with():
    assert generator(0).random() != np.random.default_rng(0).random()
    assert generator(0).random() == generator(0).random()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_error_at_100_percent_is_named(n_classes):
    """Forests predict 0 and 1: one error there is a contradiction, not a typical size of error."""
    rng = np.random.default_rng(1)
    p = np.zeros((300, n_classes))
    p[:, 0] = np.where(np.arange(300) < 200, 1.0, 0.7)
    p[:, 1] = 1.0 - p[:, 0]
    y = (rng.uniform(size=300) > p[:, 0]).astype(int)
    assert not assess(p, y).has_certain_error
    y[0] = 1
    found = assess(p, y)
    assert found.has_certain_error
    assert found.summary.startswith("miscalibrated (p ≤ .001): a prediction made with 100 % conf")
    y[:60] = 1
    assert assess(p, y).summary.endswith(
        " points; a prediction made with 100 % confidence is wrong"
    )
