"""Which columns are the classes, and in which order; two models in one file."""

import json
import unicodedata

import numpy as np
import pytest
from tests.unit.io.tricky.cases import (
    EVENT,
    NAMES,
    OTHER,
    P1,
    RNG,
    WORDS,
    Y1,
    Case,
    N,
    P,
    Truth,
    Y,
    Z,
    logits,
    pd,
    probs,
    write,
)

from focalibrate.io import align, read_predictions

X1, X2 = RNG.normal(size=(2, N))
SOIL = {"sand": OTHER[:, 0], "silt": OTHER[:, 1], "clay": OTHER[:, 2]}
ZO = np.log(OTHER) + RNG.normal(size=(N, 1))
OTHER_MODEL = Truth(OTHER, Y, NAMES)
ARRAYS, OTHER_ARRAYS = Truth(P, Y), Truth(OTHER, Y)
BARE = pd.DataFrame(Z, columns=list(NAMES))
YESNO = np.where(Y1 == 1, "yes", "no")
LOGITS = {"input": "logits"}


def named(array, names, **more):
    return pd.DataFrame(array, columns=list(names)).assign(**more)


def apart(text):
    """Return text as macOS stores names of files: letters and accents apart."""
    return unicodedata.normalize("NFD", text)


ACCENTS = ("café", "été", "Straße")
SIGNS = (("-", "+"), ("нет", "да"), ("阴性", "阳性"), ("όχι", "ναι"), ("não", "sim"))

