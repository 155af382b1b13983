import json

import numpy as np
import pytest

import focalibrate
from focalibrate import calibrate_predictions
from focalibrate.calibrate import Calibrator

QUICK = {"methods": ["temperature"], "n_resamples": 20}


@pytest.fixture(scope="module")
def overconfident():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(600, 3)) * 2
    return 3 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def result(overconfident):
    z, y = overconfident
    return calibrate_predictions(logits=z, labels=y, class_names=["a", "b", "c"], **QUICK)


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_saving_writes_what_the_command_writes(result, tmp_path):
    result.save(tmp_path / "out")
    names = ["calibrator.json", "report.html", "results.json"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == names
    record = json.loads((tmp_path / "out/results.json").read_text())
    assert record["verdict"] == result.verdict.to_dict()
    assert record["made_with"]["version"] == focalibrate.__version__
    assert Calibrator.load(tmp_path / "out/calibrator.json") == result.calibrator
    with pytest.raises(ValueError, match="force"):
        result.save(tmp_path / "out")
    result.save(tmp_path / "out", force=True)


@pytest.mark.slow
def test_a_file_and_its_arrays_give_the_same(overconfident, result, tmp_path):
    z, y = overconfident
    np.savez(tmp_path / "val.npz", logits=z, labels=y)
    found = calibrate_predictions(tmp_path / "val.npz", **QUICK)
    assert found.to_records() == result.to_records()
    assert found.provenance.files[0].name == "val.npz"
    again = calibrate_predictions(focalibrate.read_predictions(tmp_path / "val.npz"), **QUICK)
    assert again.provenance.files == found.provenance.files


def test_probabilities_and_a_test_set(overconfident):
    z, y = overconfident
    by_logits = calibrate_predictions(
        logits=z[:300], labels=y[:300], test=(z[300:], y[300:]), **QUICK
    )
    p = softmax(z)
    by_probs = calibrate_predictions(
        probs=p[:300], labels=y[:300], test=(p[300:], y[300:]), **QUICK
    )
    assert by_logits.comparison.judged_on == "test"
    for a, b in zip(by_logits.comparison.rows, by_probs.comparison.rows, strict=True):
        assert a.scores["nll"].estimate == pytest.approx(b.scores["nll"].estimate, rel=1e-6)


def test_held_out_probabilities_come_from_the_kept_fold_calibrators(result, overconfident):
    z, y = overconfident
    probs = result.comparison.held_out_probs("temperature", z)
    assert focalibrate.nll(probs, y) == pytest.approx(
        result.comparison.row("temperature").scores["nll"].estimate, rel=1e-12
    )
    some = np.array([5, 99, 400])
    assert (result.comparison.held_out_probs("temperature", z, some) == probs[some]).all()


def test_records_are_plain_and_a_notebook_sees_a_table(result):
    records = result.to_records()
    assert [r["method"] for r in records] == ["identity", "temperature"]
    assert [r["is_chosen"] for r in records] == [False, True]
    json.dumps(records)
    assert "<table>" in result._repr_html_()
    assert result.choice.reason in result._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Exactly one of `logits` and `probs` must be given, got neither"),
        ({"logits": 0, "probs": 0}, "Exactly one of `logits` and `probs` must be given, got both"),
        ({"logits": np.zeros((3, 2))}, "`labels` must be given"),
        ({"source": "val.npz", "labels": [0]}, "either a file or the arrays"),
    ],
)
def test_what_is_missing_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        calibrate_predictions(**arguments)


def test_the_names_people_reach_for():
    names = """ece adaptive_ece nll brier_score bootstrap Cells focal_loss
        recover_posterior Calibrator PosteriorRecovery TemperatureScaling fit_temperature
        fit_focal_temperature compare_methods choose read_predictions calibrate_predictions"""
    assert set(names.split()) <= set(dir(focalibrate))
    for name in focalibrate.__all__:
        assert getattr(focalibrate, name) is not None


def test_a_test_file_is_put_in_the_order_of_the_classes(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(120, 2)) * 2
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    names = np.array(["cat", "dog"])
    half = slice(0, 60), slice(60, None)
    files = (("val.csv", [0, 1], 0), ("same.csv", [0, 1], 1), ("swapped.csv", [1, 0], 1))
    for path, order, part in files:
        head = ",".join(["label", *(f"logit_{n}" for n in names[order])])
        cells = [
            f"{names[i]},{a!r},{b!r}"
            for i, (a, b) in zip(y[half[part]], z[half[part]][:, order].tolist(), strict=True)
        ]
        (tmp_path / path).write_text("\n".join([head, *cells]) + "\n")
    found = [
        calibrate_predictions(
            tmp_path / "val.csv", test=tmp_path / path, methods=["temperature"], n_resamples=10
        )
        .comparison.row("temperature")
        .scores["nll"]
        .estimate
        for path in ("same.csv", "swapped.csv")
    ]
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_page_shows_who_gets_a_calibrator_of_their_own():
    rng = np.random.default_rng(0)
    truth = 2.0 * rng.normal(size=(900, 3))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    site, age = rng.choice(["a", "b"], size=900), rng.integers(20, 60, size=900)
    logits = truth * np.where(site == "a", 4.0, 1.0)[:, None]
    result = calibrate_predictions(
        logits=logits,
        labels=labels,
        groups={"site": site, "age": age},
        methods=["temperature"],
        n_resamples=20,
    )
    assert result.calibrator.own_groups == ("a", "b")
    document = result.page_data().document
    assert document["by_group"]["has_own"]
    used = {t["name"]: t["calibrator"] for t in document["by_group"]["trials"]}
    assert used["site = a"].startswith("temperature scaling: T=")
    assert document["worst_slice"].startswith("site = a")
    assert document["verdict"] == result.verdict.to_dict()
    assert [s["title"] for s in document["deploy"]] == ["Python", "torch, ONNX", "Command line"]
    # calibrated by group, site a is no longer the worst by far
    assert result.assessment_by_group.rms.estimate < result.assessment_after.rms.estimate


def test_groups_must_have_a_value_per_row():
    with pytest.raises(ValueError, match=r"`groups`: column 'site' must have one value per row"):
        calibrate_predictions(
            logits=np.zeros((4, 2)), labels=[0, 1, 0, 1], groups={"site": np.array(["a"])}
        )
