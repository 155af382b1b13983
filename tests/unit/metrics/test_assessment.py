import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ncx2

from focalibrate.metrics import (
    Cells,
    adaptive_ece,
    assess,
    classwise_ece,
    ece,
    mce,
    smooth_ece,
)
from focalibrate.metrics.noise_floor import _binomial_mad
from focalibrate.metrics.null import generator

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
    for key in ("gap", "rms", "slope", "intercept", "intercept_at_slope_1"):
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


@pytest.mark.parametrize("n", [4, 8, 15, 29])
def test_the_interval_of_few_rows_holds_the_rms(n):
    rng = np.random.default_rng(n)
    for power in (1, 2, 3):
        p = rng.uniform(size=n)
        found = assess(p, (rng.uniform(size=n) < p**power).astype(int), n_draws=19).rms
        assert found.low <= found.estimate <= found.high


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
def test_copies_are_repeated_rows_and_order_does_not_matter(k):
    probs, labels = predictions(400, k, seed=2)
    probs[:100] = probs[100:200]  # ties
    weights = np.random.default_rng(0).integers(0, 4, size=400)
    weighted = assess(probs, labels, sample_weight=weights, copies=True)
    repeated = assess(np.repeat(probs, weights, axis=0), np.repeat(labels, weights))
    assert weighted.n == repeated.n == weights.sum()
    assert_allclose(numbers(weighted), numbers(repeated), rtol=1e-9, atol=1e-9)
    shuffled = np.random.default_rng(1).permutation(400)
    again = assess(probs[shuffled], labels[shuffled], sample_weight=weights[shuffled], copies=True)
    assert_allclose(numbers(again), numbers(weighted), rtol=1e-9, atol=1e-9)


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
    floor = assess(probs, labels, event="top label").noise_floor
    for name, values in found.items():
        assert 0.3 <= np.mean(np.array(values) > floor[name].median) <= 0.7, name
        assert np.mean(np.array(values) > floor[name].q95) <= 0.14, name
        assert np.max(values) >= 0.8 * floor[name].q95, name


def test_the_noise_floor_of_two_classes_is_that_of_the_positive_class():
    probs, labels = predictions(300, 2, seed=4)
    p, rng = probs[:, 1], np.random.default_rng(6)
    found = [Cells.of(p, rng.random(300) < p).ece() for _ in range(200)]
    floor = assess(probs, labels).noise_floor["ece"]
    assert_allclose(floor.median, np.median(found), rtol=0.1)
    assert_allclose(floor.q95, np.quantile(found, 0.95), rtol=0.15)


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
@pytest.mark.parametrize("k", [2, 40])
def test_calibrated_models_are_rejected_about_one_time_in_twenty(k):
    p_values = [
        assess(*predictions(200, k, seed=seed), seed=seed, n_draws=99).p_value
        for seed in range(60)
    ]
    # Of 60 draws at 5 %, none or more than 8 are less likely than 1 in 20 and 1 in 200.
    assert 1 <= np.sum(np.array(p_values) <= 0.05) <= 8


def test_summaries_say_what_was_found_and_what_was_tested():
    calibrated = assess(*predictions(2000, 10))
    assert calibrated.verdict == "no evidence of miscalibration"
    assert calibrated.headline == "We find no miscalibration"
    assert calibrated.details.startswith("With 2,000 rows, an error of 4.")
    assert calibrated.details.endswith(
        "or more in the confidence of the predicted class would probably have been detected. The "
        "probabilities of all classes were tested too."
    )
    over = assess(*predictions(2000, 10, sharpness=1.5))
    assert over.direction == "overconfident"
    assert over.headline == "The model is overconfident"
    assert over.details.startswith("its confidence is 1")
    assert over.summary.startswith(f"{over.headline}: {over.details}")
    under = assess(*predictions(2000, 10, sharpness=0.5))
    assert under.direction == "underconfident"
    few = assess(*predictions(30, 3))
    assert few.verdict == "too few rows to judge"
    assert few.summary.startswith(
        "There are too few rows to judge: 30 rows can only show an error"
    )


def test_an_error_without_a_direction_is_found_and_sized():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 0.9, size=5000)
    truth = p + 0.1 * np.sign(p - 0.7)
    labels = (rng.random(5000) < truth).astype(int)
    result = assess(np.column_stack([p, (1 - p) / 2, (1 - p) / 2]), 1 - labels)
    assert result.verdict == "miscalibrated"
    assert result.direction is None
    assert result.headline == "Confidence is not extreme enough"
    assert "typically off by" in result.details
    assert result.rms.low < 0.1 < result.rms.high
    p, off = np.tile([0.2, 0.4, 0.6, 0.8], 1250), np.tile([0.1, -0.1, -0.1, 0.1], 1250)
    local = assess(p, (rng.random(5000) < p + off).astype(int))
    assert local.headline.endswith("are too high for some predictions and too low for others")


