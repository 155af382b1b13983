import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.metrics import assess, assess_groups
from focalibrate.metrics.groups import holm


def grouped(n, seed, *, shift=0.0):
    """Ten groups of calibrated rows; confidence is `shift` too high in group 3."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.55, 0.95, size=n)
    group = rng.integers(10, size=n)
    right = rng.random(n) < p - shift * (group == 3)
    probs = np.column_stack([p, (1 - p) / 2, (1 - p) / 2])
    return probs, (~right).astype(int), group, rng


def test_a_planted_group_is_found_and_the_others_are_not():
    probs, labels, group, _ = grouped(6000, 0, shift=0.15)
    found = assess_groups(probs, labels, group)
    assert [one.group for one in found] == [str(i) for i in range(10)]
    assert [one.verdict == "miscalibrated" for one in found] == [i == 3 for i in range(10)]
    assert "group = 3" in found[3].summary
    assert "overconfident by 1" in found[3].summary
    json.dumps([one.to_dict() for one in found])


def test_no_sentence_says_miscalibrated_and_off_by_nothing():
    probs, labels, group, _ = grouped(6000, 0, shift=0.15)
    found = assess_groups(probs, labels, np.where(group == 3, "", "x"))[0]
    none = replace(found.gap, estimate=0.0, low=-0.1, high=0.1)
    text = replace(found, gap=none, rms=replace(found.rms, estimate=0.0, low=0.0)).summary
    assert text.startswith("group = (empty) (")
    assert text.endswith("corrected), too high for some rows and too low for others")


@pytest.mark.slow
def test_null_groups_are_rejected_at_most_one_time_in_twenty():
    found = []
    for seed in range(12):
        probs, labels, group, _ = grouped(240, seed)
        result = assess_groups(probs, labels, group % 4, seed=seed)
        found.append(any(one.p_adjusted < 0.05 for one in result))
    assert np.sum(found) <= 2


def test_groups_are_assessed_as_by_themselves():
    probs, labels, group, _ = grouped(2000, 1)
    one = assess_groups(probs, labels, {"g": group})[4]
    alone = assess(probs[group == 4], labels[group == 4])
    assert_allclose([one.rms.low, one.rms.high], [alone.rms.low, alone.rms.high])
    assert_allclose(one.gap.estimate, alone.gap.estimate)
    assert_allclose(one.detectable, alone.detectable, rtol=0.2)


def test_small_groups_are_listed_but_not_tested():
    probs, labels, *_ = grouped(300, 2)
    names = np.array(["big"] * 290 + ["small"] * 10)
    big, small = assess_groups(probs, labels, names)
    assert small.verdict == "too few rows to judge"
    assert np.isnan(small.p_value)
    assert big.p_adjusted == big.p_value  # the small group costs nothing
    with pytest.raises(ValueError, match="column 'a' must have 300 rows, got 2"):
        assess_groups(probs, labels, {"a": np.array([1, 2])})


def test_weights_repeat_rows_within_groups():
    probs, labels, group, rng = grouped(500, 3)
    weights = rng.integers(0, 3, size=500)
    one = assess_groups(probs, labels, group, sample_weight=weights, copies=True)[0]
    two = assess_groups(*(np.repeat(x, weights, axis=0) for x in (probs, labels, group)))[0]
    assert one.n == two.n
    assert_allclose([one.gap.low, one.rms.high], [two.gap.low, two.rms.high], rtol=1e-10)


def test_holm_by_hand():
    assert_allclose(holm([0.01, 0.04, 0.03, 0.5]), [0.04, 0.09, 0.09, 0.5])
    assert holm([]) == []