CASES = {
    **{
        f"the only column is of {negative if is_negative else positive}": Case(
            {
                "p.csv": pd.DataFrame(
                    {
                        f"prob_{negative}" if is_negative else f"prob_{positive}": (
                            1 - P1 if is_negative else P1
                        ),
                        "y": np.where(Y1 == 1, positive, negative),
                    }
                )
            },
            truth=Truth(EVENT.probs, Y1, (negative, positive)),
        )
        for negative, positive in SIGNS
        for is_negative in (False, True)
    },
    **{
        f"the only column is of class 0: {name}": Case(
            {"p.csv": pd.DataFrame({name: 1 - P1, "y": Y1})}, truth=EVENT
        )
        for name in (
            "0_prob",
            "class0_prob",
            "class_0_probability",
            "y0_prob",
            "prob_of_0",
            "p(y=0)",
            "P(class=0)",
        )
    },
    **{
        f"the only column is of a class that is no: {name}": Case(
            {"p.csv": pd.DataFrame({name: 1 - P1, "y": Y1})},
            truth=EVENT,
            advised=True,
            others=(Truth(EVENT.probs[:, ::-1], Y1),),
            said="nothing says which of the labels 0, 1",
        )
        for name in ("neg_prob", "negative_probability", "no_prob", "not_fraud_probability")
    },
    **{
        f"the positive class stands first: {first}, {second}": Case(
            {"p.csv": pd.DataFrame({first: P1, second: 1 - P1, "y": Y1})},
            truth=Truth(EVENT.probs, Y1, (second, first)),
            said=f"1 = {first}",
        )
        for first, second in (
            ("yes_prob", "no_prob"),
            ("true_prob", "false_prob"),
            ("pos_score", "neg_score"),
        )
    },
    "spam before ham, with the word after them, and is_spam": Case(
        {"p.csv": pd.DataFrame({"spam_prob": P1, "ham_prob": 1 - P1, "is_spam": Y1})},
        truth=Truth(EVENT.probs, Y1, ("ham_prob", "spam_prob")),
        said="1 = spam_prob",
    ),
    **{
        f"a no-show is an event: {name}, {label}": Case(
            {"p.csv": pd.DataFrame({name: P1, label: Y1})}, truth=EVENT
        )
        for name, label in (
            ("no_show_prob", "no_show"),
            ("no_show_prob", "y"),
            ("prob_no_show", "y"),
        )
    },
    "accents that macOS stores apart": Case(
        {"p.csv": named(P, ACCENTS, y=[apart(ACCENTS[i]) for i in Y])},
        truth=Truth(P, Y, ACCENTS),
    ),
    "sharp s in capitals": Case(
        {"p.csv": named(P, ACCENTS, y=[ACCENTS[i].upper() for i in Y])},
        truth=Truth(P, Y, ACCENTS),
    ),
    # order
    "classes in another order, names": Case(
        {"p.csv": probs(y=WORDS)[["prob_ox", "prob_cat", "prob_dog", "y"]]}
    ),
    "classes in another order, numbers": Case(
        {"p.csv": probs(y=Y)[["prob_ox", "prob_cat", "prob_dog", "y"]]},
        truth=Truth(P[:, [2, 0, 1]], Y, ("ox", "cat", "dog")),
        said="0 = ox",
    ),
    "the probability of no": Case(
        {"p.csv": pd.DataFrame({"prob_no": 1 - P1, "y": YESNO})},
        truth=Truth(EVENT.probs, Y1, ("no", "yes")),
    ),
    "fraud before not fraud, numbers": Case(
        {"p.csv": named(EVENT.probs[:, ::-1], ["prob_fraud", "prob_not_fraud"], y=Y1)},
        truth=Truth(EVENT.probs, Y1, ("not_fraud", "fraud")),
        said="1 = fraud",
    ),
    "spam before ham, numbers": Case(
        {"p.csv": named(EVENT.probs[:, ::-1], ["spam", "ham"], y=Y1)},
        truth=None,
        warned=True,
        said="the higher the score of a class, the rarer it is",
    ),
    "the probability of healthy, 1 for the ill": Case(
        {"p.csv": pd.DataFrame({"prob_healthy": 1 - P1, "y": Y1})},
        truth=None,
        warned=True,
        said="the rarer it is",
    ),
    "the probability of no, numbers": Case(
        {"p.csv": pd.DataFrame({"prob_no": 1 - P1, "y": Y1})},
        truth=None,
        refused=True,
        said="positive",
    ),
    "the probability of false, numbers": Case(
        {"p.csv": pd.DataFrame({"p_false": 1 - P1, "y": Y1})}, truth=None, refused=True
    ),
    "the probability of 0": Case(
        {"p.csv": pd.DataFrame({"prob_0": 1 - P1, "y": Y1})}, truth=EVENT
    ),
    "the probability of negative, numbers": Case(
        {"p.csv": pd.DataFrame({"prob_negative": 1 - P1, "y": Y1})}, truth=None, refused=True
    ),
    "the probability of class 0, by word": Case(
        {"p.csv": pd.DataFrame({"prob_class_0": 1 - P1, "y": Y1})}, truth=EVENT
    ),
    "the probability of class 1, by word": Case(
        {"p.csv": pd.DataFrame({"prob_class1": P1, "y": Y1})}, truth=EVENT
    ),
    "the probability of not": Case(
        {"p.csv": pd.DataFrame({"prob_not_fraud": 1 - P1, "label": Y1})},
        truth=EVENT,
        advised=True,
        others=(Truth(EVENT.probs[:, ::-1], Y1),),
        said="not_fraud",
    ),
    "the probability of non": Case(
        {"p.csv": pd.DataFrame({"p_non_default": 1 - P1, "label": Y1})},
        truth=None,
        refused=True,
        said="non_default",
    ),
    "the probability of a named class, numbers": Case(
        {"p.csv": pd.DataFrame({"prob_benign": P1, "label": Y1})}, truth=EVENT, said="1 = benign"
    ),
    # ranks
    "ranks after a prefix": Case(
        {"p.csv": named(-np.sort(-P), ["prob_top1", "prob_top2", "prob_top3"], label=Y)},
        truth=None,
        refused=True,
        said="by rank",
    ),
    "ranks called as classes": Case(
        {"p.csv": named(-np.sort(-P), ["p1", "p2", "p3"], label=Y + 1)},
        truth=None,
        warned=True,
        said="fall from the first class",
    ),
    "ranks in an array": Case(
        {"p.npz": {"probs": -np.sort(-P), "labels": Y}}, truth=None, warned=True
    ),
    "one prediction for all": Case(
        {"p.npz": {"probs": np.tile([0.5, 0.3, 0.2], (N, 1)), "labels": Y}},
        truth=Truth(np.tile([0.5, 0.3, 0.2], (N, 1)), Y),
    ),
    # rows that are none
    "a row of totals": Case(
        {"p.csv": pd.concat([probs(y=WORDS), probs(y=WORDS).sum().to_frame().T])},
        refused=True,
        said="The others do",
        never=("logits",),
    ),
    # parts
    "parts that overlap": Case(
        {"parts/a.csv": probs(y=WORDS)[:40], "parts/b.csv": probs(y=WORDS)[10:]},
        truth=None,
        warned=True,
        said="30 rows are in more than one part",
    ),
    "two models as parts": Case(
        {
            "parts/a.csv": probs(y=WORDS),
            "parts/b.csv": named(OTHER, [f"prob_{n}" for n in NAMES], y=WORDS),
        },
        truth=None,
        warned=True,
        said="focalibrate compare",
    ),
    "parts of few distinct scores": Case(
        {
            "parts/a.csv": pd.DataFrame({"prob": P1.round(1), "y": Y1})[:30],
            "parts/b.csv": pd.DataFrame({"prob": P1.round(1), "y": Y1})[30:],
        },
        truth=Truth(np.stack([1 - P1.round(1), P1.round(1)], 1), Y1),
    ),
    "yes before no": Case(
        {"p.csv": pd.DataFrame({"prob_yes": P1, "prob_no": 1 - P1, "y": YESNO})},
        truth=Truth(EVENT.probs, Y1, ("no", "yes")),
    ),
    "yes before no, numbers": Case(
        {"p.csv": pd.DataFrame({"prob_yes": P1, "prob_no": 1 - P1, "y": Y1})},
        truth=Truth(EVENT.probs, Y1, ("no", "yes")),
    ),
    # features beside logits
    "a feature before logits, numbers": Case(
        {"p.csv": pd.concat([pd.DataFrame({"x1": X1}), BARE.assign(y=Y)], axis=1)},
        options=LOGITS,
        refused=True,
        said="x1",
    ),
    "a feature after logits, numbers": Case(
        {"p.csv": BARE.assign(x1=X1, y=Y)}, options=LOGITS, refused=True, said="x1"
    ),
    "two features before logits, numbers": Case(
        {"p.csv": pd.concat([pd.DataFrame({"x1": X1, "x2": X2}), BARE.assign(y=Y)], axis=1)},
        options=LOGITS,
        refused=True,
        said="x1",
    ),
    "a feature before logits, names": Case(
        {"p.csv": pd.concat([pd.DataFrame({"x1": X1}), BARE.assign(y=WORDS)], axis=1)},
        options=LOGITS,
        said="x1",
    ),
    "a feature before logits, names, no kind": Case(
        {"p.csv": pd.concat([pd.DataFrame({"x1": X1}), BARE.assign(y=WORDS)], axis=1)},
        refused=True,
        said="x1",
    ),
    "a feature before numbered logits": Case(
        {"p.csv": pd.concat([pd.DataFrame({"x1": X1}), pd.DataFrame(Z).assign(y=Y)], axis=1)},
        truth=ARRAYS,
        options=LOGITS,
    ),
    "a feature before logits with a prefix": Case({"p.csv": logits(x1=X1, y=Y)}),
    "a price before logits": Case(
        {"p.csv": pd.concat([pd.DataFrame({"price": 9 + X1}), BARE.assign(y=WORDS)], axis=1)},
        options=LOGITS,
    ),
    "logits without a kind": Case({"p.csv": BARE.assign(y=WORDS)}, advised=True, said="never"),
    # a mixture beside logits
    "a mixture beside logits, names": Case(
        {"p.csv": BARE.assign(**SOIL, y=WORDS)}, refused=True, said="sand|cat"
    ),
    "a mixture beside logits, numbers": Case(
        {"p.csv": BARE.assign(**SOIL, y=Y)}, refused=True, said="sand"
    ),
    "a mixture before logits, numbers": Case(
        {"p.csv": pd.DataFrame({**SOIL}).join(BARE).assign(y=Y)}, refused=True, said="sand"
    ),
    "a mixture beside logits, names, kind given": Case(
        {"p.csv": BARE.assign(**SOIL, y=WORDS)}, options=LOGITS
    ),
    "a mixture beside logits, numbers, kind given": Case(
        {"p.csv": BARE.assign(**SOIL, y=Y)}, options=LOGITS, refused=True, said="sand"
    ),
    "a mixture beside logits with a prefix": Case({"p.csv": logits(**SOIL, y=WORDS)}),
    "a mixture beside probabilities, names": Case(
        {"p.csv": named(P, NAMES, **SOIL, y=WORDS)}, said=""
    ),
    "a mixture beside probabilities, numbers": Case(
        {"p.csv": named(P, NAMES, **SOIL, y=Y)}, truth=None, refused=True, said="Say which"
    ),
    "a mixture beside one probability": Case(
        {"p.csv": pd.DataFrame({**SOIL, "prob": P1, "y": Y1})}, truth=EVENT, refused=True
    ),
    "a mixture with three labels of its own": Case(
        {"p.csv": pd.DataFrame({**SOIL, "y": np.array(["sand", "silt", "clay"])[Y]})},
        truth=Truth(OTHER, Y, ("sand", "silt", "clay")),
    ),
    # two models
    "logits and probabilities of one model": Case({"p.csv": logits(y=WORDS).join(probs())}),
    "logits and probabilities of two models": Case(
        {"p.csv": logits(y=WORDS).join(named(OTHER, [f"prob_{n}" for n in NAMES]))},
        advised=True,
        others=(OTHER_MODEL,),
        said="logit_cat.*prob_cat",
    ),
    "logits and calibrated probabilities": Case(
        {
            "p.csv": logits(y=WORDS).join(
                named(P**0.5 / (P**0.5).sum(axis=1, keepdims=True), [f"prob_{n}" for n in NAMES])
            )
        },
        advised=True,
        others=(Truth(P**0.5 / (P**0.5).sum(axis=1, keepdims=True), Y, NAMES),),
    ),
    "rounded probabilities of the same model": Case(
        {"p.csv": logits(y=WORDS).join(named(P.round(3), [f"prob_{n}" for n in NAMES]))}
    ),
    "logits and probabilities in another order": Case(
        {"p.csv": logits(y=WORDS).join(probs()[["prob_ox", "prob_dog", "prob_cat"]])}
    ),
    "logits and probabilities of other classes": Case(
        {"p.csv": logits(y=WORDS).join(named(OTHER, ["prob_red", "prob_blue", "prob_green"]))},
        refused=True,
        said="prob_red",
    ),
    "two models, the kind given": Case(
        {"p.csv": logits(y=WORDS).join(named(OTHER, [f"prob_{n}" for n in NAMES]))},
        truth=OTHER_MODEL,
        options={"input": "probs"},
    ),
    "two models by words": Case(
        {"p.csv": probs(y=WORDS).join(named(OTHER, [f"p_{n}" for n in NAMES]))},
        advised=True,
        others=(OTHER_MODEL,),
        said="Say which",
    ),
    "two models by a longer prefix": Case(
        {
            "p.csv": named(P, [f"a_prob_{n}" for n in NAMES], y=WORDS).join(
                named(OTHER, [f"b_prob_{n}" for n in NAMES])
            )
        },
        truth=None,
        refused=True,
        said="Say which",
    ),
    "two models by a suffix": Case(
        {
            "p.csv": named(P, [f"prob_{n}_a" for n in NAMES], y=WORDS).join(
                named(OTHER, [f"prob_{n}_b" for n in NAMES])
            )
        },
        truth=None,
        refused=True,
    ),
    **{
        f"two models, the other called {before}cat": Case(
            {"p.csv": probs(y=WORDS).join(named(OTHER, [f"{before}{n}" for n in NAMES]))},
            advised=True,
            others=(OTHER_MODEL,),
            said="could be the classes: prob_cat, prob_dog, prob_ox; ",
        )
        for before in ("calibrated_prob_", "raw_", "score_", "")
    },
    "the same probabilities twice": Case({"p.csv": probs(y=WORDS).join(named(P, NAMES))}),
    "two models of one event": Case(
        {"p.csv": pd.DataFrame({"prob_a": P1, "prob_b": OTHER[:, 0], "y": Y1})},
        truth=EVENT,
        advised=True,
        others=(Truth(np.stack([1 - OTHER[:, 0], OTHER[:, 0]], 1), Y1),),
    ),
    "two models of one event, other words": Case(
        {"p.csv": pd.DataFrame({"prob": P1, "probability": OTHER[:, 0], "y": Y1})},
        truth=EVENT,
        advised=True,
        others=(Truth(np.stack([1 - OTHER[:, 0], OTHER[:, 0]], 1), Y1),),
    ),
    "a probability and a logit of one event that differ": Case(
        {"p.csv": pd.DataFrame({"prob": P1, "logit": X1, "y": Y1})},
        truth=EVENT,
        advised=True,
        others=(Truth(np.stack([1 / (1 + np.exp(X1)), 1 / (1 + np.exp(-X1))], 1), Y1),),
        said="prob.*logit",
    ),
    "a probability and its logit": Case(
        {"p.csv": pd.DataFrame({"prob": P1, "logit": np.log(P1 / (1 - P1)), "y": Y1})},
        truth=EVENT,
    ),
    "a probability and a score of one event that differ": Case(
        {"p.csv": pd.DataFrame({"prob": P1, "score": OTHER[:, 0], "y": Y1})},
        truth=EVENT,
        advised=True,
        others=(Truth(np.stack([1 - OTHER[:, 0], OTHER[:, 0]], 1), Y1),),
        said="prob, score",
    ),
    "a probability and a score of one model": Case(
        {"p.csv": pd.DataFrame({"prob": P1, "score": P1**2, "y": Y1})},
        truth=EVENT,
        said='not read as scores: "score"',
    ),
    "arrays of two models, one of the usual name": Case(
        {"p.npz": {"logits": Z, "logits_ema": ZO, "labels": Y}},
        truth=ARRAYS,
        said='not read as scores: "logits_ema"',
    ),
    "arrays of two models": Case(
        {"p.npz": {"logits": Z, "probs": OTHER, "labels": Y}},
        truth=ARRAYS,
        advised=True,
        others=(OTHER_ARRAYS,),
        said="logits.*probs",
    ),
    "arrays of one model": Case({"p.npz": {"logits": Z, "probs": P, "labels": Y}}, truth=ARRAYS),
    "arrays of two models by name": Case(
        {"p.npz": {"logits_a": Z, "logits_b": ZO, "labels": Y}},
        truth=ARRAYS,
        advised=True,
        others=(OTHER_ARRAYS,),
    ),
    "arrays of two models, the key given": Case(
        {"p.npz": {"logits": Z, "probs": OTHER, "labels": Y}},
        truth=OTHER_ARRAYS,
        options={"probs_key": "probs"},
    ),
    "an ensemble of three": Case(
        {"p.csv": pd.DataFrame({f"prob_{i}": OTHER[:, i] for i in range(3)}).assign(y=Y)},
        truth=OTHER_ARRAYS,
    ),
    "predictions of two models in lists": Case(
        {
            "p.jsonl": pd.DataFrame(
                {"probs_a": P.tolist(), "probs_b": OTHER.tolist(), "label": Y.tolist()}
            )
        },
        truth=ARRAYS,
        advised=True,
        others=(OTHER_ARRAYS,),
    ),
    "two models, one below the other": Case(
        {
            "v.csv": pd.concat(
                pd.DataFrame({"id": range(N), "model": m, "prob": q, "y": Y1})
                for m, q in (("a", P1), ("b", P1**2))
            )
        },
        truth=None,
        warned=True,
        said=r"one row per \"model\" \(a, b\).*keep the rows of one: `df\[df\['model'\] == 'a'\]",
    ),
    "one class against the others, one below the other": Case(
        {
            "v.csv": pd.DataFrame(
                {
                    "image_id": np.repeat(np.arange(N), 3),
                    "class_name": list(NAMES) * N,
                    "prob": P.ravel(),
                    "y": (np.arange(3) == Y[:, None]).astype(int).ravel(),
                }
            )
        },
        truth=None,
        warned=True,
        said='one row per "class_name".*df.pivot',
    ),
    "logarithms to base 10": Case(
        {"v.csv": pd.DataFrame(np.log10(P), columns=[f"log_prob_{n}" for n in NAMES]).assign(y=Y)},
        truth=None,
        warned=True,
        said="to base 10; if so, multiply them by 2.30259",
    ),
    "a p value beside the probability": Case(
        {"v.csv": pd.DataFrame({"p_value": P1[::-1], "prob": P1, "y": Y1})}, truth=EVENT
    ),
    "a little more than 1, as of float32": Case(
        {"v.csv": pd.DataFrame({"prob": np.r_[1.0000001, P1[1:]], "y": Y1})},
        truth=Truth(np.stack([1 - np.r_[1, P1[1:]], np.r_[1, P1[1:]]], axis=1), Y1),
    ),
    "a score from 0 to 100": Case(
        {"v.csv": pd.DataFrame({"score": 100 * P1, "y": Y1})},
        truth=EVENT,
        advised=True,
        others=(Truth(1 / (1 + np.exp(100 * np.stack([P1, -P1], axis=1))), Y1),),
    ),
    "names in one word, with capitals": Case(
        {"v.csv": pd.DataFrame({"CustomerID": range(900, 900 + N), "yTrue": Y1, "yProb": P1})},
        truth=EVENT,
    ),
    "PassengerId beside the only score": Case(
        {"v.csv": pd.DataFrame({"PassengerId": range(900, 900 + N), "Survived": P1, "y": Y1})},
        truth=EVENT,
        advised=True,
        others=(Truth(1 / (1 + np.exp(-np.stack([-P1, P1], axis=1))), Y1),),
        never=("PassengerId",),
    ),
    "no header, a label and a probability": Case(
        {"v.csv": "\n".join(f"{y},{p}" for y, p in zip(Y1, P1, strict=True))},
        truth=EVENT,
        advised=True,
    ),
    "spreads of the probabilities": Case(
        {"v.csv": probs(label=WORDS, **{f"prob_{n}_std": 0.01 for n in NAMES})}, advised=True
    ),
    "Vertex AI sorts each row by confidence": Case(
        {
            "v.jsonl": "\n".join(
                json.dumps(
                    {
                        "label": WORDS[i],
                        "prediction": {
                            "displayNames": [NAMES[k] for k in np.argsort(-P[i])],
                            "confidences": sorted(P[i].tolist(), reverse=True),
                        },
                    }
                )
                for i in range(N)
            )
        }
    ),
    **{
        f"{kind} beside the classes": Case({"v.parquet": probs(label=WORDS, kept=values)})
        for kind, values in {
            "images": [b"\xff\xd8\xff"] * N,
            "lists with gaps": [[1, 2], None, [0.5, 1]] * (N // 3),
            "lists of several lengths": [[1.0] * (i % 3) for i in range(N)],
        }.items()
    },
    "Spark's vectors": Case(
        {
            "v.parquet": pd.DataFrame(
                {
                    "probability": [
                        {"type": 1, "size": None, "indices": None, "values": list(p)} for p in P
                    ],
                    "label": Y.astype(float),
                }
            )
        },
        truth=Truth(P, Y),
    ),
    "Spark's sparse vectors": Case(
        {
            "v.parquet": pd.DataFrame(
                {
                    "probability": [
                        {"type": 0, "size": 3, "indices": [0, 1], "values": [0.5, 0.5]} for _ in P
                    ],
                    "label": Y.astype(float),
                }
            )
        },
        refused=True,
        said="vector_to_array",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_which_classes(tmp_path, name):
    CASES[name].check(tmp_path)


def test_a_calibrator_finds_its_classes_however_accents_are_stored(tmp_path):
    write(tmp_path / "p.csv", named(P[:, ::-1], [f"prob_{apart(n)}" for n in ACCENTS[::-1]]))
    found = align(read_predictions(tmp_path / "p.csv"), ACCENTS)
    assert found.class_names == ACCENTS
    np.testing.assert_allclose(found.scores, P)
