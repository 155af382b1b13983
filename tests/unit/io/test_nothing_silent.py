"""Tricky but plausible files: each is read right, refused, or read with a warning that says why.

A family per kind of error that was once made without a word; the table "What we never do
silently" in the documentation names the family of each line.
"""

import gzip
import json
import re
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.io import PredictionFileError, align, read_predictions, write_probs

RNG = np.random.default_rng(7)
N = 40
NAMES = ("cat", "dog", "ox")
P = RNG.dirichlet(np.ones(3), size=N).round(6)
P[:, 2] = 1 - P[:, 0] - P[:, 1]
Y = np.array([RNG.choice(3, p=p / p.sum()) for p in P])
Z = np.log(P) + RNG.normal(size=(N, 1))
WORDS = np.array(NAMES)[Y]
ORDER = RNG.permutation(N)
SUFFIXES = [".csv", ".parquet", ".jsonl", ".xlsx", ".feather"]


def frame(**more):
    """Return a table of probabilities, one column per class, and other columns."""
    return pd.DataFrame({**{f"prob_{n}": P[:, i] for i, n in enumerate(NAMES)}, **more})


def save(table, path, **options):
    """Write a data frame in the format of the suffix."""
    if path.suffix == ".csv":
        table.to_csv(path, index=False, **options)
    elif path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".feather":
        table.to_feather(path)
    elif path.suffix == ".jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_excel(path, index=False)
    return path


def check_right(found, *, labels=True):
    """Check that scores and labels are those that were written, whatever the order of classes."""
    found = align(found, NAMES) if found.class_names is not None else found
    scores = found.scores if found.kind == "probs" else np.exp(found.scores)
    assert_allclose(scores / scores.sum(axis=1, keepdims=True), P, atol=2e-6)
    if labels:
        assert_array_equal(found.labels, Y)


def refused_or_warned(text, read):
    """Check that reading is refused, or goes on with a warning, with these words."""
    try:
        found = read()
    except PredictionFileError as error:
        said = [str(error)]
    else:
        said = found.notes
    assert any(re.search(text, one) for one in said), said


# 1. Kept columns

KEPT_TEXT = {
    "17 digits": ["12345678901234567", "12345678901234568"],
    "25 digits": ["1234567890123456789012345", "1234567890123456789012346"],
    "beyond int64": ["9223372036854775807", "9223372036854775808"],
    "exponent": ["1e1", "2E1"],
    "version": ["1.10", "1.2"],
    "phone": ["+4930123", "+4930124"],
    "leading zeros": ["007", "010"],
    "formula": ["=1+1", "=SUM(A1)"],
    "at": ["@cmd", "-1+1"],
    "words for nothing": ["NA", "null"],
    "none": ["None", "nan"],
    "booleans": ["true", "FALSE"],
    "dates": ["2026-01-02", "01/02/03"],
    "underscore": ["1_000", "2_000"],
    "hex": ["0x10", "0b1"],
    "spaces": [" a", "b "],
    "quotes": ['say "x"', "a,b"],
    "line break": ["a\nb", "c"],
    "empty": ["", "x"],
    "infinity": ["inf", "-inf"],
    "minus zero": ["-0", "1"],
    "dot": [".5", "5."],
    "unicode": ["٣", "Ünïcode"],
    "json": ['{"a": 1}', "[1, 2]"],
}


