"""The main job on more rows than are fitted on."""

import json
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from tests.unit.pipeline.backwards import Backwards

from focalibrate.cli import main as cli
from focalibrate.comparison import Batch, compare_methods, judge
from focalibrate.io import scan_predictions
from focalibrate.metrics import assess
from focalibrate.pipeline import calibrate_predictions
from focalibrate.pipeline.sample import draw, row_hash

pd = pytest.importorskip("pandas")


def _data(n, k=4, seed=0):
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.normal(size=(n, k))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return (2.5 * truth).astype(np.float32), labels


@pytest.fixture
def parts(tmp_path):
    z, y = _data(3000)
    for i in range(3):
        rows = slice(1000 * i, 1000 * i + 1000)
        np.savez(tmp_path / f"part-{i}.npz", logits=z[rows], labels=y[rows])
    return tmp_path, z, y


@pytest.mark.slow
@pytest.mark.parametrize("batch_rows", [1, 17, 5000])
def test_the_rows_drawn_are_those_with_the_smallest_hashes(parts, batch_rows):
    folder, z, y = parts
    if batch_rows == 1:
        folder = folder / "part-0.npz"
        z, y = z[:1000], y[:1000]
    order = np.argsort(row_hash(np.arange(len(y))))[:300]
    found = draw(scan_predictions(folder, batch_rows=batch_rows), 300, None)
    assert_array_equal(found.take(0, None).scores, z[order])
    assert_array_equal(found.take(0, None).labels, y[order])
    assert found.n_rows == len(y)


@pytest.mark.parametrize("bad_row", [None, 700])
def test_rows_of_an_array_are_drawn_by_their_position(tmp_path, bad_row):
    z, y = _data(900)
    if bad_row is not None:
        z[bad_row, 1] = np.nan
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "y.npy", y)
    options = {"labels_path": tmp_path / "y.npy", "input": "logits", "batch_rows": 100}
    scan = scan_predictions(tmp_path / "z.npy", head_rows=50, **options)
    if bad_row is not None:
        assert np.argsort(row_hash(np.arange(900)))[:700].tolist().count(bad_row) == 1
        with pytest.raises(ValueError, match=r"nan is in row 700 "):
            draw(scan, 700, None)
        return
    order = np.argsort(row_hash(np.arange(900)))[:300]
    found = draw(scan, 300, None)
    assert_array_equal(found.take(0, None).scores, z[order])
    assert_array_equal(found.take(0, None).labels, y[order])
    assert_array_equal(np.sort(found.hashes), row_hash(order))
    assert found.n_rows == 900


def test_many_classes_in_half_precision_give_the_results_of_the_path_in_memory(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("focalibrate.pipeline.sample.MAX_CLASSWISE", 100)
    z, y = _data(400, k=150)
    z = z.astype(np.float16)
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "y.npy", y)
    methods = ["temperature", "focal_temperature"]
    options = {"labels_path": tmp_path / "y.npy", "input": "logits", "batch_rows": 64}
    scan = scan_predictions(tmp_path / "z.npy", **options)
    found = calibrate_predictions(scan, fit_rows=150, methods=methods, n_resamples=20)
    order = np.argsort(row_hash(np.arange(400)))
    fitted, others = order[:150], np.sort(order[150:])
    z = z.astype(np.float64)
    whole = compare_methods(
        z[fitted], y[fitted], z[others], y[others], methods=methods, n_resamples=20
    )
    for name in ("identity", *methods):
        ours, theirs = found.comparison.row(name), whole.row(name)
        assert_allclose(_numbers(ours.calibrator), _numbers(theirs.calibrator), rtol=1e-5)
        for metric in ("nll", "brier", "error", "ece", "mce"):
            got, want = (row.scores[metric].estimate for row in (ours, theirs))
            assert_allclose(got, want, rtol=1e-6, err_msg=f"{name} {metric}")


def test_one_pass_gives_the_scores_of_all_rows():
    z, y = _data(2000)
    test_z, test_y = _data(5000, seed=1)
    weights = np.random.default_rng(2).uniform(0.5, 2, size=5000)
    options = {"methods": ["identity", "temperature", "vector"], "n_resamples": 200}
    whole = compare_methods(z, y, test_z, test_y, test_weight=weights, **options)
    group = (row_hash(np.arange(5000)) % np.uint64(20_000)).astype(np.intp)
    batches = [
        Batch(test_z[i : i + 700], test_y[i : i + 700], group[i : i + 700],
                    weights[i : i + 700])
        for i in range(0, 5000, 700)
    ]  # fmt: skip
    found = compare_methods(z, y, judged=partial(judge, batches=batches, n_bins=15), **options)
    assert (found.n_judged, found.n_fitted) == (5000, 2000)
    for ours, theirs in zip(found.rows, whole.rows, strict=True):
        for name in ("nll", "brier", "error", "ece", "classwise_ece", "mce"):
            got, want = ours.scores[name], theirs.scores[name]
            assert_allclose(got.estimate, want.estimate, rtol=1e-6)
            if want.low is not None:
                width = want.high - want.low
                assert_allclose(got.high - got.low, width, rtol=0.25)
        assert ours.n_predictions_changed == theirs.n_predictions_changed
        gap = ours.to_raw["nll"].estimate
        assert_allclose(gap, theirs.to_raw["nll"].estimate, rtol=1e-6, atol=1e-12)


