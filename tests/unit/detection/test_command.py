"""Detections with the truth beside them, through the commands."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from focalibrate.calibrate import PlattScaling
from focalibrate.cli import main
from focalibrate.detection import average_precision, d_ece
from focalibrate.io import read_predictions, scan_predictions
from focalibrate.pipeline import calibrate_predictions
from focalibrate.pipeline.applying import calibrated_blocks

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


def test_apply_writes_the_same_boxes_with_calibrated_scores(tmp_path: Path) -> None:
    found, _ = _pair(tmp_path)
    PlattScaling(1.0, -1.0).save(tmp_path / "cal.json")
    command = ["apply", str(tmp_path / "cal.json"), str(found), "-o", str(tmp_path / "out.json")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    before, after = (json.loads(p.read_text()) for p in (found, tmp_path / "out.json"))
    scores = [row.pop("score") for row in after]
    odds = [row["score"] / (1 - row["score"]) for row in before]
    assert scores == pytest.approx([o / (o + math.e) for o in odds])
    assert after == [{k: v for k, v in row.items() if k != "score"} for row in before]


def test_a_threshold_per_class_needs_the_truth_and_prints_every_class(tmp_path: Path) -> None:
    found, truth = _pair(tmp_path)
    done = CliRunner().invoke(main, ["threshold", str(found), "--per-class"])
    assert done.exit_code == 2
    assert "--truth" in done.output
    command = ["threshold", str(found), "--truth", str(truth), "--per-class"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "car: 0.800 (95 % CI by image" in done.output


def test_shifted_categories_are_doubted(tmp_path: Path) -> None:
    truth = {
        "images": [{"id": k} for k in range(20)],
        "categories": [{"id": 1, "name": "car"}, {"id": 2, "name": "bus"}],
        "annotations": [
            {"id": k + 1, "image_id": k, "category_id": 1, "bbox": [0, 0, 10, 10]}
            for k in range(20)
        ],
    }
    found = [
        {"image_id": k, "category_id": 2 - (k == 0), "bbox": [0, 0, 10, 10], "score": 0.5 + k / 50}
        for k in range(20)
    ]
    for name, document in (("found", found), ("truth", truth)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    read = read_predictions(tmp_path / "found.json", truth=tmp_path / "truth.json")
    assert any("20 detections lie on an object, but only 1" in note for note in read.notes)


@pytest.mark.parametrize("of_truth", [True, False])
def test_corners_in_place_of_sizes_are_doubted(tmp_path: Path, of_truth: bool) -> None:
    images = [{"id": k} for k in range(20)]
    box = {"category_id": 1, "bbox": [40, 30, 10, 20]}
    truth = {
        "images": images,
        "categories": [{"id": 1}],
        "annotations": [box | {"image_id": k, "id": k} for k in range(20)],
    }
    corners = box | {"bbox": [40, 30, 50, 50]}
    found = [corners | {"image_id": k, "score": k / 20} for k in range(20)]
    if of_truth:
        for some in (*found, *truth["annotations"]):
            some["bbox"] = box["bbox"] if "score" in some else corners["bbox"]
    for name, document in (("found", found), ("truth", truth)):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    read = read_predictions(tmp_path / "found.json", truth=tmp_path / "truth.json")
    where = "of the truth" if of_truth else "of the detections"
    said = f"20 detections would be right, but only 0 are, if `bbox` {where} was [left, top, right"
    assert any(said in note for note in read.notes)


def test_a_file_written_twice_and_one_of_other_images_are_doubted(tmp_path: Path) -> None:
    truth = {
        "images": [{"id": k} for k in range(20)],
        "categories": [{"id": 1}],
        "annotations": [
            {"id": k + 1, "image_id": k, "category_id": 1, "bbox": [9 * k, 0, 10, 10]}
            for k in range(20)
        ],
    }
    found = [
        {"image_id": k, "category_id": 1, "bbox": [9 * k, 0, 10, 10], "score": k / 20}
        for k in range(20)
    ]
    others = [row | {"image_id": (k + 2) % 20} for k, row in enumerate(found)]
    for rows, said in (
        (found + found, "20 detections are there again"),
        (others, "only 0 of 20 objects are found by 20 detections"),
    ):
        for name, document in (("found", rows), ("truth", truth)):
            (tmp_path / f"{name}.json").write_text(json.dumps(document))
        read = read_predictions(tmp_path / "found.json", truth=tmp_path / "truth.json")
        doubts = [note for note in read.notes if "again" in note or "objects are found" in note]
        assert len(doubts) == 1
        assert said in doubts[0]


@pytest.mark.slow
@pytest.mark.skipif(not BIRDS.is_dir(), reason="needs the shared data")
def test_the_focal_detector_on_other_images(tmp_path: Path) -> None:
    """The figures in docs/howto/detections.md; Psi is a candidate, and makes the scores worse."""
    truth = json.loads((BIRDS / "instances_val.json").read_text())
    boxes = json.loads((BIRDS / "val_bbox_results.json").read_text())
    ids = np.array([image["id"] for image in truth["images"]])
    first = set(ids[np.random.default_rng(0).permutation(len(ids))[: len(ids) // 2]].tolist())
    halves = []
    for name, keep in (("fit", True), ("test", False)):
        part = truth | {
            "images": [i for i in truth["images"] if (i["id"] in first) == keep],
            "annotations": [a for a in truth["annotations"] if (a["image_id"] in first) == keep],
        }
        own = [box for box in boxes if (box["image_id"] in first) == keep]
        for kind, document in (("truth", part), ("boxes", own)):
            (tmp_path / f"{kind}_{name}.json").write_text(json.dumps(document))
        path, objects = tmp_path / f"boxes_{name}.json", tmp_path / f"truth_{name}.json"
        halves.append(scan_predictions(path, truth=objects))
    result = calibrate_predictions(halves[0], trained_gamma=2.0, trained_alpha=0.25)
    assert result.choice.row.method != "posterior_recovery"
    rows = halves[1].read()
    assert rows.labels is not None
    made = np.concatenate(list(calibrated_blocks(result.calibrator, rows)))[:, 1]
    before, after = rows.layout.matched, replace(rows.layout.matched, confidence=made)
    loss = -np.where(rows.labels == 1, np.log(made), np.log1p(-made)).mean()
    assert d_ece(before, above=0.0) == pytest.approx(0.169, abs=1e-3)
    assert d_ece(after, above=0.0) <= 0.025
    assert loss <= 0.312
    assert average_precision(after) == pytest.approx(average_precision(before), abs=1e-12)


def test_categories_keep_the_ids_that_apply_will_see(tmp_path: Path) -> None:
    """YOLO counts classes from 0, Ultralytics' results from 1: maps by class must not move."""
    for folder in ("labels", "found"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data.yaml").write_text("names: [cat, dog]")
    rows = []
    for k in range(4):
        (tmp_path / "labels" / f"{k}.txt").write_text(f"{k % 2} .5 .5 .2 .2\n")
        (tmp_path / "found" / f"{k}.txt").write_text(f"{k % 2} .5 .5 .2 .2 .{k + 1}\n")
        box = [0.4, 0.4, 0.2, 0.2]
        rows.append({"image_id": k, "category_id": 1 + k % 2, "bbox": box, "score": (k + 1) / 10})
    (tmp_path / "predictions.json").write_text(json.dumps(rows))
    for name, ids in (("predictions.json", ["1", "2"]), ("found", ["0", "1"])):
        found = read_predictions(tmp_path / name, truth=tmp_path / "labels")
        assert found.groups["category_id"].tolist() == ids * 2
        assert any(f"category_id: {ids[0]} = cat, {ids[1]} = dog" in note for note in found.notes)


def test_apply_takes_no_truth_and_writes_no_labels_of_yolo(tmp_path: Path) -> None:
    found, truth = _pair(tmp_path)
    calibrator = tmp_path / "c.json"
    PlattScaling(0.5, 0.0).save(calibrator)
    command = ["apply", str(calibrator), str(found), "--truth", str(truth), "-o", "x.json"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert "--truth must be left out" in done.output
    (tmp_path / "labels").mkdir()
    for k in range(4):
        (tmp_path / "labels" / f"{k}.txt").write_text(f"{k % 2} .5 .5 .2 .2 .{k + 1}\n")
    command = ["apply", str(calibrator), str(tmp_path / "labels"), "-o", str(tmp_path / "new")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1
    assert "holds boxes as YOLO writes them" in done.output
    assert "--input" not in done.output
    assert not (tmp_path / "new").exists()
