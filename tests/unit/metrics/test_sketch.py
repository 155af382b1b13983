import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, softmax

from focalibrate.metrics import (
    METRICS,
    Sketch,
    assess,
    assess_groups,
    brier_score,
    confident_fraction,
    corp,
)
from focalibrate.metrics.binning import FineIndex, index_of, log_odds_edges
from focalibrate.metrics.sketch import class_index, confident_of

SEEDS = st.integers(0, 2**32 - 1)


def moments(sketch):
    return np.stack([sketch.scores[name].powers for name in ("nll", "brier", "error")])


def draw(seed, n, k, *, scale=2.0, weights=None, decimals=None):
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(n, k))
    if decimals is not None:
        logits = logits.round(decimals)  # ties
    labels = (logits / 1.3 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    w = None
    if weights == "whole":
        w = rng.integers(0, 4, size=n).astype(float)
        w[0] = 1.0
    elif weights == "any":
        w = rng.uniform(0.1, 3.0, size=n)
    return logits, labels, w


def cut(rng, n, pieces):
    order = rng.permutation(n)
    return [part for part in np.array_split(order, pieces) if len(part)]


def sketch_of(logits, labels, w, part, **options):
    some = None if w is None else w[part]
    return Sketch.of(logits=logits[part], labels=labels[part], sample_weight=some, **options)


@given(
    seed=SEEDS,
    n=st.integers(1, 300),
    k=st.sampled_from([2, 3, 40]),
    pieces=st.integers(1, 6),
    weights=st.sampled_from([None, "whole", "any"]),
)
@settings(max_examples=20)
def test_rows_in_any_order_and_batches_give_the_same_sketch(seed, n, k, pieces, weights):
    logits, labels, w = draw(seed, n, k, weights=weights)
    if w is not None:
        w = np.maximum(w, 1e-3 if weights == "any" else 1.0)  # a batch of weight 0 is refused
    rng = np.random.default_rng(seed)
    groups = rng.choice(["a", "b", "10", "9"], size=n)
    whole = sketch_of(logits, labels, w, slice(None), groups=groups)
    parts = [
        sketch_of(logits, labels, w, part, groups=groups[part]) for part in cut(rng, n, pieces)
    ]
    merged = Sketch.merged(parts)
    assert (merged.n, merged.n_zeros) == (whole.n, whole.n_zeros)
    if weights != "any":  # rows and hits: exactly
        assert_array_equal(merged.top.weight, whole.top.weight)
        assert_array_equal(merged.top.outcome, whole.top.outcome)
    for name in ("top", "positive", "classes"):
        mine, theirs = getattr(merged, name), getattr(whole, name)
        if theirs is not None:
            assert_allclose(mine.sums, theirs.sums, rtol=1e-12, atol=1e-12 * n)
            assert mine.is_counted == theirs.is_counted
    assert_allclose(moments(merged), moments(whole), rtol=1e-12, atol=1e-12 * n)
    assert_allclose(merged.confident, whole.confident, rtol=1e-12)
    assert merged.groups["group"].names == whole.groups["group"].names
    assert_array_equal(merged.groups["group"].at, whole.groups["group"].at)
    assert_allclose(merged.groups["group"].sums, whole.groups["group"].sums, rtol=1e-12)


@pytest.mark.slow
@given(
    seed=SEEDS,
    n=st.integers(2, 400),
    k=st.sampled_from([2, 3, 10, 50]),
    scale=st.sampled_from([0.1, 1.0, 4.0, 30.0]),
    weights=st.sampled_from([None, "whole", "any"]),
    decimals=st.sampled_from([None, 0, 1]),
    n_bins=st.sampled_from([1, 10, 15, 32]),
)
@settings(max_examples=40)
def test_every_metric_is_that_of_the_rows_within_its_stated_bound(
    seed, n, k, scale, weights, decimals, n_bins
):
    logits, labels, w = draw(seed, n, k, scale=scale, weights=weights, decimals=decimals)
    probs = softmax(logits, axis=1)
    copies = weights == "whole"
    sketch = Sketch.of(logits=logits, labels=labels, sample_weight=w, copies=copies, n_bins=n_bins)
    found = sketch.evaluate(n_draws=19)
    for name, metric in METRICS.items():
        bins = {} if metric.has_interval or name == "smooth_ece" else {"n_bins": n_bins}
        want = metric.function(probs, labels, sample_weight=w, **bins)
        if metric.has_interval:
            assert_allclose(found.scores[name].estimate, want, rtol=1e-9, atol=1e-12)
        else:
            off = abs(found.errors[name] - want)
            assert off <= found.error_bound[name] + 1e-9, name
    exact = assess(probs, labels, sample_weight=w, n_draws=19, copies=weights == "whole")
    mine = found.assessment
    assert (mine.n, mine.n_classes) == (exact.n, exact.n_classes)
    assert_allclose(mine.gap.estimate, exact.gap.estimate, atol=1e-9)
    assert_allclose(mine.gap.high, exact.gap.high, atol=2e-3)
    assert_allclose(mine.effective_n, exact.effective_n)
    if n_bins == 15:
        assert_allclose(
            mine.noise_floor["classwise_ece"],
            exact.noise_floor["classwise_ece"],
            rtol=0.1 if weights == "any" else 1e-6,  # squared weights: as in the whole cell
        )
    s99 = confident_fraction(probs, labels, sample_weight=w)
    assert_allclose(confident_of(sketch).fraction, s99.fraction, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, "whole", "any"])
