"""Logits that stay in half precision."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.io import PredictionFileError, scan_predictions


def _half(n=30, k=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)).astype(np.float16), rng.integers(k, size=n)


def test_labels_of_another_length_are_refused(tmp_path):
    z, y = _half()
    np.save(tmp_path / "logits.npy", z)
    np.save(tmp_path / "y.npy", np.r_[y, y])
    scan = scan_predictions(tmp_path / "logits.npy", labels_path=tmp_path / "y.npy")
    with pytest.raises(PredictionFileError, match="60 labels, 30 rows"):
        scan.read()


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
