"""Which of two classes is the positive one."""

import json

import numpy as np
import pytest


@pytest.fixture
def two(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.beta(1, 3, size=500)
    names = np.array(["fraud", "legit"])[(rng.random(500) > p).astype(int)]
    rows = [f"{a!r},{1 - a!r},{b}" for a, b in zip(p.tolist(), names, strict=True)]
    (tmp_path / "two.csv").write_text("\n".join(["prob_fraud,prob_legit,label", *rows]) + "\n")


def test_the_positive_class_is_said_and_can_be_chosen(cli, two):
    assert (
        "positive class: legit (the second; --positive changes that)"
        in cli("evaluate", "two.csv").stdout
    )
    done = cli("evaluate", "two.csv", "--positive", "fraud")
    assert "positive class: fraud (as --positive says)" in done.stdout
    assert "(legit, fraud)" in done.stdout


def test_the_positive_class_is_second_in_the_calibrator_and_its_output(cli, two, tmp_path):
    words = ("--positive", "fraud", "--methods", "platt", "--resamples", "10")
    cli("calibrate", "two.csv", *words, "-o", "out")
    made = json.loads((tmp_path / "out/calibrator.json").read_text())
    assert made["class_names"] == ["legit", "fraud"]
    cli("apply", "out/calibrator.json", "two.csv", "-o", "new.csv")
    lines = (tmp_path / "new.csv").read_text().splitlines()
    given = (tmp_path / "two.csv").read_text().splitlines()
    assert [line.split(",")[-1] for line in lines] == [line.split(",")[-1] for line in given]
    assert set(lines[0].split(",")) == {"prob_fraud", "prob_legit", "label"}


def test_the_class_of_the_only_column_is_kept_where_labels_are_numbers(cli, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.beta(1, 3, size=400)
    y = (rng.random(400) < p**2).astype(int)
    rows = (f"{a!r},{b}" for a, b in zip(p.tolist(), y, strict=True))
    (tmp_path / "val.csv").write_text("\n".join(["prob_fraud,label", *rows]) + "\n")
    words = ("--methods", "platt", "--resamples", "10")
    done = cli("calibrate", "val.csv", *words, "-o", "out")
    assert "labels are numbers: 1 = fraud" in done.stdout
    outputs = []
    for head, of in (
        ("prob_fraud", "{p}"),
        ("prob", "{p}"),
        ("ok,fraud", "{q},{p}"),
        ("fraud,ok", "{p},{q}"),
        ("prob_0,prob_1", "{q},{p}"),
    ):
        lines = (of.format(p=a, q=1 - a) for a in p.tolist())
        (tmp_path / "new.csv").write_text("\n".join([head, *lines]) + "\n")
        cli("apply", "out/calibrator.json", "new.csv", "-o", "done.csv", "--force")
        names, *cells = (tmp_path / "done.csv").read_text().splitlines()
        places = [
            i for i, n in enumerate(names.split(",")) if n == "prob" or n[5:] in ("fraud", "1")
        ]
        (at,) = places
        outputs.append([float(line.split(",")[at]) for line in cells])
    for found in outputs[1:]:
        np.testing.assert_allclose(found, outputs[0], atol=1e-12)
    for other in ("prob_ok", "prob_not_fraud", "prob_class_0"):
        (tmp_path / "new.csv").write_text(f"{other}\n0.25\n0.5\n")
        done = cli("apply", "out/calibrator.json", "new.csv", "-o", "no.csv", ok=False)
        assert done.returncode == 1
        assert "its classes must be not fraud, fraud" in done.stderr


def test_next_names_the_confidence_which_new_data_hold_without_an_outcome(cli, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 1, size=400).round(3)
    y = np.where(rng.random(400) < p**2, "Correct", "Wrong")
    rows = [f"{100 * a:.1f},{b}" for a, b in zip(p.tolist(), y, strict=True)]
    (tmp_path / "val.csv").write_text("\n".join(["confidence,grade", *rows]) + "\n")
    done = cli("calibrate", "val.csv", "--methods", "platt", "--resamples", "10", "-o", "out")
    line = next(s for s in done.stdout.splitlines() if "focalibrate apply" in s)
    (tmp_path / "new.csv").write_text("question,confidence\n7,90.0\n8,35.5\n")
    assert "Calibrated 2 rows" in cli(*line.split()[1:]).stdout
