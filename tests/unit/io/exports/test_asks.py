"""Exports that end in an error: its options work, or it says what to change."""

import numpy as np
import pytest
from tests.unit.io.exports.tables import (
    AGE,
    NAMES3,
    P2,
    P3,
    S2,
    TEXT2,
    TEXT3,
    Y2,
    Y3,
    Z3,
    Export,
    N,
    csv,
    frame3,
    npz,
    pd,
    rows,
    savetxt,
)

from focalibrate.io import PredictionFileError, read_predictions

ASKS = {
    "logits without a prefix": Export(
        "a.csv", csv(pd.DataFrame(Z3, columns=NAMES3).assign(y=TEXT3), index=False), Z3, Y3, NAMES3
    ),
    "logits with an index": Export(
        "a.csv", csv(pd.DataFrame(Z3, columns=NAMES3).assign(y=TEXT3)), Z3, Y3, NAMES3
    ),
    "decision function": Export(
        "a.csv",
        csv(pd.DataFrame({"y_true": Y2, "y_score": S2}), index=False),
        np.stack([0 * S2, S2], 1),
        Y2,
    ),
    "xgboost margins": Export(
        "a.csv",
        csv(pd.DataFrame({"y": Y2, "output": S2}), index=False),
        np.stack([0 * S2, S2], 1),
        Y2,
    ),
    "percent": Export(
        "a.csv",
        csv(pd.DataFrame(100 * P3, columns=NAMES3).assign(y=TEXT3), index=False),
        P3,
        Y3,
        NAMES3,
    ),
    "one percent column": Export(
        "a.csv", csv(pd.DataFrame({"y": Y2, "probability": 100 * P2[:, 1]}), index=False), P2, Y2
    ),
    "text labels, one column": Export(
        "a.csv",
        csv(pd.DataFrame({"y": TEXT2, "prob": 1 - P2[:, 1]}), index=False),
        P2[:, ::-1],
        1 - Y2,
        ("malignant", "benign"),
    ),
    "a maximum under another name": Export(
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=[f"prob_{n}" for n in NAMES3]).assign(
                prob_best=P3.max(1), y=TEXT3
            ),
            index=False,
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "text labels of an npz": Export("a.npz", npz(probs=P3, labels=TEXT3), P3, Y3, NAMES3),
    "missing scores": Export(
        "a.csv",
        csv(
            pd.DataFrame(np.where(np.arange(N)[:, None] == 4, np.nan, P3), columns=NAMES3).assign(
                y=TEXT3
            ),
            index=False,
        ),
        np.delete(P3, 4, 0),
        np.delete(Y3, 4),
        NAMES3,
    ),
    "two models": Export(
        "a.csv",
        csv(
            pd.concat(
                [
                    pd.DataFrame(P2, columns=["a no", "a yes"]),
                    pd.DataFrame(P2[:, ::-1], columns=["b no", "b yes"]),
                ],
                axis=1,
            ).assign(y=Y2),
            index=False,
        ),
        P2,
        None,
        ("a no", "a yes"),
    ),
    "two splits": Export(
        "a.npz", npz(val_logits=Z3, val_labels=Y3, test_logits=Z3 + 1, test_labels=Y3), Z3, Y3
    ),
    "an unknown encoding": Export(
        "a.csv",
        lambda path: path.write_bytes(
            rows(
                "y,prob_café,prob_thé,prob_eau",
                [(["café", "thé", "eau"][Y3[i]], *P3[i]) for i in range(N)],
            ).encode("cp1252")
        ),
        P3,
        Y3,
        ("café", "thé", "eau"),
    ),
    "an array of no known name": Export("a.npz", npz(foo=Z3, labels=Y3), Z3, Y3),
    "labels of no known name": Export(
        "a.csv", csv(frame3(diagnosis=Y3), index=False), P3, Y3, NAMES3
    ),
    "labels without a header": Export("a.csv", savetxt(np.c_[P3, Y3], delimiter=","), P3, Y3),
    "whole-number features and logits": Export(
        "a.csv",
        csv(
            pd.DataFrame(Z3, columns=NAMES3).assign(age=AGE, y=TEXT3),
            index=False,
        ),
        Z3,
        Y3,
        NAMES3,
    ),
}


@pytest.mark.parametrize("name", ASKS)
def test_ends_in_a_message_whose_options_work(tmp_path, name):
    export = ASKS[name]
    path = export.write(tmp_path)
    options = {"need_labels": True}
    with pytest.raises(PredictionFileError) as caught:
        read_predictions(path, **options)
    assert caught.value.fixes, caught.value
    assert "\n" not in str(caught.value)
    options |= caught.value.fixes[0]
    export.compare(read_predictions(path, **options))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame(P3, columns=pd.MultiIndex.from_product([["prob"], NAMES3])),
            r"two rows of names .* `df\.columns = ",
        ),
        (
            pd.DataFrame(
                {
                    "id": np.repeat(np.arange(N), 3),
                    "class": np.tile(NAMES3, N),
                    "prob": P3.ravel(),
                    "y_true": np.repeat(TEXT3, 3),
                }
            ),
            r"one row per example and class \(3 rows for each \"id\"\).*df\.pivot\(index='id'",
        ),
        (
            pd.DataFrame(
                {
                    "true_label": TEXT3,
                    "predicted_label": np.array(NAMES3)[P3.argmax(1)],
                    "confidence": P3.max(1),
                }
            ),
            r"only the probability of the predicted class \(\"confidence\"\), but those of all",
        ),
        (
            pd.DataFrame(-np.sort(-P3), columns=["top1_prob", "top2_prob", "top3_prob"]).assign(
                label=TEXT3, top1_class=np.array(NAMES3)[P3.argmax(1)]
            ),
            r"by rank \(\"top1_prob\", \.\.\.\), each row in an order of its own",
        ),
        (
            pd.DataFrame(
                np.c_[P3, np.eye(3)[Y3].astype(int)], columns=[*"abc", "ta", "tb", "tc"]
            ).astype(dict.fromkeys(("ta", "tb", "tc"), int)),
            r"labels in 3 columns of 0 and 1, ta, tb, tc; .*\.to_numpy\(\)\.argmax\(axis=1\)",
        ),
    ],
    ids=[
        "two levels of columns",
        "one row per example and class",
        "the top class alone",
        "by rank",
        "one-hot labels",
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, frame, message):
    frame.to_csv(tmp_path / "a.csv")
    with pytest.raises(PredictionFileError, match=message):
        read_predictions(tmp_path / "a.csv", need_labels=True)
