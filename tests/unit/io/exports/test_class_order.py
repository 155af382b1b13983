"""Labels that are numbers: which class each of them means."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.unit.io.exports.tables import P2, P3, Y2, Y3, Export, csv, lines, npz, numbered, pd

from focalibrate.io import PredictionFileError, read_predictions, scan_predictions

LABELS3 = ["LABEL_0", "LABEL_1", "LABEL_2"]
SORTED = np.argsort(-P3, axis=1)
RARE = Y3 != 2


def pipeline(names, truth):
    """A Hugging Face pipeline's output for each row, sorted by score."""
    return lines(
        {"pred": [{"label": names[j], "score": p[j]} for j in order], "label": y}
        for p, order, y in zip(P3, SORTED, truth, strict=True)
    )


READS = {
    "a pipeline's LABEL_0, each row sorted": Export(
        "a.jsonl", pipeline(LABELS3, Y3.tolist()), P3, Y3, LABELS3
    ),
    "numbered columns out of order": Export(
        "a.csv",
        csv(pd.DataFrame(P3[:, [2, 0, 1]], columns=["out2", "out0", "out1"]).assign(y=Y3)),
        P3,
        Y3,
        ["out0", "out1", "out2"],
    ),
    "V1, V2, V3 with labels from 1, of which the last is absent": Export(
        "a.csv",
        csv(pd.DataFrame(P3[RARE], columns=["V1", "V2", "V3"]).assign(y=Y3[RARE] + 1)),
        P3[RARE],
        Y3[RARE],
        ["V1", "V2", "V3"],
    ),
    "labels from 1, of which the first is absent": Export(
        "a.npz", npz(probs=P3[Y3 > 0], labels=Y3[Y3 > 0] + 1), P3[Y3 > 0], Y3[Y3 > 0]
    ),
    "labels from 0, of which the first and the last are absent": Export(
        "a.csv", csv(numbered[Y3 == 1].assign(label=1), index=False), P3[Y3 == 1], Y3[Y3 == 1]
    ),
    "yes before no": Export(
        "a.csv",
        csv(pd.DataFrame({"yes": P2[:, 1], "no": P2[:, 0], "label": Y2})),
        P2,
        Y2,
        ["no", "yes"],
    ),
    "prob_pos before prob_neg": Export(
        "a.csv",
        csv(pd.DataFrame({"prob_pos": P2[:, 1], "prob_neg": P2[:, 0], "label": Y2})),
        P2,
        Y2,
        ["neg", "pos"],
    ),
    "True before False": Export(
        "a.csv",
        csv(pd.DataFrame({"True": P2[:, 1], "False": P2[:, 0], "label": Y2})),
        P2,
        Y2,
        ["False", "True"],
    ),
}


@pytest.mark.parametrize("name", READS)
def test_it_is_read_at_the_first_try(tmp_path, name):
    READS[name].check(tmp_path)


def test_numbers_do_not_mean_classes_that_each_row_lists_in_another_order(tmp_path):
    names = ["cat", "dog", "owl"]
    path = tmp_path / "a.jsonl"
    pipeline(names, Y3.tolist())(path)
    with pytest.raises(PredictionFileError, match="nothing says which number") as caught:
        read_predictions(path)
    (fix,) = caught.value.fixes
    found = read_predictions(path, **fix)
    assert_allclose(found.scores, P3)
    assert_array_equal(found.labels, Y3)
    assert found.class_names == tuple(names)


def test_labels_from_1_are_so_in_every_part(tmp_path):
    """Sorted by class, the first part does not show that the numbers begin at 1."""
    order = np.argsort(Y3, kind="stable")
    half = len(order) // 3
    for name, rows in (("a.csv", order[:half]), ("b.csv", order[half:])):
        table = pd.DataFrame(P3[rows], columns=["x", "y.1", "z"]).assign(label=Y3[rows] + 1)
        table.to_csv(tmp_path / name, index=False)
    scan = scan_predictions([tmp_path / "a.csv", tmp_path / "b.csv"])
    found = np.concatenate([batch.labels for batch in scan.batches()])
    assert_array_equal(found, Y3[order])


def test_predictions_are_numbered_as_the_labels_are(tmp_path):
    top = np.minimum(P3.argmax(axis=1), 1)  # the last class is never predicted
    rows = P3.argmax(axis=1) < 2
    table = pd.DataFrame(P3, columns=["a", "b", "c"]).assign(y=Y3 + 1, y_pred=top + 1)
    table[rows | (Y3 == 2)].to_csv(tmp_path / "a.csv", index=False)
    wrong = int((~rows & (Y3 == 2)).sum()) / int((rows | (Y3 == 2)).sum())
    notes = read_predictions(tmp_path / "a.csv").notes
    assert next(n for n in notes if "differs" in n).endswith(
        f"in {wrong:.1%} of the rows: check the order of the classes, or the threshold"
    )
