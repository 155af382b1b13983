"""The forest plot: claimed sides to the right, one line per claim."""

import re
from xml.etree import ElementTree

import pytest

from focalibrate.experiments.engine.forest import PLOT, TEXT, forest_svg
from focalibrate.experiments.engine.verdict import Interval, number_result, side_result

WORDS = {"what": "w", "paper_value": "p", "unit": "u"}
MIDDLE = TEXT + PLOT / 2


def dots(svg):
    return [float(x) for x in re.findall(r'<circle cx="([-0-9.]+)"', svg)]


@pytest.mark.parametrize("below", [True, False])
def test_what_agrees_with_the_claim_is_right_of_the_middle(below):
    ends = (Interval(-2.0, -3.0, -1.0), Interval(2.0, 1.0, 3.0))
    found = [side_result(x, claim="c", below=below, covers=True, **WORDS) for x in ends]
    low, high = dots(forest_svg(found))
    assert (low > MIDDLE) == below
    assert (high > MIDDLE) == (not below)


def test_the_papers_claims_come_first_and_the_svg_is_well_formed():
    ours = side_result(
        Interval(1.0, float("-inf"), float("inf")),
        claim="<ours> & more",
        covers=True,
        is_papers=False,
        **WORDS,
    )
    near = number_result(
        Interval.exact(2.0), 2.0, tolerance=0.1, claim="theirs", covers=True, **WORDS
    )
    unknown = side_result(Interval(*[float("nan")] * 3), claim="none", covers=True, **WORDS)
    svg = forest_svg([ours, near, unknown])
    ElementTree.fromstring(svg)
    assert svg.index("theirs") < svg.index("&lt;ours&gt; &amp; more")
    assert len(dots(svg)) == 2
