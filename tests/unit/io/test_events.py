"""A confidence and whether it was right, read at the first try; wrong advice is never given."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate import assess
from focalibrate.calibrate import Identity
from focalibrate.cli import main
from focalibrate.io import PredictionFileError, read_predictions, scan_predictions
from focalibrate.metrics import nll

SHARED = Path(os.environ.get("FOCALIBRATE_SHARED", Path(__file__).parents[4] / "shared"))
WORLDS = SHARED / "data/worlds"
CONFIDENCES = [0.9, 0.25, 0.5, 0.75, 0.125, 1.0]
RIGHT = [1, 0, 0, 1, 0, 1]


def _file(tmp_path, words, *, name="correct", score="confidence", scale=1, mark=""):
    rows = [
        f"q{i},{c * scale}{mark},{w}"
        for i, (c, w) in enumerate(zip(CONFIDENCES, words, strict=True))
    ]
    path = tmp_path / "answers.csv"
    path.write_text(f"question_id,{score},{name}\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("True", "False"),
        ("1", "0"),
        ("Correct", "Wrong"),
        ("Correct", "Incorrect"),
        ("C", "I"),
        ("yes", "no"),
    ],
)
@pytest.mark.parametrize("name", ["correct", "is_correct", "outcome", "hit", "grade", "acc"])
def test_words_for_right_and_wrong(tmp_path, right, wrong, name):
    found = read_predictions(_file(tmp_path, [right if r else wrong for r in RIGHT], name=name))
    assert_allclose(found.scores[:, 1], CONFIDENCES)
    assert_array_equal(found.labels, RIGHT)
    assert found.kind == "probs"


@pytest.mark.parametrize("score", ["confidence", "conf", "score", "prob", "probability", "p"])
@pytest.mark.parametrize(("scale", "mark"), [(1, ""), (100, ""), (100, "%")])
def test_names_and_scales_of_a_confidence(tmp_path, score, scale, mark):
    found = read_predictions(_file(tmp_path, RIGHT, score=score, scale=scale, mark=mark))
    assert_allclose(found.scores[:, 1], CONFIDENCES)
    assert_array_equal(found.labels, RIGHT)
    is_said = any("read as percentages" in note for note in found.notes)
    assert is_said == (scale == 100 and not mark)


@pytest.mark.parametrize(("name", "is_doubted"), [("correct", False), ("label", True)])
def test_a_confidence_of_at_least_half_is_doubted_unless_it_is_of_an_answer(
    tmp_path, name, is_doubted
):
    path = tmp_path / "answers.csv"
    rows = "".join(f"{0.5 + i / 200},{int(i % 2)}\n" for i in range(100))
    path.write_text(f"probability,{name}\n{rows}")
    notes = read_predictions(path).notes
    assert any("at least 0.5 in every row" in note for note in notes) == is_doubted


@pytest.mark.parametrize("batch", [1, 4, 100])
def test_a_cluster_says_which_rows_belong_together(tmp_path, batch):
    path = _file(tmp_path, RIGHT)
    path.write_text(path.read_text().replace("q1,", "q0,"))
    expected = ["q0", "q0", "q2", "q3", "q4", "q5"]
    assert read_predictions(path, cluster="question_id").cluster.tolist() == expected
    scan = scan_predictions(path, cluster="question_id", batch_rows=batch)
    assert np.concatenate([b.cluster for b in scan.batches()]).tolist() == expected


def test_other_words_are_asked_about(tmp_path):
    words = ["Correct", "Wrong", "Wrong", "Unparseable", "Wrong", "Correct"]
    with pytest.raises(PredictionFileError, match=r"row 3 .*Unparseable.*count them as wrong"):
        read_predictions(_file(tmp_path, words, name="grade"))


def test_classes_come_before_a_confidence_beside_them(tmp_path):
    path = tmp_path / "val.csv"
    rows = ["0.25,0.75,dog,0.75,1", "0.5,0.5,cat,0.5,1", "0.9,0.1,dog,0.9,0"]
    path.write_text("cat,dog,label,confidence,correct\n" + "\n".join(rows) + "\n")
    assert read_predictions(path).class_names == ("cat", "dog")


@pytest.mark.skipif(not WORLDS.is_dir(), reason="needs the files of other worlds")
class TestWorlds:
    def test_answers_with_a_stated_confidence_are_read(self):
        found = read_predictions(WORLDS / "llm/verbalised/final_results_v2.csv", need_labels=True)
        assert (found.n_rows, found.labels_name) == (8100, "is_correct")
        assert 0.5 < found.scores[:, 1].mean() < 1

    @pytest.mark.parametrize("name", ["mlb_games", "nfl_games"])
    def test_forecasts_of_games_are_read_with_their_ties(self, name):
        path = WORLDS / f"forecasts/{name}.csv"
        with pytest.raises(PredictionFileError, match="outcomes for each probability") as caught:
            read_predictions(path, need_labels=True)
        found = read_predictions(path, **caught.value.fixes[0])
        df = pd.read_csv(path)
        y, p = df["prob1_outcome"], df["prob1"]
        expected = -(y * np.log(p) + (1 - y) * np.log1p(-p)).mean()
        own = nll(probs=found.scores, labels=found.labels, sample_weight=found.weights)
        assert own == pytest.approx(expected, rel=1e-12)
        assert found.n_rows == len(df) + (y == 0.5).sum()

    @pytest.mark.parametrize(
        "path", sorted(p for p in WORLDS.rglob("*") if p.suffix in (".json", ".jsonl", ".csv"))
    )
    def test_no_advice_names_a_box_an_id_a_date_or_a_flag(self, path):
        try:
            read_predictions(path, need_labels=True)
        except PredictionFileError as error:
            offered = str(error.fixes)
            for word in ("bbox", "_id", "date", "'dh'", "season", "cost", "tokens", "acc"):
                assert word not in offered


def test_a_column_that_is_not_a_score_is_not_offered(tmp_path):
    path = tmp_path / "val.csv"
    rows = [f"{i},{100 + 3 * i},{i % 2}" for i in range(20)]
    path.write_text("product_id,price,in_stock\n" + "\n".join(rows) + "\n")
    with pytest.raises(PredictionFileError) as caught:
        read_predictions(path, need_labels=True)
    assert "price" not in str(caught.value.fixes)
    assert np.all(["product_id" not in str(fix) for fix in caught.value.fixes])


class TestTies:
    N = 80

    def table(self):
        rng = np.random.default_rng(0)
        p = rng.uniform(size=self.N).round(4)
        y = (rng.uniform(size=self.N) < p).astype(float)
        y[[3, 70]] = 0.5, 0.25
        return pd.DataFrame({"date": "2026-01-02", "probability": p, "outcome": y})

    @pytest.mark.parametrize("batch_rows", [7, 65_536])
    def test_a_tie_counts_as_both_outcomes_by_its_share(self, tmp_path, monkeypatch, batch_rows):
        monkeypatch.setattr("focalibrate.io.scan.BATCH_ROWS", batch_rows)
        df = self.table()
        df.to_csv(tmp_path / "a.csv", index=False)
        found = read_predictions(tmp_path / "a.csv", need_labels=True)
        assert found.n_rows == self.N + 2
        assert found.weights.sum() == self.N
        assert found.weights @ found.labels == pytest.approx(df["outcome"].sum())
        assert any("between 0 and 1" in note for note in found.notes)
        assert assess(
            found.scores[:, 1], found.labels, sample_weight=found.weights
        ).gap.estimate == pytest.approx(
            assess(confidence=df["probability"], correct=df["outcome"]).gap.estimate
        )

    def test_apply_keeps_one_row_per_tie(self, tmp_path):
        df = self.table()
        df.to_csv(tmp_path / "a.csv", index=False)
        Identity().save(tmp_path / "c.json")
        out = tmp_path / "b.csv"
        done = CliRunner().invoke(
            main, ["apply", str(tmp_path / "c.json"), str(tmp_path / "a.csv"), "-o", str(out)]
        )
        assert done.exit_code == 0, done.output
        written = pd.read_csv(out)
        assert written["outcome"].tolist() == df["outcome"].tolist()
