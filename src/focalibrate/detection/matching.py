"""Which detections are right: boxes matched to the truth as COCO's evaluation does."""

from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import check_count, check_open_interval
from focalibrate.detection.boxes import Boxes

MOST_DETECTIONS = 100


@dataclass(frozen=True, eq=False)
class MatchedDetections:
    """Detections as events, those that count: a confidence, and whether it was right.

    Rows of one image belong together: pass `image` as the cluster wherever there is one.
    """

    confidence: Floats
    """score of each detection, ``[N]``"""
    correct: NDArray[np.bool_]
    """whether it matches an object of its category, ``[N]``"""
    iou: Floats
    """overlap with that object; 0 where there is none, ``[N]``"""
    category: NDArray[np.int64]
    """position in `categories`, ``[N]``"""
    image: NDArray[np.int64]
    """position in `images`, ``[N]``"""
    index: NDArray[np.int64]
    """position in the detections that were matched, ``[N]``"""
    truth: NDArray[np.int64]
    """objects that count of each image and category, ``[images, C]``"""
    n_left_out: int
    """detections that count neither way: on crowds, or beyond the most per image and category"""
    categories: tuple[str, ...]
    images: tuple[str, ...]
    iou_threshold: float

    def __len__(self) -> int:
        return len(self.confidence)

    @property
    def n_truth(self) -> NDArray[np.int64]:
        """Objects of each category that count, ``[C]``."""
        return np.asarray(self.truth.sum(axis=0))

    def __getitem__(self, rows: Any) -> "MatchedDetections":
        names = ("confidence", "correct", "iou", "category", "image", "index")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


def match(
    detections: Boxes,
    truth: Boxes,
    *,
    iou: float = 0.5,
    most_detections: int = MOST_DETECTIONS,
) -> MatchedDetections:
    """Match detections to the truth, per image and category, exactly as `pycocotools` does.

    Detections are taken by falling score, at most `most_detections` of an image and category.
    Each takes the free object of the highest overlap, if that is at least `iou`. A crowd may be
    taken any number of times, its overlap is measured against the detection's own area, and the
    detections on it count neither way. The field `ignore` of an annotation is not read, as in
    `pycocotools`; its `iscrowd` is.

    Args:
        detections: boxes with scores, of the images and categories of `truth`.
        truth: boxes with `is_crowd`.
        iou: least overlap, above 0 and below 1.
        most_detections: most detections of an image and category that count.

    Returns:
        One event per detection that counts.

    Raises:
        ValueError: where the detections have no scores.
    """
    check_open_interval(iou, low=0.0, high=1.0, name="iou")
    check_count(most_detections, name="most_detections")
    if detections.score is None:
        raise ValueError("`detections` must have scores; boxes of the truth have none.")
    n_categories, n_images = len(truth.categories), len(detections.images)
    crowd = np.zeros(len(truth), dtype=bool) if truth.is_crowd is None else truth.is_crowd
    cell = detections.image * n_categories + detections.category
    order = np.lexsort((-detections.score, cell))  # stable: ties stay in the order of the file
    groups = _groups(cell[order])
    truth_cell = truth.image * n_categories + truth.category
    # Crowds last, as COCO sorts them.
    truth_order = np.lexsort((crowd, truth_cell))
    runs = _groups(truth_cell[truth_order])
    truth_groups = {int(truth_cell[truth_order[a]]): (a, b) for a, b in runs}
    n = len(detections)
    correct, ignored, overlap = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), np.zeros(n)
    for start, stop in groups:
        rows = order[start:stop]
        ignored[rows[most_detections:]] = True
        rows = rows[:most_detections]
        a, b = truth_groups.get(int(cell[rows[0]]), (0, 0))
        if a == b:
            continue
        objects = truth_order[a:b]
        overlaps = _iou(detections.box[rows], truth.box[objects], crowd[objects])
        taken = _taken(overlaps, crowd[objects], iou)
        hit = taken >= 0
        on_crowd = hit & crowd[objects][np.maximum(taken, 0)]
        correct[rows], ignored[rows] = hit & ~on_crowd, on_crowd
        overlap[rows] = np.where(hit & ~on_crowd, overlaps[np.arange(len(rows)), taken], 0.0)
    kept = np.flatnonzero(~ignored)
    return MatchedDetections(
        detections.score[kept],
        correct[kept],
        overlap[kept],
        detections.category[kept],
        detections.image[kept],
        kept,
        np.bincount(truth_cell[~crowd], minlength=n_images * n_categories).reshape(
            n_images, n_categories
        ),
        int(ignored.sum()),
        tuple(truth.categories.values()),
        tuple(detections.images.values()),
        iou,
    )


def _groups(sorted_cells: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return start and stop of each run of equal numbers."""
    cuts = np.flatnonzero(np.diff(sorted_cells)) + 1
    edges = [0, *cuts.tolist(), len(sorted_cells)]
    return [(a, b) for a, b in pairwise(edges) if b > a]


def _taken(overlaps: Floats, crowd: NDArray[np.bool_], least: float) -> NDArray[np.intp]:
    """Return the object that each detection takes, -1 for none; detections by falling score.

    As in COCO's loop a crowd is taken where nothing else is free, and of equal overlaps the last.
    """
    found = np.full(len(overlaps), -1, dtype=np.intp)
    taken: set[int] = set()
    near = np.nonzero(overlaps >= min(least, 1.0 - 1e-10))
    pairs = zip(*(x.tolist() for x in (*near, ~crowd[near[1]], overlaps[near])), strict=True)
    for detection, group in groupby(pairs, key=itemgetter(0)):
        free = [(plain, overlap, at) for _, at, plain, overlap in group if at not in taken]
        if free:
            plain, _, at = max(free)
            found[detection] = at
            if plain:
                taken.add(at)
    return found


def _iou(boxes: Floats, others: Floats, crowd: NDArray[np.bool_]) -> Floats:
    """Return the overlaps ``[D, G]``; with a crowd, the share of the detection inside it."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(
        boxes[:, None, :2] + boxes[:, None, 2:], others[None, :, :2] + others[None, :, 2:]
    )
    sides = np.maximum(high - low, 0.0)
    inside = sides[..., 0] * sides[..., 1]
    area, other_area = boxes[:, 2] * boxes[:, 3], others[:, 2] * others[:, 3]
    union = np.where(crowd, area[:, None], area[:, None] + other_area - inside)
    return np.asarray(np.divide(inside, union, out=np.zeros_like(inside), where=union > 0))
