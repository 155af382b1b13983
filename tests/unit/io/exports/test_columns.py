"""Tables with a column per class: the index, the headers and the labels as tools write them."""

import numpy as np
import pytest
from tests.unit.io.exports.tables import (
    AGE,
    CLASSES3,
    NAMES3,
    P3,
    P12,
    TEXT3,
    Y3,
    Export,
    N,
    csv,
    frame3,
    numbered,
    pd,
    rows,
    text,
)

SORTED = sorted(f"prob_{i}" for i in range(12))

EXPORTS = {
    "pandas with its index": Export("a.csv", csv(numbered.assign(label=Y3)), P3, Y3),
    "pandas without index": Export("a.csv", csv(numbered, index=False), P3),
    "pandas with index, numbers only": Export("a.csv", csv(numbered), P3),
    "classes_ as columns": Export("a.csv", csv(frame3(y_true=TEXT3), index=False), P3, Y3, NAMES3),
    "classes_ and index": Export("a.csv", csv(frame3(y_true=TEXT3)), P3, Y3, NAMES3),
    "reset_index": Export(
        "a.csv", csv(frame3(target=TEXT3).reset_index(), index=False), P3, Y3, NAMES3
    ),
    "reset_index twice": Export(
        "a.csv", csv(frame3(target=TEXT3).reset_index().reset_index(), index=False), P3, Y3, NAMES3
    ),
    "float classes": Export(
        "a.csv",
        csv(pd.DataFrame(P3, columns=[1.0, 2.0, 3.0]).assign(y=Y3 + 1.0), index=False),
        P3,
        Y3,
        ("1.0", "2.0", "3.0"),
    ),
    "classes from 3 to 5": Export(
        "a.csv",
        csv(pd.DataFrame(P3, columns=[3, 4, 5]).assign(gt=Y3 + 3), index=False),
        P3,
        Y3,
        ("3", "4", "5"),
    ),
    "ids, predictions and confidence besides": Export(
        "a.csv",
        csv(
            frame3(
                y_true=TEXT3,
                y_pred=np.array(NAMES3)[P3.argmax(1)],
                confidence=P3.max(1),
                image_id=np.arange(N) + 100,
            ),
            index=False,
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "numbers labelled by position": Export(
        "a.csv", csv(frame3(label=Y3), index=False), P3, Y3, NAMES3
    ),
    "features beside the classes": Export(
        "a.csv",
        csv(
            pd.concat(
                [
                    pd.DataFrame({"age": AGE, "f": P3[:, 0]}),
                    frame3(y=TEXT3),
                ],
                axis=1,
            ),
            index=False,
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "prob_ prefix": Export(
        "a.csv",
        csv(pd.DataFrame(P3, columns=[f"prob_{n}" for n in NAMES3]).assign(label=TEXT3, note="x")),
        P3,
        Y3,
        NAMES3,
    ),
    "proba_ with numbers": Export(
        "a.csv",
        csv(pd.DataFrame(P3, columns=[f"proba_{i}" for i in range(3)]).assign(label=Y3)),
        P3,
        Y3,
    ),
    "kaggle": Export(
        "sub.csv",
        csv(pd.DataFrame(P3, columns=[f"prob_{i}" for i in range(3)]).assign(id=range(7, 7 + N))),
        P3,
    ),
    "P(class) headers": Export(
        "a.csv",
        csv(pd.DataFrame(P3, columns=[f"P({n})" for n in NAMES3]).assign(actual=TEXT3)),
        P3,
        Y3,
        NAMES3,
    ),
    "tidymodels": Export(
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=[f".pred_{n}" for n in NAMES3]).assign(
                **{".pred_class": np.array(NAMES3)[P3.argmax(1)], "truth": TEXT3}
            ),
            index=False,
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "KNIME": Export(
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=[f"P (group={n})" for n in NAMES3]).assign(
                **{"Prediction (group)": np.array(NAMES3)[P3.argmax(1)], "class": TEXT3}
            ),
            index=False,
        ),
        P3,
        Y3,
        NAMES3,
    ),
    "class_ prefix": Export(
        "a.csv",
        csv(pd.DataFrame(P3, columns=["class_0", "class_1", "class_2"]).assign(y=Y3)),
        P3,
        Y3,
    ),
    "class_ in the names of classes": Export(
        "a.csv",
        csv(pd.DataFrame(P3, columns=CLASSES3).assign(target=np.array(CLASSES3)[Y3])),
        P3,
        Y3,
        CLASSES3,
    ),
    "caret's saved predictions": Export(
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=CLASSES3).assign(
                pred=np.array(CLASSES3)[P3.argmax(1)], obs=np.array(CLASSES3)[Y3], Resample="Fold1"
            )
        ),
        P3,
        Y3,
        CLASSES3,
    ),
    "columns sorted as text": Export(
        "a.csv",
        csv(pd.DataFrame(P12, columns=SORTED)),
        P12[:, [SORTED.index(f"prob_{i}") for i in range(12)]],
    ),
    "a class without a name": Export(
        "a.csv",
        text(rows("label,a,,c", [(Y3[i], *P3[i]) for i in range(N)])),
        P3,
        Y3,
        ("a", "Unnamed: 2", "c"),
    ),
    "labels known by their values": Export(
        "a.csv", csv(frame3(group=TEXT3, city="x"), index=False), P3, Y3, NAMES3
    ),
    "labels from 1 beside named columns": Export(
        "a.csv", csv(frame3(y=Y3 + 1), index=False), P3, Y3, NAMES3
    ),
    "names that R made valid": Export(
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=["not.spam", "very.spam", "spam"]).assign(
                truth=np.array(["not spam", "very spam", "spam"])[Y3]
            )
        ),
        P3,
        Y3,
        ("not.spam", "very.spam", "spam"),
    ),
    "SAS": Export(
        "a.csv",
        csv(
            pd.DataFrame(P3, columns=["P_targetcat", "P_targetdog", "P_targetfox"]).assign(
                F_target=np.array(["cat", "dog", "fox"])[Y3]
            ),
            index=False,
        ),
        P3,
        Y3,
        ("cat", "dog", "fox"),
    ),
    "100 classes": Export(
        "a.csv",
        csv(
            pd.DataFrame(
                np.full((3, 100), 0.01), columns=[f"n{i:03d}" for i in range(100)]
            ).assign(label=["n007", "n099", "n000"])
        ),
        np.full((3, 100), 0.01),
        np.array([7, 99, 0]),
        tuple(f"n{i:03d}" for i in range(100)),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_it_is_read_at_the_first_try(tmp_path, name):
    EXPORTS[name].check(tmp_path)
