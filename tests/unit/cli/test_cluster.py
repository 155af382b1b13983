"""Rows that belong together: the verdict allows for them, and what cannot says so."""

import json

import numpy as np
import pytest


@pytest.fixture
def tries(tmp_path):
    """Five tries at each of 120 questions with the same outcome: a calibrated model."""
    rng = np.random.default_rng(3)
    p = np.repeat(rng.random(120), 5)
    y = np.repeat(rng.random(120), 5) < p
    rows = [
        f"{a!r},{int(b)},q{i // 5}" for i, (a, b) in enumerate(zip(p.tolist(), y, strict=True))
    ]
    (tmp_path / "tries.csv").write_text("\n".join(["prob_yes,label,question", *rows]) + "\n")


def test_the_verdict_allows_for_clusters(cli, tries):
    rows, clustered = (
        json.loads(cli("evaluate", "tries.csv", *more, "--json").stdout)["assessment"]
        for more in ((), ("--cluster", "question"))
    )
    assert clustered["p_value"] > rows["p_value"]
    words = ("--methods", "platt", "--resamples", "10", "--json", "--cluster", "question")
    found = json.loads(cli("calibrate", "tries.csv", *words).stdout)["assessment"]
    assert found["p_value"] == pytest.approx(clustered["p_value"])


@pytest.mark.parametrize(
    "words",
    [
        ("sketch", "tries.csv", "-o", "x.sketch"),
        ("calibrate", "tries.csv", "--fit-rows", "100"),
    ],
)
def test_what_cannot_allow_for_clusters_says_so(cli, tries, words):
    done = cli(*words, "--cluster", "question", ok=False)
    assert done.returncode in (1, 2)
    assert "cluster" in done.stderr


def test_compared_models_allow_for_clusters(cli, tries, tmp_path):
    text = (tmp_path / "tries.csv").read_text().splitlines()
    cells = [line.split(",") for line in text[1:]]
    other = [f"{0.5 + 0.6 * (float(p) - 0.5)!r},{y},{q}" for p, y, q in cells]
    (tmp_path / "flat.csv").write_text("\n".join([text[0], *other]) + "\n")
    rows, clustered = (
        json.loads(cli("compare", "tries.csv", "flat.csv", *more, "--json").stdout)
        for more in ((), ("--cluster", "question"))
    )
    p, q = (found["differences_to_best"][0]["p_value"] for found in (rows, clustered))
    assert q > p  # five equal rows count once


def test_check_takes_events_and_clusters(cli, tries):
    """Five equal tries are one: a calibrated model fails as 600 rows and not as 120 clusters."""
    words = ("check", "tries.csv", "--max-ece", "0.03", "--json", "-")
    rows, clustered = (
        json.loads(cli(*words, *more, ok=False).stdout)["checks"][0]
        for more in ((), ("--cluster", "question"))
    )
    assert clustered["low"] < rows["low"]
    assert clustered["high"] > rows["high"]
    assert clustered["status"] == "undetermined"


def test_a_row_without_cluster_is_refused(cli, tries, tmp_path):
    text = (tmp_path / "tries.csv").read_text()
    (tmp_path / "tries.csv").write_text(text.replace(",q3\n", ",\n"))
    done = cli("evaluate", "tries.csv", "--cluster", "question", ok=False)
    assert "but not in 5 rows (15, 16," in " ".join(done.stderr.split())


def test_one_cluster_has_no_interval(cli, tries, tmp_path):
    lines = (tmp_path / "tries.csv").read_text().splitlines()
    one = [line.rpartition(",")[0] + ",q" for line in lines[1:]]
    (tmp_path / "tries.csv").write_text("\n".join([lines[0], *one]) + "\n")
    found = json.loads(cli("evaluate", "tries.csv", "--cluster", "question", "--json").stdout)
    assert found["scores"]["nll"].get("low") is None
    assert found["scores"]["nll"].get("high") is None


def test_apply_keeps_the_name_of_a_confidence(cli, tmp_path):
    rng = np.random.default_rng(0)
    c = rng.random(300)
    rows = [f"{x!r},{y}" for x, y in zip(c.tolist(), rng.random(300) < c**2, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["llm_confidence,correct", *rows]) + "\n")
    cli("calibrate", "a.csv", "--methods", "platt", "--resamples", "10", "-o", "report")
    cli("apply", "report/calibrator.json", "a.csv", "-o", "b.csv")
    assert (tmp_path / "b.csv").read_text().startswith("llm_confidence,correct\n")
    said = cli("evaluate", "b.csv").stdout
    assert '"llm_confidence" is the probability that the answer is right' in " ".join(said.split())
