from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def table(tmp_path):
    def write(columns, **options):
        path = tmp_path / "val.parquet"
        pq.write_table(pa.table(columns), path, **options)
        return path

    return write


def test_one_column_a_class(table, logits):
    columns = {f"logit_{name}": logits[:, i] for i, name in enumerate("abc")}
    path = table({"id": ["x"] * 30, "label": list("abc") * 10, **columns}, row_group_size=7)
    found = read_predictions(path)
    assert_array_equal(found.scores, logits)
    assert found.scores.dtype == np.float32
    assert found.labels.tolist() == [0, 1, 2] * 10
    assert (found.kind, found.class_names) == ("logits", ("a", "b", "c"))
    assert (found.layout.labels_as, found.layout.form) == ("name", "columns")
    assert found.layout.names == ("id", "label")


@pytest.mark.parametrize("size", [-1, 3])
def test_list_column(table, probs, labels, size):
    lists = pa.array(probs.tolist(), pa.list_(pa.float32(), size))
    found = read_predictions(table({"probs": lists, "labels": labels}, row_group_size=7))
    assert_array_equal(found.scores, probs)
    assert_array_equal(found.labels, labels)
    assert (found.kind, found.layout.form) == ("probs", "matrix")


def test_list_column_by_key_and_categorical_labels(table, logits):
    names = pa.array(["b", "a", "a"]).dictionary_encode()
    columns = {"z": logits[:3].tolist(), "truth": names}
    meta = pa.table(columns).replace_schema_metadata({"class_names": '["a", "b", "c"]'})
    path = table({"x": [1]})
    pq.write_table(meta, path)
    found = read_predictions(path, logits_key="z", label_column="truth")
    assert found.labels.tolist() == [1, 0, 0]
    assert found.class_names == ("a", "b", "c")


def test_integer_and_double_columns_with_a_pandas_index(table):
    columns = {"a": [1, 2], "b": [0.5, 1.5], "y": [True, False], "__index_level_0__": [7, 8]}
    found = read_predictions(table(columns), input="logits")
    assert found.scores.tolist() == [[1, 0.5], [2, 1.5]]
    assert found.labels.tolist() == [1, 0]


def test_numbers_that_name_columns(table):
    path = table({"label": [7, 2], "prob_2": [0.5, 1.0], "prob_7": [0.5, 0.0]})
    found = read_predictions(path)
    assert (found.class_names, found.labels.tolist()) == (("2", "7"), [1, 0])
    with pytest.raises(
        PredictionFileError, match=r"row 1 \(0-based\) are not: found '3', the classes are"
    ):
        read_predictions(table({"label": [7, 3], "prob_2": [0.5, 1.0], "prob_7": [0.5, 0.0]}))


LISTS = [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ({"a": [1.0], "b": [2.0], "y": [0]}, {}, r"never guessed\. Pass `input='logits'`"),
        ({"a": [1.0], "b": [2.0], "y": [0]}, {"logits_key": "z"}, r"must name an array .* 'z'"),
        (
            {"x": LISTS, "y": [0, 1]},
            {},
            r"whether \"x\" holds logits or probabilities .*`input='logits'`",
        ),
        (
            {"logits": [[1.0, 2.0], [3.0]]},
            {},
            r"same number of scores, but row 1 .0-based. has 1 and .* 2",
        ),
        ({"logits": [[1.0, 2.0], None]}, {}, r"scores must not be missing, but they are in row 1"),
        ({"logits": [[1.0, None], [1.0, 2.0]]}, {}, r"must be numbers, but nan is in row 0"),
        ({"logits": [[], []]}, {}, r"must hold numbers, but holds values of another"),
        (
            {"logits": LISTS, "y": [0, None]},
            {},
            r"labels must not be missing, .* in row 1 \(0-based\)\.",
        ),
        (
            {"logits": LISTS},
            {"need_labels": True},
            r"has no column of labels .*; it holds logits",
        ),
        (
            {"logits": LISTS, "y": [b"x", b"y"]},
            {},
            r"`y` are text \('x', 'y'\)",
        ),
        ({"logits": LISTS, "y": ["a", "b"]}, {}, r"`y` are text \('a', 'b'\), and nothing"),
        (
            {"a": [1.0], "b": ["u"], "y": [0]},
            {"input": "logits"},
            r'one column of numbers, "a", that could be the score of the pos',
        ),
        ({"logits": pa.array([], pa.list_(pa.float32()))}, {}, r"holds no rows"),
    ],
)
def test_bad_tables(table, columns, options, text):
    path = table(columns)
    with pytest.raises(PredictionFileError, match=text) as caught:
        read_predictions(path, **options)
    assert str(caught.value).startswith(f"{path}: ")


def test_lists_that_change_their_length_after_a_batch(table):
    path = table({"logits": [[1.0, 2.0]] * 65536 + [[1.0, 2.0, 3.0]] * 9})
    with pytest.raises(
        PredictionFileError, match=r"but row 65536 .0-based. has 3 and those before it 2\."
    ):
        read_predictions(path)


def test_no_columns(table):
    with pytest.raises(PredictionFileError, match="has no columns"):
        read_predictions(table({"__index_level_0__": [1]}))


def test_bad_class_names(table):
    path = table({"x": [1]})
    pq.write_table(pa.table({"logits": LISTS}).replace_schema_metadata({"class_names": "a"}), path)
    with pytest.raises(PredictionFileError, match=r"must be a JSON list of text, got b'a'"):
        read_predictions(path)


@pytest.mark.parametrize("keep", [3, 0.5, 0.95])
def test_truncated(table, keep):
    path = table({"logits": LISTS, "y": [0, 1]})
    raw = path.read_bytes()
    path.write_bytes(raw[: int(keep if keep > 1 else len(raw) * keep)])
    with pytest.raises(PredictionFileError, match=r"is not a readable \.parquet file \(.*copy it"):
        read_predictions(path)


def test_a_feather_file_of_the_first_version_is_named(tmp_path):
    (tmp_path / "val.feather").write_bytes(b"FEA1" + bytes(60) + b"FEA1")
    with pytest.raises(PredictionFileError, match=r"Feather file of version 1.*to_feather\("):
        read_predictions(tmp_path / "val.feather")


@given(flips=st.lists(st.tuples(st.integers(4, 1500), st.integers(1, 255)), max_size=4))
def test_damage_is_our_own_error_or_leaves_valid_rows(tmp_path_factory, flips):
    path = tmp_path_factory.mktemp("fuzz") / "val.parquet"
    half = np.full(40, 0.5)
    pq.write_table(pa.table({"label": ["a", "b"] * 20, "prob_a": half, "prob_b": half}), path)
    raw = bytearray(path.read_bytes())
    for at, bits in flips:
        raw[at % len(raw)] ^= bits
    path.write_bytes(raw)
    with suppress(PredictionFileError):
        found = read_predictions(path)
        assert found.scores.shape == (len(found.labels), 2)
        assert set(found.labels) <= {0, 1}
        if found.kind == "probs":
            assert_allclose(found.scores.sum(axis=1), 1.0, atol=1e-4)
