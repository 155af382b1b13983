import numpy as np
import pytest

from focalibrate.io import PredictionFileError, read_predictions


def labelled(labels, at, value, dtype=None):
    changed = labels.astype(dtype or labels.dtype)
    changed[at] = value
    return changed


@pytest.mark.parametrize("dtype", ["i1", "i8", "u8", "f4", "f8", ">i2"])
def test_any_number_dtype(npz, labels, dtype):
    found = read_predictions(npz(labels=labels.astype(dtype))).labels
    assert found.dtype == np.int64
    assert found.tolist() == labels.tolist()


def test_a_column_and_booleans(npz, labels):
    assert read_predictions(npz(labels=labels[:, None])).labels.tolist() == labels.tolist()
    assert read_predictions(npz(labels=labels > 1)).labels.tolist() == (labels > 1).tolist()


@pytest.mark.parametrize("dtype", ["U", "S"])
def test_text_by_class_names(npz, labels, dtype):
    names = np.array(["cat", "dog", "ox"], dtype)
    found = read_predictions(npz(labels=names[labels], class_names=names))
    assert found.labels.tolist() == labels.tolist()
    assert found.class_names == ("cat", "dog", "ox")
    assert found.layout.labels_as == "name"


def test_integers_of_an_npz_are_positions_whatever_the_names(npz, labels):
    found = read_predictions(npz(class_names=np.array(["2", "1", "0"])))
    assert found.labels.tolist() == labels.tolist()


def test_text_without_names(npz, labels):
    with pytest.raises(
        PredictionFileError,
        match=r"are text \('a', 'b', 'c'\), and nothing says "
        r"which column.*`class_names=\['a', 'b', 'c'\]` \(command line: --class-names a,b,c\)",
    ):
        read_predictions(npz(labels=np.array(list("abc"))[labels]))


def test_unknown_name(npz, labels):
    text = labelled(np.array(list("abc"))[labels], [6, 8], "z")
    with pytest.raises(
        PredictionFileError,
        match=r"those in 2 rows \(6, 8; 0-based\) are not: "
        r"found 'z', the classes are a, b, c\. Correct",
    ):
        read_predictions(npz(labels=text, class_names=np.array(list("abc"))))


def test_out_of_range(npz, labels):
    with pytest.raises(
        PredictionFileError,
        match=r"must lie in \[0, 2\] for 3 classes, but those "
        r"in 2 rows \(4, 9; 0-based\) do not; found 0 to 7\. Number",
    ):
        read_predictions(npz(labels=labelled(labels, [4, 9], 7)))
    with pytest.raises(
        PredictionFileError, match=r"is -1 in row 4 .0-based.*`df = df\[df\['labels'\] >= 0\]`"
    ):
        read_predictions(npz(labels=labelled(labels, 4, -1)))
    with pytest.raises(PredictionFileError, match=r"those in row 0 .0-based. do not"):
        read_predictions(npz(labels=labelled(labels, 0, 2**63, "u8")))


@pytest.mark.parametrize("value", [0.5, np.inf, 1e300])
def test_not_whole(npz, labels, value):
    with pytest.raises(
        PredictionFileError,
        match=r"must be whole numbers, but those in row 4 \(0-based\) "
        rf"are not; found {value!r}\. Save".replace("+", r"\+"),
    ):
        read_predictions(npz(labels=labelled(labels, 4, value, "f8")))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (31, r"there are more labels than rows: 31 labels, 30 rows\. Check that both come"),
        (29, r"there are fewer labels than rows: 29 labels, 30 rows"),
        ((30, 3), r"shape \[30\], got \(30, 3\), and is not one-hot\. Save `labels\.argmax"),
        ((30, 2), r"must have shape \[30\], got \(30, 2\)"),
    ],
)
def test_shapes(npz, shape, text):
    with pytest.raises(PredictionFileError, match=text):
        read_predictions(npz(labels=np.zeros(shape, int)))
