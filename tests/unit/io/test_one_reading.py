"""Inputs that two readers once read differently: each has one reading, whole and in batches."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, Predictions, read_predictions, scan_predictions

P = np.array([[0.25, 0.75], [0.5, 0.5], [0.875, 0.125]])
Y = np.array([1, 0, 0])
COLUMNS = {"prob_a": P[:, 0], "prob_b": P[:, 1], "label": ["b", "a", "a"]}


def _joined(batches: list[Predictions]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([b.scores for b in batches]), np.concatenate([b.labels for b in batches])


def _read_both(path: Path, **options: object) -> Predictions:
    """Read whole and in batches of 1, 2 and all rows; the rows must be the same."""
    whole = read_predictions(path, **options)
    for batch_rows in (1, 2, 65_536):
        scores, labels = _joined(
            list(scan_predictions(path, batch_rows=batch_rows, **options).batches())
        )
        assert_array_equal(scores, whole.scores)
        assert scores.dtype == whole.scores.dtype
        assert_array_equal(labels, whole.labels)
    return whole


def test_a_folder_of_npz_with_class_names(tmp_path):
    for i in range(2):
        p, y = np.roll(P, i, axis=0), np.roll(Y, i)
        np.savez(tmp_path / f"part-{i}.npz", probs=p, labels=y, class_names=["a", "b"])
    found = _read_both(tmp_path)
    assert found.class_names == ("a", "b")
    assert_array_equal(found.labels, [*Y, *np.roll(Y, 1)])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("empty", [0, 1])
def test_a_part_with_a_header_and_no_rows(tmp_path, suffix, empty):
    for i in range(2):
        table = pa.table(COLUMNS).slice(0, 0 if i == empty else 3)
        if suffix == ".csv":
            pa.csv.write_csv(table, tmp_path / f"part-{i}.csv")
        else:
            pq.write_table(table, tmp_path / f"part-{i}.parquet")
    assert_array_equal(_read_both(tmp_path).scores, P)


def _npz(folder: Path) -> Path:
    np.savez(folder / "val.npz", probs=np.asfortranarray(P), labels=Y)
    return folder / "val.npz"


def _npy(folder: Path) -> Path:
    np.save(folder / "probs.npy", np.asfortranarray(P))
    np.save(folder / "labels.npy", Y)
    return folder


@pytest.mark.parametrize("write", [_npz, _npy])
def test_arrays_stored_column_by_column(tmp_path, write: Callable[[Path], Path]):
    assert_array_equal(_read_both(write(tmp_path)).scores, P)


@pytest.mark.parametrize("options", [{}, {"by": "note"}])
def test_a_column_that_becomes_text_after_the_first_rows(tmp_path, options):
    lines = ["0.5,0.5,a,1\n"] * 65_540 + ["0.25,0.75,b,late\n"]
    path = tmp_path / "val.csv"
    path.write_text("prob_a,prob_b,label,note\n" + "".join(lines))
    found = read_predictions(path, **options)
    assert (found.n_rows, found.labels[-1]) == (65_541, 1)
    if options:
        assert found.groups["note"][-1] == "late"
        assert {str(v) for v in found.groups["note"][:-1].tolist()} == {"1"}


def test_parquet_parts_whose_unused_column_changes_its_type(tmp_path):
    for i, more in enumerate([[1, 2, 3], ["x", "y", "z"]]):
        pq.write_table(pa.table({**COLUMNS, "note": more}), tmp_path / f"part-{i}.parquet")
    assert_array_equal(_read_both(tmp_path).scores, [*P, *P])


def test_parts_in_float32_then_float64_keep_every_digit(tmp_path):
    for i, dtype in enumerate([np.float32, np.float64]):
        p = np.array([1 / 3, 1 - 1 / 3]).astype(dtype)
        columns = {"prob_a": p[:1], "prob_b": p[1:], "label": ["a"]}
        pq.write_table(pa.table(columns), tmp_path / f"part-{i}.parquet")
    found = _read_both(tmp_path)
    assert found.scores.dtype == np.float64
    assert found.scores[1, 0] == 1 / 3


def test_missing_labels_of_sql_offer_to_leave_them_out(tmp_path):
    path = tmp_path / "val.tsv"
    path.write_text("prob\tlabel\n0.5\t1\n0.25\t\\N\n0.75\t0\n")
    for read in (read_predictions, scan_predictions):
        with pytest.raises(PredictionFileError, match="labels must not be missing") as caught:
            read(path)
        assert caught.value.fixes == ({"drop_missing": True},)
    found = _read_both(path, drop_missing=True)
    assert "1 row with missing values left out" in found.notes


def test_notes_count_all_rows(tmp_path):
    rows = ["0.33,0.33,0.33,a\n"] * 3 + ["0,0.5,0.5,a\n"] * 22
    path = tmp_path / "val.csv"
    path.write_text("a,b,c,label\n" + "".join(rows))
    notes = " | ".join(read_predictions(path).notes)
    assert "3 rows rounded so that they do not sum to 1" in notes
    assert "22 rows have a probability of exactly 0" in notes
    assert "the label of every row is a" in notes


def test_a_part_with_a_column_too_many_is_named(tmp_path):
    pq.write_table(pa.table(COLUMNS), tmp_path / "part-0.parquet")
    pq.write_table(pa.table({**COLUMNS, "note": [1, 2, 3]}), tmp_path / "part-1.parquet")
    with pytest.raises(PredictionFileError, match=r"part-1\.parquet: .*has in addition note"):
        read_predictions(tmp_path)
