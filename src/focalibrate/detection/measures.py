"""Calibration errors and thresholds of matched detections."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from focalibrate._array import Floats
from focalibrate._check import check_n_bins
from focalibrate.detection.matching import MatchedDetections
from focalibrate.metrics.binning import equal_width_index

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
