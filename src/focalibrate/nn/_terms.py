"""One pass over a batch in torch: the terms that a monitor sums, and the rows it may keep."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focalibrate._array import Floats
from focalibrate._check import check_labels, check_logits
from focalibrate.nn._rows import LossRows, as_rows, row_weights, working_dtype

LARGE = 4096
"""Images of at least so many pixels are taken one at a time, in the dtype of the logits."""
PIXELS_KEPT = 256
"""Random pixels of such an image that may be kept as rows; the same positions in each image."""


@dataclass(frozen=True, eq=False)
class BatchTerms:
    """The examples of a batch that count, one number each."""

    confidence: Floats
    correct: NDArray[np.bool_]
    nll: Floats
    brier: Floats
    labels: NDArray[np.intp]
    predicted: NDArray[np.intp]
    image: NDArray[np.intp]
    """position in the batch"""
    probs: Floats | None
    """of all classes ``[M, K]``; None where they are not wanted"""
    positive: Floats | None
    """P(class 1), where there are two classes"""
    weights: Floats | None


def batch_terms(rows: LossRows, weights: Tensor | None, *, wants_probs: bool) -> BatchTerms | None:
    """Return the terms of a batch, None if no example counts.

    Numerics:
        Float64, for images of `LARGE` pixels or more the dtype of the logits. The class is that
        of the first largest logit. The Brier score is formed without cancellation.
    """
    given, n_classes = rows.given, rows.n_classes
    n = len(given) if given.ndim > 1 else 1
    z = given.to(working_dtype(given)).reshape(n, n_classes, -1)
    if z.shape[2] < LARGE:
        z = z.cpu().double()
    y = rows.target.to(z.device).reshape(n, -1)
    top, predicted = z.max(dim=1)  # with the place; faster than `argmax` over this axis
    powers = (z - top[:, None]).exp_()
    total = powers.sum(dim=1)
    in_range = (y >= 0) & (y < n_classes)
    at = (y * in_range)[:, None]
    own = powers.gather(1, at)
    nll = total.log() + (top - z.gather(1, at)[:, 0])
    probs = powers / total[:, None] if wants_probs or n_classes == 2 else None
    powers.scatter_(1, at, own - total[:, None])
    brier = powers.square_().sum(dim=1) / total.square()
    image = torch.arange(n, device=z.device)[:, None].expand(y.shape)
    columns: tuple[Tensor, ...] = (
        total.reciprocal(), nll, brier, y, predicted, image, in_range, total,
    )  # fmt: skip
    kept, w = _kept(rows, weights, z.device)
    flat = [x.reshape(-1) for x in columns]
    if kept is not None:
        flat = [x.index_select(0, kept) for x in flat]
    if len(flat[0]) == 0:
        return None
    confidence, nll, brier, y, predicted, image, in_range, total = (x.cpu() for x in flat)
    if not bool(in_range.all()):
        check_labels(y, shape=tuple(y.shape), n_classes=n_classes)
    if not bool(torch.isfinite(total).all()):
        check_logits((rows.logits if rows.ignored is None else rows.logits[~rows.ignored]).cpu())
    table = None
    if probs is not None:
        by_row = probs.movedim(1, -1).reshape(-1, n_classes)
        table = (by_row if kept is None else by_row[kept]).cpu().double().numpy()
    return BatchTerms(
        confidence=confidence.double().numpy(),
        correct=(predicted == y).numpy(),
        nll=nll.double().numpy(),
        brier=brier.double().numpy(),
        labels=y.numpy(),
        predicted=predicted.numpy(),
        image=image.numpy(),
        probs=table if wants_probs else None,
        positive=np.minimum(table[:, 1], 1.0) if table is not None and n_classes == 2 else None,
        weights=w,
    )


def _kept(
    rows: LossRows, weights: Tensor | None, device: torch.device
) -> tuple[Tensor | None, Floats | None]:
    """Return which examples count, None for all, and their weights."""
    counts = None if rows.ignored is None else ~rows.ignored
    if weights is None:
        return None if counts is None else counts.nonzero()[:, 0].to(device), None
    w = weights if counts is None else weights.to(counts.device) * counts
    kept = (w > 0).nonzero()[:, 0]
    return kept.to(device), w[kept].cpu().numpy()


def read_batch_rows(
    logits: Tensor, labels: Tensor, weights: Tensor | None, *, ignore_index: int
) -> tuple[LossRows, Tensor | None]:
    """Return a batch of logits and class indices, checked, and a weight per example."""
    rows = as_rows(logits.detach(), labels, ignore_index=ignore_index)
    if rows.is_soft:
        raise ValueError(
            f"`labels` must be class indices, got soft targets of shape {tuple(labels.shape)}. "
            "Pass `labels.argmax(1)`, or the labels before mixing."
        )
    return rows, None if weights is None else row_weights(weights, rows)


def rows_to_keep(rows: LossRows, weights: Tensor | None, *, n: int, seed: int) -> Any:
    """Return logits ``[M, K]``, labels and weights of the rows that a monitor may keep.

    They are all that count; of a large image up to `n` random pixels.
    """
    y, ignored = rows.target, rows.ignored
    if rows.given.ndim > 2 and rows.given[0, 0].numel() >= LARGE:
        rng = np.random.default_rng([seed, len(y)])
        drawn = torch.from_numpy(rng.integers(len(y), size=min(PIXELS_KEPT, n))).to(y.device)
        z = rows.given.to(working_dtype(rows.given)).reshape(rows.n_classes, -1)[:, drawn].T
        w = None if weights is None else weights[drawn.to(weights.device)]
        counts = torch.ones_like(drawn, dtype=torch.bool)
        y, ignored = y[drawn], None if ignored is None else ignored[drawn]
    else:
        z, w = rows.logits, weights
        counts = torch.ones_like(y, dtype=torch.bool)
    if ignored is not None:
        counts &= ~ignored
    if w is not None:
        counts &= (w > 0).to(counts.device)
    kept = z[counts].cpu().numpy(), y[counts].cpu().numpy()
    return *kept, None if w is None else w[counts.to(w.device)].cpu().numpy()
