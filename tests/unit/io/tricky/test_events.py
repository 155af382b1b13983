"""A confidence and whether it was right, as people name, scale and write them."""

import os
from pathlib import Path

import numpy as np
import pytest
from tests.unit.io.tricky.cases import EVENT, P1, RNG, Y1, Case, N, Truth, pd, write

from focalibrate.io import PredictionFileError, read_predictions
from focalibrate.metrics import assess

SHARED = Path(os.environ.get("FOCALIBRATE_SHARED", Path(__file__).parents[5] / "shared"))
WORLDS = SHARED / "data/worlds"
PERCENT = (100 * P1).round()
OF_PERCENT = Truth(np.stack([1 - PERCENT / 100, PERCENT / 100], axis=1), Y1)
IDS = [f"q{i}" for i in range(N)]
WORDS = {
    "booleans": ("True", "False"),
    "numbers": ("1", "0"),
    "floats": ("1.0", "0.0"),
    "correct and wrong": ("Correct", "Wrong"),
    "correct and incorrect": ("correct", "incorrect"),
    "letters": ("C", "I"),
    "yes and no": ("yes", "no"),
    "y and n": ("Y", "N"),
    "pass and fail": ("pass", "fail"),
    "capitals": ("CORRECT", "INCORRECT"),
    "spaces": (" Correct", "Wrong "),
}


def event(score="confidence", outcome="correct", *, scores=P1, words=Y1, **more):
    return pd.DataFrame({**more, score: scores, outcome: words})


def said(right, wrong):
    return np.where(Y1 == 1, right, wrong)


ODD = said("Correct", "Wrong").astype(object)
ODD[[3, 8]] = "Unparseable"
BOX = {"x": RNG.random(N) * 600, "y": RNG.random(N) * 400, "w": 5.5, "h": 7.25}

