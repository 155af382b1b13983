"""Reading in batches gives what reading whole gives."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions, scan_predictions

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

NAMES = ("cat", "dog", "eel")


def _data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)).astype(np.float32)
    p = np.exp(z.astype(np.float64))
    p = (p / p.sum(axis=1, keepdims=True)).astype(np.float32)
    return z, p, rng.integers(3, size=n)


def _columns(scores: np.ndarray, labels: np.ndarray, *, prefix: str) -> dict[str, object]:
    rows = np.arange(len(labels))
    return {
        "id": [f"row {i}" for i in rows],
        **{f"{prefix}_{name}": scores[:, i] for i, name in enumerate(NAMES)},
        "label": [NAMES[i] for i in labels],
        "weight": 0.5 + rows % 3,
        "site": np.array(["north", "south"])[rows % 2],
    }


def _write(path: Path, scores: np.ndarray, labels: np.ndarray, prefix: str) -> None:
    columns = _columns(scores, labels, prefix=prefix)
    suffix = "".join(path.suffixes)
    if suffix == ".parquet":
        pq.write_table(pa.table(columns), path, row_group_size=7)
    elif suffix in (".feather", ".arrow"):
        feather.write_feather(pa.table(columns), str(path), chunksize=5)
    elif suffix in (".csv", ".csv.gz"):
        lines = [",".join(columns)]
        lines += [",".join(str(c[i]) for c in columns.values()) for i in range(len(labels))]
        text = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    elif suffix == ".npz":
        np.savez_compressed(path, **{prefix + "s": scores, "labels": labels, "class_names": NAMES})
    elif suffix == ".jsonl":
        pytest.importorskip("pandas").DataFrame(columns).to_json(
            path, orient="records", lines=True, double_precision=15
        )
    else:
        raise AssertionError(suffix)


def assert_same(found: list, whole) -> None:
    assert_array_equal(np.concatenate([b.scores for b in found]), whole.scores)
    assert {b.scores.dtype for b in found} == {whole.scores.dtype}
    if whole.labels is None:
        assert all(b.labels is None for b in found)
    else:
        assert_array_equal(np.concatenate([b.labels for b in found]), whole.labels)
    if whole.weights is not None:
        assert_array_equal(np.concatenate([b.weights for b in found]), whole.weights)
    for name, values in whole.groups.items():
        assert_array_equal(np.concatenate([b.groups[name] for b in found]), values)
    assert {b.class_names for b in found} == {whole.class_names}
    assert {b.kind for b in found} == {whole.kind}


FORMATS = [".parquet", ".feather", ".arrow", ".csv", ".csv.gz", ".npz", ".jsonl"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("prefix", ["prob", "logit"])
@settings(max_examples=8)
@given(sizes=st.lists(st.integers(1, 20), min_size=1, max_size=3), batch=st.integers(1, 25))
def test_batches_are_the_rows_of_the_whole(tmp_path_factory, suffix, prefix, sizes, batch):
    folder = tmp_path_factory.mktemp("parts")
    for i, n in enumerate(sizes):
        z, p, y = _data(n, seed=i)
        _write(folder / f"part-{i}{suffix}", p if prefix == "prob" else z, y, prefix)
    options = {} if suffix == ".npz" else {"weight_column": "weight", "by": "site"}
    if suffix == ".npz" and len(sizes) > 1:  # arrays of several archives are not joined whole
        sizes = sizes[:1]
    source = folder if len(sizes) > 1 else folder / f"part-0{suffix}"
    whole = read_predictions(source, **options)
    scan = scan_predictions(source, batch_rows=batch, **options)
    assert_same(list(scan.batches()), whole)
    by_part = [b for i in range(len(scan.parts)) for b in scan.batches(i)]
    assert_same(by_part, whole)
    assert max(b.n_rows for b in by_part) <= batch
    assert (scan.kind, scan.class_names) == (whole.kind, whole.class_names)
    if suffix in (".parquet", ".npz"):
        assert [part.n_rows for part in scan.parts] == sizes
        assert scan.n_rows == sum(sizes)


@pytest.mark.parametrize("head", [256, 65_536])
def test_more_rows_than_the_head(tmp_path, head):
    z, _, y = _data(1000, seed=0)
    for suffix in (".parquet", ".csv", ".npz"):
        path = tmp_path / f"val{suffix}"
        _write(path, z, y, "logit")
        scan = scan_predictions(path, batch_rows=99, head_rows=head)
        assert_same(list(scan.batches()), read_predictions(path))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_npy_with_labels_in_another_file(tmp_path, dtype):
    z, _, y = _data(40, seed=1)
    np.save(tmp_path / "z.npy", (8 * z).astype(dtype))
    np.save(tmp_path / "y.npy", y)
    options = {"input": "logits", "labels_path": tmp_path / "y.npy"}
    whole = read_predictions(tmp_path / "z.npy", **options)
    scan = scan_predictions(tmp_path / "z.npy", batch_rows=7, **options)
    assert_same(list(scan.batches()), whole)
    assert scan.describe() == "z.npy: 40 rows × 3 classes, logits, labels in y.npy"


def test_folder_of_npy_and_a_column_order_array(tmp_path):
    z, _, y = _data(40, seed=1)
    for i in range(2):
        rows = slice(20 * i, 20 * i + 20)
        np.save(tmp_path / f"logits-{i}.npy", z[rows])
        np.save(tmp_path / f"labels-{i}.npy", y[rows])
    scan = scan_predictions(tmp_path, batch_rows=6)
    assert_same(list(scan.batches()), read_predictions(tmp_path))
    assert [part.n_rows for part in scan.parts] == [20, 20]
    np.save(tmp_path / "other.npy", np.asfortranarray(z))
    found = list(scan_predictions(tmp_path / "other.npy", input="logits", batch_rows=9).batches())
    assert_array_equal(np.concatenate([b.scores for b in found]), z)


def test_safetensors_also_of_bfloat16(tmp_path):
    import json

    bits = (np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32).view(np.uint32)) >> 16
    y = np.arange(11) % 3
    data = bits.astype("<u2").tobytes() + y.astype("<i8").tobytes()
    header = {
        "logits": {"dtype": "BF16", "shape": [11, 3], "data_offsets": [0, 66]},
        "labels": {"dtype": "I64", "shape": [11], "data_offsets": [66, 154]},
        "__metadata__": {"class_names": json.dumps(NAMES)},
    }
    raw = json.dumps(header).encode()
    path = tmp_path / "val.safetensors"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
    assert_same(list(scan_predictions(path, batch_rows=4).batches()), read_predictions(path))


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_one_column_whose_first_rows_have_one_class(tmp_path, batch):
    path = tmp_path / "val.csv"
    rows = [f"{p / 40},{'spam' if p > 20 else 'ham'}" for p in range(40)]
    path.write_text("prob_spam,y_true\n" + "\n".join(rows) + "\n")
    whole = read_predictions(path)
    assert_same(list(scan_predictions(path, batch_rows=batch, head_rows=4).batches()), whole)


def test_rounded_rows_are_normalised_one_by_one(tmp_path):
    _, p, y = _data(30, seed=2)
    p = p.astype(np.float64)
    p[::7] = p[::7].round(2)
    path = tmp_path / "val.npz"
    np.savez(path, probs=p, labels=y)
    whole = read_predictions(path, probs_atol=0.05)
    assert_same(list(scan_predictions(path, batch_rows=4, probs_atol=0.05).batches()), whole)


def test_missing_rows_are_dropped_batch_by_batch(tmp_path):
    path = tmp_path / "val.csv"
    lines = ["0.5,0.5,a", ",,", "0.25,0.75,b", "0.1,0.9,", "nan,0.9,b", "1,0,a"]
    path.write_text("prob_a,prob_b,label\n" + "\n".join(lines) + "\n")
    whole = read_predictions(path, drop_missing=True)
    scan = scan_predictions(path, batch_rows=1, drop_missing=True)
    assert_same(list(scan.batches()), whole)
    with pytest.raises(PredictionFileError, match="missing"):
        list(scan_predictions(path, batch_rows=1).batches())


def test_parts_that_disagree_are_refused_by_name(tmp_path):
    z, _, y = _data(5, seed=0)
    for i in range(3):
        _write(tmp_path / f"part-{i}.parquet", z + i, y, "logit")
    pq.write_table(pa.table({"logit_cat": z[:, 0], "label": y}), tmp_path / "part-2.parquet")
    with pytest.raises(PredictionFileError, match=r"part-2\.parquet: must have the columns of"):
        scan_predictions(tmp_path)
    columns = _columns(z, y, prefix="logit") | {"logit_eel": ["a"] * 5}
    pq.write_table(pa.table(columns), tmp_path / "part-2.parquet")
    with pytest.raises(PredictionFileError, match=r"part-2.*`logit_eel` must hold numbers"):
        scan_predictions(tmp_path)


def test_empty_parts_and_other_column_orders(tmp_path):
    z, _, y = _data(5, seed=0)
    columns = _columns(z, y, prefix="logit")
    empty = pa.table(columns).slice(0, 0)
    pq.write_table(empty, tmp_path / "part-0.parquet")
    pq.write_table(pa.table(columns), tmp_path / "part-1.parquet")
    turned = dict(reversed(list(columns.items())))
    pq.write_table(pa.table(turned), tmp_path / "part-2.parquet")
    scan = scan_predictions(tmp_path)
    found = [b.scores for b in scan.batches()]
    assert_array_equal(np.concatenate(found), np.concatenate([z, z]))
    assert [Path(part.name).name for part in scan.parts] == ["part-1.parquet", "part-2.parquet"]


def test_a_bad_row_is_named_by_part_and_row(tmp_path):
    _, p, y = _data(40, seed=0)
    p[33, 1] = np.nan
    _write(tmp_path / "val.parquet", p, y, "prob")
    with pytest.raises(PredictionFileError, match=r"nan is in row 33 .0-based"):
        list(scan_predictions(tmp_path / "val.parquet", batch_rows=10, head_rows=4).batches())
    text = "logit_a,logit_b,label\n" + "1,2,a\n" * 300 + "1,oops,b\n"
    (tmp_path / "val.csv").write_text(text)
    with pytest.raises(PredictionFileError, match=r"`logit_b` holds numbers.*row 300.*'oops'"):
        list(scan_predictions(tmp_path / "val.csv", batch_rows=64, head_rows=200).batches())


def test_labels_of_another_length_and_other_ids_are_refused(tmp_path):
    z, _, y = _data(10, seed=0)
    np.savez(tmp_path / "val.npz", logits=z, labels=y[:9])
    with pytest.raises(PredictionFileError, match="fewer labels than rows: 9 labels, 10 rows"):
        scan_predictions(tmp_path / "val.npz")
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "long.npy", np.r_[y, 0])
    long = {"input": "logits", "labels_path": tmp_path / "long.npy"}
    with pytest.raises(PredictionFileError, match="more labels than rows: 11 labels, 10 rows"):
        list(scan_predictions(tmp_path / "z.npy", **long).batches())
    _write(tmp_path / "val.parquet", z, y, "logit")
    lines = [f"row {i},{NAMES[y[i]]}" for i in range(10)]
    (tmp_path / "y.csv").write_text("\n".join(["id,label", *lines]) + "\n")
    good = scan_predictions(tmp_path / "val.parquet", labels_path=tmp_path / "y.csv", batch_rows=3)
    assert_array_equal(np.concatenate([b.labels for b in good.batches()]), y)
    lines[7] = f"row 99,{NAMES[y[7]]}"
    (tmp_path / "y.csv").write_text("\n".join(["id,label", *lines]) + "\n")
    bad = {"labels_path": tmp_path / "y.csv", "batch_rows": 3}
    with pytest.raises(PredictionFileError, match='column "id" differs'):
        list(scan_predictions(tmp_path / "val.parquet", **bad).batches())


def test_several_paths_globs_and_urls(tmp_path):
    z, _, y = _data(30, seed=0)
    for i in range(3):
        rows = slice(10 * i, 10 * i + 10)
        _write(tmp_path / f"part-{i}.parquet", z[rows], y[rows], "logit")
    for source in (
        str(tmp_path / "part-*.parquet"),
        [tmp_path / f"part-{i}.parquet" for i in range(3)],
        f"file://{tmp_path}",
        f"file://{tmp_path}/part-*.parquet",
        f"file://{tmp_path}/part-?.parquet",
    ):
        scan = scan_predictions(source, batch_rows=4)
        assert_array_equal(np.concatenate([b.scores for b in scan.batches()]), z)
        assert len(scan.parts) == 3
    turned = scan_predictions([tmp_path / "part-2.parquet", tmp_path / "part-0.parquet"])
    found = np.concatenate([b.scores for b in turned.batches()])
    assert_array_equal(found, np.concatenate([z[20:], z[:10]]))
    assert_array_equal(read_predictions(Path(f"file://{tmp_path}")).scores, z)
    for url in (f"file://{tmp_path}/none", "nowhere://bucket/x.csv"):
        with pytest.raises(PredictionFileError, match=url.partition(":")[0]):
            scan_predictions(url)


def test_hive_folders_give_columns(tmp_path):
    z, _, y = _data(30, seed=0)
    for name, k in zip(NAMES, range(3), strict=True):
        folder = tmp_path / f"label={name}"
        folder.mkdir()
        columns = {f"logit_{n}": z[y == k][:, i] for i, n in enumerate(NAMES)}
        pq.write_table(pa.table(columns), folder / "part-0.parquet")
    assert_same(
        list(scan_predictions(tmp_path, batch_rows=4).batches()), read_predictions(tmp_path)
    )


def test_weights_may_be_zero_in_a_batch_but_not_in_all(tmp_path):
    text = "logit_a,logit_b,label,w\n" + "1,2,a,0\n" * 3 + "2,1,b,1\n"
    (tmp_path / "val.csv").write_text(text)
    path = tmp_path / "val.csv"
    found = list(scan_predictions(path, batch_rows=1, weight_column="w").batches())
    assert [b.weights.tolist() for b in found] == [[0.0], [0.0], [0.0], [1.0]]
    path.write_text(text.replace(",1\n", ",0\n"))
    with pytest.raises(PredictionFileError, match="`w` must not all be 0"):
        list(scan_predictions(path, batch_rows=1, weight_column="w").batches())


def test_kept_columns_of_a_batch_can_be_written_again(tmp_path):
    z, _, y = _data(9, seed=0)
    for suffix in (".csv", ".parquet"):
        path = tmp_path / f"val{suffix}"
        _write(path, z, y, "logit")
        ids = []
        for batch in scan_predictions(path, batch_rows=5).batches(keep=True):
            kept = batch.layout.rest()
            assert len(kept) == batch.n_rows
            ids += kept["id"].to_pylist()
        assert ids == [f"row {k}" for k in range(9)]


def test_a_url_that_fsspec_opens(tmp_path):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    z, _, y = _data(30, seed=0)
    for i in range(2):
        rows = slice(15 * i, 15 * i + 15)
        _write(tmp_path / f"part-{i}.csv", z[rows], y[rows], "logit")
        memory.pipe(f"/preds/part-{i}.csv", (tmp_path / f"part-{i}.csv").read_bytes())
    for url in ("memory://preds", "memory://preds/part-*.csv"):
        scan = scan_predictions(url, batch_rows=4)
        found = np.concatenate([b.scores for b in scan.batches()])
        assert_array_equal(found, z.astype(str).astype(np.float64))
        assert len(scan.parts) == 2


def test_a_password_in_a_url_is_never_shown():
    with pytest.raises(PredictionFileError, match=r"nowhere://bucket/x\.csv") as found:
        scan_predictions("nowhere://me:secret@bucket/x.csv")
    assert "secret" not in str(found.value)
    assert "secret" not in str(found.value.__cause__)


@pytest.mark.parametrize("name", ["a.npz", "a.pt"])
def test_a_number_among_the_arrays_is_passed_over_or_refused(tmp_path, name):
    probs = np.full((4, 2), 0.5)
    arrays = {"probs": probs, "labels": np.array([0, 1, 1, 0]), "epoch": np.array(3)}
    if name.endswith(".pt"):
        torch = pytest.importorskip("torch")
        torch.save({k: torch.from_numpy(v) for k, v in arrays.items()}, tmp_path / name)
    else:
        np.savez(tmp_path / name, **arrays)
    (batch,) = scan_predictions(tmp_path / name).batches()
    assert_array_equal(batch.labels, arrays["labels"])
    with pytest.raises(PredictionFileError, match="epoch"):
        list(scan_predictions(tmp_path / name, labels_key="epoch").batches())


@pytest.mark.parametrize("batch", [1, 2, 65_536])
def test_a_list_of_classes_in_a_column_names_them(tmp_path, batch):
    row = """{label},"[0.5, 0.5]","{names}"\n"""
    rows = [row.format(label=label, names="['b', 'a']") for label in "aba"]
    path = tmp_path / "a.csv"
    path.write_text("label,probs,labels\n" + "".join(rows))
    found = list(scan_predictions(path, batch_rows=batch).batches())
    assert np.concatenate([b.labels for b in found]).tolist() == [1, 0, 1]
    assert read_predictions(path).class_names == ("b", "a")


def test_a_later_row_that_lists_other_classes_is_refused(tmp_path):
    row = """{label},"[0.5, 0.5]","{names}"\n"""
    names = ["['b', 'a']", "['b', 'a']", "['a', 'b']"]
    rows = [row.format(label=label, names=n) for label, n in zip("aba", names, strict=True)]
    (tmp_path / "a.csv").write_text("label,probs,labels\n" + "".join(rows))
    with pytest.raises(PredictionFileError, match=r"same classes in every row, but row 2 "):
        list(scan_predictions(tmp_path / "a.csv", head_rows=2).batches())
