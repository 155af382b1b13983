"""The rows of a batch that count, in NumPy, and the sample of them that a monitor keeps."""

import math
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from focalibrate._array import Floats
from focalibrate._check import check_labels, check_logits
from focalibrate.metrics.sketch import RowTerms, row_terms
from focalibrate.nn._rows import as_rows, row_weights

LARGE = 4096
"""Images of at least so many pixels are taken one at a time, in the dtype of the logits."""


class CountedRows(NamedTuple):
    """Rows that are not ignored and have a weight above 0."""

    logits: NDArray[Any]
    """``[M, K]``"""
    labels: NDArray[np.int64]
    weights: Floats | None
    image: NDArray[np.intp]
    """position in the batch"""
    is_large: bool
    """whether they are the pixels of a large image"""

    def terms(self, *, classwise: bool = False, n_bins: int = 15) -> RowTerms:
        """Return what a sketch sums of each row, computed in float64 but for large images."""
        z = self.logits if self.is_large else self.logits.astype(np.float64)
        check_logits(z)
        return row_terms(
            z,
            self.labels,
            given="logits",
            weights=self.weights,
            copies=None,
            n_bins=n_bins,
            classwise=classwise,
        )


def counted_rows(
    logits: Tensor, labels: Tensor, weights: Tensor | None = None, *, ignore_index: int
) -> CountedRows:
    """Return the rows of a batch of logits and class indices that count, labels checked."""
    rows = as_rows(logits, labels, ignore_index=ignore_index)
    if rows.is_soft:
        raise ValueError(
            f"`labels` must be class indices, got soft targets of shape {tuple(labels.shape)}. "
            "Pass `labels.argmax(1)`, or the labels before mixing."
        )
    z, y = (x.detach().cpu().numpy() for x in (rows.logits, rows.target))
    w = None if weights is None else row_weights(weights, rows).cpu().numpy()
    n_images = rows.shape[0] if rows.shape else 1
    image = np.repeat(np.arange(n_images), len(y) // n_images)
    counts = np.ones(len(y), np.bool_) if rows.ignored is None else ~rows.ignored.cpu().numpy()
    if w is not None:
        counts &= w > 0
    if not counts.all():
        kept = np.flatnonzero(counts)
        # The classes of an image come first: taken as they lie, which is several times faster.
        z = z.T.take(kept, axis=1).T if z.flags.f_contiguous else z[kept]
        y, image, w = y[kept], image[kept], None if w is None else w[kept]
    if len(y):
        check_labels(y, shape=y.shape, n_classes=rows.n_classes)
    return CountedRows(z, y, w, image, math.prod(rows.shape[1:]) >= LARGE)


_MIX = tuple(np.uint64(x) for x in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class KeptRows(NamedTuple):
    """Rows with their priority."""

    logits: NDArray[Any]
    """float32 or float64 ``[M, K]``"""
    labels: NDArray[np.int64]
    """class indices ``[M]``"""
    weights: NDArray[np.float64]
    priority: NDArray[np.int64]
    """>= 0"""


@final
class RowSample:
    r"""The rows of least priority, where a row's priority is a hash of its numbers and a seed.

    Every row has the same chance to be among them, and the choice depends only on the rows seen,
    not on batches, their order or the number of workers: merging equals concatenating. Equal rows
    are kept or dropped together. As long as no more than `capacity` rows were seen, all are kept.
    """

    def __init__(self, capacity: int, seed: int, n_classes: int) -> None:
        self.capacity, self.seed, self.n_classes = capacity, seed, n_classes
        none = np.zeros(0, dtype=np.int64)
        logits = np.zeros((0, n_classes), dtype=np.float32)
        # The sample, and candidates that wait: merging them one by one would copy it every time.
        self._parts = [KeptRows(logits, none, np.zeros(0), none)]

    @property
    def rows(self) -> KeptRows:
        """The sample of all rows so far, by ascending priority."""
        if len(self._parts) > 1:
            together = [np.concatenate(columns) for columns in zip(*self._parts, strict=True)]
            kept = np.argsort(together[-1], kind="stable")[: self.capacity]
            self._parts = [KeptRows(*(column[kept] for column in together))]
        return self._parts[0]

    def add(
        self,
        logits: NDArray[Any],
        labels: NDArray[np.int64],
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Add rows, float32 or float64 ``[N, K]``; they are copied."""
        if self.capacity == 0:
            return
        priority = row_priority(logits, labels, seed=self.seed)
        known = self._parts[0].priority
        enters = np.ones(len(priority), dtype=np.bool_)
        if len(known) == self.capacity:
            enters = priority < known[-1]
        w = np.ones(len(labels)) if weights is None else weights
        self.merge(KeptRows(logits[enters], labels[enters], w[enters], priority[enters]))

    def merge(self, other: KeptRows) -> None:
        """Add the rows of another sample."""
        self._parts.append(other)
        if sum(len(part.labels) for part in self._parts[1:]) > self.capacity:
            _ = self.rows


def row_priority(
    logits: NDArray[Any], labels: NDArray[np.int64], *, seed: int
) -> NDArray[np.int64]:
    """Return a number in [0, 2**63) for each row: a hash of its logits, label and `seed`.

    The logits count as float32, so that a row has one priority however precisely it is held.
    """
    with np.errstate(over="ignore"):  # a float64 beyond float32 counts as infinite
        words = np.ascontiguousarray(logits, dtype=np.float32).view(np.uint32)
    rng = np.random.default_rng(seed)
    # Odd factors, so that no bit of a word is lost: sums modulo 2**64 of random multiples.
    factors = rng.integers(2**63, size=words.shape[1] + 1, dtype=np.uint64) * 2 + 1
    x: NDArray[np.uint64] = labels.astype(np.uint64) * factors[-1]
    x += np.einsum("nk,k->n", words, factors[:-1], dtype=np.uint64, casting="safe")
    for factor, shift in zip(_MIX, (30, 27), strict=True):
        x ^= x >> np.uint64(shift)
        x *= factor
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(1)).astype(np.int64)
