import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate.io import (
    FORMATS,
    Layout,
    PredictionFileError,
    Predictions,
    read_predictions,
    write_probs,
)
from focalibrate.io._columns import plain_names


def cut(array, n):
    return (array[i : i + n] for i in range(0, len(array), n))


def back(path, like):
    if path.suffix == ".npy":
        return read_predictions(path, input="probs")
    return read_predictions(path, need_labels=like.labels is not None)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("names", [("cat", "a,b", 'say "x"'), ("3", "1", "2"), None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("labelled", [True, False])
def test_what_is_written_is_read(tmp_path, val, probs, suffix, names, dtype, labelled):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    exact = probs.astype(dtype)
    like = replace(
        val,
        scores=val.scores.astype(dtype),
        class_names=names,
        labels=val.labels if labelled else None,
    )
    path = tmp_path / f"out{suffix}"
    write_probs(path, cut(exact, 7), like=like)
    found = back(path, like)
    assert found.kind == "probs"
    assert_array_equal(found.scores.astype(dtype), exact)
    if suffix != ".csv":
        assert found.scores.dtype == dtype
    if suffix != ".npy":
        assert found.class_names == names
        assert (found.labels is None) == (not labelled)
        if labelled:
            assert_array_equal(found.labels, val.labels)
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, "val.npz"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("labels_as", ["index", "name"])
@pytest.mark.parametrize("list_column", [True, False])
def test_a_table_looks_like_its_input(tmp_path, val, probs, suffix, labels_as, list_column):
    pytest.importorskip("pyarrow")
    layout = Layout(label_column="target", labels_as=labels_as, list_column=list_column)
    path = tmp_path / f"out{suffix}"
    write_probs(path, [probs], like=replace(val, layout=layout))
    found = read_predictions(path)
    assert (found.layout.label_column, found.layout.labels_as) == ("target", labels_as)
    assert found.layout.list_column == (list_column and suffix == ".parquet")
    assert found.class_names == val.class_names
    assert_array_equal(found.labels, val.labels)


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


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_interrupted_writing_leaves_nothing(tmp_path, val, probs, suffix, error):
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
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_disk_that_is_really_full(tmp_path, val, probs, suffix, monkeypatch):
    from focalibrate.io import write

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
    with pytest.raises(PredictionFileError, match=r"out\.txt: has an unknown suffix '\.txt'"):
        write_probs(tmp_path / "out.txt", [probs], like=val)
    with pytest.raises(FileNotFoundError, match=r"gone does not exist\. Make it first"):
        write_probs(tmp_path / "gone" / "out.npy", [probs], like=val)
    broken = replace(val, class_names=("a", "b\nc", "d"))
    with pytest.raises(PredictionFileError, match=r"class 'b\\nc' has a line break"):
        write_probs(tmp_path / "out.csv", [probs], like=broken)


def test_progress_counts_rows(tmp_path, val, probs):
    seen = []
    write_probs(tmp_path / "out.npy", cut(probs, 12), like=val, progress=lambda *a: seen.append(a))
    assert seen == [(12, 30), (24, 30), (30, 30)]


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
    assert found.class_names in (like.class_names, plain_names(like.class_names))
    assert_array_equal(found.labels, like.labels)
    assert_array_equal(found.scores, exact)
