"""Verdicts: what must hold of every rule."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from focalibrate.experiments.verdict import (
    STANDINGS,
    Interval,
    judge_above,
    judge_below,
    judge_number,
    mean_interval,
)

ORDER = {"not reproduced": 0, "same direction": 1, "reproduced": 2}
numbers = st.floats(-1e6, 1e6)
samples = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20)


@st.composite
def intervals(draw):
    low, estimate, high = sorted(draw(numbers) for _ in range(3))
    return Interval(estimate, low, high)


@given(samples)
def test_the_interval_of_a_mean_is_students(values):
    found = mean_interval(values)
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    assert_allclose([found.estimate, found.low], [np.mean(values), np.mean(values) - half])
    assert_allclose(found.high - found.estimate, found.estimate - found.low, atol=1e-9)


@given(samples, st.integers(-3, 3), st.integers(-100, 100))
def test_the_interval_of_a_mean_moves_with_its_numbers(values, factor, shift):
    found = mean_interval([factor * x + shift for x in values])
    ends = sorted(
        factor * x + shift for x in (mean_interval(values).low, mean_interval(values).high)
    )
    assert_allclose([found.low, found.high], ends, rtol=1e-9, atol=1e-6)


def test_one_run_says_nothing_of_its_spread():
    assert mean_interval([2.0]) == Interval(2.0, -math.inf, math.inf)
    assert judge_below(mean_interval([2.0]), 3.0, is_full=True) == "same direction"


def test_without_runs_nothing_is_reproduced():
    found = mean_interval([])
    assert math.isnan(found.estimate)
    assert judge_below(found, 0.0, is_full=True) == "not reproduced"
    assert judge_above(found, 0.0, is_full=True) == "not reproduced"
    assert judge_number(found, 0.0, tolerance=1.0, is_full=True) == "not reproduced"


@given(intervals(), numbers)
def test_below_and_above_are_mirror_images(found, bound):
    mirrored = Interval(-found.estimate, -found.high, -found.low)
    for is_full in (True, False):
        one = judge_below(found, bound, is_full=is_full)
        assert one == judge_above(mirrored, -bound, is_full=is_full)


@given(intervals(), numbers)
def test_a_number_is_never_below_and_above(found, bound):
    both = (judge_below(found, bound, is_full=True), judge_above(found, bound, is_full=True))
    assert "not reproduced" in both


@given(intervals(), numbers, st.floats(0, 1e6))
def test_a_weaker_claim_stands_no_worse(found, bound, more):
    strong, weak = (judge_below(found, b, is_full=True) for b in (bound, bound + more))
    assert ORDER[weak] >= ORDER[strong]


@given(intervals(), numbers)
def test_less_than_the_papers_size_never_reproduces(found, bound):
    for judge in (judge_below, judge_above):
        assert judge(found, bound, is_full=False) != "reproduced"
    assert judge_number(found, bound, tolerance=1.0, is_full=False) == "not run at full size"


@given(intervals(), numbers)
def test_reproduced_is_the_whole_interval(found, bound):
    standing = judge_below(found, bound, is_full=True)
    assert (standing == "reproduced") == (found.high < bound)
    assert (standing != "not reproduced") == (found.estimate < bound or found.high < bound)


@given(intervals(), numbers, st.floats(0, 1e3))
def test_a_printed_number_is_met_by_estimate_or_interval(found, paper, tolerance):
    standing = judge_number(found, paper, tolerance=tolerance, is_full=True)
    is_met = abs(found.estimate - paper) <= tolerance or found.low <= paper <= found.high
    assert standing == ("reproduced" if is_met else "not reproduced")


@pytest.mark.parametrize("is_full", [True, False])
def test_every_standing_is_one_of_the_four(is_full):
    found = Interval(1.0, 0.0, 2.0)
    for bound in (-1.0, 0.5, 1.5, 3.0):
        for judge in (judge_below, judge_above):
            assert judge(found, bound, is_full=is_full) in STANDINGS
