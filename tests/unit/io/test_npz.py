import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions


def test_arrays_come_back_as_they_were(npz, logits, labels):
    found = read_predictions(npz(class_names=np.array(["a", "b", "c"])))
    assert_array_equal(found.scores, logits)
    assert_array_equal(found.labels, labels)
    assert found.scores.dtype == np.float32
    assert found.labels.dtype == np.int64
    assert (found.kind, found.class_names) == ("logits", ("a", "b", "c"))
    assert (found.n_rows, found.n_classes) == (30, 3)


@pytest.mark.parametrize(
    ("dtype", "read_as"),
    [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), (">f4", "f4"), ("i4", "f8"), ("u1", "f8")],
)
def test_dtype_of_scores(npz, logits, dtype, read_as):
    stored = np.abs(logits).astype(dtype)
    found = read_predictions(npz(logits=stored))
    assert found.scores.dtype == np.dtype(read_as)
    assert_array_equal(found.scores, stored)


def test_fortran_order_and_compression(tmp_path, logits, labels):
    path = tmp_path / "val.npz"
    np.savez_compressed(path, logits=np.asfortranarray(logits), labels=labels)
    assert_array_equal(read_predictions(path).scores, logits)


def test_logits_come_before_probs_unless_input_says(npz, logits, probs):
    path = npz(probs=probs)
    assert read_predictions(path).kind == "logits"
    found = read_predictions(path, input="probs")
    assert found.kind == "probs"
    assert_array_equal(found.scores, probs)


def test_keys_by_name(npz, logits, probs, labels):
    path = npz(logits=None, labels=None, z=logits, p=probs, t=labels)
    assert read_predictions(path, logits_key="z", labels_key="t").kind == "logits"
    assert read_predictions(path, probs_key="p").labels is None
    assert read_predictions(path, logits_key="z", probs_key="p", input="probs").kind == "probs"


def test_error_shows_how_to_name_the_array(npz, logits):
    path = npz(logits=None, val_logits=logits, test_logits=logits)
    with pytest.raises(PredictionFileError) as caught:
        read_predictions(path)
    assert str(caught.value) == (
        f"{path}: has 2 arrays that could be the scores: val_logits, test_logits. Say "
        "which. Pass `logits_key='val_logits'` (command line: --logits-key val_logits) or "
        "`logits_key='test_logits'` (command line: --logits-key test_logits)."
    )
    assert caught.value.fixes == ({"logits_key": "val_logits"}, {"logits_key": "test_logits"})


@pytest.mark.parametrize(
    ("arrays", "options", "text"),
    [
        (
            {"logits": None, "x": np.zeros((30, 3))},
            {},
            r"whether \"x\" holds logits or probabilities .*`input='logits'`",
        ),
        (
            {},
            {"logits_key": "z"},
            r"`logits_key` must name an array .* got 'z'; it holds `logits`",
        ),
        (
            {},
            {"labels_key": "z"},
            r"`labels_key` must name a column, got 'z'; the columns are logits, lab",
        ),
        ({}, {"input": "probs"}, r"must be probabilities, but numbers below 0 .*--input logits"),
        ({"labels": None}, {"need_labels": True}, r"has no array of labels .*--labels labels.npy"),
        (
            {"labels": None, "group": np.zeros(30, int)},
            {"need_labels": True},
            r"Pass `labels_key='group'`",
        ),
        ({"logits": np.array([{}, 1])}, {}, r"`logits` is an object array, .* a pickle can run"),
        ({"labels": np.array([None, 1])}, {}, r"`labels` is an object array"),
        ({"class_names": np.array([4, 5, 6])}, {}, r"found '0', '1', '2', the classes are 4, 5"),
        ({"class_names": np.array(["a", "b"])}, {}, r"got 2 names for 3 classes"),
        (
            {"class_names": np.array(["a", "b", "a"])},
            {},
            r"must differ, but a occurs more than once",
        ),
        ({"logits": np.zeros((0, 3))}, {}, r"`logits` is empty or damaged: shape \(0, 3\)"),
        (
            {"logits": np.zeros((30, 3), complex)},
            {},
            r"`logits` must hold numbers, got dtype comp",
        ),
        (
            {"logits": np.full((30, 3), "x")},
            {},
            r"`logits` must hold numbers, but holds values of another",
        ),
    ],
)
def test_bad_arrays(npz, arrays, options, text):
    path = npz(**arrays)
    with pytest.raises(PredictionFileError, match=text) as caught:
        read_predictions(path, **options)
    assert str(caught.value).startswith(f"{path}: ")


def test_not_a_zip(tmp_path):
    path = tmp_path / "val.npz"
    path.write_bytes(b"\x7fELF")
    with pytest.raises(PredictionFileError, match=r"is not an \.npz file: it begins with b'\\x7f"):
        read_predictions(path)


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.99])
def test_truncated(npz, keep):
    path = npz()
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep)])
    with pytest.raises(PredictionFileError, match=r"is truncated or damaged \(.*Copy it again"):
        read_predictions(path)


def test_flipped_byte_of_the_data_is_found(npz):
    path = npz()
    raw = bytearray(path.read_bytes())
    raw[300] ^= 1
    path.write_bytes(raw)
    with pytest.raises(PredictionFileError, match=r"truncated or damaged \(Bad CRC-32"):
        read_predictions(path)


def test_header_that_promises_too_much(tmp_path, npz):
    path = npz()
    with zipfile.ZipFile(path) as good:
        raw = good.read("logits.npy").replace(b"(30, 3)", b"(99, 3)")
    with zipfile.ZipFile(path, "w") as bad:
        bad.writestr("logits.npy", raw)
    with pytest.raises(
        PredictionFileError, match=r"`logits` is damaged: its header promises 1,18"
    ):
        read_predictions(path)


@given(cut=st.integers(0, 900), flips=st.lists(st.integers(0, 900), max_size=6))
def test_damage_is_our_own_error_or_harmless(tmp_path_factory, cut, flips):
    path = tmp_path_factory.mktemp("fuzz") / "val.npz"
    np.savez(path, logits=np.eye(4), labels=np.arange(4))
    raw = bytearray(path.read_bytes())
    for at in flips:
        raw[at % len(raw)] ^= 0xA5
    path.write_bytes(raw[: len(raw) - cut % len(raw)])
    with suppress(PredictionFileError):
        found = read_predictions(path)
        assert_array_equal(found.scores, np.eye(4))
        assert_array_equal(found.labels, np.arange(4))
