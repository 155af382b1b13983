"""Which column is the label, and what its numbers mean."""

import numpy as np
import pytest
from tests.unit.io.tricky.cases import (
    NAMES,
    OTHER,
    RNG,
    WORDS,
    Case,
    N,
    P,
    Truth,
    Y,
    Z,
    logits,
    pd,
    probs,
)

TOP = np.array(NAMES)[P.argmax(axis=1)]
FEATURE = RNG.integers(0, 3, N)
SHOP = np.array(["food", "toys", "books"])[FEATURE]
TWO = np.array(["benign", "malignant"])[(P[:, 0] > 0.4).astype(int)]
PAIR = pd.DataFrame({"prob_benign": 1 - P[:, 0], "prob_malignant": P[:, 0]})
PAIR_TRUTH = Truth(np.stack([1 - P[:, 0], P[:, 0]], 1), (TWO == "malignant").astype(int))
MALIGNANT = (TWO == "malignant").astype(int)
WRONG = Truth(P, FEATURE, NAMES)
ARRAYS = Truth(P, Y)


def noisy(values):
    """Return labels of which some are other than the predicted class."""
    return np.where(RNG.random(N) < 0.3, np.roll(values, 1), values)


def missing(values, value, rows=(4, 9)):
    changed = np.array(values)
    changed[list(rows)] = value
    return changed


