"""Archives and folders of text files."""

import gzip
import zipfile

import pytest
from tests.unit.io.exports.tables import TEXT3, frame3

from focalibrate.io import PredictionFileError, read_predictions


def test_gzip_without_its_suffix(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(b"label,prob_a,prob_b\n0,0.5,0.5\n"))
    assert read_predictions(path).n_rows == 1


def test_a_folder_of_splits_is_not_one_table(tmp_path):
    for name in ("val.csv", "test.csv"):
        frame3(label=TEXT3).to_csv(tmp_path / name)
    with pytest.raises(PredictionFileError, match=r"holds different splits, .* test\.csv"):
        read_predictions(tmp_path)


def test_an_archive_of_two_files_is_not_one_table(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.writestr("a.csv", "x")
        archive.writestr("b.csv", "x")
    with pytest.raises(PredictionFileError, match=r"holds 2 files, not one\. Unpack it"):
        read_predictions(tmp_path / "a.csv.zip")


def test_a_lone_table_in_an_archive_is_found(tmp_path):
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("val.csv", "label,prob_a,prob_b\n0,0.5,0.5\n")
    assert read_predictions(tmp_path / "export.zip").n_rows == 1
