import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions


@pytest.fixture
def pair(tmp_path, logits, labels):
    np.save(tmp_path / "val_logits.npy", logits)
    np.save(tmp_path / "val_labels.npy", labels)
    return tmp_path / "val_logits.npy", tmp_path / "val_labels.npy"


def test_pair(pair, logits, labels):
    found = read_predictions(pair[0], labels_path=pair[1], need_labels=True)
    assert_array_equal(found.scores, logits)
    assert_array_equal(found.labels, labels)
    assert found.kind == "logits"
    assert (found.labels_source, found.labels_checksum) == (
        pair[1],
        hashlib.sha256(pair[1].read_bytes()).hexdigest(),
    )


def test_kind_is_said_by_input_or_the_name(tmp_path, probs):
    path = tmp_path / "val.npy"
    np.save(path, probs)
    assert read_predictions(path).kind == "probs"  # every row sums to 1
    np.save(path, probs + 1)
    with pytest.raises(
        PredictionFileError, match=r"never guessed\. Pass `input='logits'` .*--inp"
    ):
        read_predictions(path)
    np.save(path, probs)
    assert read_predictions(path, input="probs").kind == "probs"
    named = path.rename(tmp_path / "test-probs.npy")
    assert read_predictions(named).kind == "probs"


def test_labels_are_needed_from_another_file(pair):
    with pytest.raises(PredictionFileError, match=r"has no array of labels .*--labels labels.npy"):
        read_predictions(pair[0], need_labels=True)


@pytest.mark.parametrize("header", ["", "y\n", "label\n"])
def test_labels_may_be_in_a_file_of_another_format(pair, tmp_path, labels, header):
    path = tmp_path / "y.txt"
    path.write_text(header + "".join(f"{y}\n" for y in labels))
    assert_array_equal(read_predictions(pair[0], labels_path=path).labels, labels)


def labels_beside(tmp_path, text, **options):
    (tmp_path / "p.csv").write_text("id,prob_a,prob_b\nx,0.5,0.5\ny,0.1,0.9\nz,0.2,0.8\n")
    (tmp_path / "y.csv").write_text(text)
    return read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv", **options)


def test_labels_in_another_order_are_matched_by_id(tmp_path):
    found = labels_beside(tmp_path, "id,label\nz,a\nw,a\nx,b\ny,a\n")
    assert found.labels.tolist() == [1, 0, 0]
    assert 'labels are matched to the rows by "id"' in found.notes
    assert "labels in y.csv that belong to no row: 1" in found.notes
    in_order = labels_beside(tmp_path, "id,label\nx,b\ny,a\nz,a\n")
    assert in_order.labels.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,label\nz,a\nx,b\n", r'y\.csv: .* "id" differs, .* no label for row 1 \(0-based\)'),
        (
            "id,label\nx,b\nx,a\nz,a\ny,a\n",
            r"is not unique, and labels of one name differ\. Sort",
        ),
        ("id,label\nx,b\ny,a\n", r"no label for row 2"),
    ],
    ids=["one is missing", "one is there twice", "too few"],
)
def test_rows_of_a_labels_file_must_be_those_of_the_scores(tmp_path, text, message):
    with pytest.raises(PredictionFileError, match=message):
        labels_beside(tmp_path, text)


def test_two_names_of_rows_that_disagree(tmp_path):
    (tmp_path / "p.csv").write_text("id,file,prob_a,prob_b\n1,u,0.5,0.5\n2,v,0.1,0.9\n")
    (tmp_path / "y.csv").write_text("id,file,y\n1,v,0\n2,u,1\n")
    with pytest.raises(PredictionFileError, match=r'columns "id", "file" match them in diff'):
        read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")


def test_errors_about_labels_name_their_file(pair):
    np.save(pair[1], np.zeros(31, int))
    with pytest.raises(PredictionFileError, match=r"val_labels\.npy: .*more labels than rows: 31"):
        read_predictions(pair[0], labels_path=pair[1])
    with pytest.raises(PredictionFileError, match=r"gone\.npy: does not exist"):
        read_predictions(pair[0], labels_path=pair[0].with_name("gone.npy"))


def test_labels_of_another_file_come_before_those_inside(npz, pair):
    np.save(pair[1], np.full(30, 2))
    found = read_predictions(npz(), labels_path=pair[1], need_labels=True)
    assert found.labels.tolist() == [2] * 30


def test_truncated(pair):
    pair[0].write_bytes(pair[0].read_bytes()[:-10])
    with pytest.raises(
        PredictionFileError, match=r"truncated: its header promises 360 .* 350 are"
    ):
        read_predictions(pair[0])


def test_damaged_text(pair):
    np.save(pair[1], np.full(30, "a"))
    pair[1].write_bytes(pair[1].read_bytes()[:-1] + b"\xff")
    with pytest.raises(
        PredictionFileError, match=r"`val_labels` is damaged: .*Write the file again"
    ):
        read_predictions(pair[0], labels_path=pair[1])


def test_object_array(tmp_path):
    path = tmp_path / "logits.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(PredictionFileError, match=r"object array, which is stored as a pickle"):
        read_predictions(path)


@given(raw=st.binary(max_size=200))
def test_random_bytes_are_refused_by_no_other_error(tmp_path_factory, raw):
    path = tmp_path_factory.mktemp("fuzz") / "logits.npy"
    for start in (b"", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\x40\x00{'descr': "):
        path.write_bytes(start + raw)
        with pytest.raises(PredictionFileError):
            read_predictions(path)


def test_characters_beyond_unicode_are_refused(tmp_path):
    """Python reads them into a string, and fails only when that is used."""
    names = np.array(["cat", "dog"])
    names.view(np.uint32)[1] = 0x110000
    np.savez(tmp_path / "a.npz", probs=np.full((3, 2), 0.5), labels=[0, 1, 1], class_names=names)
    with pytest.raises(PredictionFileError, match=r"`class_names` is damaged: .*beyond Unicode"):
        read_predictions(tmp_path / "a.npz")
