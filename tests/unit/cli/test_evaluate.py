import json

import numpy as np
import pytest

from focalibrate.calibrate import Identity, TemperatureScaling
from focalibrate.metrics import ece


def test_metrics_and_diagram(cli, val, examples):
    done = cli("evaluate", "val.npz", "--resamples", "20")
    assert "The model is overconfident: its confidence is" in done.stdout
    assert "val.npz: 400 rows × 3 classes, logits" in done.stdout
    assert "o: accuracy, |: confidence, dots: 95 % if calibrated" in done.stdout
    assert "Brier score: summed over classes." in done.stdout
    record = json.loads(cli("evaluate", "val.npz", "--resamples", "20", "--json").stdout)
    want = ece(Identity().probs(examples.logits), examples.labels)
    assert record["scores"]["ece"]["estimate"] == pytest.approx(want, rel=1e-6)
    assert sum(record["bins"]["count"]) == 400
    assert set(record["scores"]["ece"]) == {"estimate"}
    assert record["scores"]["nll"]["low"] < record["scores"]["nll"]["estimate"]
    assert record["assessment"]["verdict"] == "miscalibrated"


def test_a_calibrator_can_be_applied_first(cli, val, tmp_path):
    TemperatureScaling(3.0).save(tmp_path / "t.json")
    raw, cured = (
        json.loads(cli("evaluate", "val.npz", "--resamples", "20", "--json", *extra).stdout)
        for extra in ((), ("--calibrator", "t.json"))
    )
    assert cured["scores"]["ece"]["estimate"] < raw["scores"]["ece"]["estimate"]


@pytest.mark.slow
def test_a_calibrator_is_not_to_be_evaluated_on_its_own_rows(cli, val, tmp_path):
    cli("calibrate", "val.npz", "--methods", "temperature", "--resamples", "20", "-o", "out")
    np.savez(tmp_path / "other.npz", **{k: v[:300] for k, v in np.load("val.npz").items()})
    warning = "WARNING: out/calibrator.json was fitted to these rows"
    of_calibrator = ("--calibrator", "out/calibrator.json")
    for command in (
        ("evaluate", "val.npz", *of_calibrator),
        ("check", "val.npz", "--max-ece", "0.9", *of_calibrator),
        ("compare", "out/calibrator.json", "raw", "--on", "val.npz"),
    ):
        assert warning in cli(*command).stdout
    assert warning not in cli("evaluate", "other.npz", *of_calibrator).stdout


def test_results_are_not_taken_for_a_calibrator(cli, val, tmp_path):
    (tmp_path / "results.json").write_text('{"verdict": "fine"}')
    done = cli("evaluate", "val.npz", "--calibrator", "results.json", ok=False)
    assert done.stderr.startswith("Error: results.json: is not a calibrator, such as the calibra")


def test_missing_labels_are_asked_for(cli, examples, tmp_path):
    np.savez(tmp_path / "z.npz", logits=examples.logits)
    done = cli("evaluate", "z.npz", ok=False)
    assert done.returncode == 1
    assert "label" in done.stderr


def test_a_broken_calibrator_is_refused(cli, val, tmp_path):
    (tmp_path / "t.json").write_text("{}")
    done = cli("evaluate", "val.npz", "--calibrator", "t.json", ok=False)
    assert done.returncode == 1
    assert "t.json" in done.stderr


def test_binary_brier_says_how_it_relates_to_scikit_learn(cli, tmp_path):
    probs = np.array([[0.2, 0.8], [0.7, 0.3]] * 20)
    np.savez(tmp_path / "b.npz", probs=probs, labels=np.array([1, 0] * 20))
    done = cli("evaluate", "b.npz", "--resamples", "20")
    assert "twice scikit-learn's brier_score_loss" in done.stdout


def test_a_verdict_per_group(cli, examples, tmp_path):
    """The model is right about one group and overconfident about the other."""
    logits = examples.logits / 3
    logits[:200] *= 4
    site = ["north"] * 200 + ["south"] * 200
    lines = ["logit_a,logit_b,logit_c,label,site"]
    for row, y, where in zip(logits, examples.labels, site, strict=True):
        lines.append(",".join([*map(repr, map(float, row)), str(y), where]))
    (tmp_path / "sites.csv").write_text("\n".join(lines) + "\n")
    words = ("evaluate", "sites.csv", "--by", "site", "--resamples", "20")
    assert "site = north (200 rows): miscalibrated" in cli(*words).stdout
    record = json.loads(cli(*words, "--json").stdout)
    assert [g["group"] for g in record["groups"]] == ["north", "south"]
    assert record["groups"][1]["verdict"] != "miscalibrated"


@pytest.mark.slow
def test_the_worst_slice_over_several_columns(tmp_path, cli):
    rng = np.random.default_rng(0)
    n = 4000
    region = rng.choice(["north", "south"], n)
    device = rng.choice(["phone", "desk"], n)
    p = rng.uniform(0.5, 0.95, size=n)
    is_planted = (region == "north") & (device == "phone")
    y = (rng.uniform(size=n) < np.where(is_planted, p - 0.2, p)).astype(int)
    lines = [f"{a:.6f},{b},{c},{d}" for a, b, c, d in zip(p, y, region, device, strict=True)]
    path = tmp_path / "p.csv"
    path.write_text("\n".join(["y_prob,y_true,region,device", *lines]) + "\n")
    arguments = ["evaluate", str(path), "--by", "region,device"]
    found = json.loads(cli(*arguments, "--json").stdout)["worst_slice"]
    assert found["p_value"] < 0.05
    assert {"region = north", "device = phone"} == set(found["description"].split(" and "))
    assert "Worst slice: " in cli(*arguments).stdout


def test_many_small_groups_are_counted(cli, examples, tmp_path):
    lines = ["logit_a,logit_b,logit_c,label,age"]
    for i, (row, y) in enumerate(zip(examples.logits, examples.labels, strict=True)):
        lines.append(",".join([*map(repr, map(float, row)), str(y), f"{i % 40}y"]))
    (tmp_path / "ages.csv").write_text("\n".join(lines) + "\n")
    done = cli("evaluate", "ages.csv", "--by", "age", "--resamples", "20")
    assert "groups have too few rows to judge (at most 10 each)" in done.stdout
    assert "too few rows to judge\n" not in done.stdout
