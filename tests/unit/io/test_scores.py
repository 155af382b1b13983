import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.io import PredictionFileError, read_predictions


def broken(logits, value, rows):
    bad = logits.copy()
    bad[rows, 1] = value
    return bad


@pytest.mark.parametrize(
    ("value", "rows", "text"),
    [
        (np.nan, [4], r"`logits` must be numbers, but nan is in row 4 \(0-based\)\. Find"),
        (np.nan, [0, 29], r"nan is in 2 rows \(0, 29; 0-based\)"),
        (np.nan, range(3, 13), r"nan is in 10 rows \(3, 4, 5, 6, 7, \.\.\.; 0-based\)"),
        (np.inf, [7], r"must be numbers below infinity, but \+inf is in row 7"),
    ],
)
def test_rows_of_logits_that_are_no_numbers(npz, logits, value, rows, text):
    with pytest.raises(PredictionFileError, match=text):
        read_predictions(npz(logits=broken(logits, value, list(rows))))


def test_a_masked_class_is_fine_a_masked_row_is_not(npz, logits):
    masked = broken(logits, -np.inf, [3])
    assert_array_equal(read_predictions(npz(logits=masked)).scores, masked)
    masked[3] = -np.inf
    with pytest.raises(PredictionFileError, match=r"but every logit is -inf in row 3"):
        read_predictions(npz(logits=masked))


def test_rows_that_are_no_probabilities(npz, probs):
    def read(p, **options):
        return read_predictions(npz(logits=None, probs=p), **options)

    with pytest.raises(PredictionFileError, match=r"`probs` must be numbers, but nan is in ro"):
        read(broken(probs, np.nan, [2]))
    with pytest.raises(
        PredictionFileError, match=r"numbers below 0 are in row 2 .*--input logits"
    ):
        read(broken(probs, -1.0, [2]))
    with pytest.raises(
        PredictionFileError, match=r"sum to 1 .* not in 2 rows \(5, 9; 0-based\); .* off by"
    ):
        read(broken(probs, 1.5, [5, 9]))
    with pytest.raises(PredictionFileError, match=r"the worst sum is off by inf"):
        read(broken(probs, np.inf, [5]))


def test_probabilities_off_by_more_than_rounding_are_normalised_on_request(npz, probs):
    off = probs * np.float32(1.0004)
    path = npz(logits=None, probs=off)
    with pytest.raises(PredictionFileError, match=r"divided by its sum\. Pass `probs_atol=0\.0"):
        read_predictions(path)
    found = read_predictions(path, probs_atol=0.01).scores
    assert found.dtype == np.float32
    assert_allclose(found, probs, rtol=1e-6)


def test_half_precision_probabilities_are_normalised(npz, probs):
    found = read_predictions(npz(logits=None, probs=probs.astype(np.float16))).scores
    assert found.dtype == np.float32
    assert_allclose(found.sum(axis=1), 1, atol=1e-6)


def test_good_probabilities_are_not_touched(npz, probs):
    assert_array_equal(read_predictions(npz(logits=None, probs=probs)).scores, probs)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((30,), r"one column of scores, so two classes, but `labels` holds 3"),
        ((30, 1), r"one column of scores, so two classes, but `labels` holds 3"),
        ((30, 2, 2), r"must have shape \[N, K\], got \(30, 2, 2\)\. Save one row per example"),
    ],
)
def test_shapes(npz, shape, text):
    with pytest.raises(PredictionFileError, match=text):
        read_predictions(npz(logits=np.zeros(shape)))


def test_booleans_are_no_scores(npz):
    with pytest.raises(PredictionFileError, match=r"must hold numbers, but holds"):
        read_predictions(npz(logits=np.zeros((30, 3), bool)))


def test_every_half_precision_number_is_read_as_numpy_reads_it(tmp_path):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    rows = halves[np.isfinite(halves)].reshape(-1, 2)
    np.save(tmp_path / "z.npy", rows)
    found = read_predictions(tmp_path / "z.npy", input="logits")
    assert found.scores.dtype == np.float32
    assert_array_equal(found.scores.view(np.int32), rows.astype(np.float32).view(np.int32))
    rows[5, 1] = -np.inf  # which is allowed
    np.save(tmp_path / "z.npy", rows)
    found = read_predictions(tmp_path / "z.npy", input="logits")
    assert_array_equal(found.scores, rows.astype(np.float32))


def test_rows_that_are_left_out_are_counted_in_the_numbers_of_others(tmp_path):
    lines = ["a,b,y", "0.5,0.5,0", "0.5,,0", *["0.25,0.75,1"] * 28, "0.5,0.9,1", "0.5,0.5,2"]
    path = tmp_path / "p.csv"
    path.write_text("\n".join(lines) + "\n")
    options = {"drop_missing": True, "score_columns": ["a", "b"], "input": "probs"}
    with pytest.raises(PredictionFileError, match=r"does not in row 30 \(0-based\)"):
        read_predictions(path, **options)
    path.write_text("\n".join(lines).replace("0.5,0.9", "0.1,0.9") + "\n")
    with pytest.raises(PredictionFileError, match=r"those in row 31 \(0-based\) do not"):
        read_predictions(path, **options)
