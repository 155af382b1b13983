import json
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.report.test_packed import unpack

from focalibrate import calibrate_predictions
from focalibrate.calibrate import FitReport, Identity, fit_focal_temperature
from focalibrate.calibrate.fit_focal_temperature import FINE_TEMPERATURES, FOCAL_GAMMAS
from focalibrate.comparison import choose, compare_methods
from focalibrate.metrics import adaptive_ece, assess_groups, classwise_ece, ece
from focalibrate.report import (
    SCHEMA_VERSION,
    CriterionGrid,
    Provenance,
    SourceFile,
    criterion_grid,
    page_data,
    render_report,
    write_report,
)
from focalibrate.report.page import escape_json
from focalibrate.report.records import MAX_GROUPS, group_records

MADE = Provenance(
    command="focalibrate calibrate val.npz",
    version="1.2.3",
    seed=7,
    made_at="2026-11-15",
    files=(SourceFile(name="val.npz", sha256="ab" * 32, role="fitted on"),),
)


def simulate(n, k, *, scale=2.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.normal(size=(n, k))
    return scale * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def judged():
    val, test = simulate(400, 4), simulate(500, 4, seed=1)
    methods = ["temperature", "histogram"]
    comparison = compare_methods(*val, *test, methods=methods, n_resamples=20)
    return comparison, choose(comparison), test


@pytest.fixture(scope="module")
def document(judged):
    comparison, choice, test = judged
    return page_data(comparison, choice, *test, provenance=MADE).document


def test_the_document_is_strict_json_and_the_same_every_time(judged, document):
    comparison, choice, test = judged
    again = page_data(comparison, choice, *test, provenance=MADE)
    assert json.loads(again.to_json()) == document
    assert document["schema"] == SCHEMA_VERSION
    assert document["provenance"]["files"][0]["sha256"] == "ab" * 32


def test_diagrams_are_those_of_the_metrics(judged, document):
    _, choice, (logits, labels) = judged
    for which, calibrator in (("before", Identity()), ("after", choice.row.calibrator)):
        probs = calibrator.probs(logits)
        for bins in (10, 15, 25):
            tables = document[which]["tables"]
            width, mass = (tables[kind][str(bins)] for kind in ("equal-width", "equal-mass"))
            assert width["ece"] == pytest.approx(ece(probs, labels, n_bins=bins), rel=1e-5)
            assert mass["ece"] == pytest.approx(adaptive_ece(probs, labels, n_bins=bins), rel=1e-5)
            assert sum(width["count"]) == sum(mass["count"]) == len(labels)


def test_the_class_table_averages_to_the_classwise_error(judged, document):
    _, _, (logits, labels) = judged
    found = np.mean(document["classes"]["ece_before"])
    assert found == pytest.approx(classwise_ece(Identity().probs(logits), labels), rel=1e-3)
    assert sum(document["classes"]["count"]) == len(labels)


def test_mistakes_are_wrong_and_fall_in_confidence(judged, document):
    _, _, (logits, labels) = judged
    confidence = [m["before"] for m in document["mistakes"]]
    assert confidence == sorted(confidence, reverse=True)
    for m in document["mistakes"]:
        assert labels[m["row"]] == m["label"] != m["predicted"] == logits[m["row"]].argmax()


def test_methods_carry_parameters_only_where_they_are_gamma_and_temperature(document):
    by_name = {m["method"]: m for m in document["methods"]}
    assert (by_name["identity"]["gamma"], by_name["identity"]["temperature"]) == (0.0, 1.0)
    assert by_name["temperature"]["gamma"] == 0.0
    assert by_name["temperature"]["temperature"] > 1.5
    assert by_name["histogram"]["gamma"] is by_name["histogram"]["temperature"] is None


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("temperature", {}),
        ("posterior_recovery", {"trained_gamma": 2.0}),
        ("histogram", {}),
        ("temperature_ece", {"criterion": "ece", "n_bins": 10}),
    ],
)
def test_a_cross_fit_is_shown_by_the_folds_that_held_out_each_row(method, options):
    logits, labels = simulate(600, 4)
    comparison = compare_methods(
        logits, labels, methods=[method], n_resamples=5, seed=3, **options
    )
    choice = replace(choose(comparison), row=comparison.row(method))
    document = page_data(comparison, choice, logits, labels, provenance=MADE).document
    shown = document["after"]["tables"]["equal-width"][str(comparison.settings.n_bins)]["ece"]
    assert shown == pytest.approx(comparison.row(method).scores["ece"].estimate, rel=1e-5)


def test_names_must_be_as_many_as_classes(judged):
    comparison, choice, test = judged
    with pytest.raises(ValueError, match=r"`class_names` must name each of the 4 classes, got 1"):
        page_data(comparison, choice, *test, provenance=MADE, class_names=["a"])


