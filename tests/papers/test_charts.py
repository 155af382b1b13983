"""Charts: every kind is drawn, with the numbers it was given."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose

from focalibrate.calibrate import PosteriorRecovery
from focalibrate.report.plot import COLORS
from focalibrate_papers.charts import (
    ArrowPanel,
    Chart,
    Panel,
    Series,
    SimplexPanel,
    chart_picture,
    draw_chart,
)

X, Y = np.array([1.0, 2.0, 4.0]), np.array([0.2, 0.1, 0.4])


def axes_of(*series, **options):
    chart = Chart("name", "caption", [Panel("t", "x", "y", series, **options)])
    return draw_chart(chart).axes[0]


@pytest.mark.parametrize("style", ["points", "bars"])
def test_error_bars_reach_from_low_to_high(style):
    axes = axes_of(Series(X, Y, style=style, low=Y - 0.05, high=Y + 0.2))
    (bars,) = [c for c in axes.collections if len(c.get_segments()) == 3]
    for (_, low), (_, high) in (segment for segment in bars.get_segments()):
        at = np.argmin(np.abs(Y - 0.05 - low))
        assert_allclose((low, high), (Y[at] - 0.05, Y[at] + 0.2))


def test_a_band_reaches_from_low_to_high():
    (band,) = axes_of(Series(X, Y, low=Y - 0.05, high=Y + 0.2)).collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert_allclose((heights.min(), heights.max()), (0.05, 0.6))


def test_colours_follow_each_other_past_those_that_are_given():
    axes = axes_of(Series(X, Y), Series(X, Y, color=4), Series(X, Y))
    found = [to_hex(line.get_color()) for line in axes.lines]
    assert found == [to_hex(COLORS[i]) for i in (0, 4, 1)]


@pytest.mark.parametrize(
    ("n", "columns", "want"), [(1, 3, (1, 1)), (4, 3, (3, 2)), (4, 2, (2, 2))]
)
def test_panels_stand_in_rows(n, columns, want):
    panel = Panel("t", "x", "y", [Series(X, Y)])
    figure = draw_chart(Chart("name", "", [panel] * n, columns=columns, size=(3.0, 2.0)))
    assert_allclose(figure.get_size_inches(), (3.0 * want[0], 2.0 * want[1]))


@pytest.mark.parametrize(
    "panel",
    [
        ArrowPanel("arrows", PosteriorRecovery(2.0)),
        SimplexPanel("heights", np.vstack([np.eye(3), [[0.2, 0.3, 0.5]]]), np.arange(4.0), "h"),
        Panel("square", "x", "y", [Series(X, X, style="dashed")], is_square=True),
    ],
    ids=["arrows", "simplex", "square"],
)
def test_a_picture_is_the_same_each_time(panel):
    chart = Chart("name", "", [panel])
    picture = chart_picture(chart)
    assert picture[8:12] == b"WEBP"
    assert picture == chart_picture(chart)


@pytest.mark.parametrize(("name", "degrees"), [("short", 0), ("a much longer name", 90)])
def test_names_without_room_are_turned_upright(name, degrees):
    axes = axes_of(Series([f"{name} {i}" for i in range(3)], Y, style="points"))
    assert {label.get_rotation() for label in axes.get_xticklabels()} == {degrees}
