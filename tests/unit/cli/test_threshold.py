"""A threshold with a promise, from a file."""

import json
from pathlib import Path

import numpy as np
import pytest

from focalibrate.metrics import choose_threshold

REAL = Path("shared/data/worlds/llm/verbalised/final_results_v2.csv")
"""Answers of language models, beside the repository or a worktree of it."""


@pytest.fixture
def answers(tmp_path):
    """Five tries at each of 400 questions, all right or all wrong, as often as they say."""
    rng = np.random.default_rng(0)
    c = np.repeat(rng.uniform(0.5, 1, size=400).round(4), 5)
    y = np.repeat(rng.random(400), 5) < c
    head = "confidence,is_correct,question,model"
    rows = [
        f"{a!r},{bool(b)},q{i // 5},{'ab'[i % 2]}"
        for i, (a, b) in enumerate(zip(c.tolist(), y, strict=True))
    ]
    (tmp_path / "answers.csv").write_text("\n".join([head, *rows]) + "\n")
    return c, y


def test_the_lowest_confidence_and_the_share_that_passes_are_printed(cli, answers):
    expected = choose_threshold(*answers, precision=0.8)
    done = cli("threshold", "answers.csv", "--precision", ".8")
    assert expected.summary in done.stdout
    assert "rows pass" in done.stdout
    found = json.loads(cli("threshold", "answers.csv", "--precision", ".8", "--json").stdout)
    assert found["threshold"] == pytest.approx(expected.threshold)
    assert found["coverage"] == pytest.approx(expected.coverage)


def test_ties_count_as_no_row_of_a_promise(cli, tmp_path):
    rows = (f"0.{i % 90 + 10},{(0, 0.5, 1)[i % 3]}" for i in range(200))
    (tmp_path / "ties.csv").write_text("\n".join(["forecast,outcome", *rows]) + "\n")
    done = cli("threshold", "ties.csv", "--precision", ".2", ok=False)
    assert done.returncode == 2
    assert "leave out the ties" in done.stderr


def test_where_nothing_can_be_promised_the_status_is_1_and_the_best_is_said(cli, answers):
    done = cli("threshold", "answers.csv", "--precision", ".99", ok=False)
    assert done.returncode == 1
    assert "No threshold promises a precision of at least 99.0 %" in done.stdout
    assert "the best that can be promised is" in done.stdout
    best = json.loads(
        cli("threshold", "answers.csv", "--precision", ".99", "--json", ok=False).stdout
    )
    assert best["best_bound"] < 0.99
    few = cli("threshold", "answers.csv", "--precision", ".9999", ok=False)
    assert few.returncode == 1
    assert "too few" in few.stdout


def test_clusters_make_a_promise_harder(cli, answers):
    rows, clustered = (
        json.loads(cli("threshold", "answers.csv", "--precision", ".8", "--json", *more).stdout)
        for more in ((), ("--cluster", "question"))
    )
    assert clustered["n_clusters"] == 400
    assert clustered["coverage"] < rows["coverage"]


def test_recall_cost_and_groups(cli, answers):
    done = cli("threshold", "answers.csv", "--recall", ".9", "--by", "model")
    assert "\na: Accept" in done.stdout
    assert "\nb: Accept" in done.stdout
    words = ("threshold", "answers.csv", "--max-cost", ".9", "--costs", "FP=1,FN=5", "--json")
    assert json.loads(cli(*words).stdout)["promise"] == "cost"


def test_the_confidence_of_more_than_two_classes_is_that_of_the_predicted_one(cli, examples, val):
    probs = np.exp(examples.logits.astype(np.float64))
    probs /= probs.sum(axis=1, keepdims=True)
    right = probs.argmax(axis=1) == examples.labels
    expected = choose_threshold(probs.max(axis=1), right, precision=0.7)
    found = json.loads(cli("threshold", "val.npz", "--precision", ".7", "--json").stdout)
    assert found["threshold"] == pytest.approx(expected.threshold)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "exactly one of --precision"),
        (("--precision", ".9", "--recall", ".9"), "exactly one of --precision"),
        (("--precision", "1.5"), "--precision"),
        (("--max-cost", "FP=1,FN=5"), "--max-cost 0.3 --costs FP=1,FN=5"),
        (("--max-cost", "1", "--costs", "FP=1"), "FP=1,FN=5"),
        (("--precision", ".9", "--costs", "FP=1,FN=5"), "--costs needs --max-cost"),
        (("--precision", ".9", "--weight-column", "question"), "--weight-column"),
        (("--precision", ".9", "--by", "model,question"), "--by must name one column"),
    ],
)
def test_wrong_options_are_refused(cli, answers, words, said):
    done = cli("threshold", "answers.csv", *words, ok=False)
    assert done.returncode == 2
    assert said in done.stderr


def test_answers_of_language_models_as_they_were_published(cli):
    places = [folder / REAL for folder in Path(__file__).parents if (folder / REAL).exists()]
    if not places:
        pytest.skip("the shared data are not here")
    words = ("threshold", places[0], "--cluster", "question_id")
    kept = cli(*words, "--precision", ".85")
    assert "Accept confidences of at least" in kept.stdout
    assert "8,100 rows in 540 clusters" in kept.stdout
    assert cli(*words, "--precision", ".95", ok=False).returncode == 1
