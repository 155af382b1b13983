"""Tables of two classes, most with one column of scores."""

import numpy as np
import pytest
from tests.unit.io.exports.tables import P2, S2, TEXT2, Y2, Export, N, binary, csv, pd, text

EXPORTS = {
    "binary, headers 0 and 1, no index": Export("a.csv", csv(pd.DataFrame(P2), index=False), P2),
    "boolean classes": Export(
        "a.csv",
        csv(pd.DataFrame(P2, columns=[False, True]).assign(y=Y2 == 1), index=False),
        P2,
        Y2,
        ("False", "True"),
    ),
    "H2O": Export(
        "a.csv",
        csv(
            pd.DataFrame({"predict": P2.argmax(1), "p0": P2[:, 0], "p1": P2[:, 1], "y": Y2}),
            index=False,
        ),
        P2,
        Y2,
    ),
    "the label named after the outcome": Export(
        "a.csv",
        csv(pd.DataFrame({"churn": np.array(["No", "Yes"])[Y2], "churn_probability": P2[:, 1]})),
        P2,
        Y2,
        ("No", "Yes"),
    ),
    "the label is_churn": Export(
        "a.csv",
        csv(pd.DataFrame({"ID": 7 + np.arange(N), "IS_CHURN": Y2, "CHURN_PROBABILITY": P2[:, 1]})),
        P2,
        Y2,
    ),
    "the score named after the outcome": Export(
        "a.csv", csv(pd.DataFrame({"default": Y2, "prob_default": P2[:, 1]})), P2, Y2
    ),
    "one probability column": Export("a.csv", csv(binary, index=False), P2, Y2),
    "one probability column and the index": Export("a.csv", csv(binary), P2, Y2),
    "y_score in [0, 1]": Export("a.csv", csv(binary.rename(columns={"prob": "y_score"})), P2, Y2),
    "p": Export("a.csv", csv(binary.rename(columns={"prob": "p"})), P2, Y2),
    "prob_1": Export("a.csv", csv(binary.rename(columns={"prob": "prob_1"})), P2, Y2),
    "prob_0 alone": Export("a.csv", csv(pd.DataFrame({"y": Y2, "prob_0": P2[:, 0]})), P2, Y2),
    "probability of a named class": Export(
        "a.csv",
        csv(pd.DataFrame({"y": TEXT2, "prob_malignant": P2[:, 1]})),
        P2,
        Y2,
        ("benign", "malignant"),
    ),
    "labels -1 and 1": Export(
        "a.csv", csv(pd.DataFrame({"y": 2 * Y2 - 1, "prob": P2[:, 1]})), P2, Y2, ("-1", "1")
    ),
    "labels no and yes": Export(
        "a.csv",
        csv(pd.DataFrame({"y": np.array(["no", "yes"])[Y2], "prob": P2[:, 1]})),
        P2,
        Y2,
        ("no", "yes"),
    ),
    "margins": Export(
        "a.csv", csv(pd.DataFrame({"label": Y2, "margin": S2})), np.stack([0 * S2, S2], 1), Y2
    ),
    "one row": Export(
        "a.csv",
        text("label,cat,dog\ndog,0.25,0.75\n"),
        np.array([[0.25, 0.75]]),
        np.array([1]),
        ("cat", "dog"),
    ),
    "a column called as one of two labels": Export(
        "a.csv",
        csv(pd.DataFrame({"truth": TEXT2, "malignant": P2[:, 1]}), index=False),
        P2,
        Y2,
        ("benign", "malignant"),
    ),
    "abbreviated classes": Export(
        "a.csv",
        csv(
            pd.DataFrame(P2, columns=["neg", "pos"]).assign(
                label=np.array(["negative", "positive"])[Y2]
            ),
            index=False,
        ),
        P2,
        Y2,
        ("neg", "pos"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_it_is_read_at_the_first_try(tmp_path, name):
    EXPORTS[name].check(tmp_path)
