"""Labels of another file are matched by a column that names the rows in both."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions

N = 12
RNG = np.random.default_rng(0)
P = RNG.random(N).round(3)
Y = RNG.integers(2, size=N)
ORDER = RNG.permutation(N)
LONG = [str(9007199254740993 + i) for i in range(N)]


def _files(folder, ours, theirs, ids, *, more=("", "")):
    scores = [f"{ids[i]},{P[i]}{more[1]}" for i in range(N)]
    (folder / "p.csv").write_text(f"{ours},prob{more[0]}\n" + "\n".join(scores) + "\n")
    labels = [f"{ids[i]},{Y[i]}" for i in ORDER]
    (folder / "y.csv").write_text(f"{theirs},y\n" + "\n".join(labels) + "\n")
    return {"path": folder / "p.csv", "labels_path": folder / "y.csv"}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("image", "image"),
        ("customer", "customer"),
        ("PassengerId", "PassengerId"),
        ("ID", "id"),
        ("image_id", "image_id"),
        ("url", "page"),
    ],
)
@pytest.mark.parametrize("ids", [[f"x{i}" for i in range(N)], LONG], ids=["text", "long numbers"])
def test_shuffled_labels_find_their_rows(tmp_path, ours, theirs, ids):
    found = read_predictions(**_files(tmp_path, ours, theirs, ids))
    assert_array_equal(found.labels, Y)
    assert any("matched to the rows by" in note for note in found.notes)


def test_a_constant_column_is_no_key_and_order_is_said(tmp_path):
    (tmp_path / "p.csv").write_text("split,prob\nval,0.25\nval,0.5\nval,0.75\n")
    (tmp_path / "y.csv").write_text("split,y\nval,0\nval,1\nval,1\n")
    found = read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")
    assert_array_equal(found.labels, [0, 1, 1])
    assert "labels in y.csv are taken in the order of the rows" in found.notes


def test_an_id_that_is_given_is_never_replaced_by_the_order(tmp_path):
    options = _files(tmp_path, "name", "other", [f"x{i}" for i in range(N)])
    with pytest.raises(PredictionFileError, match="must have the column name too"):
        read_predictions(**options, id_column="name")


def test_a_missing_label_does_not_shift_the_rest(tmp_path):
    options = _files(tmp_path, "id", "id", [f"x{i}" for i in range(N)])
    labels = [f"x{i},{Y[i]}" for i in range(N) if i != 4]
    (tmp_path / "y.csv").write_text("id,y\n" + "\n".join([*labels, "x99,1"]) + "\n")
    with pytest.raises(PredictionFileError, match="no label for row 4"):
        read_predictions(**options)


@pytest.mark.parametrize("copied", ["part-1.csv", "part-0 (copy).csv"])
def test_the_same_file_twice_is_refused_by_name(tmp_path, copied):
    for name in ("part-0.csv", copied):
        (tmp_path / name).write_text("cat,dog,label\n0.25,0.75,dog\n")
    with pytest.raises(PredictionFileError, match="are the same table"):
        read_predictions(tmp_path)
