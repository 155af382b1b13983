"""Columns and files that people name as they like, read at the first try."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions

pd = pytest.importorskip("pandas")

RNG = np.random.default_rng(4)
NAMES = np.array(["cat", "dog", "ox"])
P = RNG.dirichlet(np.full(3, 0.7), 80)
Y = RNG.integers(0, 3, 80)
HIT = RNG.integers(0, 2, 80)


@pytest.mark.parametrize("name", ["pred", "yhat", "prediction", "oof_pred", "y_score", "oof"])
def test_fractions_in_a_column_of_predictions_are_probabilities(tmp_path, name):
    path = tmp_path / "a.csv"
    pd.DataFrame({"fold": Y, name: P[:, 0], "actual": HIT}).to_csv(path, index=False)
    found = read_predictions(path)
    assert_allclose(found.scores[:, 1], P[:, 0])
    assert_array_equal(found.labels, HIT)
    assert any("if these are margins" in note for note in found.notes)


@pytest.mark.parametrize("prefix", ["output_", "score_", "pred_"])
def test_numbered_scores_are_classes(tmp_path, prefix):
    path = tmp_path / "a.csv"
    logits = np.log(P)
    pd.DataFrame(logits).add_prefix(prefix).assign(y_true=Y).to_csv(path, index=False)
    with pytest.raises(PredictionFileError, match="hold logits or probabilities") as caught:
        read_predictions(path)
    assert caught.value.fixes == ({"input": "logits"},)
    assert_allclose(read_predictions(path, input="logits").scores, logits)


@pytest.mark.parametrize(
    "above",
    [
        "# model 3\n# validation, 80 rows\ncat,dog,ox,label\n",
        "# model 3\n\n# cat,dog,ox,label\n",
        "# cat,dog,ox,label\n",
        "#\ncat,dog,ox,label\n",
    ],
)
def test_comments_above_the_table(tmp_path, above):
    path = tmp_path / "a.csv"
    table = pd.DataFrame(P, columns=NAMES).assign(label=NAMES[Y])
    path.write_text(above + table.to_csv(index=False, header=False))
    found = read_predictions(path)
    assert found.class_names == tuple(NAMES)
    assert_allclose(found.scores, P)
    assert_array_equal(found.labels, Y)


def test_only_comments(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("# nothing\n# yet\n")
    with pytest.raises(PredictionFileError, match="holds only comments"):
        read_predictions(path)


@pytest.mark.parametrize("key", ["classes", "class_names", "target_names"])
def test_class_names_beside_the_columns_of_json(tmp_path, key):
    path = tmp_path / "a.json"
    document = {"predictions": P.tolist(), "labels": NAMES[Y].tolist(), key: NAMES.tolist()}
    path.write_text(json.dumps(document))
    found = read_predictions(path)
    assert found.class_names == tuple(NAMES)
    assert_allclose(found.scores, P)
    assert_array_equal(found.labels, Y)
