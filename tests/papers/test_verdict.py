"""Verdicts: what must hold for every rule."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from focalibrate_papers import engine
from focalibrate_papers.engine import (
    VERDICTS,
    Interval,
    as_ours,
    at_size,
    judge_above,
    judge_below,
    judge_number,
    judged,
    mean_interval,
    number_result,
    rank_correlation_interval,
    share_interval,
    side_result,
    tally,
)

ORDER = {"not reproduced": 0, "undecided": 1, "reproduced": 2}
WORDS = {"claim": "c", "what": "w", "paper_value": "p", "unit": "u"}
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


def test_one_run_decides_nothing():
    assert mean_interval([2.0]) == Interval(2.0, -math.inf, math.inf)
    assert judge_below(mean_interval([2.0]), 3.0) == "undecided"


def test_without_runs_nothing_is_decided():
    found = mean_interval([])
    assert math.isnan(found.estimate)
    assert judge_below(found, 0.0) == "undecided"
    assert judge_above(found, 0.0) == "undecided"
    assert judge_number(found, 0.0, tolerance=1.0) == "undecided"


@given(intervals(), numbers)
def test_below_and_above_are_mirror_images(found, bound):
    mirrored = Interval(-found.estimate, -found.high, -found.low)
    for covers in (True, False):
        one = judge_below(found, bound, covers=covers)
        assert one == judge_above(mirrored, -bound, covers=covers)


@given(intervals(), numbers)
def test_an_interval_that_holds_the_bound_is_undecided(found, bound):
    verdict = judge_below(found, bound)
    assert (verdict == "reproduced") == (found.high < bound)
    if found.low < found.high:
        assert (verdict == "undecided") == (found.low <= bound <= found.high)


@given(intervals(), numbers, st.floats(0, 1e6))
def test_a_weaker_claim_stands_no_worse(found, bound, more):
    strong, weak = (judge_below(found, b) for b in (bound, bound + more))
    assert ORDER[weak] >= ORDER[strong]


@given(intervals(), numbers)
def test_a_smaller_run_has_directions_only(found, bound):
    for judge in (judge_below, judge_above):
        verdict = judge(found, bound, covers=False)
        assert verdict in ("same direction", "undecided", "opposite direction")
    number = number_result(found, bound, tolerance=1.0, **WORDS)
    for result in (number, side_result(found, bound=bound, **WORDS)):
        (smaller,) = at_size([result], is_full=False)
        assert at_size([result], is_full=True)[0].verdict == result.verdict
        assert smaller.verdict == (
            "not run at full size" if result is number else judge_below(found, bound, covers=False)
        )


@given(intervals(), numbers, st.floats(0, 1e3))
def test_a_printed_number_is_met_by_the_whole_interval(found, paper, tolerance):
    verdict = judge_number(found, paper, tolerance=tolerance)
    ends = np.array([found.low, found.estimate, found.high])
    assert (verdict == "reproduced") == bool(np.all(np.abs(ends - paper) <= tolerance))
    if verdict == "not reproduced":
        assert found.low > paper + tolerance or found.high < paper - tolerance


@given(st.integers(0, 30), st.integers(1, 30))
def test_shares_have_exact_intervals_inside_their_range(hits, n):
    found = share_interval(min(hits, n), n)
    assert 0.0 <= found.low <= found.estimate <= found.high <= 1.0
    if found.estimate > 0:
        assert_allclose(stats.binom.sf(min(hits, n) - 1, n, found.low), 0.025, rtol=1e-6)


@given(st.integers(2, 6), st.integers(1, 4), st.integers(0, 1000))
def test_the_interval_of_a_rank_correlation_holds_it_and_stays_in_its_range(n_x, n_runs, seed):
    x, table = np.arange(n_x), np.random.default_rng(seed).integers(5, size=(n_x, n_runs))
    found = rank_correlation_interval(x, table.astype(np.float64))
    assert -1.0 <= found.low <= found.estimate <= found.high <= 1.0
    if np.ptp(table):
        want = stats.spearmanr(np.repeat(x, n_runs), table.ravel()).statistic
        assert_allclose(found.estimate, want, atol=1e-12)
    else:
        assert found.estimate == 0.0
    assert found.low < found.high


@pytest.mark.parametrize("slope", [0.0, 0.5, 3.0])
def test_the_interval_of_a_rank_correlation_covers_it(slope):
    rng, x, n = np.random.default_rng(0), np.arange(4.0), 300

    def draw():
        return slope * x[:, None] + rng.normal(size=(4, 3))

    true = np.mean([rank_correlation_interval(x, draw()).estimate for _ in range(3000)])
    found = [rank_correlation_interval(x, draw()) for _ in range(n)]
    assert np.mean([f.low <= true <= f.high for f in found]) > 0.93


def test_what_never_changes_has_no_rank_correlation():
    assert rank_correlation_interval([0.0, 1.0, 2.0], np.full((3, 2), 5.0)).estimate == 0.0


@pytest.mark.parametrize(
    ("estimate", "verdict"), [(-1.0, "supported"), (0.0, "undecided"), (1.0, "not supported")]
)
def test_a_question_of_ours_has_words_of_its_own(estimate, verdict):
    ours = Interval(estimate, estimate - 0.5, estimate + 0.5)
    assert side_result(ours, is_papers=False, **WORDS).verdict == verdict
    asked = as_ours(side_result(ours, **WORDS), paper_value="silent")
    assert (asked.verdict, asked.is_papers, asked.paper_value) == (verdict, False, "silent")


def test_the_claimed_side_is_kept():
    ours = Interval(1.0, 0.0, 2.0)
    assert side_result(ours, bound=3.0, **WORDS).claimed == (-math.inf, 3.0)
    assert side_result(ours, below=False, **WORDS).claimed == (0.0, math.inf)
    near = number_result(ours, 2.0, tolerance=0.5, **WORDS)
    assert near.claimed == (1.5, 2.5)
    assert near.verdict == "undecided"


def test_a_tally_counts_claims_and_questions_apart():
    yes, no = Interval(-1.0, -2.0, -0.5), Interval(1.0, 0.5, 2.0)
    found = [side_result(x, **WORDS) for x in (yes, yes, no)]
    found.append(side_result(no, is_papers=False, **WORDS))
    assert tally(found) == (
        "3 claims of the paper: 2 reproduced, 1 not reproduced. "
        "1 question of our own: 1 not supported."
    )
    assert all(result.verdict in VERDICTS for result in found[:3])


def test_an_erratum_is_shown_with_its_grade():
    no = Interval(1.0, 0.5, 2.0)
    found = side_result(no, theory="002-app-g", **WORDS)
    assert found.shown == "not reproduced (slip)"
    assert tally([found]) == "1 claim of the paper: 1 not reproduced (slip)."


def test_every_line_of_the_claims_can_be_judged():
    path = Path(engine.__file__).with_name("judged.csv")
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len({line["id"] for line in lines}) == len(lines)
    for line in lines:
        assert line["id"].split("/")[0] in engine.EXPERIMENTS
        assert line["side"] in ("below", "above", "equal", "")  # or the run decides
        assert math.isfinite(float(line["bound"] or 0) + float(line["tolerance"] or 0))
        assert line["theory"] in ("", *engine.GRADES) or "{" in line["theory"]


def test_the_words_of_a_claim_are_filled_in_and_may_be_replaced():
    found = judged("linear/norms", Interval(2.0, 1.0, 3.0), metric="weight norm")
    assert found.claim == "The weight norm grows larger with CE than with focal loss"
    assert (found.verdict, found.unit) == ("reproduced", "weight norm, CE − FL-1")
    assert judged("linear/norms", 2.0, metric="x", bound=2.5).verdict == "not reproduced"
    asked = judged("psi-images/ts-raises", 1.0, name="x", is_papers=False)
    assert (asked.verdict, asked.is_papers) == ("supported", False)
    assert asked.paper_value == "the paper's text does not mention this data set"
