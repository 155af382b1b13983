import contextlib
import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.detection import (
    average_precision,
    d_ece,
    la_ece,
    lrp_measures,
    match,
    read_detections,
    read_truth,
)

WORLDS = Path(__file__).parents[4] / "shared" / "data" / "worlds" / "detection"
PAIRS = {
    "focal detector": ("efficientdet_birdview", "instances_val.json", "val_bbox_results.json"),
    "with crowds": (
        "cocoapi_fake",
        "instances_val2014_100.json",
        "instances_val2014_fakebbox100_results.json",
    ),
}


def made_up(seed, n_images=6, n_classes=3):
    """Truth and results with crowds, ties of score and overlap, and empty images."""
    rng = np.random.default_rng(seed)
    truth = {
        "images": [{"id": 20 - k, "file_name": f"img{k}.jpg"} for k in range(n_images)],
        "categories": [{"id": k + 1, "name": f"c{k}"} for k in range(n_classes)],
        "annotations": [],
    }
    results = []
    for image in truth["images"][:-1]:
        for _ in range(int(rng.integers(1, 8))):
            box = [*rng.integers(0, 40, 2).tolist(), *rng.integers(5, 30, 2).tolist()]
            category = int(rng.integers(1, n_classes + 1))
            truth["annotations"].append(
                {"id": len(truth["annotations"]) + 1, "image_id": image["id"],
                 "category_id": category, "bbox": box, "area": box[2] * box[3],
                 "iscrowd": int(rng.random() < 0.2)}
            )  # fmt: skip
            for _ in range(int(rng.integers(0, 5))):
                moved = [float(x + rng.integers(-4, 5)) for x in box[:2]]
                sizes = [float(max(1, x + rng.integers(-3, 4))) for x in box[2:]]
                results.append(
                    {"image_id": image["id"], "category_id": category, "bbox": moved + sizes,
                     "score": round(float(rng.random()), 1)}
                )  # fmt: skip
    return truth, results


def by_coco(truth, results, iou):
    """Whether each detection that counts is right, and the average precision: pycocotools'."""
    coco = pytest.importorskip("pycocotools.coco")
    from pycocotools.cocoeval import COCOeval

    # pycocotools takes a match with the annotation of id 0 for none.
    truth = truth | {
        "annotations": [a | {"id": k + 1} for k, a in enumerate(truth["annotations"])]
    }
    with contextlib.redirect_stdout(io.StringIO()):
        loaded = coco.COCO()
        loaded.dataset = truth
        loaded.createIndex()
        run = COCOeval(loaded, loaded.loadRes([dict(r) for r in results]), "bbox")
        run.params.iouThrs = np.array([iou])
        run.evaluate()
        run.accumulate()
    right = {}
    for entry in run.evalImgs:
        if entry is None or entry["aRng"] != [0, 1e10]:
            continue
        rows = zip(entry["dtIds"], entry["dtMatches"][0], entry["dtIgnore"][0], strict=True)
        right |= {i - 1: bool(m > 0) for i, m, ignored in rows if not ignored}
    precision = run.eval["precision"][0, :, :, 0, -1]
    return right, float(precision[precision > -1].mean())


def written(tmp_path, truth, results):
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    (tmp_path / "results.json").write_text(json.dumps(results))
    boxes = read_truth(tmp_path / "truth.json")
    return read_detections(tmp_path / "results.json", boxes), boxes