@pytest.mark.parametrize("k", [2, 10])
def test_the_verdict_is_that_of_the_rows(k, weights):
    logits, labels, w = draw(3, 4000, k, weights=weights)
    probs = softmax(logits, axis=1)
    exact = assess(probs, labels, sample_weight=w, copies=weights == "whole")
    found = Sketch.of(probs, labels, sample_weight=w, copies=weights == "whole").evaluate()
    mine = found.assessment
    assert mine.verdict == exact.verdict == "miscalibrated"
    assert max(mine.p_value, exact.p_value) <= 0.003  # of 999 draws, on cells and on rows
    for name in ("estimate", "low", "high"):
        assert_allclose(getattr(mine.rms, name), getattr(exact.rms, name), atol=3e-3)
    for name, floor in exact.noise_floor.items():
        assert_allclose(mine.noise_floor[name], floor, rtol=0.15)
    assert_allclose(mine.detectable, exact.detectable, rtol=0.15)
    # a bound that is always met must also be worth stating
    assert found.error_bound["smooth_ece"] < 1e-4
    assert found.error_bound["adaptive_ece"] < 0.02
    assert max(found.error_bound["smooth_ece"], found.error_bound["ece"]) < 5e-4


@pytest.mark.slow
def test_calibrated_models_are_rejected_as_often_as_the_level_says():
    rejected = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        logits = 2 * rng.normal(size=(600, 4))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        sketch = Sketch.of(logits=logits, labels=labels)
        rejected += sketch.evaluate(seed=seed, n_draws=99).assessment.p_value <= 0.05
    assert 1 <= rejected <= 8  # at a level of 5 %, none: 1 in 20; more: 1 in 200


@pytest.mark.parametrize("weights", [None, "whole", "any"])
def test_intervals_of_scores_are_those_of_the_standard_error(weights):
    logits, labels, w = draw(5, 700, 3, weights=weights)
    sketch = Sketch.of(logits=logits, labels=labels, sample_weight=w, copies=weights == "whole")
    found = sketch.evaluate(n_draws=19)
    losses = -log_softmax(logits, axis=1)[np.arange(700), labels]
    if weights == "whole":
        losses, w = np.repeat(losses, w.astype(int)), None
    w = np.ones(len(losses)) if w is None else w
    mean = np.average(losses, weights=w)
    n = len(losses)
    error = math.sqrt((w**2 * (losses - mean) ** 2).sum() * n / (n - 1)) / w.sum()
    score = found.scores["nll"]
    assert_allclose([score.estimate, score.high - mean], [mean, 1.959964 * error], rtol=1e-6)


