"""Files whose names say that they are different splits are not pooled."""

import pytest

from focalibrate.io import PredictionFileError, scan_predictions


@pytest.mark.parametrize(
    "names", [("val", "test"), ("xgb_val", "xgb_test"), ("test-preds", "valid-preds")]
)
def test_a_validation_and_a_test_file_of_one_model_are_refused(tmp_path, names):
    paths = [tmp_path / f"{name}.csv" for name in names]
    for i, path in enumerate(paths):
        path.write_text(f"cat,dog,label\n0.25,0.75,dog\n0.{i + 5},0.{5 - i},cat\n")
    with pytest.raises(PredictionFileError, match=r"different splits.*calibrate VAL --test TEST"):
        scan_predictions(paths)


@pytest.mark.parametrize("as_folder", [True, False])
def test_the_folders_of_a_validation_and_a_test_set_are_not_pooled(tmp_path, as_folder):
    paths = [tmp_path / "x" / split / f"p{i}.csv" for split in ("val", "test") for i in range(2)]
    for i, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"cat,dog,label\n0.25,0.75,dog\n0.{i + 5},0.{5 - i},cat\n")
    with pytest.raises(PredictionFileError, match=r"different splits.*val/p0\.csv"):
        scan_predictions(tmp_path / "x" if as_folder else paths)
    assert len(scan_predictions(tmp_path / "x" / "val").parts) == 2


@pytest.mark.parametrize("names", [("test_1", "test_2"), ("val_a", "test_b"), ("a", "b")])
def test_parts_of_one_split_and_unlike_names_are_pooled(tmp_path, names):
    paths = [tmp_path / f"{name}.csv" for name in names]
    for i, path in enumerate(paths):
        path.write_text(f"cat,dog,label\n0.25,0.75,dog\n0.{i + 5},0.{5 - i},cat\n")
    assert len(scan_predictions(paths).parts) == 2
