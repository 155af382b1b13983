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
