"""Detections with the truth beside them: each box is an event, a score and its outcome."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from focalibrate.detection import match, read_detections, read_truth
from focalibrate.io.errors import PredictionFileError
from focalibrate.io.formats.opened import Opened
from focalibrate.io.formats.records import table_of_columns

ROLES: dict[str, Any] = {
    "score_columns": "score",
    "label_column": "correct",
    "input": "probs",
    "positive": "True",
    "cluster": "image_id",
    "by": "category_id",
}
"""What each column of the table is, where the caller does not say otherwise."""


def open_detections(path: Path, truth: Path, *, iou: float) -> Opened:
    """Return a table of the detections that count, one row each.

    Its columns are `image_id`, `category_id` and `score` of the detection, `correct`, and the
    `iou` with the object it matches. Rows of one image belong together.

    Args:
        path: detections, see `focalibrate.detection.read_detections`.
        truth: objects of the same images, see `focalibrate.detection.read_truth`.
        iou: least overlap of a detection that is right.

    Raises:
        PredictionFileError: where a file is not of these forms, or they do not belong together.
    """
    try:
        objects = read_truth(truth)
        boxes = read_detections(path, objects)
        matched = match(boxes, objects, iou=iou)
    except (ValueError, OSError) as error:
        raise PredictionFileError(str(error)) from error
    if not len(matched):
        raise PredictionFileError(f"{path}: holds no detection that counts.")
    images, categories = list(objects.images), list(objects.categories)
    names = ", ".join(f"{key} = {name}" for key, name in list(objects.categories.items())[:6])
    notes = [
        f"{len(matched):,} detections on {len(np.unique(matched.image)):,} images, right at IoU "
        f">= {iou:g} with an object in {truth.name}; rows of one image belong together",
        f"category_id: {names}",
    ]
    if matched.n_left_out:
        notes.append(
            f"{matched.n_left_out:,} detections count neither way: on a crowd, or beyond the 100 "
            "of highest score in their image and category"
        )
    columns = {
        "image_id": [str(images[k]) for k in matched.image],
        "category_id": [str(categories[k]) for k in matched.category],
        "score": matched.confidence.tolist(),
        "correct": matched.correct.tolist(),
        "iou": matched.iou.tolist(),
    }
    found = table_of_columns(path, columns, notes=tuple(notes))
    return replace(found, schema=replace(found.schema, roles=ROLES))
