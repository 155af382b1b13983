import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate_papers.datasets import TABLES, DataSetError, find_tables, load, table_checksum
from focalibrate_papers.datasets.tables import RawTable, read_csv_table, scaled


def write(path, text):
    path.write_text(text)
    return path


def test_a_csv_table(tmp_path):
    path = write(
        tmp_path / "pets.csv",
        "weight,colour,class,age\n4,red,cat,1\n?,blue,dog,2\n6,,cat,3\n",
    )
    table = read_csv_table(path)
    assert table.class_names == ("cat", "dog")
    assert table.labels.tolist() == [0, 1, 0]
    assert table.is_categorical.tolist() == [False, True, False]
    assert_allclose(table.X, [[4, 1, 1], [np.nan, 0, 2], [6, np.nan, 3]])


def test_the_last_column_is_the_label_unless_one_is_named_so(tmp_path):
    table = read_csv_table(write(tmp_path / "a.csv", "a,b\n1,10\n2,9\n"))
    assert table.class_names == ("9", "10")  # as numbers


def test_scaling_knows_only_the_training_rows():
    nan = np.nan
    X = np.array([[1, 0, 5], [3, 1, 5], [nan, 0, 5], [9, 2, nan], [nan, nan, 7]])
    table = RawTable(X, np.zeros(5, np.int64), np.array([False, True, False]), ("a",))
    got = scaled(table, np.array([0, 1, 2]))
    assert got.dtype == np.float32
    assert_allclose(
        got,
        [
            # standardised, missing | one column per category of train | constant in train
            [-1, 0, 1, 0, 0],
            [1, 0, 0, 1, 0],
            [0, 1, 1, 0, 0],
            [7, 0, 0, 0, 0],
            [0, 1, 0, 0, 2],
        ],
    )


def test_an_npz_table_is_split_with_the_shares_of_the_classes(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([3, 5], [80, 20])
    np.savez(tmp_path / "few.npz", X=rng.normal(7, 3, (100, 2)).astype(np.float32), y=y)
    (tmp_path / "manifest.json").write_text(
        json.dumps([{"name": "few", "class_names": ["no", "yes"]}])
    )
    data = load("few", data=tmp_path, seed=2)
    assert [len(s) for s in (data.train, data.validation, data.test)] == [60, 20, 20]
    assert np.bincount(data.test.labels).tolist() == [16, 4]
    assert (data.kind, data.class_names) == ("tabular", ("no", "yes"))
    assert_allclose(data.train.inputs.mean(axis=0), 0, atol=1e-5)
    assert_allclose(data.train.inputs.std(axis=0), 1, atol=1e-5)
    again, other = load("few", data=tmp_path, seed=2), load("few", data=tmp_path, seed=3)
    assert np.array_equal(data.train.inputs, again.train.inputs)
    assert not np.array_equal(data.train.inputs, other.train.inputs)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,class\n", r"must hold a line of names and lines of values"),
        ("a,class\n1,2,3\n", r"line 2 has 3 cells, the first 2"),
        ("a,class\n1,\n2,x\n", r"a label in column 'class' is missing"),
        ("a,class\n1,x\n2,y\n", r"must hold at least 3 rows, found 2"),
    ],
)
def test_bad_csv_tables(tmp_path, content, message):
    write(tmp_path / "bad.csv", content)
    with pytest.raises(DataSetError, match=rf"data set 'bad': .*bad\.csv: .*{message}"):
        load("bad", data=tmp_path)


def test_bad_npz_tables(tmp_path):
    np.savez(tmp_path / "bad.npz", X=np.zeros((3, 2)))
    with pytest.raises(DataSetError, match=r"has no array 'y'; it has X"):
        load("bad", data=tmp_path)
    np.savez(tmp_path / "bad.npz", X=np.zeros((3, 2)), y=np.zeros(4))
    with pytest.raises(DataSetError, match=r"found \[3, 2\] and \[4\]"):
        load("bad", data=tmp_path)
    np.savez(tmp_path / "bad.npz", X=np.zeros((3, 2)), y=np.zeros(3), is_categorical=[True])
    with pytest.raises(DataSetError, match=r"one entry for each of the 2 columns, found 1"):
        load("bad", data=tmp_path)
    (tmp_path / "bad.npz").write_bytes(b"PK nonsense")
    with pytest.raises(DataSetError, match=r"is truncated or damaged"):
        load("bad", data=tmp_path)


def test_a_foreign_manifest_and_foreign_text(tmp_path):
    np.savez(tmp_path / "few.npz", X=np.zeros((5, 1)), y=[0, 1, 0, 1, 1])
    (tmp_path / "manifest.json").write_text('{"name": 3}')
    assert load("few", data=tmp_path).class_names == ("0", "1")
    (tmp_path / "latin.csv").write_bytes("a,class\n1,\xe9\n".encode("latin-1"))
    with pytest.raises(DataSetError, match=r"latin\.csv: is not utf-8-sig text"):
        load("latin", data=tmp_path)


def test_the_real_tables(shared):
    assert find_tables(shared / "data") == sorted(TABLES)
    for name, source in TABLES.items():
        with np.load(shared / "data" / "tabular" / f"{name}.npz") as table:
            assert table_checksum(table["X"], table["y"]) == source.checksum, name
    for name in ("autos", "primary_tumor", "sk_iris", "tae"):
        data = load(name, data=shared / "data")
        assert np.isfinite(data.train.inputs).all()
        assert np.isfinite(data.test.inputs).all()
        assert data.n_classes == len(data.class_names)
    assert load("car", data=shared / "data").train.inputs.shape == (1036, 21)
