"""Which detections are right, matched as COCO's evaluation does; their errors and thresholds."""

from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from focalibrate._array import Floats
from focalibrate._check import check_count, check_n_bins, check_open_interval
from focalibrate.detection.boxes import Boxes
from focalibrate.metrics.binning import equal_width_index

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


N_BINS = 25
RECALLS = np.linspace(0.0, 1.0, 101)


def d_ece(matched: MatchedDetections, *, above: float, n_bins: int = N_BINS) -> float:
    r"""Detection ECE: of score and correctness over all classes, from a stated score on.

    Detectors write thousands of boxes of scores near 0, which are almost never right and so
    almost calibrated: they make the error small. So the threshold must be given.

    Args:
        matched: of `match`.
        above: least score that counts, such as the one at which detections are used.
        n_bins: bins of equal width.
    """
    return float(_errors(matched, matched.correct, 0, _once(matched), above, n_bins)[0])


def la_ece(matched: MatchedDetections, *, above: float = 0.0, n_bins: int = N_BINS) -> float:
    r"""Localisation-aware ECE: :math:`|\text{mean score} - \text{mean IoU}|`, misses having IoU 0.

    Per category in `n_bins` bins, weighted by their sizes; the mean over the categories that have
    detections (LaECE₀).
    """
    by_category = matched.iou, matched.category
    return float(_errors(matched, *by_category, _once(matched), above, n_bins)[0])


@dataclass(frozen=True)
class Measure:
    """A measure of detections, with the ends of its 95 % interval by image where it has one."""

    name: str
    estimate: float
    low: float | None = None
    high: float | None = None


def lrp_measures(
    matched: MatchedDetections, *, n_resamples: int = 200, seed: int = 0
) -> list[Measure]:
    r"""Return for each category the score of least localisation-recall-precision error.

    .. math:: \mathrm{LRP}(s) = \frac{\sum_{TP}\frac{1-\mathrm{IoU}}{1-t} + FP + FN}{TP+FP+FN}

    over the detections with at least the score s, with a 95 % interval: images are drawn again;
    nan for a category without detections or without objects.
    """
    counts = _drawn(matched, n_resamples, seed)
    found = []
    for k, name in enumerate(matched.categories):
        values = _lrp(matched, k, counts)
        if np.isnan(values[0]):
            found.append(Measure(name, float("nan")))
            continue
        low, high = np.nanquantile(values[1:], [0.025, 0.975])
        found.append(Measure(name, float(values[0]), float(low), float(high)))
    return found


def _lrp(matched: MatchedDetections, category: int, counts: Floats) -> Floats:
    """Return the threshold of a category where images count so often, ``[R, images]``."""
    part = matched[matched.category == category]
    found = np.full(len(counts), np.nan)
    if not len(part) or not matched.n_truth[category]:
        return found
    order = np.argsort(-part.confidence, kind="stable")
    score, hit, image = part.confidence[order], part.correct[order], part.image[order]
    loss = np.where(hit, (1.0 - part.iou[order]) / (1.0 - part.iou_threshold), 1.0)
    is_last = np.append(np.diff(score) != 0, True)  # a threshold takes all of equal score
    for i, count in enumerate(counts):
        weight = count[image]
        missed = count @ matched.truth[:, category] - np.cumsum(weight * hit)
        total = np.cumsum(weight) + missed
        if weight.any():
            error = (np.cumsum(weight * loss) + missed) / np.maximum(total, 1e-300)
            error[total == 0] = np.inf  # no object and no detection so far
            found[i] = score[is_last][np.argmin(error[is_last])]
    return found


def measures_of(
    matched: MatchedDetections, *, above: float = 0.25, n_resamples: int = 200, seed: int = 0
) -> list[Measure]:
    """Return D-ECE of all detections and from a score on, LaECE₀ and the average precision.

    Intervals are normal ones, with the standard deviation over draws of images.

    Args:
        matched: of `match`; `replace` its `confidence` by a calibrated one.
        above: the score that detections are used from.
        n_resamples: draws of images.
        seed: of these draws.
    """
    least = float(matched.confidence.min()) if len(matched) else 0.0
    counts = _drawn(matched, n_resamples, seed)
    found = []
    for name, outcome, group, score in (
        (f"D-ECE, all scores (from {least:.2g})", matched.correct, 0, 0.0),
        (f"D-ECE, scores from {above:g}", matched.correct, 0, above),
        ("LaECE₀, all scores", matched.iou, matched.category, 0.0),
    ):
        values = _errors(matched, outcome, group, counts, score, N_BINS)
        estimate, half = float(values[0]), 1.96 * float(np.nanstd(values[1:]))
        found.append(Measure(name, estimate, max(0.0, estimate - half), estimate + half))
    found.append(Measure(f"AP at IoU {matched.iou_threshold:g}", average_precision(matched)))
    return found


def _once(matched: MatchedDetections) -> Floats:
    """Return that every image counts once, ``[1, images]``."""
    return np.ones((1, len(matched.images)))


def _drawn(matched: MatchedDetections, n_resamples: int, seed: int) -> Floats:
    """Return how often each image counts: once, then in each draw, ``[1 + R, images]``."""
    n_images = len(matched.images)
    shares = np.full(n_images, 1 / n_images)
    draws = np.random.default_rng(seed).multinomial(n_images, shares, n_resamples)
    return np.concatenate([_once(matched), draws])


def _errors(
    matched: MatchedDetections,
    outcome: NDArray[Any],
    group: NDArray[np.int64] | int,
    counts: Floats,
    above: float,
    n_bins: int,
) -> Floats:
    """Return the binned error, its mean over groups, where images count so often, ``[R]``."""
    check_n_bins(n_bins)
    kept = np.flatnonzero(matched.confidence >= above)
    if not len(kept):
        return np.full(len(counts), np.nan)
    score, image = matched.confidence[kept], matched.image[kept]
    bins = equal_width_index(score, n_bins)
    cells, at = np.unique(
        np.broadcast_to(group, len(matched))[kept] * n_bins + bins, return_inverse=True
    )
    shape = counts.shape[1], len(cells)
    gap = np.abs(counts @ csr_array((score - outcome[kept], (image, at)), shape))
    n = counts @ csr_array((np.ones(len(kept)), (image, at)), shape)
    first = np.flatnonzero(np.diff(cells // n_bins, prepend=-1))  # cell of each group
    gap, n = (np.add.reduceat(x, first, axis=1) for x in (gap, n))
    with np.errstate(invalid="ignore"):  # a draw without detections is nan
        return np.asarray((gap / np.where(n > 0, n, 1.0)).sum(axis=1) / (n > 0).sum(axis=1))


def average_precision(matched: MatchedDetections) -> float:
    """Return COCO's average precision at the overlap of the matching: 101 recalls, all classes."""
    values = []
    for k in range(len(matched.categories)):
        if not matched.n_truth[k]:
            continue
        part = matched[matched.category == k]
        order = np.lexsort((part.index, part.image, -part.confidence))
        hit = part.correct[order]
        hits = np.cumsum(hit)
        recall = hits / matched.n_truth[k]
        precision = hits / np.maximum(np.arange(1, len(hit) + 1), 1)
        precision = np.maximum.accumulate(precision[::-1])[::-1]
        at = np.searchsorted(recall, RECALLS, side="left")
        values.append(np.append(precision, 0.0)[np.minimum(at, len(precision))].mean())
    return float(np.mean(values)) if values else float("nan")