@pytest.mark.slow
def test_very_many_classes_are_evaluated_from_histograms_and_in_full_alike():
    rng = np.random.default_rng(0)
    k = 20_001  # from here on there are no sums by class
    z = 2 * rng.standard_normal((40, k), dtype=np.float32)
    y = rng.integers(k, size=40)
    z[np.arange(40), y] += rng.normal(10, 4, size=40).astype(np.float32)
    methods = ["identity", "temperature", "focal_temperature"]
    groups = {"site": np.array(["a", "b"] * 10)}
    batches = [Batch(z[20:], y[20:], np.arange(20), np.linspace(1, 2, 20), groups)]
    judged = partial(judge, batches=batches, n_bins=15)
    found = compare_methods(z[:20], y[:20], judged=judged, methods=methods, n_resamples=20)
    for row in found.rows:
        log_probs = np.asarray(row.calibrator.log_probs(z[20:].astype(np.float64)))
        nll = -log_probs[np.arange(20), y[20:]]
        assert_allclose(row.units.nll, nll, rtol=1e-5, atol=1e-5)
        probs = np.exp(log_probs)
        p_true = np.exp(-nll)
        brier = (probs**2).sum(axis=1) - 2 * p_true + 1
        assert_allclose(row.units.brier, brier, rtol=0, atol=1e-5)
        assert_allclose(row.units.confidence, probs.max(axis=1), rtol=1e-5)
        assert_array_equal(row.units.correct, probs.argmax(axis=1) == y[20:])
        assert row.n_predictions_changed == 0
    assert found.row("identity").units.sketch.groups.keys() == {"site"}


@pytest.mark.slow
def test_fitted_on_a_sample_and_evaluated_on_all_others(parts):
    folder, z, y = parts
    scan = scan_predictions(folder, batch_rows=333)
    result = calibrate_predictions(scan, fit_rows=500, methods=["temperature"], n_resamples=30)
    order = np.argsort(row_hash(np.arange(3000)))
    fit, rest = order[:500], order[500:]
    alone = compare_methods(
        z[fit], y[fit], z[rest], y[rest], methods=["temperature"], n_resamples=30
    )
    assert (result.comparison.n_fitted, result.comparison.n_judged) == (500, 2500)
    assert_allclose(
        result.calibrator.temperature, alone.row("temperature").calibrator.temperature, rtol=1e-9
    )
    got, want = result.comparison.row("temperature"), alone.row("temperature")
    for name in ("nll", "brier", "error", "ece"):
        assert_allclose(got.scores[name].estimate, want.scores[name].estimate, rtol=1e-6)
    probs = alone.held_out_probs("identity", z[rest])
    assert_allclose(result.assessment.gap.estimate, assess(probs, y[rest]).gap.estimate, rtol=1e-5)
    text = "Fitted on 500 of 3,000 rows, chosen by a hash of their position, and evaluated on all"
    assert f"{text} 2,500 others." in result.choice.reason
    assert result.to_dict()["sample"]["n_judged"] == 2500
    document = result.page_data().document
    assert (document["n_fitted"], document["n_judged"]) == (500, 2500)
    assert text in document["verdict"]["reason"]


def test_with_a_test_set_and_with_few_rows(parts, tmp_path):
    folder, z, y = parts
    scan = scan_predictions(folder / "part-*.npz")
    few = {"methods": ["temperature"], "n_resamples": 20}
    whole = calibrate_predictions(scan, **few)
    assert (whole.sizes, whole.comparison.n_folds > 1) == (None, True)
    new_z, new_y = _data(700, seed=5)
    np.savez(tmp_path / "test.npz", logits=new_z, labels=new_y)
    test = scan_predictions(tmp_path / "test.npz", batch_rows=99)
    found = calibrate_predictions(scan, test=test, fit_rows=2999, **few)
    assert (found.comparison.n_fitted, found.comparison.n_judged) == (2999, 700)
    order = np.argsort(row_hash(np.arange(3000)))[:2999]
    whole = compare_methods(z[order], y[order], new_z, new_y, **few)
    assert_allclose(
        found.comparison.row("temperature").scores["nll"].estimate,
        whole.row("temperature").scores["nll"].estimate,
        rtol=1e-6,
    )