CASES = {
    **{
        f"logarithms of probabilities, {name}": Case(
            {"p.csv": event(name, scores=np.log(P1))},
            truth=None,
            refused=True,
            said=f"np.exp\\(df.pop\\('{name}'\\)\\)",
            options={"label_column": "correct", **more},
        )
        for name, more in (
            ("logprob", {}),
            ("mean_logprob", {"score_columns": ["mean_logprob"], "input": "logits"}),
        )
    },
    **{
        f"a column called {name}": Case({"p.csv": event(name)}, truth=EVENT)
        for name in ("certainty", "conf_score")
    },
    **{
        f"the letter of the right answer is no outcome: {letters}": Case(
            {"p.csv": event(words=RNG.choice(list(letters), N))},
            truth=None,
            refused=True,
            said="holds only the probability of the predicted class",
        )
        for letters in ("ABCD", "CD", "ABC")
    },
    "the probability of incorrect stands second": Case(
        {"p.csv": pd.DataFrame({"p_correct": P1, "p_incorrect": 1 - P1, "correct": Y1})},
        truth=EVENT,
        said="1 = correct",
    ),
    **{
        f"the only column is of {name}": Case(
            {"p.csv": pd.DataFrame({f"p_{name}": 1 - P1, "correct": Y1})},
            truth=None,
            refused=True,
            options={"label_column": "correct"},
            said=f"scores of '{name}', and nothing says which of the labels 0, 1",
        )
        for name in ("incorrect", "wrong")
    },
    "a confidence, a prediction and a label": Case(
        {
            "p.csv": pd.DataFrame(
                {"pred": np.where(P1 > 0.5, "a", "b"), "label": said("a", "b"), "confidence": P1}
            )
        },
        truth=None,
        refused=True,
        said=r"`df\['correct'\] = df\['pred'\] == df\['label'\]`",
    ),
    "a confidence with a word before it": Case(
        {"p.csv": event("llm_confidence", "correct")}, truth=EVENT
    ),
    "a probability whose name says logarithm": Case(
        {"p.csv": event("logprob_score", "correct")},
        truth=None,
        warned=True,
        options={"label_column": "correct"},
    ),
    **{
        f"{score} and {outcome}": Case({"p.csv": event(score, outcome)}, truth=EVENT)
        for score in ("confidence", "score", "prob", "probability", "p", "conf", "p_true")
        for outcome in (
            "correct",
            "is_correct",
            "outcome",
            "hit",
            "grade",
            "acc",
            "match",
            "is_match",
            "exact_match",
            "answered_correctly",
        )
    },
    **{
        f"{name} in {suffix}": Case(
            {f"p{suffix}": event(words=said(*words), question_id=IDS)}, truth=EVENT
        )
        for name, words in WORDS.items()
        for suffix in (".csv", ".parquet", ".jsonl")
    },
    "booleans of parquet": Case({"p.parquet": event(words=Y1 == 1)}, truth=EVENT),
    "0 to 100": Case({"p.csv": event(scores=PERCENT)}, truth=OF_PERCENT, said="percentages"),
    "0 to 100, integers": Case(
        {"p.parquet": event(scores=PERCENT.astype(int))}, truth=OF_PERCENT, said="percentages"
    ),
    "percent signs": Case(
        {"p.csv": event(scores=[f"{p:.0f}%" for p in PERCENT])}, truth=OF_PERCENT
    ),
    "percent signs after a space": Case(
        {"p.csv": event(scores=[f"{p:.0f} %" for p in PERCENT])}, truth=OF_PERCENT
    ),
    "percent signs in parquet": Case(
        {"p.parquet": event(scores=[f"{p:.0f}%" for p in PERCENT])}, truth=OF_PERCENT
    ),
    "percent signs in jsonl": Case(
        {"p.jsonl": event(scores=[f"{p:.0f}%" for p in PERCENT])}, truth=OF_PERCENT
    ),
    "numbers in text": Case({"p.jsonl": event(scores=[str(p) for p in P1])}, truth=EVENT),
    "numbers in text of parquet": Case(
        {"p.parquet": event(scores=[str(p) for p in P1])}, truth=EVENT
    ),
    "decimal commas": Case(
        {
            "p.csv": event(scores=[str(p).replace(".", ",") for p in P1]).to_csv(
                index=False, sep=";"
            )
        },
        truth=EVENT,
    ),
    "a scale of 1 to 10": Case(
        {"p.csv": event(scores=1 + (9 * P1).round())}, truth=None, refused=True, said="up to 10"
    ),
    "a scale of 1 to 5": Case(
        {"p.csv": event(scores=1 + (4 * P1).round())}, truth=None, refused=True, said="up to 5"
    ),
    "a number above 100": Case(
        {"p.csv": event(scores=np.r_[PERCENT[:-1], 250])}, truth=None, refused=True
    ),
    "a negative number": Case(
        {"p.csv": event(scores=np.r_[P1[:-1], -0.5])}, truth=None, refused=True
    ),
    "a logit": Case(
        {"p.csv": event("logit", scores=np.log(P1 / (1 - P1)))}, truth=EVENT, advised=True
    ),
    "unparseable answers": Case(
        {"p.csv": event("confidence", "grade", words=ODD)},
        truth=None,
        refused=True,
        said=r"2 rows \(3, 8.*Unparseable",
    ),
    "missing confidences": Case(
        {"p.csv": event(scores=np.where(np.arange(N) == 4, np.nan, P1))},
        truth=None,
        refused=True,
        said="row 4|nan",
    ),
    "a confidence that says none": Case(
        {"p.csv": event(scores=np.where(np.arange(N) == 4, "none given", P1.astype(str)))},
        truth=None,
        refused=True,
        said="row 4",
    ),
    "mostly shares": Case(
        {"p.csv": event("probability", "outcome", words=P1**2)},
        truth=None,
        refused=True,
        said="no column of labels",
    ),
    "a forecast": Case(
        {"p.csv": event("probability", "outcome", date="2026-01-02", event_id=IDS)}, truth=EVENT
    ),
    "a forecast and its result": Case(
        {"p.csv": event("forecast", "resolved", date="2026-01-02")}, truth=EVENT
    ),
    "two outcomes": Case(
        {"p.csv": event(acc=np.roll(Y1, 1))},
        truth=EVENT,
        advised=True,
        others=(Truth(EVENT.probs, np.roll(Y1, 1)),),
    ),
    "two outcomes that agree": Case({"p.csv": event(acc=Y1)}, truth=EVENT),
    "two confidences": Case(
        {"p.csv": event(verbalized_confidence=RNG.random(N))}, truth=None, refused=True
    ),
    "a confidence beside a score": Case(
        {"p.csv": event().assign(score=RNG.random(N))}, truth=EVENT
    ),
    "a confidence, an answer and its truth": Case(
        {"p.csv": event(answer=RNG.choice(list("ABCD"), N), expected=RNG.choice(list("ABCD"), N))},
        truth=EVENT,
    ),
    "a confidence and a label of letters": Case(
        {
            "p.csv": event(
                target=RNG.choice(list("ABCD"), N), predicted=RNG.choice(list("ABCD"), N)
            )
        },
        truth=EVENT,
    ),
    "a confidence, an answer, a truth, no outcome": Case(
        {
            "p.csv": pd.DataFrame(
                {
                    "question": IDS,
                    "answer": RNG.choice(list("ABCD"), N),
                    "truth": RNG.choice(list("ABCD"), N),
                    "confidence": P1,
                }
            )
        },
        truth=None,
        refused=True,
        never=("question",),
    ),
    "a fold and a price": Case(
        {"p.csv": event(price=9.5 + RNG.random(N), fold=RNG.integers(0, 5, N))}, truth=EVENT
    ),
    "a cost below 1": Case({"p.csv": event(call_cost_usd=RNG.random(N) / 100)}, truth=EVENT),
    "tokens and latency": Case(
        {"p.csv": event(tokens=RNG.integers(9, 99, N), latency=RNG.random(N))}, truth=EVENT
    ),
    "a date as a number": Case({"p.csv": event(date=20260102 + np.arange(N))}, truth=EVENT),
    "a temperature": Case({"p.csv": event(temperature=0.7, seed=1)}, truth=EVENT),
    "boxes": Case({"p.csv": event("score", "matched", **BOX)}, truth=EVENT),
    "boxes with correct": Case({"p.csv": event("score", "correct", **BOX)}, truth=EVENT),
    "boxes without an outcome": Case(
        {"p.csv": pd.DataFrame({"image_id": IDS, **BOX, "score": P1})},
        truth=None,
        refused=True,
        never=("image_id", "'x'", "'w'", "'h'"),
    ),
    "only a price": Case(
        {"p.csv": pd.DataFrame({"product_id": range(N), "price": 9.5 + P1, "in_stock": Y1})},
        truth=None,
        refused=True,
        never=("product_id", "price", "in_stock"),
    ),
    "only a rating": Case(
        {"p.csv": pd.DataFrame({"user_id": range(N), "rating": RNG.integers(1, 6, N)})},
        truth=None,
        refused=True,
        never=("user_id", "rating"),
    ),
    "dates and flags": Case(
        {"p.csv": pd.DataFrame({"date": "2026-01-02", "dh": Y1, "season": 2022, "prob1": P1})},
        truth=None,
        refused=True,
        never=("date", "dh", "season"),
    ),
    "a longitude": Case(
        {"p.csv": pd.DataFrame({"lon": 9 + P1, "lat": 50 + P1, "is_open": Y1})},
        truth=None,
        refused=True,
        never=("lon", "lat", "is_open"),
    ),
    "a risk and what happened": Case(
        {"p.csv": pd.DataFrame({"patient": IDS, "risk_score": P1, "readmitted": Y1})},
        truth=EVENT,
        advised=True,
        said="no column.*readmitted.*which are the labels",
    ),
    "a probability and what happened": Case(
        {"p.csv": pd.DataFrame({"patient": IDS, "probability": P1, "readmitted": Y1})},
        truth=EVENT,
        advised=True,
        said="no column of labels",
    ),
    "a risk and two that happened": Case(
        {"p.csv": pd.DataFrame({"risk_score": P1, "readmitted": Y1, "died": np.roll(Y1, 1)})},
        truth=EVENT,
        advised=True,
        others=(Truth(EVENT.probs, np.roll(Y1, 1)),),
    ),
    "an amount beside the probability": Case(
        {"p.csv": pd.DataFrame({"amount": 100 * P1, "p_fraud": P1, "fraud": Y1})},
        truth=EVENT,
    ),
    "a duration beside the label": Case(
        {"p.csv": pd.DataFrame({"duration": 3 * P1, "label": Y1})},
        truth=None,
        refused=True,
        never=("duration",),
    ),
}