def rare(n, *, times=1.0, seed=0):
    """Probabilities of a rare event, overstated so many times, and whether it happened."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 22, size=n)
    return p, (rng.random(n) < p / times).astype(int)


def test_two_classes_speak_of_the_positive_class():
    """Every risk overstated 2.7 times was once called underconfident: P(1) was folded at 1/2."""
    p, y = rare(20_000, times=2.7)
    found = assess(p, y, class_names=["ok", "fraud"])
    assert (found.event, found.class_name, found.direction) == (
        "positive class", "fraud", "too high",
    )  # fmt: skip
    assert_allclose(found.gap.estimate, (p - y).mean(), rtol=1e-9)
    assert_allclose(found.ratio, p.mean() / y.mean(), rtol=1e-9)
    rate = 100 * y.mean()
    assert found.summary == (
        f"Probabilities of fraud are too high: {100 * p.mean():.1f} % on average, {rate:.1f} % "
        f"happen ({found.ratio:.1f} times; p < .001)."
    )
    both = assess(np.column_stack([1 - p, p]), y)
    assert_allclose(numbers(both), numbers(found), rtol=1e-6)
    assert both.headline == "Probabilities of class 1 are too high"
    other = assess(np.column_stack([1 - p, p]), y, event=0)
    assert other.direction == "too low"


def test_scores_that_are_all_too_high_are_too_high():
    rng = np.random.default_rng(1)
    p = rng.uniform(size=3000)
    labels = (rng.random(3000) < np.clip(p - 0.06, 0, 1)).astype(int)  # confidence cancels
    assert assess(p, labels).direction == "too high"
    assert assess(p, labels).verdict == "miscalibrated"


def test_the_top_label_of_two_classes_is_one_argument_away():
    p, y = rare(20_000, times=2.7)
    found = assess(p, y, event="top label")
    assert (found.event, found.direction) == ("top label", "underconfident")
    assert_allclose(found.mean_probability, np.maximum(p, 1 - p).mean(), rtol=1e-9)


def test_a_confidence_and_whether_it_was_right_is_never_folded():
    p, y = rare(20_000, times=2.7)
    found = assess(confidence=p, correct=y.astype(bool))
    assert (found.event, found.direction) == ("correct", "overconfident")
    assert found.summary.startswith("Confidence is too high: 4.4 % on average, 1.")
    assert_allclose(found.gap.estimate, (p - y).mean(), rtol=1e-9)
    assert "classwise_ece" not in found.noise_floor
    assert found.tested == ("the confidence",)


def test_fractional_outcomes_mean_what_they_mean_in_proper_scores():
    """A tie is half a hit: as informative as two rows of half the weight, or more."""
    rng = np.random.default_rng(0)
    rejected = []
    for seed in range(60):
        p = rng.uniform(0.2, 0.8, size=300)
        games = rng.random((2, 300)) < p
        found = assess(confidence=p, correct=games.mean(axis=0), seed=seed, n_draws=99)
        rejected.append(found.p_value <= 0.05)
    assert np.mean(rejected) <= 0.12
    tied = assess(confidence=np.full(400, 0.6), correct=np.full(400, 0.5))
    assert tied.direction == "overconfident"
    assert tied.verdict == "miscalibrated"
    with pytest.raises(ValueError, match="`correct` must lie in"):
        assess(confidence=[0.5], correct=[2])
    with pytest.raises(ValueError, match="`confidence` with `correct`"):
        assess(confidence=[0.5])
    with pytest.raises(ValueError, match=r"row 1 has 95\. Pass probabilities, not"):
        assess(confidence=[0.5, 95.0], correct=[0, 1])


def test_swapping_the_second_and_third_class_is_found_and_named():
    """The predicted class and its confidence are untouched: the test of all classes sees it."""
    probs, labels = predictions(1000, 3)
    order = np.argsort(-probs, axis=1)
    swapped, at = probs.copy(), np.arange(1000)
    swapped[at, order[:, 1]], swapped[at, order[:, 2]] = (
        probs[at, order[:, 2]], probs[at, order[:, 1]],
    )  # fmt: skip
    found = assess(swapped, labels, class_names=["cat", "dog", "eel"])
    assert found.p_values["bins"] > 0.05
    assert found.verdict == "miscalibrated"
    assert found.worst_class.name in ("cat", "dog", "eel")
    assert found.headline.startswith(f"Probabilities of {found.worst_class.name} are")
    assert not found.worst_class.gap.excludes_zero
    assert "right on average, but too high for some rows" in found.summary


def test_the_class_that_is_off_most_is_named_among_many():
    probs, labels = predictions(3000, 30)
    moved = probs.copy()
    moved[:, 7] *= 2.5
    moved /= moved.sum(axis=1, keepdims=True)
    found = assess(moved, labels)
    assert found.worst_class.index == 7
    assert found.worst_class.gap.low > 0


def test_slope_and_intercept_are_those_of_logistic_regression_with_robust_intervals():
    rng = np.random.default_rng(3)
    s = rng.normal(size=4000)
    y = (rng.random(4000) < 1 / (1 + np.exp(-(0.6 * s + 0.5)))).astype(float)
    found = assess(confidence=1 / (1 + np.exp(-s)), correct=y)
    x = np.column_stack([np.ones_like(s), s])
    beta = np.zeros(2)
    for _ in range(30):
        q = 1 / (1 + np.exp(-x @ beta))
        beta += np.linalg.solve(x.T @ (x * (q * (1 - q))[:, None]), x.T @ (y - q))
    bread = np.linalg.inv(x.T @ (x * (q * (1 - q))[:, None]))
    error = np.sqrt(np.diag(bread @ (x.T @ (x * ((y - q) ** 2)[:, None])) @ bread))
    assert_allclose([found.intercept.estimate, found.slope.estimate], beta, rtol=1e-7)
    widths = [found.intercept.high - beta[0], found.slope.high - beta[1]]
    assert_allclose(widths, 1.959964 * error, rtol=1e-5)
    shift = found.intercept_at_slope_1.estimate
    assert_allclose((1 / (1 + np.exp(-(s + shift)))).mean(), y.mean(), rtol=1e-8)
    assert assess(confidence=np.full(50, 0.5), correct=np.arange(50) % 2).slope is None


def test_the_detectable_error_allows_for_ties():
    """A constant .999 at 50 rows: an error is visible only where a miss is likely."""
    p = np.full(50, 0.999)
    size = assess(confidence=p, correct=np.ones(50)).detectable
    truth = 0.999 - size
    assert 1 - truth**50 >= 0.75  # the chance of a miss, without which nothing is seen
    constant = np.full(400, 0.3)
    size = assess(confidence=constant, correct=np.arange(400) % 10 < 3).detectable
    rng, found = np.random.default_rng(0), []
    for seed in range(60):
        drawn = (rng.random(400) < 0.3 + size).astype(float)
        found.append(assess(confidence=constant, correct=drawn, seed=seed, n_draws=99).p_value)
    assert np.mean(np.array(found) <= 0.05) >= 0.65


def weighted_set(seed, n=400):
    rng = np.random.default_rng(seed)
    probs, labels = predictions(n, 3, seed=1000 + seed)
    return probs, labels, rng.integers(1, 11, size=n)


@pytest.mark.slow
def test_whole_sampling_weights_do_not_accuse_calibrated_models():
    p_values, below = [], []
    for seed in range(60):
        probs, labels, weights = weighted_set(seed)
        found = assess(probs, labels, sample_weight=weights, seed=seed, n_draws=99)
        p_values.append(found.p_value)
        below.append(ece(probs, labels, sample_weight=weights) <= found.noise_floor["ece"].q95)
    assert 1 <= np.sum(np.array(p_values) <= 0.05) <= 8
    assert 0.88 <= np.mean(below) <= 0.99


def test_weights_are_copies_only_if_it_is_said():
    probs, labels, weights = weighted_set(0)
    found = assess(probs, labels, sample_weight=weights)
    assert found.n == 400
    assert_allclose(found.effective_n, weights.sum() ** 2 / (weights**2).sum())
    counted = assess(probs, labels, sample_weight=weights, copies=True)
    assert counted.n == weights.sum()
    assert counted.noise_floor["ece"].q95 < 0.6 * found.noise_floor["ece"].q95


def test_certain_predictions():
    probs = np.tile([1.0, 0.0], (50, 1))
    right = assess(probs, np.zeros(50, dtype=int))
    assert right.p_value == 1.0
    assert right.rms.estimate == right.gap.estimate == 0.0
    assert right.verdict == "too few rows to judge"
    assert right.to_dict()["detectable"] is None
    wrong = assess(probs, np.r_[1, np.zeros(49, dtype=int)])
    assert wrong.p_value == 1 / 2000  # the least of 1,999 draws


def test_constant_confidence_is_one_bin():
    probs = np.tile([0.7, 0.2, 0.1], (500, 1))
    labels = np.repeat([0, 1, 2], [350, 100, 50])
    result = assess(probs, labels)
    assert result.p_value == 1.0
    assert result.rms.estimate == 0.0


def test_the_record_is_json():
    record = json.loads(json.dumps(assess(*predictions(100, 2)).to_dict()))
    assert set(record) >= {"gap", "rms", "p_value", "noise_floor", "detectable", "summary"}
    assert set(record["noise_floor"]) == set(METRICS)
    assert set(record["p_values"]) == {"bins", "line"}
    assert record["event"] == "positive class"
    three = json.loads(json.dumps(assess(*predictions(100, 3)).to_dict()))
    assert set(three["p_values"]) == {"bins", "classes"}
    assert three["worst_class"]["name"].startswith("class ")


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
    assert found.details == "a prediction made with 100 % certainty is wrong (p < .001)."
    y[:60] = 1
    assert "A prediction made with 100 % certainty is wrong." in assess(p, y).details


def test_a_p_value_at_its_least_is_a_bound():
    rng = np.random.default_rng(0)  # the tests draw 1,999 outcomes: two tests allow .001
    for _ in range(6):
        z = 2 * rng.normal(size=(500, 5))
        probs = np.exp(2 * z) / np.exp(2 * z).sum(axis=1, keepdims=True)
        summary = assess(probs, (z + rng.gumbel(size=z.shape)).argmax(axis=1)).summary
        assert "p < .001" in summary or "p ≤ .001" in summary
