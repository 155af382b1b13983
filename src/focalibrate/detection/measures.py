"""Calibration errors and thresholds of matched detections."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import check_n_bins
from focalibrate.detection.matching import MatchedDetections
from focalibrate.metrics.binning import equal_width_index

N_BINS = 25
ONCE = np.ones(1)
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
    part = matched.above(above)
    return _error(*_sums(part, part.correct, n_bins=n_bins))


def la_ece(matched: MatchedDetections, *, above: float = 0.0, n_bins: int = N_BINS) -> float:
    r"""Localisation-aware ECE: :math:`|\text{mean score} - \text{mean IoU}|`, misses having IoU 0.

    Per category in `n_bins` bins, weighted by their sizes; the mean over the categories that have
    detections (LaECE₀).
    """
    part = matched.above(above)
    return _error(*_sums(part, part.iou, part.category, n_bins=n_bins))


def lrp_thresholds(matched: MatchedDetections) -> Floats:
    r"""Return for each category the score of least localisation-recall-precision error.

    .. math:: \mathrm{LRP}(s) = \frac{\sum_{TP}\frac{1-\mathrm{IoU}}{1-t} + FP + FN}{TP+FP+FN}

    over the detections with at least the score s; nan for a category without detections.
    """
    once = np.ones(len(matched.images))
    return np.array([_lrp(matched, k, once)[0] for k in range(len(matched.categories))])


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
    """Return the threshold of each category with a 95 % interval: images are drawn again."""
    rng = np.random.default_rng(seed)
    n_images = len(matched.images)
    draws = rng.multinomial(n_images, np.full(n_images, 1 / n_images), n_resamples)
    found = []
    for k, name in enumerate(matched.categories):
        values = _lrp(matched, k, np.concatenate([np.ones((1, n_images)), draws]))
        if np.isnan(values[0]):
            found.append(Measure(name, float("nan")))
            continue
        low, high = np.nanquantile(values[1:], [0.025, 0.975])
        found.append(Measure(name, float(values[0]), float(low), float(high)))
    return found


def _lrp(matched: MatchedDetections, category: int, counts: Floats) -> Floats:
    """Return the threshold of a category where images count so often, ``[R, images]``."""
    counts = np.atleast_2d(counts)
    part = matched[matched.category == category]
    found = np.full(len(counts), np.nan)
    if not len(part):
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
    rng = np.random.default_rng(seed)
    n_images = len(matched.images)
    draws = rng.multinomial(n_images, np.full(n_images, 1 / n_images), n_resamples)
    found = []
    every, used = matched, matched.above(above)
    for name, part, outcome, group in (
        (f"D-ECE, all scores (from {least:.2g})", every, every.correct, None),
        (f"D-ECE, scores from {above:g}", used, used.correct, None),
        ("LaECE₀, all scores", every, every.iou, every.category),
    ):
        estimate = _error(*_sums(part, outcome, group))
        sums = _sums(part, outcome, group, by_image=True)
        half = 1.96 * float(np.nanstd([_error(*sums, draw) for draw in draws]))
        found.append(Measure(name, estimate, max(0.0, estimate - half), estimate + half))
    found.append(Measure(f"AP at IoU {matched.iou_threshold:g}", average_precision(matched)))
    return found


def _sums(
    part: MatchedDetections,
    outcome: NDArray[Any],
    group: NDArray[np.intp] | None = None,
    *,
    n_bins: int = N_BINS,
    by_image: bool = False,
) -> tuple[Floats, Floats]:
    """Return sums of score minus outcome, and counts, ``[images, groups, bins]``.

    Without a `group` or `by_image` there is one of all.
    """
    check_n_bins(n_bins)
    of_group: Any = 0 if group is None else group
    of_image: Any = part.image if by_image else 0
    n_groups = 1 if group is None else len(part.categories)
    shape = (len(part.images) if by_image else 1, n_groups, n_bins)
    size = int(np.prod(shape))
    at = (of_image * n_groups + of_group) * n_bins + equal_width_index(part.confidence, n_bins)
    gaps = np.bincount(at, part.confidence - outcome, size).astype(np.float64)
    return gaps.reshape(shape), np.bincount(at, minlength=size).astype(np.float64).reshape(shape)


def _error(gaps: Floats, counts: Floats, draw: Floats = ONCE) -> float:
    """Return the binned error where images count so often: its mean over groups; nan of none."""
    gap = np.abs(np.tensordot(draw, gaps, 1)).sum(axis=1)
    n = np.tensordot(draw, counts, 1).sum(axis=1)
    return float(np.mean(gap[n > 0] / n[n > 0])) if n.any() else float("nan")


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
