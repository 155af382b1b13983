"""The sketch of one image, in about the time that finding the class of every pixel takes."""

import numpy as np
import torch
from torch import Tensor

from focalibrate._array import Floats
from focalibrate._check import (
    check_class_axis,
    check_label_form,
    check_labels,
    check_logits,
)
from focalibrate.metrics import Sketch
from focalibrate.nn._rows import counted_rows, working_dtype
from focalibrate.nn._seen import sums_by_class

LARGE = 4096
"""Images of at least so many pixels are processed whole, without a row for each pixel."""
PIXELS_KEPT = 256
"""Random pixels of such an image that may be kept as rows; the same positions in each image."""


def one_image(
    logits: Tensor, labels: Tensor, *, ignore_index: int | None
) -> tuple[Tensor, Tensor]:
    """Return logits ``[K, P]`` and class indices ``[P]`` of a batch of one image, checked."""
    check_class_axis(logits)
    n_classes = logits.shape[1]
    if not isinstance(labels, Tensor) or labels.shape == logits.shape:
        counted_rows(logits, labels, ignore_index=ignore_index)  # raises, and says why
    check_label_form(labels, shape=(1, *logits.shape[2:]), n_classes=n_classes)
    z = logits.detach().to(working_dtype(logits)).reshape(n_classes, -1)
    return z, labels.reshape(-1).long()


def some_pixels(
    logits: Tensor, labels: Tensor, *, ignore_index: int | None, n: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Return logits ``[M, K]`` and labels of up to `n` random pixels of ``[K, P]`` that count."""
    rng = np.random.default_rng([seed, len(labels)])
    chosen = torch.from_numpy(rng.integers(len(labels), size=n)).to(labels.device)
    if ignore_index is not None:
        chosen = chosen[labels[chosen] != ignore_index]
    return logits[:, chosen].T.contiguous(), labels[chosen]


def image_sketch(
    logits: Tensor, labels: Tensor, *, ignore_index: int | None, n_bins: int, by_class: bool
) -> tuple[Sketch, Floats | None] | None:
    """Return the sketch of the pixels that count, without sums by class; None if there are none.

    With `by_class` also the sums of `sums_by_class`.

    Args:
        logits: ``[K, P]``, of float32 or float64, on any device.
        labels: class indices ``[P]``.
        ignore_index: label of pixels that do not count.
        n_bins: equally wide bins.
        by_class: whether to sum by predicted class too.

    Numerics:
        Numbers of a pixel in the dtype of the logits, sums in float64. The class of a pixel is
        found by comparing with the largest logit, which is faster than `argmax` over an axis
        that is not the last; of equal ones it is the first, as with `argmax`.
    """
    n_classes = len(logits)
    counts = None if ignore_index is None else labels != ignore_index
    if counts is not None and bool(counts.all()):
        counts = None
    if counts is not None:
        labels = labels.masked_fill(~counts, 0)
    top = logits.amax(dim=0)
    powers = (logits - top).exp_()
    total = powers.sum(dim=0)
    squares = powers.square_().sum(dim=0)
    in_range = (labels >= 0) & (labels < n_classes)
    true = logits.gather(0, (labels * in_range)[None])[0]
    small = torch.int16 if n_classes <= 2**15 else torch.int64
    predicted = torch.zeros_like(labels, dtype=small)
    for k in range(n_classes - 1, 0, -1):  # of equal ones the first is written last
        predicted.masked_fill_(logits[k] == top, k)
    predicted.masked_fill_(logits[0] == top, 0)
    columns: tuple[Tensor, ...] = (labels, in_range, top, total, squares, true, predicted)
    if counts is not None:
        kept = counts.nonzero()[:, 0]  # found once; a mask would be searched again for each column
        columns = tuple(x.index_select(0, kept) for x in columns)
    y, ok, top, total, squares, true, predicted = (x.cpu() for x in columns)
    if len(y) == 0:
        return None
    if not bool(ok.all()):
        check_labels(y, shape=tuple(y.shape), n_classes=n_classes)
    if not bool(torch.isfinite(total).all()):
        rows = logits.T if counts is None else logits.T[counts]
        check_logits(rows.cpu())
    loss = top - true + total.log()
    confidence = total.reciprocal()
    p_true = (-loss).exp()
    brier = squares * confidence * confidence - 2.0 * p_true + 1.0
    correct = (predicted == y).numpy()
    values = confidence.double().numpy()
    chosen = predicted.long().numpy()
    positive = None
    if n_classes == 2:
        positive = np.where(chosen == 1, values, 1.0 - values), y.numpy() == 1
    sketch = Sketch.of_terms(
        n_classes=n_classes,
        confidence=values,
        correct=correct,
        nll=loss.double().numpy(),
        brier=brier.double().numpy(),
        positive=positive,
        n_bins=n_bins,
    )
    sums = None
    if by_class:
        sums = sums_by_class(values, correct, chosen, None, n_classes=n_classes, n_bins=n_bins)
    return sketch, sums
