"""A calibrator meets a file of other classes, or of the same in another order: all commands."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import VectorScaling
from focalibrate.io import read_predictions
from focalibrate.pipeline import evaluate_predictions

COMMANDS = {
    "apply": ("apply", "c.json", "new.csv", "-o", "out.csv"),
    "apply to parts": ("apply", "c.json", "parts", "-o", "out"),
    "evaluate": ("evaluate", "new.csv", "--calibrator", "c.json"),
    "evaluate parts": ("evaluate", "parts", "--calibrator", "c.json", "--workers", "1"),
    "check": ("check", "new.csv", "--calibrator", "c.json", "--max-ece", ".5"),
    "sketch": ("sketch", "new.csv", "--calibrator", "c.json", "-o", "new.sketch"),
    "compare": ("compare", "c.json", "raw", "--on", "new.csv"),
}


@pytest.fixture(params=COMMANDS.values(), ids=COMMANDS)
def run(request, cli, tmp_path):
    """Run a command with a calibrator on 60 rows under a header, in a file and in two parts."""

    def of(names, header, *words, columns=(0, 1), ok=False):
        k = len(columns)
        scale, bias = tuple(1.0 + np.arange(2.0)), (0.5, 0.0)
        VectorScaling(scale=scale, bias=bias, class_names=names).save(tmp_path / "c.json")
        rng = np.random.default_rng(0)
        p = rng.dirichlet(np.ones(max(k, 2)), size=60).round(4)
        p[:, -1] = 1 - p[:, :-1].sum(axis=1)
        rows = [",".join(f"{x:.4f}" for x in row[list(columns)]) for row in p]
        classes = [name.removeprefix("prob_") for name in header.split(",")]
        labels = rng.choice(classes if k > 1 else ["yes", "no"], size=60)
        lines = [f"{row},{label}" for row, label in zip(rows, labels, strict=True)]
        (tmp_path / "parts").mkdir(exist_ok=True)
        places = {"new.csv": lines, "parts/a.csv": lines[:30], "parts/b.csv": lines[30:]}
        for place, some in places.items():
            (tmp_path / place).write_text("\n".join([f"{header},label", *some]) + "\n")
        return cli(*request.param, *words, ok=ok)

    return of


def test_a_calibrator_without_names_says_the_order_that_it_takes(run):
    assert "classes are taken in the order dog, cat" in run(None, "dog,cat").stderr


def test_another_positive_class_is_another_order(run):
    done = run(None, "dog,cat", "--positive", "dog")
    assert "classes are taken in the order cat, dog" in done.stderr


def test_a_calibrator_with_names_finds_its_classes(run):
    assert "WARNING" not in run(("cat", "dog"), "dog,cat").stderr


def test_other_names_are_refused(run):
    done = run(("cat", "dog"), "cat,cow", ok=False)
    assert done.returncode != 0
    assert "cow is not among them" in done.stderr
    assert "the calibrator that was fitted for these classes" in done.stderr


def test_another_number_of_classes_is_refused(run):
    for names in (None, ("cat", "dog")):
        done = run(names, "cat,cow,dog", columns=(0, 1, 2), ok=False)
        assert done.returncode != 0
        assert "has 3 classes, but the calibrator was fitted for 2" in done.stderr
        assert "Use the calibrator of the same model." in done.stderr


def test_the_probability_of_the_negative_class_is_refused(run):
    done = run(None, "prob_no", columns=(0,), ok=False)
    assert done.returncode != 0
    assert "is the probability of 'no'" in done.stderr
    assert "1 - df['prob_no']" in done.stderr


def test_classes_are_found_by_name_in_python_and_by_compare(cli, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200).round(4)
    y = np.array(["cat", "dog"])[(rng.random(200) < p).astype(int)]
    for head, columns in (("cat,dog", (1 - p, p)), ("dog,cat", (p, 1 - p))):
        lines = [f"{a:.4f},{b:.4f},{c}" for a, b, c in zip(*columns, y, strict=True)]
        text = "\n".join([f"{head},label", *lines])
        (tmp_path / f"{head[:3]}.csv").write_text(text + "\n")
    scale, bias = (1.0, 3.0), (0.5, 0.0)
    named = VectorScaling(scale=scale, bias=bias, class_names=("cat", "dog"))
    named.save(tmp_path / "a.json")
    turned = VectorScaling(scale=scale[::-1], bias=bias[::-1], class_names=("dog", "cat"))
    turned.save(tmp_path / "b.json")
    found = [
        evaluate_predictions(read_predictions(tmp_path / f"{name}.csv"), calibrator=one)
        for name in ("cat", "dog")
        for one in (named, turned)
    ]
    losses = [one.scores["nll"].estimate for one in found]
    assert_allclose(losses, losses[0], rtol=1e-12)
    for name in ("cat", "dog"):
        done = cli("compare", "a.json", "b.json", "raw", "--on", f"{name}.csv", "--json")
        models = json.loads(done.stdout)["models"]
        losses = [model["scores"]["nll"]["estimate"] for model in models]
        assert_allclose(losses[:2], found[0].scores["nll"].estimate, rtol=1e-12)
        assert losses[2] < losses[0]


def test_the_group_of_a_calibrator_is_read_beside_other_groups(cli, tmp_path):
    lines = [f"{k % 7 / 10 + 0.1:.1f},{k % 2},{'ab'[k % 2]},{'uv'[k % 3 > 1]}" for k in range(90)]
    (tmp_path / "v.csv").write_text("\n".join(["prob,label,city,shop", *lines]) + "\n")
    cli("calibrate", "v.csv", "--by", "city", "--ignore", "shop", "--methods", "platt", "-o", "r")
    for command in ("evaluate", "check"):
        limit = ("--max-ece", ".5") if command == "check" else ()
        words = ("--calibrator", "r/calibrator.json", "--by", "shop", *limit)
        done = cli(command, "v.csv", *words, ok=False)
        assert done.returncode in (0, 3)
        assert "shop" in done.stdout