def test_probabilities_their_logs_and_logits_are_the_same_predictions():
    logits, labels, _ = draw(1, 500, 6)
    first = Sketch.of(logits=logits, labels=labels)
    for other in (
        Sketch.of(softmax(logits, axis=1), labels),
        Sketch.of(log_probs=log_softmax(logits, axis=1), labels=labels),
        Sketch.of(logits=logits.astype(np.float32), labels=labels),
    ):
        assert_allclose(moments(other), moments(first), rtol=1e-5)
        assert_allclose(other.table.probability, first.table.probability, rtol=1e-5)
    one = np.random.default_rng(0).uniform(size=50)
    y = np.arange(50) % 2
    pair = Sketch.of(np.stack([1 - one, one], axis=1), y)
    assert_array_equal(Sketch.of(one, y).top.sums, pair.top.sums)


@pytest.mark.slow
def test_groups_are_those_of_the_rows_in_their_order():
    logits, labels, _ = draw(2, 3000, 2)
    groups = np.random.default_rng(0).integers(8, 12, size=3000)
    labels = np.where(groups == 11, 1 - logits.argmax(axis=1), labels)
    exact = assess_groups(softmax(logits, axis=1), labels, {"age": groups})
    found = Sketch.of(logits=logits, labels=labels, groups={"age": groups}).evaluate().groups
    assert [g.group for g in found] == [g.group for g in exact] == ["8", "9", "10", "11"]
    assert [g.n for g in found] == [g.n for g in exact]
    assert_allclose([g.gap.estimate for g in found], [g.gap.estimate for g in exact], atol=1e-9)
    assert found[3].verdict == exact[3].verdict == "miscalibrated"


def test_the_curve_on_cells_is_close_to_that_of_the_rows():
    logits, labels, _ = draw(4, 5000, 3)
    probs = softmax(logits, axis=1)
    exact, found = corp(probs, labels, n_draws=0), Sketch.of(probs, labels).corp(n_draws=0)
    for name in ("log_loss", "brier"):
        mine, theirs = getattr(found, name), getattr(exact, name)
        assert_allclose(mine.score, theirs.score, atol=1e-5)
        assert_allclose(mine.miscalibration, theirs.miscalibration, atol=1e-3)
        identity = mine.miscalibration - mine.discrimination + mine.uncertainty
        assert_allclose(identity, mine.score, atol=1e-12)


def test_an_impossible_label_is_counted_and_makes_the_log_loss_infinite():
    probs = np.array([[1.0, 0.0, 0.0], [0.2, 0.3, 0.5]])
    sketch = Sketch.of(probs, np.array([1, 2])) + Sketch.of(probs, np.array([0, 0]))
    found = sketch.evaluate(n_draws=19)
    assert (sketch.n_zeros, found.scores["nll"].estimate) == (1, math.inf)
    assert math.isfinite(found.scores["brier"].high)


def test_weights_of_zero_count_for_nothing():
    logits, labels, _ = draw(0, 40, 3)
    w = (np.arange(40) % 2).astype(float)
    kept = Sketch.of(logits=logits[1::2], labels=labels[1::2])
    found = Sketch.of(logits=logits, labels=labels, sample_weight=w)
    assert (found.n, found.top.is_counted) == (kept.n, False)
    assert_allclose(found.top.sums, kept.top.sums)
    both = (found + kept).top  # with and without weights
    assert_allclose(both.sums, 2 * kept.top.sums)
    assert_allclose(both.spread, 2 * kept.top.weight)


def test_what_cannot_be_merged_is_refused():
    logits, labels, _ = draw(0, 40, 3)
    one = Sketch.of(logits=logits, labels=labels)
    with pytest.raises(ValueError, match=r"same bins to be merged, got 15 and 10"):
        one + Sketch.of(logits=logits, labels=labels, n_bins=10)
    with pytest.raises(ValueError, match=r"same classes to be merged, got 3 and 2"):
        one + Sketch.of(logits=logits[:, :2], labels=labels % 2)
    with pytest.raises(ValueError, match=r"same group columns to be merged, got \(\) and"):
        one + Sketch.of(logits=logits, labels=labels, groups={"g": labels})
    with pytest.raises(ValueError, match="at least one to merge"):
        Sketch.merged([])