@pytest.mark.parametrize("name", PAIRS)
def test_matching_and_average_precision_equal_pycocotools_on_real_files(name):
    folder, truth_name, results_name = PAIRS[name]
    if not (WORLDS / folder).is_dir():
        pytest.skip("the shared data are not here")
    truth = read_truth(WORLDS / folder / truth_name)
    found = match(read_detections(WORLDS / folder / results_name, truth), truth)
    right, precision = by_coco(
        json.loads((WORLDS / folder / truth_name).read_text()),
        json.loads((WORLDS / folder / results_name).read_text()),
        0.5,
    )
    assert dict(zip(found.index.tolist(), found.correct.tolist(), strict=True)) == right
    assert_allclose(average_precision(found), precision, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_matching_equals_pycocotools_on_made_up_files(tmp_path, seed):
    truth, results = made_up(seed)
    for iou in (0.3, 0.5, 0.75):
        found = match(*written(tmp_path, truth, results), iou=iou)
        right, precision = by_coco(truth, results, iou)
        assert dict(zip(found.index.tolist(), found.correct.tolist(), strict=True)) == right
        assert_allclose(average_precision(found), precision, atol=1e-12)
        assert found.n_left_out == len(results) - len(right)


def test_one_map_for_all_classes_leaves_the_average_precision():
    from dataclasses import replace

    if not WORLDS.is_dir():
        pytest.skip("the shared data are not here")
    folder, truth_name, results_name = PAIRS["focal detector"]
    truth = read_truth(WORLDS / folder / truth_name)
    found = match(read_detections(WORLDS / folder / results_name, truth), truth)
    mapped = replace(found, confidence=found.confidence**3 / 2)
    assert_allclose(average_precision(mapped), average_precision(found), atol=1e-12)
    # The figures of the issue: small where the many boxes near 0 count.
    assert_allclose(d_ece(found, above=0.0), 0.169, atol=1e-3)


def test_errors_against_a_loop(tmp_path):
    found = match(*written(tmp_path, *made_up(3)))
    for above in (0.0, 0.4):
        keep = found.confidence >= above
        c, y, v = found.confidence[keep], found.correct[keep], found.iou[keep]
        want = per_class = 0.0
        classes = sorted(set(found.category[keep].tolist()))
        for b in range(25):
            inside = (c > b / 25) & (c <= (b + 1) / 25) | ((b == 0) & (c == 0))
            want += abs((c[inside] - y[inside]).sum()) / len(c)
            for k in classes:
                rows = inside & (found.category[keep] == k)
                per_class += abs((c[rows] - v[rows]).sum()) / (found.category[keep] == k).sum()
        assert_allclose(d_ece(found, above=above), want, rtol=1e-12)
        assert_allclose(la_ece(found, above=above), per_class / len(classes), rtol=1e-12)


def test_the_lrp_threshold_is_the_best_of_all_scores(tmp_path):
    found = match(*written(tmp_path, *made_up(5)))
    for k, measure in enumerate(lrp_measures(found, n_resamples=5)):
        threshold = measure.estimate
        part = found[found.category == k]

        def error(score, part=part, k=k):
            kept = part.confidence >= score
            hits = (kept & part.correct).sum()
            loss = ((1 - part.iou[kept & part.correct]) / 0.5).sum()
            false = (kept & ~part.correct).sum()
            missed = found.n_truth[k] - hits
            return (loss + false + missed) / (hits + false + missed)

        if len(part) and found.n_truth[k]:
            assert error(threshold) == min(error(s) for s in set(part.confidence))


def test_a_class_without_objects_has_no_lrp_threshold(tmp_path):
    truth, results = made_up(5)
    truth["annotations"] = [a for a in truth["annotations"] if a["category_id"] != 2]
    found = lrp_measures(match(*written(tmp_path, truth, results)), n_resamples=5)
    assert [np.isnan(one.estimate) for one in found] == [False, True, False]


def test_ids_of_images_that_are_text_keep_the_average_precision(tmp_path):
    truth, results = made_up(4)
    for entry in (*truth["annotations"], *results):
        entry["image_id"] = f"i{entry['image_id']}"
    for image in truth["images"]:
        image["id"] = f"i{image['id']}"
    found = match(*written(tmp_path, truth, results))
    assert_allclose(average_precision(found), by_coco(truth, results, 0.5)[1], atol=1e-12)


def test_all_images_are_named_in_one_way(tmp_path):
    """Ids 1 and 2 of the images 0.jpg and 1.jpg: 0 and 1 are names, not a name and an id."""
    truth = {
        "images": [{"id": k + 1, "file_name": f"00{k}.jpg"} for k in range(2)],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [
            {"id": k, "image_id": k + 1, "category_id": 1, "bbox": [20 * k, 0, 9, 9]}
            for k in range(2)
        ],
    }
    results = [
        {"image_id": k, "category_id": 1, "bbox": [20 * k, 0, 9, 9], "score": 0.5}
        for k in range(2)
    ]
    assert match(*written(tmp_path, truth, results)).correct.all()


def test_yolo_labels_and_ultralytics_results(tmp_path):
    labels = tmp_path / "labels"
    labels.mkdir()
    (labels / "a.txt").write_text("0 .5 .5 .2 .2\n1 .2 .2 .1 .1\n")
    (labels / "b.txt").write_text("")
    (tmp_path / "data.yaml").write_text("path: x\nnames:\n  0: cat\n  1: dog\nnc: 2\n")
    truth = read_truth(labels)
    assert list(truth.categories.values()) == ["cat", "dog"]
    assert_allclose(truth.box[0], [0.4, 0.4, 0.2, 0.2])
    predicted = tmp_path / "predicted"
    predicted.mkdir()
    (predicted / "a.txt").write_text("0 .5 .5 .2 .2 .9\n1 .8 .8 .1 .1 .4\n")
    found = match(read_detections(predicted, truth), truth)
    assert found.correct.tolist() == [True, False]
    rows = [{"image_id": "a", "category_id": 2, "bbox": [0.15, 0.15, 0.1, 0.1], "score": 0.7}]
    (tmp_path / "predictions.json").write_text(json.dumps(rows))
    assert match(read_detections(tmp_path / "predictions.json", truth), truth).correct.all()
    rows[0]["category_id"] = 1  # the first class, as the ids of Ultralytics begin with 1
    (tmp_path / "predictions.json").write_text(json.dumps(rows))
    assert not match(read_detections(tmp_path / "predictions.json", truth), truth).correct.any()
    found = read_detections(tmp_path / "predictions.json", truth, first_category=0)
    assert match(found, truth).correct.all()


def png(width, height):
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)