def read_back(path):
    """Return the columns of an output as lists."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pydict()
    if path.suffix == ".feather":
        return feather.read_table(path).to_pydict()
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {name: [row[name] for row in rows] for name in rows[0]}
    if path.suffix == ".xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        cells = list(openpyxl.load_workbook(path).active.iter_rows())
        assert all(cell.data_type != "f" for row in cells for cell in row)
        return {h.value: [row[i].value for row in cells[1:]] for i, h in enumerate(cells[0])}
    return pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("list")


@pytest.mark.parametrize("target", SUFFIXES)
@pytest.mark.parametrize("source", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("kind", KEPT_TEXT)
def test_kept_text_is_the_same_text(tmp_path, kind, source, target):
    cells = KEPT_TEXT[kind]
    table = pd.DataFrame({"kept": cells, "cat": [0.25, 0.5], "dog": [0.75, 0.5]})
    table["label"] = ["dog", "cat"]
    found = read_predictions(save(table, tmp_path / f"in{source}"))
    assert_array_equal(found.scores, [[0.25, 0.75], [0.5, 0.5]])
    out = tmp_path / f"out{target}"
    write_probs(out, [found.scores], like=found)
    written = read_back(out)["kept"]
    assert ["" if v is None else str(v) for v in written] == cells


KEPT_TYPED = {
    "nullable integers": pa.array([1, None], pa.int64()),
    "long integers": pa.array([2**60 + 1, None], pa.int64()),
    "unsigned": pa.array([2**63 + 1, 1], pa.uint64()),
    "booleans": pa.array([True, None]),
    "text or nothing": pa.array(["", None]),
    "timestamps": pa.array([0, None], pa.timestamp("us", tz="UTC")),
    "dates": pa.array([1, None], pa.date32()),
    "decimals": pa.array([None, "1.10"]).cast(pa.decimal128(5, 2)),
    "lists": pa.array([["a", "b"], []], pa.list_(pa.string())),
    "categories": pa.array(["x", "y"]).dictionary_encode(),
    "bytes": pa.array([b"\xff", b"a"]),
    "half": pa.array(np.array([0.5, 1.5], np.float16)),
    "nulls": pa.nulls(2),
}


@pytest.mark.parametrize("n_parts", [1, 2])
@pytest.mark.parametrize("target", [".parquet", ".feather"])
@pytest.mark.parametrize("kind", KEPT_TYPED)
def test_kept_types_and_nulls_stay(tmp_path, kind, target, n_parts):
    column = KEPT_TYPED[kind]
    folder = tmp_path / "in"
    folder.mkdir()
    for i in range(n_parts):
        data = {"kept": column, "cat": [0.25, 0.5], "dog": [0.75, 0.5], "part": [i + 1] * 2}
        pq.write_table(pa.table({**data, "label": ["dog", "cat"]}), folder / f"p-{i}.parquet")
    found = read_predictions(folder)
    out = tmp_path / f"out{target}"
    write_probs(out, [found.scores], like=found)
    table = pq.read_table(out) if target == ".parquet" else feather.read_table(out)
    assert table["kept"].to_pylist() == column.to_pylist() * n_parts
    if not pa.types.is_dictionary(column.type):
        assert table["kept"].type == column.type


@pytest.mark.parametrize("target", [".csv", ".jsonl", ".xlsx"])
@pytest.mark.parametrize("kind", KEPT_TYPED)
def test_kept_types_are_written_as_text_or_numbers(tmp_path, kind, target):
    data = {"kept": KEPT_TYPED[kind], "cat": [0.25, 0.5], "dog": [0.75, 0.5]}
    pq.write_table(pa.table({**data, "label": ["dog", "cat"]}), tmp_path / "in.parquet")
    found = read_predictions(tmp_path / "in.parquet")
    out = tmp_path / f"out{target}"
    write_probs(out, [found.scores], like=found)
    for value, written in zip(KEPT_TYPED[kind].to_pylist(), read_back(out)["kept"], strict=True):
        if value is None:
            assert written in (None, "")
        elif isinstance(value, int) and not isinstance(value, bool):
            assert str(written) == str(value)


# 2. Labels of another file

KEYS = ["image", "customer", "url", "PassengerId", "ID", "image_id", "sku", "Name", "key", "file"]
IDS = {
    "text": [f"x{i}" for i in range(N)],
    "long": [str(9007199254740993 + i) for i in range(N)],
    "numbers": [str(1000 + 7 * i) for i in range(N)],
    "paths": [f"img/{i:03d}.png" for i in range(N)],
}


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("key", KEYS)
def test_shuffled_labels_find_their_rows_by_key(tmp_path, key, ids, suffix):
    values = np.array(IDS[ids])
    if suffix == ".parquet" and ids in ("long", "numbers"):
        values = values.astype(np.int64)
    save(frame(**{key: values}), tmp_path / f"p{suffix}")
    labels = pd.DataFrame({key: values[ORDER], "label": WORDS[ORDER]})
    save(labels, tmp_path / f"y{suffix}")
    found = read_predictions(tmp_path / f"p{suffix}", labels_path=tmp_path / f"y{suffix}")
    check_right(found)
    assert any("matched to the rows by" in note for note in found.notes)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("ID", "id"), ("Image", "image"), ("image_id", "id"), ("url", "page"), ("uid", "customer")],
)
@pytest.mark.parametrize("ids", IDS)
def test_keys_under_other_names_are_found_or_asked_about(tmp_path, ours, theirs, ids):
    values = np.array(IDS[ids])
    save(frame(**{ours: values}), tmp_path / "p.csv")
    save(pd.DataFrame({theirs: values[ORDER], "label": WORDS[ORDER]}), tmp_path / "y.csv")
    check_right(read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_pandas_index_is_a_key(tmp_path, suffix):
    index = pd.Index([f"x{i}" for i in range(N)])
    scores, labels = frame().set_index(index), pd.DataFrame({"label": WORDS}, index=index)
    labels = labels.iloc[ORDER]
    if suffix == ".csv":
        scores.to_csv(tmp_path / "p.csv")
        labels.to_csv(tmp_path / "y.csv")
    else:
        scores.to_parquet(tmp_path / "p.parquet")
        labels.to_parquet(tmp_path / "y.parquet")
    check_right(read_predictions(tmp_path / f"p{suffix}", labels_path=tmp_path / f"y{suffix}"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_numbered_pandas_index_that_was_shuffled_is_a_key(tmp_path, suffix):
    scores = frame()
    labels = pd.DataFrame({"label": WORDS}).iloc[ORDER]
    if suffix == ".csv":
        scores.to_csv(tmp_path / "p.csv")
        labels.to_csv(tmp_path / "y.csv")
    else:
        scores.to_parquet(tmp_path / "p.parquet", index=True)
        labels.to_parquet(tmp_path / "y.parquet", index=True)
    check_right(read_predictions(tmp_path / f"p{suffix}", labels_path=tmp_path / f"y{suffix}"))


@pytest.mark.parametrize("constant", ["split", "date", "model", "customer", "id"])
def test_a_constant_column_is_no_key_and_the_order_is_said(tmp_path, constant):
    save(frame(**{constant: "a"}), tmp_path / "p.csv")
    save(pd.DataFrame({constant: "a", "label": WORDS}, index=range(N)), tmp_path / "y.csv")
    found = read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")
    check_right(found)
    assert any("in the order of the rows" in note for note in found.notes)


def test_two_keys_that_disagree_are_asked_about(tmp_path):
    ids, urls = np.array(IDS["text"]), np.array(IDS["paths"])
    save(frame(customer=ids, url=urls), tmp_path / "p.csv")
    labels = pd.DataFrame({"customer": ids[ORDER], "url": urls, "label": WORDS[ORDER]})
    save(labels, tmp_path / "y.csv")
    with pytest.raises(PredictionFileError, match="Say which names the rows"):
        read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")
    found = read_predictions(
        tmp_path / "p.csv", labels_path=tmp_path / "y.csv", id_column="customer"
    )
    check_right(found)


@pytest.mark.parametrize("key", ["id", "image", "customer"])
@pytest.mark.parametrize("extra", [[], ["x999"]])
def test_a_label_missing_in_the_middle_shifts_nothing(tmp_path, key, extra):
    ids = IDS["text"]
    save(frame(**{key: ids}), tmp_path / "p.csv")
    kept = [i for i in range(N) if i != 7]
    names = [ids[i] for i in kept] + extra
    labels = [*WORDS[kept], *(["cat"] * len(extra))]
    save(pd.DataFrame({key: names, "label": labels}), tmp_path / "y.csv")
    with pytest.raises(PredictionFileError, match=r"no label for row 7|fewer labels"):
        read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")


@pytest.mark.parametrize("id_column", ["image", "nothing"])
def test_an_id_column_that_is_given_is_never_replaced_by_the_order(tmp_path, id_column):
    save(frame(image=IDS["text"]), tmp_path / "p.csv")
    save(pd.DataFrame({"label": WORDS}), tmp_path / "y.csv")
    with pytest.raises(PredictionFileError, match=r"must have the column|names? .*column|holds"):
        read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv", id_column=id_column)


@pytest.mark.parametrize("name", ["image", "customer", "id"])
def test_ids_that_repeat_are_never_matched_at_random(tmp_path, name):
    ids = np.array([f"x{i // 2}" for i in range(N)])
    save(frame(**{name: ids}), tmp_path / "p.csv")
    save(pd.DataFrame({name: ids[ORDER], "label": WORDS[ORDER]}), tmp_path / "y.csv")
    with pytest.raises(PredictionFileError, match=r"not unique|Sort both"):
        read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")


# 3. Folders


def _two_parts(folder):
    folder.mkdir(exist_ok=True)
    table = frame(label=WORDS)
    save(table.iloc[:20], folder / "part-1.csv")
    save(table.iloc[20:], folder / "part-2.csv")
    return folder


def _gzipped(folder):
    (folder / "part-1.csv.gz").write_bytes(gzip.compress((folder / "part-1.csv").read_bytes()))
    return folder


def _copied(name):
    def make(folder):
        shutil.copy(folder / "part-1.csv", folder / name)
        return folder

    return make


def _deeper(folder):
    (folder / "old").mkdir()
    shutil.copy(folder / "part-1.csv", folder / "old" / "part-1.csv")
    return folder


def _linked(folder):
    (folder / "z.csv").symlink_to(folder / "part-1.csv")
    return folder


TWICE = {
    "compressed": _gzipped,
    "copy": _copied("part-1 (copy).csv"),
    "backup": _copied("part-1_backup.csv"),
    "deeper": _deeper,
    "link": _linked,
    "twice": lambda f: [f / "part-1.csv", f / "part-1.csv"],
    "dotted": lambda f: [f / "part-1.csv", f / ".." / f.name / "part-1.csv"],
    "folder and file": lambda f: [f, f / "part-2.csv"],
    "folder and glob": lambda f: [f, str(f / "*.csv")],
    "folder twice": lambda f: [f, f],
}


@pytest.mark.parametrize("kind", TWICE)
def test_the_same_rows_are_never_counted_twice(tmp_path, kind):
    source = TWICE[kind](_two_parts(tmp_path / "parts"))
    with pytest.raises(PredictionFileError, match="same table"):
        read_predictions(source)


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "jsonl"])
def test_the_same_binary_file_is_never_counted_twice(tmp_path, kind):
    folder = tmp_path / "parts"
    folder.mkdir()
    if kind == "npz":
        np.savez(folder / "a.npz", probs=P, labels=Y)
    elif kind == "npy":
        np.save(folder / "probs-0.npy", P)
        shutil.copy(folder / "probs-0.npy", folder / "probs-1.npy")
    else:
        save(frame(label=WORDS), folder / f"a.{kind}")
    if kind != "npy":
        shutil.copy(folder / f"a.{kind}", folder / f"b.{kind}")
    with pytest.raises(PredictionFileError, match="same table"):
        read_predictions(folder)


@pytest.mark.parametrize("parts", [("p1", "p2", "p10"), ("part_2", "part_10", "part_1")])
def test_labels_by_order_say_the_order_of_the_parts(tmp_path, parts):
    folder = tmp_path / "parts"
    folder.mkdir()
    cuts = np.array_split(np.arange(N), 3)
    for name, rows in zip(
        sorted(parts, key=lambda n: int("".join(filter(str.isdigit, n)))), cuts, strict=True
    ):
        save(frame().iloc[rows], folder / f"{name}.csv")
    save(pd.DataFrame({"label": WORDS}), tmp_path / "y.csv")
    found = read_predictions(folder, labels_path=tmp_path / "y.csv")
    check_right(found)
    assert any("3 parts, " in n and " to " in n for n in found.notes)
    assert any("order of the rows" in n for n in found.notes)


@pytest.mark.parametrize(
    "names", ["prob_cat prob_dog prob_ox", "cat dog ox", "score_cat score_dog score_ox"]
)
@pytest.mark.parametrize("first", ["probs", "logits"])
def test_parts_that_mix_probabilities_and_logits_are_refused(tmp_path, names, first):
    folder = tmp_path / "parts"
    folder.mkdir()
    for i, scores in enumerate([P, Z] if first == "probs" else [Z, P]):
        table = pd.DataFrame(scores, columns=names.split())
        save(table.assign(label=WORDS), folder / f"part-{i}.csv")
    with pytest.raises(PredictionFileError):
        read_predictions(folder)
    for kind in ("probs", "logits"):
        refused_or_warned(
            "below 0|sum to 1|probabilities",
            lambda kind=kind: read_predictions(folder, input=kind),
        )


def test_npy_parts_that_mix_probabilities_and_logits_are_refused_or_doubted(tmp_path):
    for i, scores in enumerate([Z, P]):
        np.savez(tmp_path / f"p{i}.npz", logits=scores, labels=Y)
    refused_or_warned("probabilities", lambda: read_predictions(tmp_path))
