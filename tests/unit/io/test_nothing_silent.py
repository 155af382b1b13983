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
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.io import PredictionFileError, align, read_predictions

RNG = np.random.default_rng(7)
N = 40
NAMES = ("cat", "dog", "ox")
P = RNG.dirichlet(np.ones(3), size=N).round(6)
P[:, 2] = 1 - P[:, 0] - P[:, 1]
Y = np.array([RNG.choice(3, p=p / p.sum()) for p in P])
Z = np.log(P) + RNG.normal(size=(N, 1))
WORDS = np.array(NAMES)[Y]
ORDER = RNG.permutation(N)


def frame(**more):
    """Return a table of probabilities, one column per class, and other columns."""
    return pd.DataFrame({**{f"prob_{n}": P[:, i] for i, n in enumerate(NAMES)}, **more})


def save(table, path, **options):
    """Write a data frame in the format of the suffix."""
    if path.suffix == ".csv":
        table.to_csv(path, index=False, **options)
    elif path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    else:
        table.to_json(path, orient="records", lines=True)
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


# 2. Folders


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
