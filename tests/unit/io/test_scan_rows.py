"""Rows of a data set that are looked up, and logits that stay in half precision."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, scan_predictions
from focalibrate.io.formats import arrays


@pytest.fixture(autouse=True)
def short_rows_too(monkeypatch):
    monkeypatch.setattr(arrays, "FAR_APART", 1)


def _half(n=30, k=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)).astype(np.float16), rng.integers(k, size=n)


@pytest.mark.parametrize("n_parts", [1, 3])
def test_rows_are_looked_up_in_their_parts(tmp_path, n_parts):
    z, y = _half()
    for i, part in enumerate(np.array_split(np.arange(30), n_parts)):
        np.save(tmp_path / f"logits-{i}.npy", z[part])
        if n_parts > 1:
            np.save(tmp_path / f"labels-{i}.npy", y[part])
    np.save(tmp_path.parent / "y.npy", y)
    if n_parts == 1:
        options = {"labels_path": tmp_path.parent / "y.npy", "input": "logits"}
        scan = scan_predictions(tmp_path / "logits-0.npy", batch_rows=4, **options)
    else:
        scan = scan_predictions(tmp_path, batch_rows=4)
    assert scan.can_take
    positions = np.array([0, 3, 9, 10, 11, 19, 20, 29])
    found = list(scan.take(positions))
    scores = np.concatenate([batch.scores for batch in found])
    assert_array_equal(scores, z[positions].astype(np.float32))
    assert scores.dtype == np.float32
    assert_array_equal(np.concatenate([batch.labels for batch in found]), y[positions])


def test_rows_of_archives_of_few_bytes_or_with_weights_are_not_looked_up(tmp_path, monkeypatch):
    z, y = _half()
    np.savez(tmp_path / "a.npz", logits=z, labels=y)
    assert not scan_predictions(tmp_path / "a.npz").can_take
    np.save(tmp_path / "logits.npy", z)
    assert scan_predictions(tmp_path / "logits.npy").can_take
    assert not scan_predictions(tmp_path / "logits.npy", drop_missing=True).can_take
    monkeypatch.undo()
    assert not scan_predictions(tmp_path / "logits.npy").can_take


def test_labels_of_another_length_are_refused_before_any_row_is_read(tmp_path):
    z, y = _half()
    np.save(tmp_path / "logits.npy", z)
    np.save(tmp_path / "y.npy", np.r_[y, y])
    scan = scan_predictions(tmp_path / "logits.npy", labels_path=tmp_path / "y.npy")
    with pytest.raises(PredictionFileError, match="60 labels, 30 rows"):
        next(scan.take(np.array([1])))


def test_logits_stay_in_half_precision_where_that_is_wanted(tmp_path):
    z, _ = _half()
    z[4, :3] = -np.inf
    np.save(tmp_path / "logits.npy", z)
    scan = scan_predictions(tmp_path / "logits.npy", batch_rows=7)
    assert {batch.scores.dtype for batch in scan.batches()} == {np.dtype(np.float32)}
    found = np.concatenate([batch.scores for batch in scan.batches(half=True)])
    assert found.dtype == np.float16
    assert_array_equal(found, z)


@pytest.mark.parametrize(
    ("value", "rule"), [(np.nan, "nan"), (-np.nan, "nan"), (np.inf, r"\+inf"), (-np.inf, "-inf")]
)
def test_a_bad_row_in_half_precision_is_named(tmp_path, value, rule):
    z, _ = _half()
    z[23] = value
    np.save(tmp_path / "logits.npy", z)
    scan = scan_predictions(tmp_path / "logits.npy", batch_rows=10, head_rows=8)
    with pytest.raises(PredictionFileError, match=f"{rule}.*in row 23 "):
        list(scan.batches(half=True))
