"""The page of an experiment: safe, complete, and with the right numbers."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from focalibrate.experiments.engine.experiment import Conclusion, Table
from focalibrate.experiments.engine.forest import show_interval
from focalibrate.experiments.engine.markdown import tables_markdown
from focalibrate.experiments.engine.page import render_page
from focalibrate.experiments.engine.verdict import VERDICTS, ClaimResult, Interval
from focalibrate.report.charts import Chart, Panel, Series

EVIL = '<script>alert("x")</script>&amp;<img src=x onerror=alert(1)>'
VOID = {"meta", "img", "br", "path", "use", "rect", "circle"}


class Reader(HTMLParser):
    """Which tags and attributes a page has, and whether they close."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def line(verdict):
    ours, side = Interval(1.0, 0.5, 1.5), (0.0, float("inf"))
    return ClaimResult(EVIL, EVIL, EVIL, ours, EVIL, side, verdict, EVIL)


@pytest.fixture
def page(logged_runs):
    experiment = replace(
        logged_runs.EXPERIMENT,
        title=EVIL,
        source=EVIL,
        protocol=EVIL,
        smaller={"smallest": EVIL, "full": ""},
    )
    found = Conclusion(
        tuple(line(verdict) for verdict in VERDICTS),
        (Table(EVIL, (EVIL, "b"), ((EVIL, "2"),), EVIL),),
        (Chart("one", EVIL, [Panel("t", "x", "y", [Series([1.0], [2.0])])]),),
    )
    svg = '<?xml version="1.0"?>\n<svg viewBox="0 0 1 1"><path d="M 0 0"/></svg>'
    meta = {
        "command": EVIL,
        "scale": "smallest",
        "machine": EVIL,
        "seconds_of_all_runs": 1.5,
        "runs": {"a": {}},
        "versions": {EVIL: "1"},
    }

    def render(scale="smallest"):
        return render_page(experiment, scale, found, {"one": svg}, meta)

    return render


def read(text):
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def test_no_text_becomes_a_tag(page):
    reader = read(page())
    assert not {"script", "img", "iframe", "link", "object", "form"} & set(reader.tags)
    assert not [found for found in reader.attributes if found[1].startswith("on")]
    assert "".join(reader.text).count(EVIL) >= 4 * len(VERDICTS)


def test_nothing_is_fetched(page):
    reader = read(page())
    links = [value for _, name, value in reader.attributes if name in ("src", "href")]
    assert links == []
    assert "default-src 'none'" in page()


def test_every_verdict_and_figure_is_there(page):
    reader = read(page())
    for verdict in VERDICTS:
        assert verdict in reader.text
    assert reader.tags.count("figure") == reader.tags.count("svg") == 2
    assert ("svg", "aria-label", EVIL) in reader.attributes
    assert "<?xml" not in page()


def test_what_is_smaller_is_said_only_where_something_is(page):
    assert "Smaller than the paper." in page()
    assert "Smaller than the paper." not in page("full")


@pytest.mark.parametrize(
    ("interval", "shown"),
    [
        (Interval(0.123456, 0.1, 0.2), "0.1235 [0.1, 0.2]"),
        (Interval.exact(0.5), "0.5"),
        (Interval(2.0, float("-inf"), float("inf")), "2"),
        (Interval(float("nan"), float("nan"), float("nan")), "nan"),
    ],
    ids=["interval", "exact", "one run", "none"],
)
def test_numbers_are_shown_with_what_is_known_of_them(interval, shown):
    assert show_interval(interval) == shown


def test_tables_as_markdown():
    table = Table("A <b>", ("a|b", "c"), (("x\ny", "1 & 2"),), "note")
    assert tables_markdown([table]) == (
        "**A &lt;b>**\n\n| a\\|b | c |\n|-|-|\n| x y | 1 &amp; 2 |\n\nnote\n"
    )
