import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions
from focalibrate.io import _csv as module
from focalibrate.io._labels import is_number

GOOD = "label,prob_cat,prob_dog\n1,0.25,0.75\n0,0.5,0.5\n"


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "val.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_prefixed_columns_say_kind_and_names(table):
    found = read_predictions(table(GOOD))
    assert (found.kind, found.class_names) == ("probs", ("cat", "dog"))
    assert found.scores.dtype == np.float64
    assert found.scores.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert found.labels.tolist() == [1, 0]
    assert found.layout.labels_as == "index"


@pytest.mark.parametrize(
    ("text", "options", "labels", "names"),
    [
        ("y,logit_a,logit_b\n1,-3,4\n", {}, [1], ("a", "b")),
        ("id,logits_a,logits_b,target\nx7,1,2,0\n", {}, [0], ("a", "b")),
        ("truth,a,b\n1,1,2\n", {"input": "logits", "label_column": "truth"}, [1], ("a", "b")),
        ("label,a,b\n1,1,2\n", {"input": "logits"}, [1], ("a", "b")),
        ("a,b,c\n1,2,0\n", {"input": "logits", "label_column": "-1"}, [0], ("a", "b")),
        ("label,0,1\n1,1,2\n", {"input": "logits"}, [1], None),
        ("1,1.5,2\n", {"input": "logits", "label_column": 0}, [1], None),
        ("1.5,2,1\n", {"input": "logits", "label_column": -1}, [1], None),
        ("1.5,2\n", {"input": "logits", "label_column": "none"}, None, None),
        ("a,b\n1,2\n", {"input": "logits", "label_column": "none"}, None, ("a", "b")),
        ("logit_a,logit_b\n1,2\n", {}, None, ("a", "b")),
        ("label,logit_a,logit_b\ndog,1,2\n".replace("_b", "_dog"), {}, [1], ("a", "dog")),
        ("label,prob_1,prob_2\n2,0.5,0.5\n", {}, [1], ("1", "2")),
        ("label,prob_1,prob_0\n0,0.5,0.5\n", {}, [1], ("1", "0")),
        ("label,prob_1,prob_0\n0.0,0.5,0.5\n", {}, [1], ("1", "0")),
        ("label,prob_07,prob_cat\n07,0.5,0.5\n7,0.5,0.5\n", {}, [0, 0], ("07", "cat")),
        ("label,prob_cat,prob_0\n0,0.5,0.5\n", {}, [1], ("cat", "0")),
        ('label,"logit_a,b",logit_c\n"a,b",1,2\nc,1,2\n', {}, [0, 1], ("a,b", "c")),
        ("\ufefflabel,logit_a,logit_b\r\n1,1,2\r\n\r\n", {}, [1], ("a", "b")),
        ("label,logit_a,logit_b\r1,1,2\r", {}, [1], ("a", "b")),
        ("\n\nlabel,logit_a,logit_b\n\n1.0, 1 , 2 ", {}, [1], ("a", "b")),
        ("label,logit_a,logit_b,prob_a,prob_b\n1,1,2,0.5,0.5\n", {}, [1], ("a", "b")),
        ("k,logit_a,logit_b\n1,1,2\n", {"labels_key": "k"}, [1], ("a", "b")),
    ],
)
def test_layouts(table, text, options, labels, names):
    found = read_predictions(table(text), **options)
    assert (None if found.labels is None else found.labels.tolist()) == labels
    assert found.class_names == names
    assert found.n_classes == 2


def test_a_header_in_quotes_only(table):
    assert read_predictions(table('"label","logit_a","logit_b"\n1,1,2\n')).n_rows == 1