def test_other_rows_than_those_judged_are_refused(judged):
    comparison, choice, (logits, labels) = judged
    with pytest.raises(ValueError, match=r"the rows evaluated, 500 of 4 classes, got 9 of 4"):
        page_data(comparison, choice, logits[:9], labels[:9], provenance=MADE)


@pytest.fixture(scope="module")
def wide():
    """Ten thousand rows of a thousand classes."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.standard_normal((10_000, 1000), dtype=np.float32)
    labels = rng.integers(1000, size=10_000)
    logits[np.arange(10_000), labels] += 9 * rng.random(10_000, dtype=np.float32)
    few = logits[:400], labels[:400]
    comparison = compare_methods(*few, logits, labels, methods=["temperature"], n_resamples=2)
    return comparison, choose(comparison), logits, labels


@pytest.mark.slow
def test_a_page_of_ten_thousand_rows_of_a_thousand_classes_can_be_mailed(wide, tmp_path):
    grid = CriterionGrid("nll", (0.0, 1.0), (1.0, 2.0), np.ones((2, 2)), 5, 5)
    data = page_data(*wide, provenance=MADE, criterion=grid)
    write_report(tmp_path / "report.html", data)
    assert (tmp_path / "report.html").stat().st_size <= 2_000_000
    assert data.document["rows"]["n"] > 3_000
    assert data.document["entries"]["n"] > 3_000


@pytest.mark.slow
def test_the_logits_are_not_copied(wide):
    comparison, choice, logits, labels = wide
    tracemalloc.start()
    page_data(comparison, choice, logits, labels, provenance=MADE)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.5 * logits.nbytes  # blocks of 2 M entries in float64, and sorted columns


@pytest.mark.slow
def test_more_rows_than_a_page_can_hold_are_sampled():
    logits, labels = simulate(30_000, 5)
    comparison = compare_methods(
        logits[:300], labels[:300], logits, labels, methods=["temperature"], n_resamples=2
    )
    choice = choose(comparison)
    grid = CriterionGrid("nll", (0.0, 1.0), (1.0, 2.0), np.ones((2, 2)), 5, 5)

    def document(seed):
        data = page_data(
            comparison, choice, logits, labels, provenance=MADE, criterion=grid, seed=seed
        )
        return data.document

    shown, other = document(0), document(1)
    assert shown["rows"]["n"] == 20_000 < shown["n_judged"] == 30_000
    assert shown["entries"]["n"] == 20_000
    assert sum(shown["before"]["tables"]["equal-width"]["10"]["count"]) == 30_000
    assert shown["rows"]["gaps"] != other["rows"]["gaps"]


def test_without_a_criterion_nothing_can_be_tried(document):
    assert document["rows"] is None
    assert document["criterion"] is None


@pytest.mark.parametrize(("title", "want"), [(None, "val.npz: calibration report"), ("a", "a")])
def test_the_title_names_the_file(judged, title, want):
    comparison, choice, test = judged
    data = page_data(comparison, choice, *test, provenance=MADE, title=title)
    assert data.document["title"] == want


def test_calibration_errors_have_no_bootstrap_interval(document):
    for method in document["methods"]:
        assert {m: len(x) for m, x in method["scores"].items() if len(x) == 3} == {
            "nll": 3,
            "brier": 3,
            "error": 3,
        }


def test_two_classes_are_shown_by_the_probability_of_the_second():
    logits, labels = simulate(300, 2)
    comparison = compare_methods(logits, labels, methods=["temperature"], n_resamples=2)
    document = page_data(comparison, choose(comparison), logits, labels, provenance=MADE).document
    table = document["positive"]["before"]["tables"]["equal-width"]["10"]
    probs = Identity().probs(logits)[:, 1]
    assert sum(table["count"]) == 300
    assert np.dot(table["count"], table["confidence"]) == pytest.approx(probs.sum(), rel=1e-5)
    assert np.dot(table["count"], table["accuracy"]) == pytest.approx(labels.sum(), rel=1e-5)


def test_whole_weights_are_shown_as_repeated_rows():
    logits, labels = simulate(300, 3)
    weights = np.random.default_rng(0).integers(0, 4, size=300).astype(float)
    found = compare_methods(logits[:100], labels[:100], logits, labels, methods=["temperature"])
    choice = choose(found)
    weighted = page_data(
        replace(found, weights=weights), choice, logits, labels, provenance=MADE
    ).document
    again = np.repeat(np.arange(300), weights.astype(int))
    repeated = page_data(
        replace(found, n_judged=len(again)),
        choice,
        logits[again],
        labels[again],
        provenance=MADE,
    ).document
    assert weighted["is_weighted"]
    for name in ("accuracy", "before", "after"):
        assert weighted[name] == repeated[name]
    for name in ("recall", "precision", "confidence_before", "ece_after"):
        assert weighted["classes"][name] == pytest.approx(repeated["classes"][name], abs=2e-4)


def test_rows_of_weight_0_are_not_shown():
    logits, labels = simulate(300, 3)
    found = compare_methods(logits[:100], labels[:100], logits, labels, methods=["temperature"])
    weights = (labels > 0).astype(float)
    document = page_data(
        replace(found, weights=weights), choose(found), logits, labels, provenance=MADE
    ).document
    assert unpack(document["entries"]["labels"]).min() == 1


def test_risk_falls_to_the_error_of_all_rows(judged, document):
    _, _, (logits, labels) = judged
    risk = document["before"]["risk"]
    assert risk["coverage"][-1] == 1
    assert risk["risk"][-1] == pytest.approx((logits.argmax(axis=1) != labels).mean(), rel=1e-4)
    half = np.argsort(-Identity().probs(logits).max(axis=1))[: len(labels) // 2]
    want = (logits[half].argmax(axis=1) != labels[half]).mean()
    assert risk["risk"][49] == pytest.approx(want, rel=1e-4)
    confidence = Identity().probs(logits).max(axis=1).mean()
    assert risk["stated"][-1] == pytest.approx(1 - confidence, abs=1e-4)


def test_class_names_cannot_leave_the_data():
    hostile = "</script><script>alert(1)</script><!-- & \u2028"
    escaped = escape_json(json.dumps([hostile], ensure_ascii=False))
    assert not re.search("[<>&\u2028\u2029]", escaped)
    assert json.loads(escaped) == [hostile]


def test_the_page_is_one_file_that_may_ask_for_nothing(judged, tmp_path):
    comparison, choice, test = judged
    names = ["<script>", "</script>", "&amp;", "d"]
    data = page_data(
        comparison, choice, *test, provenance=MADE, class_names=names, title="<b>My & model</b>"
    )
    text = render_report(data)
    assert "default-src 'none'" in text
    assert "<title>&lt;b&gt;My &amp; model&lt;/b&gt;</title>" in text
    assert text.count("</script>") == 2
    # No address but the names of XML's own vocabularies, which nobody fetches.
    assert set(re.findall(r"https?://[\w.]+", text)) == {"http://www.w3.org"}
    assert not re.search(r"<(link|img|iframe|object|embed)\b", text)
    path = tmp_path / "report.html"
    write_report(path, data)
    assert path.read_text(encoding="utf-8") == text
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(judged, tmp_path, monkeypatch):
    comparison, choice, test = judged
    data = page_data(comparison, choice, *test, provenance=MADE)
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(path, data)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_infinite_scores_become_null(judged):
    comparison, choice, test = judged
    row = comparison.rows[0]
    infinite = replace(row.scores["nll"], estimate=np.inf, low=np.inf, high=np.inf)
    changed = replace(row, scores=row.scores | {"nll": infinite})
    data = page_data(
        replace(comparison, rows=(changed, *comparison.rows[1:])), choice, *test, provenance=MADE
    )
    assert data.document["methods"][0]["scores"]["nll"] == [None, None, None]


def test_the_grid_reaches_around_its_ridge():
    logits, labels = simulate(800, 3)
    grid = criterion_grid(logits, labels, criterion="nll")
    best = grid.values.argmin(axis=1)
    assert (best > 0).all()
    assert (best < len(grid.temperatures) - 1).all()
    ridge = np.array(grid.temperatures)[best]
    slope, start = np.polyfit(grid.gammas, ridge, 1)
    assert slope > 0
    assert np.abs(start + slope * np.array(grid.gammas) - ridge).max() < 0.1 * ridge.max()


def test_a_report_without_a_grid_is_refused():
    logits, labels = simulate(200, 3)
    fitted = fit_focal_temperature(logits, labels)
    with pytest.raises(ValueError, match="`report` must hold a grid"):
        CriterionGrid.of_report(fitted.report)


def test_grids_finer_than_the_picture_are_thinned_out():
    report = FitReport(
        method="focal_temperature",
        criterion="nll",
        value=0.0,
        n_rows=9,
        n_classes=3,
        n_evaluations=1,
        gammas=FOCAL_GAMMAS,
        temperatures=FINE_TEMPERATURES,
        grid=np.zeros((10, 500)),
    )
    grid = CriterionGrid.of_report(report)
    assert grid.values.shape == (10, 125)
    assert grid.temperatures[:2] == (0.04, 0.08)


def test_mistakes_name_the_file_and_what_it_calls_its_rows(tmp_path):
    path = tmp_path / "churn.csv"
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200)
    lines = [f"c{i},{q:.6f},{int(rng.uniform() < q)}" for i, q in enumerate(p)]
    path.write_text("\n".join(["customer_id,p_churn,churn", *lines]))
    found = calibrate_predictions(path, methods=["temperature"], n_resamples=10)
    document = found.page_data().document
    assert document["file"] == "churn.csv"
    assert document["event"] == {"name": "churn", "klass": 1}
    assert all(m["id"] == f"c{m['row']}" for m in document["mistakes"])


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
