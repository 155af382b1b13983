import json
import re
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.report.test_packed import unpack

from focalibrate import calibrate_predictions
from focalibrate.calibrate import FitReport, Identity, fit_focal_temperature
from focalibrate.calibrate.fit_focal_temperature import FINE_TEMPERATURES, FOCAL_GAMMAS
from focalibrate.metrics import adaptive_ece, assess_groups, classwise_ece, ece
from focalibrate.pipeline import DataWarning
from focalibrate.report import (
    SCHEMA_VERSION,
    CriterionGrid,
    Provenance,
    SourceFile,
    criterion_grid,
    render_report,
    write_report,
)
from focalibrate.report import records as records_module
from focalibrate.report.page import escape_json
from focalibrate.report.records import group_records

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


def job(val, test=None, **options):
    """Return the result of a job with `MADE` as its provenance."""
    options = {"methods": ["temperature"], "n_resamples": 10} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        found = calibrate_predictions(logits=val[0], labels=val[1], test=test, **options)
    return replace(found, provenance=MADE)


@pytest.fixture(scope="module")
def result():
    methods = ["temperature", "histogram"]
    return job(simulate(400, 4), simulate(500, 4, seed=1), methods=methods, n_resamples=20)


@pytest.fixture(scope="module")
def judged(result):
    return result.choice, (result.judged.logits, result.judged.labels)


@pytest.fixture(scope="module")
def document(result):
    return result.page_data().document


def test_the_document_is_strict_json_and_the_same_every_time(result, document):
    again = result.page_data()
    assert json.loads(again.to_json()) == document
    assert document["schema"] == SCHEMA_VERSION
    assert document["provenance"]["files"][0]["sha256"] == "ab" * 32


def test_diagrams_are_those_of_the_metrics(judged, document):
    choice, (logits, labels) = judged
    for which, calibrator in (("before", Identity()), ("after", choice.row.calibrator)):
        probs = calibrator.probs(logits)
        for bins in (10, 15, 25):
            tables = document[which]["tables"]
            width, mass = (tables[kind][str(bins)] for kind in ("equal-width", "equal-mass"))
            assert width["ece"] == pytest.approx(ece(probs, labels, n_bins=bins), rel=1e-5)
            assert mass["ece"] == pytest.approx(adaptive_ece(probs, labels, n_bins=bins), rel=1e-5)
            assert sum(width["count"]) == sum(mass["count"]) == len(labels)


def test_the_class_table_averages_to_the_classwise_error(judged, document):
    _, (logits, labels) = judged
    found = np.mean(document["classes"]["ece_before"])
    assert found == pytest.approx(classwise_ece(Identity().probs(logits), labels), rel=1e-3)
    assert sum(document["classes"]["count"]) == len(labels)


def test_mistakes_are_wrong_and_fall_in_confidence(judged, document):
    _, (logits, labels) = judged
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
    found = job(simulate(600, 4), methods=[method], choose=method, seed=3, **options)
    comparison, document = found.comparison, found.page_data().document
    shown = document["after"]["tables"]["equal-width"][str(comparison.settings.n_bins)]["ece"]
    assert shown == pytest.approx(comparison.row(method).scores["ece"].estimate, rel=1e-5)


@pytest.fixture(scope="module")
def wide():
    """Ten thousand rows of a thousand classes."""
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.standard_normal((10_000, 1000), dtype=np.float32)
    labels = rng.integers(1000, size=10_000)
    logits[np.arange(10_000), labels] += 9 * rng.random(10_000, dtype=np.float32)
    return job((logits[:400], labels[:400]), (logits, labels), n_resamples=10)


@pytest.fixture
def flat(monkeypatch):
    """A criterion that takes no time."""
    grid = CriterionGrid("nll", (0.0, 1.0), (1.0, 2.0), np.ones((2, 2)), 5, 5)
    monkeypatch.setattr("focalibrate.pipeline.pages.criterion_grid", lambda *_, **__: grid)


def focal(result):
    """Return the page of the same job, had it known the exponent in training."""
    comparison = result.comparison
    settings = replace(comparison.settings, trained_gamma=1.0)
    return replace(result, comparison=replace(comparison, settings=settings)).page_data()


@pytest.mark.slow
def test_a_page_of_ten_thousand_rows_of_a_thousand_classes_can_be_mailed(wide, flat, tmp_path):
    data = focal(wide)
    write_report(tmp_path / "report.html", data)
    assert (tmp_path / "report.html").stat().st_size <= 2_000_000
    assert data.document["rows"]["n"] > 3_000
    assert data.document["entries"]["n"] > 3_000


@pytest.mark.slow
def test_the_logits_are_not_copied(wide):
    tracemalloc.start()
    wide.page_data()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # blocks of 2 M entries in float64, and sorted columns
    assert peak < 2.5 * wide.judged.logits.nbytes


