from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate.metrics.binning import (
    equal_mass_sizes,
    equal_width_edges,
    equal_width_index,
    index_of,
    log_odds_edges,
)


def bin_by_comparison(value: float, n_bins: int) -> int:
    return sum(value > b / n_bins for b in range(1, n_bins))


@pytest.mark.parametrize("n_bins", [1, 2, 3, 7, 10, 15, 25, 49, 100, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_and_their_neighbours_fall_where_comparison_puts_them(n_bins, dtype):
    edges = (np.arange(n_bins + 1) / n_bins).astype(dtype)
    values = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
    want = [bin_by_comparison(float(v), n_bins) for v in values]
    assert_array_equal(equal_width_index(values, n_bins), want)
    assert_array_equal(index_of(values, equal_width_edges(n_bins)), want)


@given(value=st.floats(0, 1), n_bins=st.integers(1, 400))
def test_any_value_falls_where_comparison_puts_it(value, n_bins):
    assert equal_width_index(np.array([value]), n_bins)[0] == bin_by_comparison(value, n_bins)


def test_float32_is_judged_at_its_exact_value():
    above = np.float32(0.2)
    assert Fraction(float(above)) > Fraction(1, 5)
    assert equal_width_index(np.array([above]), 15)[0] == 3
    assert equal_width_index(np.array([0.2]), 15)[0] == 2


@given(n=st.integers(0, 1000), n_bins=st.integers(1, 50))
def test_equal_mass_sizes_are_those_of_array_split(n, n_bins):
    want = [len(part) for part in np.array_split(np.arange(n), n_bins)]
    assert_array_equal(equal_mass_sizes(n, n_bins), want)


@pytest.mark.parametrize("n_cells", [3, 16, 4096])
def test_log_odds_edges_rise_from_0_to_1(n_cells):
    edges = log_odds_edges(n_cells)
    assert len(edges) == n_cells + 1
    assert (edges[0], edges[-1]) == (0.0, 1.0)
    assert np.all(np.diff(edges) > 0)


def test_log_odds_edges_need_three_cells():
    with pytest.raises(ValueError, match=r"`n_cells` must be a whole number >= 3, got 2"):
        log_odds_edges(2)