def jpeg(width, height):
    head = b"\xff\xd8\xff\xe0" + struct.pack(">H", 4) + b"ab"
    return head + b"\xff\xc0" + struct.pack(">HBHH", 17, 8, height, width)


def test_pixels_and_relative_boxes_meet_where_the_images_are(tmp_path):
    for folder in ("labels", "images", "predicted"):
        (tmp_path / folder).mkdir()
    (tmp_path / "labels" / "a.txt").write_text("0 .5 .5 .2 .4\n")
    (tmp_path / "labels" / "b.txt").write_text("0 .1 .1 .3 .1 .3 .5 .1 .5\n")  # a polygon
    rows = [
        {"image_id": "a", "category_id": 1, "bbox": [80, 30, 40, 40], "score": 0.9},
        {"image_id": "b", "category_id": 1, "bbox": [5, 5, 10, 20], "score": 0.8},
        {"image_id": "c", "category_id": 1, "bbox": [5, 5, 10, 20], "score": 0.7},
    ]
    (tmp_path / "predictions.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match="must be one in the truth"):
        read_detections(tmp_path / "predictions.json", read_truth(tmp_path / "labels"))
    (tmp_path / "predictions.json").write_text(json.dumps(rows[:2]))
    with pytest.raises(ValueError, match="sizes of the images are not known"):
        read_detections(tmp_path / "predictions.json", read_truth(tmp_path / "labels"))
    (tmp_path / "images" / "a.png").write_bytes(png(200, 100))
    (tmp_path / "images" / "b.jpg").write_bytes(jpeg(50, 50))
    (tmp_path / "images" / "c.jpg").write_bytes(jpeg(50, 50))  # has no objects
    (tmp_path / "predictions.json").write_text(json.dumps(rows))
    truth = read_truth(tmp_path / "labels")
    found = match(read_detections(tmp_path / "predictions.json", truth), truth)
    assert found.correct.tolist() == [True, True, False]
    assert_allclose(found.iou, [1, 1, 0])
    # The other way round: YOLO's detections against COCO's truth.
    document = {
        "images": [{"id": 1, "file_name": "a.png", "width": 200, "height": 100}],
        "categories": [{"id": 5, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 5, "bbox": [80, 30, 40, 40]}],
    }
    (tmp_path / "truth.json").write_text(json.dumps(document))
    (tmp_path / "predicted" / "a.txt").write_text("0 .5 .5 .2 .4 .9\n")
    truth = read_truth(tmp_path / "truth.json")
    assert match(read_detections(tmp_path / "predicted", truth), truth).correct.all()


def test_names_of_classes_in_every_form_of_data_yaml(tmp_path):
    labels = tmp_path / "labels"
    labels.mkdir()
    (labels / "a.txt").write_text("1 .5 .5 .2 .2\n")
    for text in (
        "names: [cat, 'dog']",
        "names: ['cat',\n  'dog']\nnc: 2",
        "names: {0: cat, 1: dog}",
        "names:\n- cat\n- dog\nroboflow:\n  x: y",
        "names:\n  0: cat\n  1: dog\n",
        'names:  # of animals\n  0: cat  # a pet\n  1: "dog"\n',
    ):
        (tmp_path / "data.yaml").write_text(f"path: x\n{text}\n")
        assert list(read_truth(labels).categories.values()) == ["cat", "dog"], text
    for text in ("names:\n  1: dog\n  0: cat\n", "names: {1: dog, 0: cat}"):
        (tmp_path / "data.yaml").write_text(text)
        assert list(read_truth(labels).categories.values()) == ["cat", "dog"], text
    (tmp_path / "data.yaml").write_text("names:\n  0: cat\n  2: cow\n")
    assert list(read_truth(labels).categories.values()) == ["cat", "1", "cow"]
    with pytest.raises(ValueError, match="name the folder of the labels"):
        read_truth(tmp_path / "data.yaml")
    for text in ("names: ['big, cat', dog]", "names:\n- 'big, cat'\n- dog"):
        (tmp_path / "data.yaml").write_text(text)
        assert list(read_truth(labels).categories.values()) == ["big, cat", "dog"], text


def test_label_files_that_cannot_be_meant_are_named(tmp_path):
    for name, content, message in (
        ("pixels", b"0 60 60 100 80\n", "relative to the image"),
        ("bytes", b"\xff\xfe\0", r"frame\.txt: this is no text in UTF-8"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "frame.txt").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_truth(tmp_path / name)
    for camera in "ab":
        (tmp_path / "two" / camera).mkdir(parents=True)
        (tmp_path / "two" / camera / "frame.txt").write_text("0 .5 .5 .1 .1\n")
    with pytest.raises(ValueError, match="two images of one name"):
        read_truth(tmp_path / "two")


def test_a_truth_whose_entries_cannot_be_meant_is_refused(tmp_path):
    for change, message in (
        (lambda t: t["annotations"][0].update(iscrowd="0"), "`iscrowd` must be 0 or 1, found '0'"),
        (lambda t: t["images"].append({"id": 20, "file_name": "b.jpg"}), "have the `id` 20"),
        (lambda t: t["categories"].append({"id": 1, "name": "b"}), "entries of `categories`"),
    ):
        truth, results = made_up(1)
        change(truth)
        with pytest.raises(ValueError, match=message):
            written(tmp_path, truth, results)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": 1.2}, "`score` must be a number in"),
        ({"bbox": [1, 2, 3]}, "`bbox` must be"),
        ({"bbox": [1, 2, 3, float("nan")]}, "`bbox` must be"),
        ({"image_id": 999}, "`image_id` must be one in the truth .*found 999"),
        ({"category_id": None}, "`category_id` must be one in the truth .*found None"),
    ],
)
def test_bad_entries_are_named(tmp_path, change, message):
    truth, results = made_up(1)
    results[2] |= change
    with pytest.raises(ValueError, match=message):
        written(tmp_path, truth, results)


def test_the_wrong_file_is_named(tmp_path):
    truth, results = made_up(1)
    _, boxes = written(tmp_path, truth, results)
    with pytest.raises(ValueError, match="must be a COCO file"):
        read_truth(tmp_path / "results.json")
    with pytest.raises(ValueError, match="detections must be a list"):
        read_detections(tmp_path / "truth.json", boxes)
    (tmp_path / "broken.json").write_text("[{")
    with pytest.raises(ValueError, match="no JSON file"):
        read_truth(tmp_path / "broken.json")
    with pytest.raises(ValueError, match="must have scores"):
        match(boxes, boxes)