CASES = {
    # a feature that is called as labels are
    **{
        f"{name} of shops beside {label}": Case(
            {"p.csv": probs(**{name: SHOP, label: WORDS})}, said=label
        )
        for name in ("category", "class", "target", "outcome", "reference")
        for label in ("diagnosis", "species", "animal")
    },
    **{
        f"{name} of numbers beside {label}": Case(
            {"p.csv": probs(**{name: FEATURE, label: WORDS})},
            advised=True,
            others=(WRONG,),
            said="could be the labels",
        )
        for name in ("category", "class", "target", "outcome")
        for label in ("diagnosis", "species")
    },
    "a class of passengers beside a diagnosis": Case(
        {"p.csv": PAIR.assign(**{"class": FEATURE % 2, "diagnosis": TWO})},
        truth=PAIR_TRUTH,
        advised=True,
        others=(Truth(PAIR_TRUTH.probs, FEATURE % 2),),
        said="could be the labels",
    ),
    "numbers of the same classes": Case({"p.csv": probs(label=Y, species=WORDS)}),
    "two names of the same labels": Case({"p.csv": probs(y=WORDS, species=WORDS)}),
    # the predicted class, called as labels are
    "predicted class called class": Case(
        {"p.csv": probs(**{"class": TOP})}, truth=None, warned=True, said="highest score"
    ),
    "predicted class called label": Case(
        {"p.csv": probs(label=P.argmax(axis=1))}, truth=None, warned=True, said="highest score"
    ),
    "predicted class in an array": Case(
        {"p.npz": {"probs": P, "labels": P.argmax(axis=1)}}, truth=None, warned=True
    ),
    "predicted class of logits": Case(
        {"p.csv": logits(**{"class": TOP})}, truth=None, warned=True, said="highest score"
    ),
    "predicted class beside the label": Case(
        {"p.csv": probs(**{"class": TOP, "y_true": WORDS})},
        advised=True,
        others=(Truth(P, P.argmax(axis=1), NAMES),),
        said="could be the labels",
    ),
    "predicted class beside the diagnosis": Case(
        {"p.csv": probs(**{"class": TOP, "diagnosis": WORDS})},
        advised=True,
        others=(Truth(P, P.argmax(axis=1), NAMES),),
        said="could be the labels",
    ),
    "predicted class and label by name": Case({"p.csv": probs(predicted_class=TOP, label=WORDS)}),
    # arrays of several splits
    "labels of another split": Case(
        {"p.npz": {"val_logits": Z, "test_labels": Y}},
        truth=None,
        refused=True,
        said="test_labels",
    ),
    "labels of another split, the other way": Case(
        {"p.npz": {"logits_test": Z, "labels_val": Y}}, truth=None, refused=True, said="labels_val"
    ),
    "labels of another split, probabilities": Case(
        {"p.npz": {"probs_val": P, "y_train": Y}}, truth=None, refused=True, said="y_train"
    ),
    "labels of the same split": Case(
        {"p.npz": {"val_logits": Z, "val_labels": Y, "test_labels": np.roll(Y, 1)}}, truth=ARRAYS
    ),
    "labels of the same split, short": Case({"p.npz": {"z_val_logits": Z, "y_val": Y}}, ARRAYS),
    "labels without a split": Case({"p.npz": {"val_logits": Z, "labels": Y}}, truth=ARRAYS),
    "scores without a split": Case({"p.npz": {"logits": Z, "y_val": Y}}, truth=ARRAYS),
    "columns of another split": Case(
        {"p.csv": probs(train_label=np.roll(WORDS, 1), val_label=WORDS)},
        truth=None,
        refused=True,
        said="could be the labels|Say which",
    ),
    # numbers of missing labels
    "-1 is missing, from 1": Case(
        {"p.csv": logits(y=missing(Y + 1, -1))}, refused=True, said="-1.*missing"
    ),
    "-1 is missing, from 1, in arrays": Case(
        {"p.npz": {"logits": Z, "labels": missing(Y + 1, -1)}}, refused=True, said="-1.*missing"
    ),
    "-1 is missing, from 0": Case(
        {"p.npz": {"logits": Z, "labels": missing(Y, -1)}}, refused=True, said="-1.*missing"
    ),
    "-1 is missing, first and last class never": Case(
        {"p.npz": {"logits": Z, "labels": missing(np.ones(N, int), -1)}},
        refused=True,
        said="-1.*missing",
    ),
    "99 is missing": Case(
        {"p.npz": {"logits": Z, "labels": missing(Y, 99)}}, refused=True, said="99"
    ),
    "nan is missing": Case(
        {"p.npz": {"logits": Z, "labels": missing(Y.astype(float), np.nan)}},
        refused=True,
        said="missing",
    ),
    "an empty cell is missing": Case(
        {"p.csv": probs(y=missing(WORDS.astype(object), ""))}, refused=True, said="missing"
    ),
    "-1 and 1 are two classes": Case(
        {"p.csv": PAIR[["prob_malignant"]].assign(y=np.where(TWO == "malignant", 1, -1))},
        truth=PAIR_TRUTH,
    ),
    # where the numbers begin
    "from 1": Case({"p.npz": {"logits": Z, "labels": Y + 1}}, truth=ARRAYS, said="from 1"),
    "from 1, last class never": Case(
        {"p.npz": {"logits": Z, "labels": np.minimum(Y + 1, 2)}}, truth=None, warned=True
    ),
    "from 0, first class never": Case(
        {"p.npz": {"logits": np.c_[Z, Z[:, 0] - 9], "labels": np.maximum(Y, 1)}},
        truth=None,
        warned=True,
    ),
    "parts from 1 and from 0": Case(
        {
            "parts/p0.npz": {"logits": Z[:30], "labels": Y[:30] + 1},
            "parts/p1.npz": {"logits": Z[30:], "labels": Y[30:]},
        },
        truth=ARRAYS,
        refused=True,
        said="from 1|from 0",
    ),
    "parts from 0 and from 1": Case(
        {
            "parts/p0.npz": {"logits": Z[:30], "labels": Y[:30]},
            "parts/p1.npz": {"logits": Z[30:], "labels": Y[30:] + 1},
        },
        truth=ARRAYS,
        refused=True,
    ),
    "parts from 1 and from 2": Case(
        {
            "parts/p0.npz": {"logits": Z[:30], "labels": Y[:30] + 1},
            "parts/p1.npz": {"logits": Z[30:], "labels": Y[30:] + 2},
        },
        truth=ARRAYS,
        refused=True,
    ),
    "npy parts from 1 and from 2": Case(
        {
            "parts/logits-0.npy": Z[:30],
            "parts/labels-0.npy": Y[:30] + 1,
            "parts/logits-1.npy": Z[30:],
            "parts/labels-1.npy": Y[30:] + 2,
        },
        truth=ARRAYS,
        refused=True,
    ),
    "npy parts from 1, one without the last class": Case(
        {
            "parts/logits-0.npy": Z[:30],
            "parts/labels-0.npy": np.minimum(Y[:30], 1) + 1,
            "parts/logits-1.npy": Z[30:],
            "parts/labels-1.npy": Y[30:] + 1,
        },
        truth=Truth(P, np.r_[np.minimum(Y[:30], 1), Y[30:]]),
    ),
    "a label in a part that no other has": Case(
        {
            "parts/a.csv": probs(y=WORDS)[:30],
            "parts/b.csv": probs(y=np.where(WORDS == "ox", "cow", WORDS))[30:],
        },
        refused=True,
        said="cow",
    ),
    # no labels at all
    "only features": Case(
        {"p.csv": probs(age=RNG.integers(18, 80, N), city=RNG.choice(["a", "b"], N))},
        refused=True,
        never=("age", "city"),
    ),
    "only a prediction": Case(
        {"p.csv": probs(y_pred=TOP)}, refused=True, said="no column of labels", never=("y_pred",)
    ),
    "only ids and flags": Case(
        {"p.csv": probs(image_id=range(N), is_test=1, date="2026-01-02", price=9.5)},
        refused=True,
        never=("image_id", "is_test", "date", "price"),
    ),
    "a mixture is no label": Case(
        {"p.csv": probs(sand=OTHER[:, 0], silt=OTHER[:, 1], clay=OTHER[:, 2], soil=WORDS)}
    ),
    "numbers in another order than the names beside them": Case(
        {"v.csv": probs(label=np.array([2, 0, 1])[Y], label_name=WORDS)}
    ),
    **{
        f"1 means the first class: {name}": Case(
            {
                "p.csv": pd.DataFrame(
                    {"prob_malignant": P[:, 0], "prob_benign": 1 - P[:, 0], name: values}
                )
            },
            truth=PAIR_TRUTH,
            said="" if values.dtype == bool else "1 = malignant",
            options=options,
        )
        for name, values, options in (
            ("is_malignant", MALIGNANT, {}),
            ("malignant", MALIGNANT == 1, {}),
            ("Malignant_true", MALIGNANT, {"label_column": "Malignant_true"}),
        )
    },
    "numbers of classes that no column is called after": Case(
        {"p.csv": PAIR.assign(is_benignant=MALIGNANT)},
        truth=PAIR_TRUTH,
        said="1 = malignant",
        options={"label_column": "is_benignant"},
    ),
    "one column per class": Case(
        {"v.csv": pd.get_dummies(probs(label=WORDS), columns=["label"])},
        refused=True,
        said=r"needed. With pandas: .*removeprefix\('label_'\)",
        never=("label_cat",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_which_labels(tmp_path, name):
    CASES[name].check(tmp_path)
