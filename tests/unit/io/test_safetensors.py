import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions, write_probs


def write(path, header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
    return path


def entry(dtype="F32", shape=(2, 2), offsets=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_files_of_the_library(tmp_path, logits, labels, dtype):
    library = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "val.safetensors"
    stored = logits.astype(dtype)
    library.save_file(
        {"labels": labels, "logits": stored}, path, {"class_names": '["a", "b", "c"]'}
    )
    found = read_predictions(path)
    assert_array_equal(found.scores, stored)
    assert_array_equal(found.labels, labels)
    assert found.class_names == ("a", "b", "c")


def test_bfloat16_becomes_float32(tmp_path):
    values = np.array([[1.0, -2.5], [0.15625, 3.0]], np.float32)
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    path = write(
        tmp_path / "v.safetensors", {"logits": entry("BF16", offsets=(0, 8))}, bits.tobytes()
    )
    found = read_predictions(path)
    assert found.scores.dtype == np.float32
    assert_array_equal(found.scores, values)


def test_the_library_reads_what_we_write(tmp_path, val, probs):
    library = pytest.importorskip("safetensors")
    path = tmp_path / "out.safetensors"
    write_probs(path, [probs[:7], probs[7:]], like=val)
    with library.safe_open(path, "np") as file:
        assert_array_equal(file.get_tensor("probs"), probs)
        assert_array_equal(file.get_tensor("labels"), val.labels)
        assert json.loads(file.metadata()["class_names"]) == list(val.class_names)


@pytest.mark.parametrize(
    ("header", "data", "text"),
    [
        (b"{", b"", r"its header is not valid JSON"),
        (b"[]", b"", r"its header is not a JSON object"),
        ({"__metadata__": 3}, b"", r"`__metadata__` is not a JSON object"),
        ({"logits": 3}, b"", r"the entry of `logits` is not a JSON object"),
        ({"logits": entry(shape=(-1, 2))}, b"", r"`logits` has no valid shape and data_offsets"),
        ({"logits": entry(offsets=(0, 1, 2))}, b"", r"no valid shape and data_offsets"),
        ({"logits": entry(dtype=3)}, bytes(16), r"`logits` has no dtype"),
        ({"logits": entry()}, bytes(15), r"should end at byte 16 of the data, which has 15"),
        ({"logits": entry(shape=(3, 2))}, bytes(16), r"of shape \[3, 2\] needs 24 bytes, has 16"),
        ({"logits": entry("F8_E5M2")}, bytes(16), r"must hold numbers of dtype F64.*got F8_E5M2"),
        ({"logits": entry(shape=(0, 9), offsets=(0, 0))}, b"", r"`logits` is empty: shape"),
        ({"x": entry()}, bytes(16), 'whether "x" holds logits or probabilities'),
        (
            {"logits": entry(), "__metadata__": {"class_names": "cat"}},
            bytes(16),
            r"`class_names` in the metadata must be a JSON list of text, got 'cat'",
        ),
    ],
)
def test_bad_headers(tmp_path, header, data, text):
    path = write(tmp_path / "v.safetensors", header, data)
    with pytest.raises(PredictionFileError, match=text) as caught:
        read_predictions(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_header_longer_than_the_file(tmp_path):
    path = tmp_path / "v.safetensors"
    path.write_bytes((2**60).to_bytes(8, "little") + b"{}")
    with pytest.raises(PredictionFileError, match=r"its header would be 1,152,.* the file is 10"):
        read_predictions(path)


@given(raw=st.binary(min_size=1, max_size=300))
def test_random_bytes_are_never_another_error(tmp_path_factory, raw):
    path = tmp_path_factory.mktemp("fuzz") / "v.safetensors"
    path.write_bytes(raw)
    with pytest.raises(PredictionFileError):
        read_predictions(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BF16", "I64", "BOOL", "X"]) | json_values,
        "shape": st.lists(st.integers(-1, 4), max_size=3) | json_values,
        "data_offsets": st.lists(st.integers(-1, 40), min_size=2, max_size=2) | json_values,
    }
)


@pytest.mark.slow
@given(header=st.dictionaries(st.sampled_from(["logits", "probs", "labels"]), entries))
def test_random_headers_are_our_own_error_or_describe_rows(tmp_path_factory, header):
    path = write(tmp_path_factory.mktemp("fuzz") / "v.safetensors", header, np.eye(3, 3).tobytes())
    with suppress(PredictionFileError):
        found = read_predictions(path)
        assert list(found.scores.shape) == header[found.kind]["shape"]
        assert found.labels is None or len(found.labels) == found.n_rows