def test_never_more_than_half_of_the_rows_are_fitted_on(parts):
    folder, _, _ = parts
    scan = scan_predictions(folder)
    found = calibrate_predictions(scan, fit_rows=2900, methods=["temperature"], n_resamples=20)
    assert (found.comparison.n_fitted, found.comparison.n_judged) == (1500, 1500)


@pytest.mark.slow
def test_zeros_groups_and_weights(tmp_path):
    z, y = _data(1200, k=3)
    p = np.exp(z.astype(float))
    p /= p.sum(axis=1, keepdims=True)
    p[5] = np.eye(3)[y[5]]
    lines = ["prob_a,prob_b,prob_c,label,w,site"]
    lines += [
        ",".join([*map(repr, map(float, p[i])), "abc"[y[i]], str(i % 3), f"s{i % 2}"])
        for i in range(1200)
    ]
    path = tmp_path / "val.csv"
    path.write_text("\n".join(lines) + "\n")
    scan = scan_predictions(path, weight_column="w", by="site", batch_rows=100)
    found = calibrate_predictions(scan, fit_rows=200, methods=["temperature"], n_resamples=20)
    assert found.comparison.n_fitted + found.comparison.n_judged == 800  # weight 0 left out
    assert [group.group for group in found.groups] == ["s0", "s1"]
    assert found.calibrator.zero_mix > 0
    assert "1 row with a probability of exactly 0" in found.notes[0]
    assert "no calibrator of their own" in found.notes[1]


@pytest.mark.slow
def test_the_command_says_both_numbers(parts):
    folder, _, _ = parts
    out = folder / "report"
    words = ["calibrate", str(folder / "part-*.npz"), "--methods", "temperature"]
    words += ["--resamples", "20", "-o", str(out), "--fit-rows", "400"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    plain = " ".join(done.output.split())
    assert "3 parts, 3,000 rows × 4 classes" in plain
    assert "Fitted on 400 of 3,000 rows" in plain
    assert "all 2,600 others" in plain
    stored = json.loads((out / "results.json").read_text())
    assert stored["sample"]["n_fitted"] == 400
    assert stored["made_with"]["files"][0]["rows"] == 3000
    assert "all 2,600 others" in (out / "report.html").read_text()
    bad = CliRunner().invoke(cli, [*words[:-1], "some"])
    assert bad.exit_code == 2
    assert "number of rows or 'all'" in bad.output


def test_all_rows_are_fitted_on_in_memory_if_asked_for(parts, monkeypatch):
    monkeypatch.setattr("focalibrate.pipeline.sample.FIT_ROWS", 1000)
    scan = scan_predictions(parts[0])
    few = {"methods": ["temperature"], "n_resamples": 20}
    found = calibrate_predictions(scan, fit_rows="all", **few)
    assert (found.sizes, found.comparison.n_fitted) == (None, 3000)
    assert calibrate_predictions(scan, **few).sizes.n_fitted == 1000


def _numbers(calibrator):
    values = calibrator.to_dict()["parameters"].values()
    return np.concatenate([[], *map(np.ravel, values)])


@pytest.mark.parametrize("backend", [None, Backwards()], ids=["here", "workers"])
@pytest.mark.parametrize("most", [1 << 17, 500], ids=["all remembered", "some remembered"])
def test_parts_that_share_rows_are_said_of_a_sample_too(tmp_path, monkeypatch, backend, most):
    monkeypatch.setattr("focalibrate.io.join.MOST_ROWS", most)
    rng = np.random.default_rng(4)
    p = rng.random(3000)
    table = pd.DataFrame({"prob": p, "y": (rng.random(3000) < p).astype(int)})
    for i, rows in enumerate((slice(0, 1000), slice(1000, 2000), slice(400, 1400))):
        table[rows].to_csv(tmp_path / f"part-{i}.csv", index=False)
    few = {"fit_rows": 200, "methods": ["temperature"], "n_resamples": 20}
    found = calibrate_predictions(scan_predictions(tmp_path), backend=backend, **few)
    assert any("rows are in more than one part" in note for note in found.notes), found.notes
    (tmp_path / "part-2.csv").unlink()
    found = calibrate_predictions(scan_predictions(tmp_path), backend=backend, **few)
    assert not any("more than one part" in note for note in found.notes), found.notes


def test_a_calibrator_of_a_sample_keeps_the_name_of_the_only_column(tmp_path):
    rng = np.random.default_rng(4)
    p = rng.random(600)
    table = pd.DataFrame({"prob_fraud": p, "y": (rng.random(600) < p).astype(int)})
    table.to_csv(tmp_path / "val.csv", index=False)
    found = [
        calibrate_predictions(
            scan_predictions(tmp_path / "val.csv"), fit_rows=rows, methods=["temperature"]
        )
        for rows in ("all", 200)
    ]
    names = [result.calibrator.class_names for result in found]
    assert names == [("not fraud", "fraud")] * 2
    assert found[1].sizes is not None
    assert found[0].fitted.names_in_sentences == found[1].fitted.names_in_sentences
