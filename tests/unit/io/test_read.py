import hashlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions, write_probs

REAL = {
    "agnews_gpt2": (7600, 4),
    "cifar100_densenetbc100_netcal": (10000, 100),
    "cifar100_resnet20": (10000, 100),
    "cifar10_crossval_cleanlab": (10000, 10),
    "cifar10_lenet5_netcal": (10000, 10),
    "cifar10_resnet20": (10000, 10),
    "cifar10_resnet50_focalrepo_aigen": (10000, 10),
    "cifar10_resnet50_psrcal": (10000, 10),
    "iemocap_emotion_final_psrcal": (5473, 4),
    "imdb_crossval_cleanlab": (25000, 2),
}


@pytest.mark.parametrize("name", REAL)
def test_real_files(shared, name):
    path = shared / "data" / "logits" / f"{name}.npz"
    with np.load(path) as stored:
        key = next(k for k in stored if k in ("all_logits", "all_probs", "test_logits"))
        kind = key.split("_")[1]
        labels_key = key.replace(kind, "labels")
        found = read_predictions(path, **{f"{kind}_key": key}, labels_key=labels_key)
        assert_array_equal(found.scores, stored[key])
        assert_array_equal(found.labels, stored[labels_key])
    assert found.scores.shape == REAL[name]
    assert (found.kind, found.scores.dtype) == (kind, np.float32)


def test_a_real_file_shows_its_keys(shared):
    path = shared / "data" / "logits" / "cifar10_resnet50_psrcal.npz"
    with pytest.raises(
        PredictionFileError,
        match=r"`logits_key='train_logits'` .* or `logits_key="
        r"'val_logits'` .* or `logits_key='test_logits'` \(command line: --logits-k",
    ):
        read_predictions(path)


def test_checksum_and_source(npz):
    path = npz()
    found = read_predictions(str(path))
    assert found.checksum == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.source == path


def test_a_folder_without_predictions(tmp_path):
    with pytest.raises(PredictionFileError, match=r"has no files of predictions \(\.npz"):
        read_predictions(tmp_path)


@pytest.mark.parametrize("suffix", [".pkl", ".pt", ".joblib", ".csv", ".npz"])
def test_pickles_are_not_opened(tmp_path, suffix):
    path = tmp_path / f"val{suffix}"
    path.write_bytes(pickle.dumps(Path))
    with pytest.raises(PredictionFileError, match=r"pickle.* can run any code.*it is not opened"):
        read_predictions(path)


def test_unknown_suffix(tmp_path):
    path = tmp_path / "val.abc"
    path.write_bytes(b"\0\1")
    with pytest.raises(PredictionFileError, match=r"unknown suffix '\.abc'\. Give one of \.npz"):
        read_predictions(path)


def test_missing_and_empty(tmp_path):
    path = tmp_path / "val.npz"
    with pytest.raises(PredictionFileError, match=r"val\.npz: does not exist\. Check the name"):
        read_predictions(path)
    path.touch()
    with pytest.raises(PredictionFileError, match=r"val\.npz: is empty \(0 bytes\)"):
        read_predictions(path)


def test_no_permission(npz, monkeypatch):
    path = npz()

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # the tests may run as root, who may read all
    with pytest.raises(
        PredictionFileError, match=r"may not be read: permission denied\. Check who"
    ):
        read_predictions(path)


def test_other_system_errors(npz, monkeypatch):
    path = npz()

    def refuse(*args, **kwargs):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PredictionFileError, match=r"could not be read: Input/output error\."):
        read_predictions(path)


def test_a_pipe_does_not_hang(tmp_path):
    path = tmp_path / "val.npz"
    os.mkfifo(path)
    with pytest.raises(
        PredictionFileError, match=r"is not a regular file\. Save it to disk first"
    ):
        read_predictions(path)