def test_a_prediction_is_not_compared_with_how_sure_it_is(tmp_path):
    write(tmp_path / "p.csv", event(pred=(P1 > 0.3).astype(int)))
    notes = read_predictions(tmp_path / "p.csv").notes
    assert not any("pred" in note for note in notes), notes


@pytest.mark.parametrize("name", CASES)
def test_events(tmp_path, name):
    CASES[name].check(tmp_path)


REPEATED = {
    "question": np.repeat(np.arange(300), 5),
    "patient_id": [f"p{i // 5}" for i in range(1500)],
    "image_id": np.repeat(np.arange(300), 5) + 1000,
    "video": [f"v{i % 300}" for i in range(1500)],
    "user": RNG.integers(0, 200, 1500),
    "doc_id": RNG.integers(0, 200, 1500),
    "Patient": RNG.integers(0, 200, 1500),
    "respondent": np.repeat(np.arange(300), 5),
    "session_uuid": [f"s{i // 3}" for i in range(1500)],
    "id": [f"x{i // 2}" for i in range(1500)],
    "ID": np.r_[np.arange(1450), np.arange(50)],
}


@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("kind", ["event", "classes"])
def test_a_column_that_repeats_ids_is_said(tmp_path, name, kind):
    p = RNG.random(1500)
    table = {"confidence": p, "correct": (RNG.random(1500) < p).astype(int)}
    if kind == "classes":
        table = {"prob_a": p, "prob_b": 1 - p, "y": np.where(RNG.random(1500) < p, "a", "b")}
    pd.DataFrame({name: REPEATED[name], **table}).to_csv(tmp_path / "p.csv", index=False)
    notes = [
        n for n in read_predictions(tmp_path / "p.csv", need_labels=True).notes if "--cluster" in n
    ]
    assert len(notes) == 1
    assert f"--cluster {name}" in notes[0]
    assert "in 1,500 rows" in notes[0]
    given = read_predictions(tmp_path / "p.csv", cluster=name, need_labels=True)
    assert not any("--cluster" in note for note in given.notes)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", np.arange(1500)),
        ("age", RNG.integers(18, 80, 1500)),
        ("model_id", RNG.integers(0, 3, 1500)),
        ("fold", RNG.integers(0, 5, 1500)),
        ("date", [f"2026-{i % 12 + 1:02d}-{i % 28 + 1:02d}" for i in range(1500)]),
        ("price", RNG.random(1500)),
        ("predicted_class", RNG.integers(0, 2, 1500)),
    ],
)
def test_other_columns_are_no_clusters(tmp_path, name, values):
    p = RNG.random(1500)
    table = {"confidence": p, "correct": (RNG.random(1500) < p).astype(int)}
    pd.DataFrame({name: values, **table}).to_csv(tmp_path / "p.csv", index=False)
    assert not any(
        "--cluster" in n for n in read_predictions(tmp_path / "p.csv", need_labels=True).notes
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize("ids", ["text", "numbers"])
def test_rows_without_a_cluster_are_no_cluster(tmp_path, suffix, ids):
    names = [None if i % 7 == 3 else (f"p{i // 3}" if ids == "text" else i // 3) for i in range(N)]
    table = pd.DataFrame({"confidence": P1, "correct": Y1, "patient": names})
    write(tmp_path / f"a.{suffix}", table)
    with pytest.raises(PredictionFileError, match=r"`patient` must name .* \(3, 10, 17, 24, 31"):
        read_predictions(tmp_path / f"a.{suffix}", cluster="patient")
    with pytest.raises(ValueError, match="first in row 3"):
        assess(P1, Y1, cluster=table["patient"])