def test_bad_arguments_are_named():
    logits, labels, _ = draw(0, 40, 3)
    with pytest.raises(ValueError, match="exactly one of `probs`, `log_probs` and `logits`, got"):
        Sketch.of(softmax(logits, axis=1), labels, logits=logits)
    with pytest.raises(ValueError, match=r"none of them, no `labels`"):
        Sketch.of()
    with pytest.raises(ValueError, match=r"column 'group' must have 40 rows, got 3"):
        Sketch.of(logits=logits, labels=labels, groups=np.arange(3))
    with pytest.raises(ValueError, match=r"row 0"):
        Sketch.of(logits=np.full((4, 3), np.nan), labels=labels[:4])
    many = np.arange(10_001)
    with pytest.raises(ValueError, match=r"column 'id' has more than 10,000 distinct values"):
        Sketch.of(np.full(10_001, 0.3), many % 2, groups={"id": many})
    assert Sketch.of(logits=logits, labels=labels).positive is None


def test_no_sums_by_class_are_kept_for_a_vocabulary():
    logits = np.zeros((3, 20_001), dtype=np.float32)
    sketch = Sketch.of(logits=logits, labels=np.array([0, 5, 9]))
    assert sketch.classes is None
    found = (sketch + sketch).evaluate(n_draws=19)
    assert "classwise_ece" not in found.errors
    assert "classwise_ece" not in found.assessment.noise_floor


@given(seed=SEEDS, n_cells=st.sampled_from([3, 100, 4096]), n_bins=st.integers(1, 40))
@settings(max_examples=30)
def test_the_index_of_a_cell_is_exact(seed, n_cells, n_bins):
    edges = np.union1d(log_odds_edges(n_cells), np.arange(n_bins + 1) / n_bins)
    rng = np.random.default_rng(seed)
    values = np.concatenate(
        [
            edges,
            np.nextafter(edges, 0.0),
            np.nextafter(edges, 1.0),
            rng.uniform(size=200),
            1 / (1 + np.exp(10 * rng.normal(size=200))),
            [0.0, 0.5, 1.0, 5e-324, 1 - 2**-53],
        ]
    )
    assert_array_equal(FineIndex(edges)(values), index_of(values, edges))


@pytest.mark.parametrize("weights", [None, "whole", "any"])
@pytest.mark.parametrize("k", [2, 5, 40, 300])
def test_every_class_has_its_curve(k, weights):
    """CORP of a class from cells is that of the rows, to less than the width of a cell."""
    logits, labels, w = draw(5, 3000, k, scale=3.0, weights=weights)
    probs = softmax(logits, axis=1)
    half = slice(0, 1500), slice(1500, None)
    sketch = Sketch.merged(sketch_of(logits, labels, w, part) for part in half)
    for event in (0, 1, k - 1):
        found = sketch.corp(event=event, n_draws=0)
        want = corp(probs, labels, event=event, sample_weight=w, n_draws=0)
        assert found.event == want.event
        for name in ("score", "miscalibration", "discrimination", "uncertainty"):
            mine, theirs = (getattr(x.brier, name) for x in (found, want))
            assert_allclose(mine, theirs, atol=1e-3, err_msg=name)
        at = np.quantile(probs[:, event], [0.3, 0.6, 0.9])
        curves = [np.interp(at, c.curve.probability, c.curve.frequency) for c in (found, want)]
        assert_allclose(*curves, atol=0.05)
    table = sketch.cells(0)
    assert_allclose(table.weight.sum(), sketch.scores["nll"].weight)
    assert_allclose(table.spread.sum(), sketch.top.spread.sum(), rtol=0.05)