def test_too_large_for_memory(npz, monkeypatch):
    def greedy(*_, **__):
        raise MemoryError

    path = npz()
    monkeypatch.setattr(np, "frombuffer", greedy)
    with pytest.raises(PredictionFileError, match=r"does not fit into memory"):
        read_predictions(path)


def test_input_must_be_a_kind(npz):
    with pytest.raises(
        ValueError, match=r"`input` must be 'logits', 'probs' or 'percent', got 'scores'"
    ):
        read_predictions(npz(), input="scores")


def test_progress_rises_to_the_total(npz):
    path = npz()
    seen = []
    read_predictions(path, progress=lambda done, total: seen.append((done, total)))
    total = 30
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert {t for _, t in seen} == {total}


def test_the_suffix_may_be_in_capitals(npz):
    path = npz()
    assert read_predictions(path.rename(path.with_suffix(".NPZ"))).kind == "logits"


def test_a_workbook_of_several_sheets(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "empty"
    for name, p in (("val", 0.25), ("test", 0.5)):
        sheet = book.create_sheet(name)
        sheet.append(["cat", "dog", "label"])
        sheet.append([p, 1 - p, "dog"])
    path = tmp_path / "val.xlsx"
    book.save(path)
    with pytest.raises(PredictionFileError, match=r"2 sheets that are not empty: val, test") as e:
        read_predictions(path)
    assert "--sheet val" in str(e.value)
    assert read_predictions(path, **e.value.fixes[1]).scores.tolist() == [[0.5, 0.5]]
    with pytest.raises(PredictionFileError, match=r"empty, val, test; got 'x'"):
        read_predictions(path, sheet="x")
    del book["test"]
    book.save(path)
    found = read_predictions(path)
    assert found.scores.tolist() == [[0.25, 0.75]]
    assert 'only the sheet "val" is read, the others are empty' in found.notes


@pytest.mark.parametrize("names", [('""', "b"), ('"a"', "a"), ("a", '"')])
def test_class_names_of_quotes(tmp_path, names):
    p = np.array([[0.25, 0.75], [0.5, 0.5]])
    np.savez(tmp_path / "val.npz", probs=p, labels=np.array([0, 1]), class_names=names)
    given = read_predictions(tmp_path / "val.npz")
    write_probs(tmp_path / "out.csv", [p], like=given)
    found = read_predictions(tmp_path / "out.csv")
    assert found.class_names == names
    assert found.labels.tolist() == [0, 1]


def test_several_files_are_parts_of_one_table(tmp_path):
    for i, rows in enumerate(["0.25,0.75,dog\n", "0.5,0.5,cat\n0.9,0.1,cat\n"]):
        (tmp_path / f"part-{i}.csv").write_text("cat,dog,y_true\n" + rows)
    parts = [tmp_path / "part-0.csv", str(tmp_path / "part-1.csv")]
    found, folder = read_predictions(parts), read_predictions(tmp_path)
    assert (
        found.scores.tolist() == folder.scores.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]]
    )
    assert found.labels.tolist() == folder.labels.tolist() == [1, 0, 0]
    assert found.checksum == folder.checksum
    assert found.describe().startswith("part-0.csv and 1 more: 3 rows × 2 classes (cat, dog)")
    assert read_predictions(parts[:1]).checksum == read_predictions(parts[0]).checksum
    with pytest.raises(ValueError, match=r"`path` must name at least one file"):
        read_predictions([])


def test_a_text_table_and_its_output_need_no_pandas(tmp_path):
    """Importing it, as Arrow does to convert an array, takes longer than reading most files."""
    (tmp_path / "a.csv").write_text("id,p,label\n1,0.25,no\n2,0.5,yes\n3,0.75,yes\n")
    code = """
import sys
from focalibrate.io import read_predictions, write_probs
found = read_predictions("a.csv")
write_probs("b.csv", [found.scores], like=found)
print("pandas" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
    assert "yes" in (tmp_path / "b.csv").read_text()
