import csv
import io
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions
from focalibrate.io.cells import is_number
from focalibrate.io.formats import text as module

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
    assert found.notes == ("labels are numbers, in the order of the classes: 0 = cat, 1 = dog",)


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
        ("label,prob_1,prob_0\n0,0.5,0.5\n", {}, [0], None),
        ("label,prob_1,prob_0\n0.0,0.5,0.5\n", {}, [0], None),
        ("label,prob_07,prob_cat\n07,0.5,0.5\n7,0.5,0.5\n", {}, [0, 0], ("07", "cat")),
        ("label,prob_cat,prob_0\n0,0.5,0.5\n", {}, [1], ("cat", "0")),
        ('label,"logit_a,b",logit_c\n"a,b",1,2\nc,1,2\n', {}, [0, 1], ("a,b", "c")),
        ("\ufefflabel,logit_a,logit_b\r\n1,1,2\r\n\r\n", {}, [1], ("a", "b")),
        ("label,logit_a,logit_b\r1,1,2\r", {}, [1], ("a", "b")),
        ("\n\nlabel,logit_a,logit_b\n\n1.0, 1 , 2 ", {}, [1], ("a", "b")),
        ("label,logit_a,logit_b,prob_a,prob_b\n1,1,2,0.27,0.73\n", {}, [1], ("a", "b")),
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
    path = table("label,logit_a,logit_b,prob_a,prob_b\n1,1,2,0.27,0.73\n")
    assert read_predictions(path).kind == "logits"
    assert read_predictions(path, input="probs").scores.tolist() == [[0.27, 0.73]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "a,b,label\n1,2,0\n",
            {},
            r"logits or probabilities .*, and that is never guessed\. Pass `input='logits'` \(com",
        ),
        ("1,2,0\n", {}, r"never guessed\. Pass `input='logits'` \(command line: --input logits\)"),
        ("1,2,0\n", {"label_column": "y"}, r"`label_column` must name a column, got 'y'"),
        ("1,2,0\n", {"label_column": 3}, r"`label_column` must name a column, got '3'"),
        (
            "a,b\n1,2\n",
            {"input": "logits", "need_labels": True},
            r"no column of labels .*label, la",
        ),
        (
            "y,label,prob_a,prob_b\n0,0,1,0\n1,0,1,0\n",
            {},
            r"2 columns that could be the labels: y",
        ),
        (
            GOOD,
            {"label_column": "z"},
            r"`label_column` must name a column, got 'z'; the columns a",
        ),
        (
            "logit_a,logit_b\n1,2\n",
            {"need_labels": True},
            r"has no column of labels .*it holds log",
        ),
        (
            "a,a,label\n1,2,0\n",
            {"input": "logits"},
            r"`class_names` must differ, but a occurs mo",
        ),
        (
            "cat,0.5,0.5\ndog,1,0\n",
            {},
            r"may be a header or an example, .*--header\) or .*--no-head",
        ),
        (GOOD + "1,0.5\n", {}, r"line 4 has 2 cells, the first line has 3"),
        (GOOD + "\n1,0.5,0.5,3\n", {}, r"line 5 has 4 cells, the first line has 3"),
        (
            GOOD + "1,0.5,abc\n",
            {},
            r"`prob_dog` must hold numbers, but row 2 \(0-based\) has 'abc'.*--ig",
        ),
        (GOOD + "1,0.5,\n", {}, r"nan is in row 2 .*--drop-missing"),
        (GOOD + "1,0.5,1_0\n", {}, r"column `prob_dog` must hold numbers"),
        (GOOD + '"1",0.5\n', {}, r"line 4 has 2 cells"),
        (GOOD + '"1,0.5,0.5\n', {}, r"line 4 has an unclosed or misplaced quote"),
        (
            GOOD + "cow,0.5,0.5\n",
            {},
            r"must be names of classes, but those in 3 rows \(0, 1, 2; 0-based\) are not: found",
        ),
        ("label,logit_a\na,1\nb,1\nc,1\n", {}, r"so two classes, but `label` holds 3 different"),
        (
            GOOD + ",0.5,0.5\n",
            {},
            r"labels must not be missing, but they are in row 2 .*--drop-mi",
        ),
        ("label,prob_a,prob_b\n", {}, r"holds no rows"),
        ("\n \n", {}, r"is empty\. Write a header and at least one example"),
        (b"a,b\n1\0,2\n", {}, r"must be text, but holds zero bytes"),
        (b"a,b\n\xe9,2\n", {}, r"must be UTF-8 text, but holds the byte 0xe9.*--encoding cp1252"),
        (GOOD + "1,nan,0.5\n", {}, r"`probs` must be numbers, but nan is in row 2"),
        (GOOD + f"1,{'9' * 200_000},0.5\n", {}, r"line 4 has a cell of more than 131,072 char"),
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
    monkeypatch.setattr(module, "BLOCK", 50 * chunk)
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


@pytest.mark.parametrize(
    ("text", "n_rows"),
    [
        ("0,1\n0.25,0.75\n0.5,0.5\n", 2),  # pandas without its index
        ("0,1,2\n0.25,0.75,0.0\n0.5,0.5,0.0\n", 2),
        (",0,1\n0,0.25,0.75\n1,0.5,0.5\n", 2),  # with its index
        ("3,5\n0.25,0.75\n", 1),
        ("0.5,0.5\n0.25,0.75\n", 2),
        ("1,0\n0.25,0.75\n", 2),  # not rising: an example
        ("0,1,label\n0.25,0.75,cat\n", 1),
    ],
)
def test_a_header_is_never_read_as_an_example(table, text, n_rows):
    found = read_predictions(table(text), label_column="none")
    assert found.n_rows == n_rows


@pytest.mark.parametrize(
    "text", ["0,1\n0.25,0.75\n0,1\n", "0,1\n1,0\n0.5,0.5\n", "0.0,1.0\n0.25,0.75\n0.5,0.5\n"]
)
def test_what_may_be_a_header_or_an_example_is_asked(table, text):
    path = table(text)
    with pytest.raises(PredictionFileError, match="may be a header or an example") as caught:
        read_predictions(path)
    found = [read_predictions(path, **fix).n_rows for fix in caught.value.fixes]
    assert found == [2, 3]


cells = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-9, 9).map(str),
    st.text("abc_ 1e.-", min_size=1, max_size=4).map(str.strip).filter(bool),
)


@given(first=st.lists(cells, min_size=3, max_size=5, unique=True))
def test_any_first_row_is_a_header_an_example_or_asked_about(tmp_path_factory, first):
    text = io.StringIO()
    csv.writer(text).writerows([first, *[list(range(len(first)))] * 2])
    path = tmp_path_factory.mktemp("header") / "val.csv"
    path.write_text(text.getvalue())
    with suppress(PredictionFileError):
        found = read_predictions(path, input="logits", label_column="none")
        numbers = all(is_number(cell) for cell in first)
        assert found.n_rows == (3 if numbers else 2)
