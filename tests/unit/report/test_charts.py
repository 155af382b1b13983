"""Charts: every kind is drawn, the same each time."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from focalibrate.calibrate import PosteriorRecovery
from focalibrate.report.charts import (
    COLORS,
    ArrowPanel,
    Chart,
    Panel,
    Series,
    SimplexPanel,
    chart_svg,
)

SVG = "{http://www.w3.org/2000/svg}"
X, Y = np.array([1.0, 2.0, 4.0]), np.array([0.2, 0.1, 0.4])
STYLES = ["line", "points", "line and points", "dashed", "bars"]


def drawn(*panels, **options):
    svg = chart_svg(Chart("name", "caption", panels, **options))
    return svg, ET.fromstring(svg)


def size(root):
    return [float(root.get(side).removesuffix("pt")) / 72 for side in ("width", "height")]


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("with_spread", [False, True], ids=["bare", "spread"])
def test_every_style_is_drawn_in_its_colour(style, with_spread):
    spread = {"low": Y - 0.05, "high": Y + 0.05} if with_spread else {}
    svg, _ = drawn(Panel("t", "x", "y", [Series(X, Y, "one", style, color=2, **spread)]))
    assert COLORS[2].lower() in svg.lower()


def test_colours_follow_each_other_past_those_that_are_given():
    series = [Series(X, Y), Series(X, Y, color=4), Series(X, Y)]
    svg = drawn(Panel("t", "x", "y", series))[0].lower()
    assert all(COLORS[i].lower() in svg for i in (0, 1, 4))
    assert COLORS[2].lower() not in svg


@pytest.mark.slow
def test_a_chart_is_the_same_each_time():
    panel = Panel("t", "x", "y", [Series(X, Y, "one", "line and points")], log_x=True, log_y=True)
    assert drawn(panel)[0] == drawn(panel)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "columns", "want"), [(1, 3, (1, 1)), (4, 3, (3, 2)), (4, 2, (2, 2))]
)
def test_panels_stand_in_rows(n, columns, want):
    panel = Panel("t", "x", "y", [Series(X, Y)])
    _, root = drawn(*[panel] * n, columns=columns, size=(3.0, 2.0))
    assert size(root) == pytest.approx([3.0 * want[0], 2.0 * want[1]])


@pytest.mark.parametrize(
    "panel",
    [
        ArrowPanel("arrows", PosteriorRecovery(2.0)),
        SimplexPanel("heights", np.vstack([np.eye(3), [[0.2, 0.3, 0.5]]]), np.arange(4.0), "h"),
        Panel("square", "x", "y", [Series(X, X)], is_square=True),
    ],
    ids=["arrows", "simplex", "square"],
)
def test_other_panels_are_drawn(panel):
    assert len(drawn(panel)[1].findall(f".//{SVG}path")) > 3


@pytest.mark.parametrize(("name", "is_turned"), [("short", False), ("a much longer name", True)])
def test_names_without_room_are_turned_upright(name, is_turned):
    names = [f"{name} {i}" for i in range(3)]
    svg, _ = drawn(Panel("t", "", "", [Series(names, Y, style="points")]))
    assert ("rotate(-90)" in svg) == is_turned


def test_missing_numbers_leave_gaps():
    gap = np.array([0.1, np.nan, 0.3])
    svg, _ = drawn(Panel("t", "x", "y", [Series(X, gap, low=gap, high=gap)]))
    assert "nan" not in svg.lower()
