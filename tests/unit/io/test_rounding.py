"""Rounded probabilities are read; other rows that do not sum to 1 are not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate._check import PROBS_ATOL, check_probs, rounding_explains
from focalibrate.io import PredictionFileError, read_predictions, scan_predictions

RNG = np.random.default_rng(11)
P = RNG.dirichlet(np.full(6, 0.4), 200)
Y = P.argmax(1)


def write(path, p, form):
    lines = [",".join(form(v) for v in row) + f",{y}\n" for row, y in zip(p, Y, strict=True)]
    path.write_text(",".join(map(str, range(p.shape[1]))) + ",label\n" + "".join(lines))
    return path


@pytest.mark.parametrize("form", ["{:.2f}", "{:.3f}", "{:.4f}", "{:.2g}", "{:.3g}", "{:.5f}"])
def test_digits_that_are_written_explain_the_sums(tmp_path, form):
    path = write(tmp_path / "a.csv", P, form.format)
    stored = np.array([[float(form.format(v)) for v in row] for row in P])
    assert (np.abs(stored.sum(axis=1) - 1) > 1e-5).any()
    found = read_predictions(path)
    assert_allclose(found.scores, stored / stored.sum(axis=1, keepdims=True), rtol=2e-5)
    assert any("rounded" in note for note in found.notes)
    batches = list(scan_predictions(path, batch_rows=7).batches())
    assert_allclose(np.concatenate([b.scores for b in batches]), found.scores, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("digits", [2, 3, 4, 5])
def test_every_rounded_row_is_explained_and_no_other(dtype, digits):
    rows = P.round(digits).astype(dtype)
    gaps = np.abs(rows.sum(axis=1, dtype=np.float64) - 1)
    assert rounding_explains(rows, gaps).all()
    moved = rows.copy()
    moved[:, 0] += dtype(7 * 10.0**-digits)  # more than six halves of the last digit
    gaps = np.abs(moved.sum(axis=1, dtype=np.float64) - 1)
    assert (gaps > 3.01 * 10.0**-digits).all()
    assert rounding_explains(moved, gaps).mean() < 0.05  # single rows may have fewer digits
    noisy = (P * 1.0001).astype(dtype)
    assert not rounding_explains(noisy, np.full(len(P), 1e-4)).any()


def test_a_sum_that_rounding_does_not_explain_is_refused(tmp_path):
    wrong = P.round(3)
    wrong[5, 0] += 0.02
    with pytest.raises(PredictionFileError, match=r"not in row 5 "):
        read_predictions(write(tmp_path / "a.csv", wrong, "{:.3f}".format))


def test_too_few_decimals_for_the_classes_are_named(tmp_path):
    many = RNG.dirichlet(np.full(100, 0.5), 200)
    path = write(tmp_path / "a.csv", many, "{:.2f}".format)
    with pytest.raises(PredictionFileError, match="2 decimals, too few for 100 classes"):
        read_predictions(path, input="probs")


@pytest.mark.parametrize("n_rows", [3, 60])
def test_logits_under_the_numbers_of_pandas(tmp_path, n_rows):
    """Column 1 of 0, 1, 2 is a class, not the score of a positive class."""
    pd = pytest.importorskip("pandas")
    z = RNG.normal(size=(n_rows, 3))
    table = pd.DataFrame(z).assign(label=np.arange(n_rows) % 3)
    table.to_csv(tmp_path / "a.csv")
    with pytest.raises(PredictionFileError, match="hold logits or probabilities") as caught:
        read_predictions(tmp_path / "a.csv")
    assert caught.value.fixes == ({"input": "logits"},)
    table.insert(0, "age", np.arange(n_rows) * 2)
    table.to_csv(tmp_path / "b.csv")
    for name in ("a.csv", "b.csv"):
        found = read_predictions(tmp_path / name, input="logits")
        assert_allclose(found.scores, z)


def test_columns_named_like_labels_are_offered_before_all(tmp_path):
    pd = pytest.importorskip("pandas")
    names = np.array(["cat", "dog", "ox"])
    table = pd.DataFrame(100 * P[:, :3] / P[:, :3].sum(1, keepdims=True), columns=names).round(1)
    table = table.assign(bmi=RNG.normal(24, 3, 200), label=names[np.arange(200) % 3])
    table.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(PredictionFileError, match='no label is called "bmi"') as caught:
        read_predictions(tmp_path / "a.csv")
    fix = caught.value.fixes[0]
    assert fix == {"score_columns": ["cat", "dog", "ox"], "input": "percent"}
    assert read_predictions(tmp_path / "a.csv", **fix).class_names == ("cat", "dog", "ox")


def test_a_sum_at_the_tolerance_is_below_it_in_any_order(tmp_path):
    """Written with four significant digits, some sums are off by 1e-5, up to their last bits."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(10), 2000)
    written = np.char.mod("%.3e", probs).astype(float)
    assert (np.abs(np.abs(written.sum(axis=1) - 1) - PROBS_ATOL) < 1e-9).any()
    np.savez(tmp_path / "a.npz", probs=written)
    found = read_predictions(tmp_path / "a.npz").scores
    check_probs(found)
    check_probs(found[:, ::-1])
