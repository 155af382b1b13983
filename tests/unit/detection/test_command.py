"""Detections with the truth beside them, through the commands."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from focalibrate.cli import main
from focalibrate.io import read_predictions

BIRDS = (
    Path(__file__).parents[4]
    / "shared"
    / "data"
    / "worlds"
    / "detection"
    / "efficientdet_birdview"
)


def _pair(folder: Path) -> tuple[Path, Path]:
    truth = {
        "images": [{"id": k} for k in range(4)],
        "categories": [{"id": 7, "name": "car"}],
        "annotations": [
            {"id": k, "image_id": k, "category_id": 7, "bbox": [0, 0, 10, 10], "iscrowd": k == 3}
            for k in range(4)
        ],
    }
    found = [
        {"image_id": k, "category_id": 7, "bbox": [0, 0, 10, 10 - 3 * k], "score": 0.9 - k / 10}
        for k in range(4)
    ]
    paths = folder / "found.json", folder / "truth.json"
    for path, document in zip(paths, (found, truth), strict=True):
        path.write_text(json.dumps(document))
    return paths


def test_boxes_are_events_clustered_by_image_and_grouped_by_category(tmp_path: Path) -> None:
    found, truth = _pair(tmp_path)
    rows = read_predictions(found, truth=truth)
    assert rows.scores[:, 1].tolist() == pytest.approx([0.9, 0.8, 0.7])  # one is on a crowd
    assert rows.labels is not None
    assert rows.labels.tolist() == [1, 1, 0]
    assert rows.cluster is not None
    assert rows.cluster.tolist() == ["0", "1", "2"]
    assert rows.groups["category_id"].tolist() == ["7", "7", "7"]
    stricter = read_predictions(found, truth=truth, iou=0.75)
    assert stricter.labels is not None
    assert stricter.labels.tolist() == [1, 0, 0]


def test_detections_without_the_truth_are_asked_for_it(tmp_path: Path) -> None:
    found, _ = _pair(tmp_path)
    result = CliRunner().invoke(main, ["evaluate", str(found)])
    assert result.exit_code == 1
    assert "--truth instances.json" in result.output


def test_a_file_that_is_no_truth_is_refused_by_name(tmp_path: Path) -> None:
    found, _ = _pair(tmp_path)
    result = CliRunner().invoke(main, ["evaluate", str(found), "--truth", str(found)])
    assert result.exit_code == 1
    assert "the truth must be a COCO file" in result.output


@pytest.mark.skipif(not BIRDS.is_dir(), reason="needs the shared data")
def test_a_focal_detector_is_found_too_high_from_the_command_line() -> None:
    files = [str(BIRDS / "val_bbox_results.json"), "--truth", str(BIRDS / "instances_val.json")]
    result = CliRunner().invoke(main, ["evaluate", *files, "--resamples", "10", "--json"])
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["rows"] == 15_831
    assert record["scores"]["nll"]["estimate"] == pytest.approx(0.46300261774632273)
    assert [group["n"] for group in record["groups"]] == [9_359, 6_472]
