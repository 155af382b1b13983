import errno
import gzip
import importlib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.io import (
    FORMATS,
    PredictionFileError,
    Predictions,
    align,
    read_predictions,
    write_probs,
)
from focalibrate.io.predictions import Layout

WRITTEN = tuple(suffix for suffix in FORMATS if suffix != ".eval")
TEXT = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".xlsx")


def needs(suffix):
    if suffix in (".parquet", ".feather", ".arrow", ".csv.zst"):
        pytest.importorskip("pyarrow")
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl")
    if suffix == ".pt":
        pytest.importorskip("torch")


def cut(array, n):
    return (array[i : i + n] for i in range(0, len(array), n))


def back(path, like):
    if path.suffix == ".npy":
        return read_predictions(path, input="probs")
    return read_predictions(path, need_labels=like.labels is not None)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", WRITTEN)
@pytest.mark.parametrize("names", [("cat", "a,b", 'say "x"'), ("3", "1", "2"), None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("labelled", [True, False])
def test_what_is_written_is_read(tmp_path, val, probs, suffix, names, dtype, labelled):
    needs(suffix)
    exact = probs.astype(dtype)
    like = replace(
        val,
        scores=val.scores.astype(dtype),
        class_names=names,
        labels=val.labels if labelled else None,
        layout=Layout(),
    )
    path = tmp_path / f"out{suffix}"
    write_probs(path, cut(exact, 7), like=like)
    found = back(path, like)
    assert found.kind == "probs"
    # Excel keeps 15 to 16 digits
    assert_allclose(found.scores.astype(dtype), exact, rtol=1e-15 if suffix == ".xlsx" else 0)
    if suffix not in TEXT:
        assert found.scores.dtype == dtype
    if suffix != ".npy":
        assert found.class_names == names
        assert (found.labels is None) == (not labelled)
        if labelled:
            assert_array_equal(found.labels, val.labels)
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, "val.npz"]


KEPT = "id,prob_a,prob_b,prob_c,target,note\n"


@pytest.mark.parametrize(
    "suffix",
    [
        ".csv",
        ".tsv",
        ".csv.gz",
        ".csv.bz2",
        ".csv.xz",
        ".csv.zst",
        ".csv.zip",
        ".parquet",
        ".feather",
        ".jsonl",
    ],
)
@pytest.mark.parametrize("labels", ["012", "abc"])
def test_other_columns_are_kept_in_place(tmp_path, probs, suffix, labels):
    needs(suffix)
    source = tmp_path / "in.csv"
    lines = [
        f"00{i},{','.join(map(repr, row))},{labels[i % 3]},x{i}\n"
        for i, row in enumerate(probs.astype(float).tolist())
    ]
    source.write_text(KEPT + "".join(lines))
    like = read_predictions(source, probs_atol=1e-3)
    path = tmp_path / f"out{suffix}"
    write_probs(path, [like.scores[:, ::-1]], like=like)
    found = read_predictions(path)
    assert found.class_names == ("a", "b", "c")
    assert_array_equal(found.scores, like.scores[:, ::-1])
    assert_array_equal(found.labels, like.labels)
    assert found.layout.names == ("id", "target", "note")
    if suffix == ".tsv":
        assert path.read_text().splitlines()[0] == KEPT.strip().replace(",", "\t")
    if suffix == ".csv":
        text = path.read_text().splitlines()
        assert text[0] + "\n" == KEPT
        assert text[1].startswith("000,")
        assert text[-1].endswith(f",{labels[2]},x29")


def test_a_parquet_index_and_its_types_are_kept(tmp_path, probs):
    pd = pytest.importorskip("pandas")
    index = pd.Index(pd.date_range("2026-01-01", periods=30), name="day")
    frame = pd.DataFrame(probs, columns=["0", "1", "2"], index=index)
    frame = frame.assign(y=pd.Categorical([0, 1, 2] * 10), n=range(30))
    frame.to_parquet(tmp_path / "in.parquet")
    like = read_predictions(tmp_path / "in.parquet")
    write_probs(tmp_path / "out.parquet", [probs[:10], probs[10:]], like=like)
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found.columns.tolist() == ["prob_0", "prob_1", "prob_2", "y", "n"]
    assert found.index.equals(index)
    assert found["n"].equals(frame["n"])
    assert_array_equal(found[["prob_0", "prob_1", "prob_2"]], probs)


def test_a_column_of_the_same_name_is_kept_beside(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("logit_a,logit_b,prob_a,prob_b\n0,0,0.25,0.75\n")
    like = read_predictions(source, input="logits")
    write_probs(tmp_path / "out.csv", [np.full((1, 2), 0.5)], like=like)
    assert (tmp_path / "out.csv").read_text() == (
        "prob_a,prob_b,uncalibrated_prob_a,uncalibrated_prob_b\n0.5,0.5,0.25,0.75\n"
    )


def test_one_column_stays_one_column(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("id,y_prob,y\n7,0.25,no\n8,0.75,yes\n")
    like = read_predictions(source)
    write_probs(tmp_path / "out.csv", [np.array([[0.5, 0.5], [0.1, 0.9]])], like=like)
    assert (tmp_path / "out.csv").read_text() == "id,y_prob,y\n7,0.5,no\n8,0.9,yes\n"


def test_labels_that_are_positions_keep_their_meaning_after_aligning(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("y,prob_dog,prob_cat\n0,0.25,0.75\n1,0.5,0.5\n")
    like = align(read_predictions(source), ("cat", "dog"))
    assert like.labels.tolist() == [1, 0]
    write_probs(tmp_path / "out.csv", [np.array([[0.1, 0.9], [0.2, 0.8]])], like=like)
    assert (tmp_path / "out.csv").read_text() == ("y,prob_dog,prob_cat\n0,0.9,0.1\n1,0.8,0.2\n")


def test_numpy_reads_what_we_write(tmp_path, val, probs):
    write_probs(tmp_path / "out.npz", cut(probs, 4), like=val)
    write_probs(tmp_path / "out.npy", cut(probs, 4), like=val)
    with np.load(tmp_path / "out.npz") as stored:
        assert_array_equal(stored["probs"], probs)
        assert_array_equal(stored["labels"], val.labels)
        assert stored["class_names"].tolist() == list(val.class_names)
    assert_array_equal(np.load(tmp_path / "out.npy"), probs)


def test_equal_content_makes_equal_bytes(tmp_path, val, probs):
    write_probs(tmp_path / "a.npz", cut(probs, 4), like=val)
    write_probs(tmp_path / "b.npz", cut(probs, 9), like=val)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("churn_probability", "churn_probability"),
        ("prob", "prob"),
        ("y_score", "prob_1"),
        ("percent_prob", "prob_1"),
    ],
)
def test_a_column_called_a_probability_keeps_its_name(tmp_path, name, written):
    (tmp_path / "a.csv").write_text(f"id,{name}\n7,0.25\n8,0.5\n")
    like = read_predictions(tmp_path / "a.csv", input="probs", score_columns=[name])
    write_probs(tmp_path / "b.csv", [np.array([[0.6, 0.4], [0.1, 0.9]])], like=like)
    assert (tmp_path / "b.csv").read_text() == f"id,{written}\n7,0.4\n8,0.9\n"


@pytest.mark.parametrize(
    "suffix", [*WRITTEN, ".csv.gz", ".csv.bz2", ".jsonl.xz", ".csv.zip", ".csv.zst"]
)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_interrupted_writing_leaves_nothing(tmp_path, val, probs, suffix, error):
    needs(suffix)

    def blocks():
        yield probs[:10]
        raise error

    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(error):
        write_probs(out / f"out{suffix}", blocks(), like=val)
    assert not list(out.iterdir())


@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".safetensors"])
def test_a_full_disk_leaves_nothing(tmp_path, val, probs, suffix, monkeypatch):
    real_open = Path.open

    class Full:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            self.file.close()

        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    def full(self, mode="r", *args, **kwargs):
        file = real_open(self, mode, *args, **kwargs)
        return Full(file) if "w" in mode else file

    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setattr(Path, "open", full)
    if suffix == ".npz":
        monkeypatch.setattr("zipfile._ZipWriteFile.write", Full.write)
    with pytest.raises(
        PredictionFileError, match=rf"out{suffix}: could not be written: No space l"
    ):
        write_probs(out / f"out{suffix}", [probs], like=val)
    assert not list(out.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
@pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv", ".parquet", ".safetensors", ".jsonl"])
def test_a_disk_that_is_really_full(tmp_path, val, probs, suffix, monkeypatch):
    write = importlib.import_module("focalibrate.io.write")

    writer = write.WRITERS[suffix]
    monkeypatch.setitem(
        write.WRITERS, suffix, lambda path, blocks, like: writer(Path("/dev/full"), blocks, like)
    )
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(
        PredictionFileError, match=r"could not be written: No space left on device"
    ):
        write_probs(out / f"out{suffix}", [probs], like=val)
    assert not list(out.iterdir())


def test_a_compressed_table_is_written_as_one_that_is_not(tmp_path):
    """The name of the temporary file does not say the format of a compressed one."""
    for suffix in (".csv", ".tsv"):
        path = tmp_path / f"val{suffix}"
        mark = {".csv": ",", ".tsv": "\t"}[suffix]
        path.write_text(mark.join(["p_cat", "p_dog", "label"]) + f"\n.25{mark}.75{mark}dog\n")
        like = read_predictions(path)
        for out in (".csv", ".tsv"):
            write_probs(tmp_path / f"plain{out}", [like.scores], like=like, force=True)
            write_probs(tmp_path / f"packed{out}.gz", [like.scores], like=like, force=True)
            plain = (tmp_path / f"plain{out}").read_bytes()
            assert gzip.decompress((tmp_path / f"packed{out}.gz").read_bytes()) == plain
    for name in ("a.csv.zip", "b.csv.zip"):
        write_probs(tmp_path / name, [like.scores], like=like)
    assert (tmp_path / "a.csv.zip").read_bytes() == (tmp_path / "b.csv.zip").read_bytes()
    assert zipfile.ZipFile(tmp_path / "a.csv.zip").namelist() == ["predictions.csv"]


def test_no_overwriting_without_force(tmp_path, val, probs):
    path = tmp_path / "out.npy"
    path.write_text("old")
    with pytest.raises(FileExistsError, match=r"already exists and is not overwritten"):
        write_probs(path, [probs], like=val)
    assert path.read_text() == "old"
    write_probs(path, [probs], like=val, force=True)
    assert_array_equal(np.load(path), probs)


def test_a_memory_map_may_be_replaced_by_its_own_result(tmp_path, probs):
    path = tmp_path / "probs.npy"
    np.save(path, probs)
    like = read_predictions(path)
    write_probs(path, (block[:, ::-1] for block in cut(like.scores, 8)), like=like, force=True)
    assert_array_equal(np.load(path), probs[:, ::-1])


def test_blocks_must_fit(tmp_path, val, probs):
    path = tmp_path / "out.npz"
    with pytest.raises(PredictionFileError, match=r"must have shape \[n, 3\], got \(30, 2\)"):
        write_probs(path, [probs[:, :2]], like=val)
    with pytest.raises(PredictionFileError, match=r"must make up 30 rows, got 20 of these"):
        write_probs(path, [probs[:20]], like=val)
    with pytest.raises(PredictionFileError, match=r"must make up 30 rows, got more than these"):
        write_probs(path, [probs, probs], like=val)
    assert not path.exists()


def test_bad_targets(tmp_path, val, probs):
    with pytest.raises(PredictionFileError, match=r"out\.mat: has an unknown suffix '\.mat'"):
        write_probs(tmp_path / "out.mat", [probs], like=val)
    with pytest.raises(FileNotFoundError, match=r"gone does not exist\. Make it first"):
        write_probs(tmp_path / "gone" / "out.npy", [probs], like=val)


def test_progress_counts_rows(tmp_path, val, probs):
    seen = []
    write_probs(tmp_path / "out.npy", cut(probs, 12), like=val, progress=lambda *a: seen.append(a))
    assert seen == [(12, 30), (24, 30), (30, 30)]


@pytest.mark.slow
@given(
    names=st.lists(
        st.text("019.-a", min_size=1, max_size=3)
        | st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6),
        min_size=3,
        max_size=3,
        unique=True,
    ),
    seed=st.integers(0, 2**32 - 1),
    labels_as=st.sampled_from(["index", "name"]),
)
@example(names=["0", "00", ".1"], seed=0, labels_as="index")
@example(names=["0", "00", ".1"], seed=1, labels_as="index")
@example(names=["0.5", ".50", "1"], seed=1, labels_as="name")
@pytest.mark.parametrize("suffix", [".csv", ".safetensors", ".npz"])
def test_any_class_names_survive(tmp_path_factory, suffix, names, seed, labels_as):
    rng = np.random.default_rng(seed)
    exact = rng.dirichlet(np.ones(3), size=5)
    like = Predictions(
        scores=exact,
        kind="probs",
        labels=rng.integers(3, size=5),
        class_names=tuple(names),
        source=Path("x"),
        checksum="",
        layout=Layout(labels_as=labels_as),
    )
    path = tmp_path_factory.mktemp("names") / f"out{suffix}"
    write_probs(path, [exact], like=like)
    found = read_predictions(path)
    own = found.class_names or ("0", "1", "2")
    assert set(own) == set(names)
    order = [own.index(name) for name in names]
    assert_array_equal(np.argsort(order)[found.labels], like.labels)
    assert_array_equal(found.scores[:, order], exact)