def test_cells_of_classes_take_bounded_room():
    for k in (2, 50, 129, 1000, 1024, 1025, 20_000):
        n_cells = len(class_index(k, 15).edges) - 1
        assert n_cells * k <= max(1.3 * 2**16, 15 * k)
        assert np.isin(np.arange(16) / 15, class_index(k, 15).edges).all()
    with pytest.raises(ValueError, match="`event` must be a class below 3, got 3"):
        sketch_of(*draw(0, 20, 3), slice(None)).cells(3)
    huge = replace(Sketch.of(logits=np.zeros((2, 3)), labels=[0, 1]), classes=None)
    with pytest.raises(ValueError, match="this sketch of 3 classes has none"):
        huge.corp(event=0)


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("weights", [None, "any"])
def test_clusters_keep_the_sums_of_their_rows(k, weights):
    logits, labels, w = draw(8, 600, k, weights=weights)
    cluster = np.random.default_rng(1).integers(50, size=600)
    half = slice(0, 300), slice(300, None)
    parts = [sketch_of(logits, labels, w, part, cluster=cluster[part]) for part in half]
    found = Sketch.merged(parts).clusters
    probs = softmax(logits, axis=1)
    c, y = (probs[:, 1], labels == 1) if k == 2 else (probs.max(1), probs.argmax(1) == labels)
    mass = np.ones(600) if w is None else w
    assert len(found) == 50
    for i, name in enumerate(found.names):
        mine = cluster == int(name)
        want = [(mass * x)[mine].sum() for x in (np.ones(600), c, y, c * y, c * c)]
        fields = ("weight", "probability", "outcome", "hits", "square")
        sums = [getattr(found[i], name).sum() for name in fields]
        assert_allclose(sums, want, rtol=1e-12)
    with pytest.raises(ValueError, match="kind of rows"):
        parts[0] + sketch_of(logits, labels, w, half[1])


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("weights", [None, "whole", "any"])
def test_clusters_and_sampling_weights_are_assessed_as_those_of_rows(k, weights):
    """Whole sampling weights taken for copies, or five tries for five rows, accuse everybody."""
    rng = np.random.default_rng(9)
    logits = np.repeat(rng.normal(size=(200, k)), 5, axis=0)
    labels = np.repeat((logits + rng.gumbel(size=logits.shape)).argmax(axis=1)[::5], 5)
    cluster = np.repeat(np.arange(200), 5)
    w = {"whole": rng.integers(1, 11, size=1000), "any": rng.gamma(1.0, size=1000)}.get(weights)
    probs = softmax(logits, axis=1)
    exact = assess(probs, labels, sample_weight=w, cluster=cluster)
    found = Sketch.of(probs, labels, sample_weight=w, cluster=cluster).evaluate().assessment
    assert (found.n, found.n_clusters) == (1000, 200)
    assert_allclose(found.correlation, exact.correlation, atol=0.02)
    for name in ("gap", "rms"):
        mine, theirs = getattr(found, name), getattr(exact, name)
        assert_allclose([mine.low, mine.high], [theirs.low, theirs.high], atol=0.01)
    assert found.verdict == exact.verdict != "miscalibrated"
    plain = Sketch.of(probs, labels, sample_weight=w).evaluate().assessment
    assert plain.effective_n > 2 * found.effective_n
    with pytest.raises(ValueError, match="by group or by cluster, not by both"):
        Sketch.of(probs, labels, groups=cluster, cluster=cluster)


def test_a_sketch_says_that_it_cannot_keep_so_many_clusters():
    many = np.arange(100_001)
    with pytest.raises(ValueError, match=r"`cluster` has more than 100,000 distinct values"):
        Sketch.of(np.full(100_001, 0.3), many % 2, cluster=many)


def test_the_brier_score_of_saturated_rows_is_not_lost():
    p = np.array([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]])
    y = np.array([0, 1])
    found = Sketch.of(p, y).scores["brier"].mean
    assert_allclose(found, brier_score(p, y), rtol=1e-6)
    assert_allclose(found, 2e-18, rtol=1e-6)
    assert_allclose(
        Sketch.of(np.tile(p, (1, 20)) / 20, y).scores["brier"].mean, 0.95**2 + 19 / 400
    )
