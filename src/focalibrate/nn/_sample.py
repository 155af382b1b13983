"""A sample of rows of bounded size that does not depend on the order they came in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

_MIX = tuple(np.uint64(x) for x in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True, eq=False)
class RowSample:
    r"""The rows of least priority, where a row's priority is a hash of its numbers and a seed.

    Every row has the same chance to be among them, and the choice depends only on the rows seen,
    not on batches, their order or the number of workers: merging equals concatenating. Equal rows
    are kept or dropped together. As long as no more than `capacity` rows were seen, all are kept.
    """

    capacity: int
    seed: int
    logits: NDArray[Any]
    """shape ``[M, K]``, ``M <= capacity``, by ascending priority"""
    labels: NDArray[np.int64]
    """class indices ``[M]``"""
    priority: NDArray[np.int64]
    """shape ``[M]``, >= 0"""
    weights: NDArray[np.float64]
    """of each row, ``[M]``"""

    @classmethod
    def empty(cls, capacity: int, seed: int, n_classes: int) -> Self:
        """Return the sample of no rows."""
        none = np.zeros(0, dtype=np.int64)
        logits = np.zeros((0, n_classes), dtype=np.float32)
        return cls(capacity, seed, logits, none, none, np.zeros(0))

    def candidates(
        self, logits: NDArray[Any], labels: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> Self:
        """Return those of new rows, float32 or float64 ``[N, K]``, that may belong in here."""
        if self.capacity == 0:
            return self
        priority = row_priority(logits, labels, seed=self.seed)
        is_full = len(self.priority) == self.capacity
        enters = (
            priority < self.priority[-1] if is_full else np.ones(len(priority), dtype=np.bool_)
        )
        return replace(
            self,
            logits=logits[enters],
            labels=labels[enters],
            priority=priority[enters],
            weights=weights[enters],
        )

    def merged(self, others: Sequence[Self]) -> Self:
        """Return the sample of the rows of this and `others`."""
        parts = (self, *others)
        every = np.concatenate([part.priority for part in parts])
        kept = np.argsort(every, kind="stable")[: self.capacity]
        return replace(
            self,
            logits=np.concatenate([part.logits for part in parts])[kept],
            labels=np.concatenate([part.labels for part in parts])[kept],
            priority=every[kept],
            weights=np.concatenate([part.weights for part in parts])[kept],
        )


@final
class RowKeeper:
    """A sample that grows: candidates wait, at most `capacity` of them, and are merged at once.

    Merging at every batch would copy the whole sample every time.
    """

    def __init__(self, sample: RowSample) -> None:
        self._sample = sample
        self._waiting: list[RowSample] = []

    @property
    def n_classes(self) -> int:
        """Number of classes of every row."""
        return int(self._sample.logits.shape[1])

    @property
    def sample(self) -> RowSample:
        """The sample of all rows so far."""
        if self._waiting:
            self._sample, self._waiting = self._sample.merged(self._waiting), []
        return self._sample

    def add(
        self,
        logits: NDArray[Any],
        labels: NDArray[np.int64],
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Add rows, float32 or float64 ``[N, K]``; they are copied."""
        w = np.ones(len(labels)) if weights is None else weights
        self.merge(self._sample.candidates(logits, labels, w))

    def merge(self, other: RowSample) -> None:
        """Add the rows of another sample."""
        self._waiting.append(other)
        if sum(len(part.labels) for part in self._waiting) > self._sample.capacity:
            _ = self.sample


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
