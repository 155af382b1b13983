"""Calibration errors and thresholds of matched detections."""

import numpy as np

from focalibrate._array import Floats
from focalibrate._check import check_n_bins
from focalibrate.detection.matching import MatchedDetections

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
    part = matched.above(above)
    return _binned_error(part.confidence, part.correct.astype(float), n_bins)


def la_ece(matched: MatchedDetections, *, above: float = 0.0, n_bins: int = N_BINS) -> float:
    r"""Localisation-aware ECE: :math:`|\text{mean score} - \text{mean IoU}|`, misses having IoU 0.

    Per category in `n_bins` bins, weighted by their sizes; the mean over the categories that have
    detections (LaECE₀).
    """
    part = matched.above(above)
    errors = [
        _binned_error(part.confidence[rows], part.iou[rows], n_bins)
        for k in range(len(part.categories))
        if (rows := part.category == k).any()
    ]
    return float(np.mean(errors)) if errors else float("nan")


def lrp_thresholds(matched: MatchedDetections) -> Floats:
    r"""Return for each category the score of least localisation-recall-precision error.

    .. math:: \mathrm{LRP}(s) = \frac{\sum_{TP}\frac{1-\mathrm{IoU}}{1-t} + FP + FN}{TP+FP+FN}

    over the detections with at least the score s; nan for a category without detections.
    """
    found = np.full(len(matched.categories), np.nan)
    for k in range(len(found)):
        part = matched[matched.category == k]
        if not len(part):
            continue
        order = np.argsort(-part.confidence, kind="stable")
        score, hit = part.confidence[order], part.correct[order]
        loss = np.where(hit, (1.0 - part.iou[order]) / (1.0 - part.iou_threshold), 1.0)
        n_hits = np.cumsum(hit)
        missed = matched.n_truth[k] - n_hits
        total = np.arange(1, len(score) + 1) + missed
        error = (np.cumsum(loss) + missed) / total
        is_last = np.append(np.diff(score) != 0, True)  # a threshold takes all of equal score
        found[k] = score[is_last][np.argmin(error[is_last])]
    return found


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


def _binned_error(score: Floats, outcome: Floats, n_bins: int) -> float:
    check_n_bins(n_bins)
    if not len(score):
        return float("nan")
    at = np.clip(np.ceil(score * n_bins).astype(np.intp) - 1, 0, n_bins - 1)
    gaps = np.bincount(at, score - outcome, n_bins)
    return float(np.abs(gaps).sum() / len(score))
