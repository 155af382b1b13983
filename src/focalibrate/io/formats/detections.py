"""Detections: each box is an event, a score and, with the truth beside it, its outcome."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from focalibrate.detection import Boxes, match, read_detections, read_truth
from focalibrate.io.cells import Kind
from focalibrate.io.errors import PredictionFileError
from focalibrate.io.formats.answers import Answers, number
from focalibrate.io.table import Column, Opened, Schema, in_memory

ROLES: dict[str, Any] = {
    "score_columns": "score",
    "label_column": "correct",
    "input": "probs",
    "positive": "True",
    "cluster": "image_id",
    "by": "category_id",
}
"""What each column of the table is, where the caller does not say otherwise."""


def detected_boxes(path: Path, records: Sequence[dict[str, Any]]) -> Answers | None:
    """Return the scores of a file of results without its truth, or None for other records."""
    names = {"image_id", "category_id", "bbox", "score"}
    if not all(names <= set(record) for record in records):
        return None
    scores = [number(record["score"]) for record in records]
    if not all(s is not None and 0 <= s <= 1 for s in scores):
        return None
    roles = {name: role for name, role in ROLES.items() if name != "label_column"}
    found = Answers(path, "detections", written="score", roles=roles)
    for r, score in zip(records, scores, strict=True):
        image, category = str(r["image_id"]), str(r["category_id"])
        found.add(r, image_id=image, category_id=category, bbox=r["bbox"], score=score)
    return found


def open_detections(path: Path, truth: Path, *, iou: float) -> Opened:
    """Return a table of the detections that count, one row each.

    Its columns are `image_id`, `category_id` and `score` of the detection, `correct`, and the
    `iou` with the object it matches; ids of categories are those of the detections, to which a
    calibrator by category is applied. Rows of one image belong together.
    """
    try:
        objects = read_truth(truth)
        boxes = read_detections(path, objects)
        matched = match(boxes, objects, iou=iou)
    except ValueError as error:
        raise PredictionFileError(str(error)) from error
    if not len(matched):
        raise PredictionFileError(f"{path}: holds no detection that counts.")
    names = ", ".join(f"{key} = {name}" for key, name in list(boxes.categories.items())[:6])
    notes = [
        f"{len(matched):,} detections on {len(np.unique(matched.image)):,} images, right at IoU "
        f">= {iou:g} with an object in {truth.name}; rows of one image belong together",
        f"category_id: {names}",
        *_doubts(boxes, objects, int(matched.correct.sum()), iou=iou),
    ]
    n_more = len(list(boxes.images)) - len(objects.images)
    if n_more > 0:
        notes.append(f"{n_more:,} images without a label file count as images without objects")
    if matched.n_left_out:
        notes.append(
            f"{matched.n_left_out:,} detections count neither way: on a crowd, or beyond the 100 "
            "of highest score in their image and category"
        )
    images, categories = (
        np.array([str(key) for key in keys], object) for keys in (boxes.images, boxes.categories)
    )
    columns: dict[str, tuple[Kind, Any]] = {
        "image_id": ("text", images[matched.image]),
        "category_id": ("text", categories[matched.category]),
        "score": ("number", matched.confidence),
        "correct": ("bool", matched.correct),
        "iou": ("number", matched.iou),
    }
    described = tuple(Column(name=name, kind=kind) for name, (kind, _) in columns.items())
    schema = Schema(path=path, columns=described, notes=tuple(notes), roles=ROLES)
    data = {i: values for i, (_, values) in enumerate(columns.values())}
    return replace(in_memory(schema, data, len(matched)), layout={"matched": matched})


def _doubts(boxes: Boxes, truth: Boxes, n_right: int, *, iou: float) -> Iterator[str]:
    """Yield warnings of boxes that are there twice, and of fields that may mean others."""
    entries = np.column_stack([boxes.image, boxes.category, boxes.box, np.asarray(boxes.score)])
    n_again, is_explained = len(boxes) - len(np.unique(entries, axis=0)), False
    if n_again:
        yield (
            f"WARNING: {n_again:,} detections are there again, with the same box and score, and "
            "count as wrong. Leave them out, if the file was written twice or by several workers"
        )
    if len(truth) <= 2 * max(n_right, 5):
        return  # of every object, one detection at most is right

    def alike(some: Boxes) -> Boxes:
        return replace(some, category=np.zeros_like(some.category))

    def corners(some: Boxes) -> Boxes:
        return replace(some, box=some.box - np.pad(some.box[:, :2], ((0, 0), (2, 0))))

    swapped = (
        "detections would be right, but only {} are, if `bbox` of the %s was [left, top, right, "
        "bottom]: COCO's is [left, top, width, height]"
    )
    of_category = (
        "detections lie on an object, but only {} on one of their category: do the category_ids "
        "of both files mean the same?"
    )
    for given, objects, doubt in (
        (alike(boxes), alike(truth), of_category),
        (corners(boxes), truth, swapped % "detections"),
        (boxes, corners(truth), swapped % "truth"),
    ):
        n_other = int(match(given, objects, iou=iou).correct.sum())
        if n_other > 2 * max(n_right, 5):
            is_explained = True
            yield f"WARNING: {n_other:,} {doubt.format(f'{n_right:,}')}"
    if not is_explained and 10 * n_right < min(len(truth), len(boxes)):
        yield (
            f"WARNING: only {n_right:,} of {len(truth):,} objects are found by {len(boxes):,} "
            "detections: are both files of the same images, and in the same units?"
        )
