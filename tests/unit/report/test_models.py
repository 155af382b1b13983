"""The pages of several models and of groups."""

import json

import numpy as np
import pytest

from focalibrate.comparison import Score, Verdict
from focalibrate.metrics import assess, assess_groups
from focalibrate.report import (
    ComparedModel,
    Provenance,
    models_data,
    write_report,
)
from focalibrate.report._records import MAX_GROUPS, group_records

MADE = Provenance(command="focalibrate compare a b", version="0.1.0", seed=0)


def model(name, difference=None):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=400)
    y = (rng.uniform(size=400) < p).astype(int)
    top = np.maximum(p, 1 - p)
    return ComparedModel(
        name=name,
        scores={"nll": Score(0.5, 0.4, 0.6), "ece": Score(0.03)},
        assessment=assess(p, y, n_draws=99),
        top=(top, (p > 0.5) == y, None),
        difference=difference,
        p_value=None if difference is None else 0.25,
    )


@pytest.fixture(scope="module")
def models():
    return [model("a"), model("<b>", Score(0.01, -0.01, 0.03)), model("c", Score(0.2, 0.1, 0.3))]


def test_models_are_shown_in_order_with_their_differences(models):
    data = models_data(models, verdict=Verdict(None, "a is best."), provenance=MADE, n_classes=2)
    document = json.loads(data.to_json())
    assert document["kind"] == "models"
    assert [m["name"] for m in document["models"]] == ["a", "<b>", "c"]
    assert document["models"][0]["difference"] is None
    assert document["models"][2]["difference"] == [0.2, 0.1, 0.3]
    assert document["models"][0]["scores"]["ece"] == [0.03]
    assert document["title"] == "a, <b>, c: models compared"
    assert sum(document["models"][1]["curve"]["count"]) == document["n_rows"] == 400


def test_the_page_is_one_file(models, tmp_path):
    path = tmp_path / "models.html"
    data = models_data(
        models, verdict=Verdict(None, "<i>"), provenance=MADE, n_classes=2, title="<t>"
    )
    write_report(path, data)
    text = path.read_text()
    assert "<title>&lt;t&gt;</title>" in text
    assert "<i>" not in text


@pytest.mark.slow
def test_groups_keep_their_order_and_the_worst_are_kept():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=6000)
    column = rng.integers(100, size=6000)
    column[:5] = 999
    y = (rng.uniform(size=6000) < np.where(column == 7, 0.0, p)).astype(int)
    groups = assess_groups(p, y, {"site": column.astype(str)})
    records = group_records(groups)
    assert len(groups) == 101
    assert len(records) == MAX_GROUPS
    names = [f"{g.column} = {g.group}" for g in groups]
    shown = [names.index(r["name"]) for r in records]
    assert shown == sorted(shown)
    found = {r["name"]: r for r in records}
    assert found["site = 7"]["verdict"] in ("overconfident", "miscalibrated")
    assert found["site = 7"]["p_value"] < 0.05
    small = group_records([g for g in groups if g.group == "999"])[0]
    assert small["p_value"] is None
    assert small["verdict"] == "too few rows to judge"