def test_both_kinds_by_prefix(table):
    path = table("label,logit_a,logit_b,prob_a,prob_b\n1,1,2,0.5,0.5\n")
    assert read_predictions(path).kind == "logits"
    assert read_predictions(path, input="probs").scores.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "a,b,label\n1,2,0\n",
            {},
            r"logits or probabilities, and that is never guessed\. Pass `inp",
        ),
        ("1,2,0\n", {}, r"never guessed\. Pass `input='logits'` \(command line: --input logits\)"),
        (
            "1,2,0\n",
            {"input": "logits"},
            r"no header row, .* Pass `label_column=0` \(command line",
        ),
        ("1,2,0\n", {"input": "logits", "label_column": "y"}, r"from 0 to 2 or -1.*; got 'y'"),
        ("1,2,0\n", {"input": "logits", "label_column": 3}, r"from 0 to 2 or -1.*; got 3"),
        ("a,b\n1,2\n", {"input": "logits"}, r"no column named label, labels, y, target; its colu"),
        ("y,label,logit_a\n0,0,2\n", {}, r"2 columns that could be the labels: y, label\. Pass"),
        (
            GOOD,
            {"label_column": "z"},
            r"`label_column` must name a column, got 'z'; the columns a",
        ),
        (
            GOOD,
            {"input": "logits"},
            r"no column that begins with `logit_`, but `input` says 'logi",
        ),
        ("logit_a,logit_b\n1,2\n", {"need_labels": True}, r"has no column of labels; its columns"),
        ("a,a,label\n1,2,0\n", {"input": "logits"}, r"'a' stands more than once in the header"),
        ("cat,0.5,0.5\n", {"input": "probs"}, r"first row mixes text and numbers \(cat, 0\.5"),
        ("cat,0.5,0.5\n", {"input": "probs", "label_column": 0}, r"first row mixes text and num"),
        (GOOD + "1,0.5\n", {}, r"line 4 has 2 cells, the first line has 3"),
        (GOOD + "\n1,0.5,0.5,3\n", {}, r"line 5 has 4 cells, the first line has 3"),
        (GOOD + "1,0.5,abc\n", {}, r"line 4, column 3 must be a number, got 'abc'"),
        (GOOD + "1,0.5,\n", {}, r"line 4, column 3 must be a number, got ''"),
        (GOOD + "1,0.5,1_0\n", {}, r"line 4, column 3 must be a number, got '1_0'"),
        (GOOD + '"1",0.5,1_0\n', {}, r"line 4, column 3 must be a number, got '1_0'"),
        (GOOD + '"1",0.5\n', {}, r"line 4 has 2 cells"),
        (GOOD + '"1,0.5,0.5\n', {}, r"line 4 has an unclosed or misplaced quote"),
        (
            GOOD + "cow,0.5,0.5\n",
            {},
            r"must be names of classes, but those in 3 rows \(0, 1, 2\) are not",
        ),
        ("label,logit_a\n0,1\n", {}, r"at least 2 classes, got shape \(1, 1\)"),
        ("\n\n" + GOOD + "1,0.5,x\n", {}, r"line 6, column 3 must be a number, got 'x'"),
        (GOOD + ",0.5,0.5\n", {}, r"labels must not be missing, but they are in row 2, counted"),
        ("label,prob_a,prob_b\n", {}, r"holds a header and no rows"),
        ("\n \n", {}, r"is empty\. Write a header and at least one example"),
        ("label;prob_a;prob_b\n", {}, r"separated by commas, but this file seems to use ';'"),
        ("label\n1\n", {}, r"separated by commas, but the first line has one cell"),
        (GOOD.encode("utf-16"), {}, r"must be UTF-8 text, but holds the byte 0xff"),
        (b"a,b\n1\0,2\n", {}, r"must be text, but holds zero bytes"),
        (GOOD + "1,nan,0.5\n", {}, r"`probs` must be numbers, but nan stands in row 2"),
    ],
)
def test_bad_tables(table, text, options, message):
    path = table(text)
    with pytest.raises(PredictionFileError, match=message) as caught:
        read_predictions(path, **options)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_blocks_do_not_matter(table, monkeypatch, chunk):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 3)).tolist()
    names = ["zebra", "é", "ox"]
    text = "label,logit_zebra,logit_é,logit_ox\n" + "".join(
        f"{names[i % 3]},{','.join(map(repr, row))}\n" for i, row in enumerate(rows)
    )
    path = table(text)
    monkeypatch.setattr(module, "CHUNK", chunk)
    found = read_predictions(path)
    assert_array_equal(found.scores, rows)
    assert found.labels.tolist() == [i % 3 for i in range(50)]
    path.write_text("\n\n" + text, encoding="utf-8")
    assert_array_equal(read_predictions(path).scores, rows)
    path.write_text(text + "ox,1,2\n", encoding="utf-8")
    with pytest.raises(PredictionFileError, match="line 52 has 3 cells"):
        read_predictions(path)


def test_labels_that_begin_as_numbers_may_be_names(table):
    found = read_predictions(table("label,logit_7,logit_7b\n7,1,2\n7b,1,2\n"))
    assert found.labels.tolist() == [0, 1]


cells = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-9, 9).map(str),
    st.text("abc_ 1e.-", min_size=1, max_size=4).map(str.strip).filter(bool),
)


@given(first=st.lists(cells, min_size=3, max_size=5, unique=True))
def test_header_if_and_only_if_not_all_numbers(tmp_path_factory, first):
    text = io.StringIO()
    csv.writer(text).writerows([first, *[list(range(len(first)))] * 2])
    path = tmp_path_factory.mktemp("header") / "val.csv"
    path.write_text(text.getvalue())
    numbers = [is_number(cell) for cell in first]
    if any(numbers) and not all(numbers):
        with pytest.raises(PredictionFileError, match="mixes text and numbers"):
            read_predictions(path, input="logits", label_column="none")
    else:
        found = read_predictions(path, input="logits", label_column="none")
        assert found.n_rows == (3 if all(numbers) else 2)