@pytest.mark.slow
def test_more_rows_than_a_page_can_hold_are_sampled(flat):
    logits, labels = simulate(30_000, 5)
    shown = focal(job((logits[:300], labels[:300]), (logits, labels))).document
    assert shown["rows"]["n"] == 20_000 < shown["n_judged"] == 30_000
    assert shown["entries"]["n"] == 20_000
    assert sum(shown["before"]["tables"]["equal-width"]["10"]["count"]) == 30_000


def test_without_a_criterion_nothing_can_be_tried(document):
    assert document["rows"] is None
    assert document["criterion"] is None


def test_the_title_names_the_file(result, document):
    assert document["title"] == "val.npz: calibration report"
    without = replace(result, provenance=replace(MADE, files=()))
    assert without.page_data().document["title"] == "Calibration report"


def test_calibration_errors_have_no_bootstrap_interval(document):
    for method in document["methods"]:
        assert {m: len(x) for m, x in method["scores"].items() if len(x) == 3} == {
            "nll": 3,
            "brier": 3,
            "error": 3,
        }


def test_two_classes_are_shown_by_the_probability_of_the_second():
    logits, labels = simulate(300, 2)
    document = job((logits, labels)).page_data().document
    table = document["positive"]["before"]["tables"]["equal-width"]["10"]
    probs = Identity().probs(logits)[:, 1]
    assert sum(table["count"]) == 300
    assert np.dot(table["count"], table["confidence"]) == pytest.approx(probs.sum(), rel=1e-5)
    assert np.dot(table["count"], table["accuracy"]) == pytest.approx(labels.sum(), rel=1e-5)


def test_whole_weights_are_shown_as_repeated_rows():
    logits, labels = simulate(300, 3)
    weights = np.random.default_rng(0).integers(0, 4, size=300).astype(float)
    few, again = (logits[:100], labels[:100]), np.repeat(np.arange(300), weights.astype(int))
    weighted = job(few, (logits, labels), test_weight=weights).page_data().document
    repeated = job(few, (logits[again], labels[again])).page_data().document
    assert weighted["is_weighted"]
    for name in ("accuracy", "before", "after"):
        assert weighted[name] == repeated[name]
    for name in ("recall", "precision", "confidence_before", "ece_after"):
        assert weighted["classes"][name] == pytest.approx(repeated["classes"][name], abs=2e-4)


def test_rows_of_weight_0_are_not_shown():
    logits, labels = simulate(300, 3)
    weights = (labels > 0).astype(float)
    found = job((logits[:100], labels[:100]), (logits, labels), test_weight=weights)
    document = found.page_data().document
    assert unpack(document["entries"]["labels"]).min() == 1


def test_risk_falls_to_the_error_of_all_rows(judged, document):
    _, (logits, labels) = judged
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


def test_the_page_is_one_file_that_may_ask_for_nothing(result, tmp_path):
    files = (SourceFile(name="<b>My & model", sha256=""),)
    names = ("<script>", "</script>", "&amp;", "d")
    made = replace(result, class_names=names, provenance=replace(MADE, files=files))
    data = made.page_data()
    text = render_report(data)
    assert "default-src 'none'" in text
    assert "<title>&lt;b&gt;My &amp; model: calibration report</title>" in text
    assert text.count("</script>") == 2
    # No address but the names of XML's own vocabularies, which nobody fetches.
    assert set(re.findall(r"https?://[\w.]+", text)) == {"http://www.w3.org"}
    assert not re.search(r"<(link|img|iframe|object|embed)\b", text)
    path = tmp_path / "report.html"
    write_report(path, data)
    assert path.read_text(encoding="utf-8") == text
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(result, tmp_path, monkeypatch):
    data = result.page_data()
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(path, data)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_infinite_scores_become_null(result):
    comparison = result.comparison
    row = comparison.rows[0]
    infinite = replace(row.scores["nll"], estimate=np.inf, low=np.inf, high=np.inf)
    changed = replace(row, scores=row.scores | {"nll": infinite})
    rows = (changed, *comparison.rows[1:])
    data = replace(result, comparison=replace(comparison, rows=rows)).page_data()
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
def test_groups_keep_their_order_and_the_worst_are_kept(monkeypatch):
    monkeypatch.setattr(records_module, "MAX_GROUPS", 7)
    rng = np.random.default_rng(0)
    p = rng.uniform(size=720)
    column = rng.integers(12, size=720)
    column[:5] = 999
    y = (rng.uniform(size=720) < np.where(column == 7, 0.0, p)).astype(int)
    groups = assess_groups(p, y, {"site": column.astype(str)})
    records = group_records(groups)
    assert len(groups) == 13
    assert len(records) == 7
    names = [f"{g.column} = {g.group}" for g in groups]
    shown = [names.index(r["name"]) for r in records]
    assert shown == sorted(shown)
    found = {r["name"]: r for r in records}
    assert found["site = 7"]["verdict"] in ("overconfident", "miscalibrated")
    assert found["site = 7"]["p_value"] < 0.05
    small = group_records([g for g in groups if g.group == "999"])[0]
    assert small["p_value"] is None
    assert small["verdict"] == "too few rows to judge"
