"""Tricky but plausible files: each is read right, refused, or read with a warning that says why.

A family per kind of error that was once made without a word; the table "What we never do
silently" in the documentation names the family of each line. More families are in `tricky`.
"""

import gzip
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from tests.unit.io.tricky.cases import CLASSES, ORDER, WORDS, N, P, Y, Z, probs, write

from focalibrate.io import PredictionFileError, read_predictions


def refused_or_warned(text, read):
    """Check that reading is refused, or goes on with a warning, with these words."""
    try:
        found = read()
    except PredictionFileError as error:
        said = [str(error)]
    else:
        said = found.notes
    assert any(re.search(text, one) for one in said), said


# 1. Labels of another file

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
    write(tmp_path / f"p{suffix}", probs(**{key: values}))
    labels = pd.DataFrame({key: values[ORDER], "label": WORDS[ORDER]})
    write(tmp_path / f"y{suffix}", labels)
    found = read_predictions(tmp_path / f"p{suffix}", labels_path=tmp_path / f"y{suffix}")
    CLASSES.check(found)
    assert any("matched to the rows by" in note for note in found.notes)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("ID", "id"), ("Image", "image"), ("image_id", "id"), ("url", "page"), ("uid", "customer")],
)
@pytest.mark.parametrize("ids", IDS)
def test_keys_under_other_names_are_found_or_asked_about(tmp_path, ours, theirs, ids):
    values = np.array(IDS[ids])
    write(tmp_path / "p.csv", probs(**{ours: values}))
    write(tmp_path / "y.csv", pd.DataFrame({theirs: values[ORDER], "label": WORDS[ORDER]}))
    CLASSES.check(read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_pandas_index_is_a_key(tmp_path, suffix):
    index = pd.Index([f"x{i}" for i in range(N)])
    scores, labels = probs().set_index(index), pd.DataFrame({"label": WORDS}, index=index)
    labels = labels.iloc[ORDER]
    if suffix == ".csv":
        scores.to_csv(tmp_path / "p.csv")
        labels.to_csv(tmp_path / "y.csv")
    else:
        scores.to_parquet(tmp_path / "p.parquet")
        labels.to_parquet(tmp_path / "y.parquet")
    CLASSES.check(read_predictions(tmp_path / f"p{suffix}", labels_path=tmp_path / f"y{suffix}"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_numbered_pandas_index_that_was_shuffled_is_a_key(tmp_path, suffix):
    scores = probs()
    labels = pd.DataFrame({"label": WORDS}).iloc[ORDER]
    if suffix == ".csv":
        scores.to_csv(tmp_path / "p.csv")
        labels.to_csv(tmp_path / "y.csv")
    else:
        scores.to_parquet(tmp_path / "p.parquet", index=True)
        labels.to_parquet(tmp_path / "y.parquet", index=True)
    CLASSES.check(read_predictions(tmp_path / f"p{suffix}", labels_path=tmp_path / f"y{suffix}"))


@pytest.mark.parametrize("constant", ["split", "date", "model", "customer", "id"])
def test_a_constant_column_is_no_key_and_the_order_is_said(tmp_path, constant):
    write(tmp_path / "p.csv", probs(**{constant: "a"}))
    write(tmp_path / "y.csv", pd.DataFrame({constant: "a", "label": WORDS}, index=range(N)))
    found = read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")
    CLASSES.check(found)
    assert any("in the order of the rows" in note for note in found.notes)


def test_two_keys_that_disagree_are_asked_about(tmp_path):
    ids, urls = np.array(IDS["text"]), np.array(IDS["paths"])
    write(tmp_path / "p.csv", probs(customer=ids, url=urls))
    labels = pd.DataFrame({"customer": ids[ORDER], "url": urls, "label": WORDS[ORDER]})
    write(tmp_path / "y.csv", labels)
    with pytest.raises(PredictionFileError, match="Say which names the rows"):
        read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")
    found = read_predictions(
        tmp_path / "p.csv", labels_path=tmp_path / "y.csv", id_column="customer"
    )
    CLASSES.check(found)


@pytest.mark.parametrize("key", ["id", "image", "customer"])
@pytest.mark.parametrize("extra", [[], ["x999"]])
def test_a_label_missing_in_the_middle_shifts_nothing(tmp_path, key, extra):
    ids = IDS["text"]
    write(tmp_path / "p.csv", probs(**{key: ids}))
    kept = [i for i in range(N) if i != 7]
    names = [ids[i] for i in kept] + extra
    labels = [*WORDS[kept], *(["cat"] * len(extra))]
    write(tmp_path / "y.csv", pd.DataFrame({key: names, "label": labels}))
    with pytest.raises(PredictionFileError, match=r"no label for row 7|fewer labels"):
        read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")


@pytest.mark.parametrize("id_column", ["image", "nothing"])
def test_an_id_column_that_is_given_is_never_replaced_by_the_order(tmp_path, id_column):
    write(tmp_path / "p.csv", probs(image=IDS["text"]))
    write(tmp_path / "y.csv", pd.DataFrame({"label": WORDS}))
    with pytest.raises(PredictionFileError, match=r"must have the column|names? .*column|holds"):
        read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv", id_column=id_column)


@pytest.mark.parametrize("name", ["image", "customer", "id"])
def test_ids_that_repeat_are_never_matched_at_random(tmp_path, name):
    ids = np.array([f"x{i // 2}" for i in range(N)])
    write(tmp_path / "p.csv", probs(**{name: ids}))
    write(tmp_path / "y.csv", pd.DataFrame({name: ids[ORDER], "label": WORDS[ORDER]}))
    with pytest.raises(PredictionFileError, match=r"not unique|Sort both"):
        read_predictions(tmp_path / "p.csv", labels_path=tmp_path / "y.csv")


# 2. Folders


def _two_parts(folder):
    folder.mkdir(exist_ok=True)
    table = probs(label=WORDS)
    write(folder / "part-1.csv", table.iloc[:20])
    write(folder / "part-2.csv", table.iloc[20:])
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
        write(folder / f"a.{kind}", probs(label=WORDS))
    if kind != "npy":
        shutil.copy(folder / f"a.{kind}", folder / f"b.{kind}")
    with pytest.raises(PredictionFileError, match="same table"):
        read_predictions(folder)


@pytest.mark.parametrize(
    "names", ["prob_cat prob_dog prob_ox", "cat dog ox", "score_cat score_dog score_ox"]
)
@pytest.mark.parametrize("first", ["probs", "logits"])
def test_parts_that_mix_probabilities_and_logits_are_refused(tmp_path, names, first):
    folder = tmp_path / "parts"
    folder.mkdir()
    for i, scores in enumerate([P, Z] if first == "probs" else [Z, P]):
        table = pd.DataFrame(scores, columns=names.split())
        write(folder / f"part-{i}.csv", table.assign(label=WORDS))
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
