"""Every row before and after calibration, looked at once, in blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.comparison import Comparison
from focalibrate.metrics import Cells
from focalibrate.report._entries import PILOT, Entries, plan_entries
from focalibrate.report._packed import sample_of

BLOCK_ENTRIES = 1 << 21
"""Probabilities held at once."""
BLOCK_ROWS = 64
"""Rows held at least: a table by class costs as much as about 15 of them."""


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """Probabilities of any rows, before calibration and after it, held out."""

    logits: NDArray[Any]
    labels: NDArray[np.intp]
    comparison: Comparison
    chosen: str

    def before(self, index: Any) -> NDArray[Any]:
        """Return the uncalibrated probabilities of the rows at `index`."""
        return self.comparison.held_out_probs("identity", self.logits, index)

    def after(self, index: Any) -> NDArray[Any]:
        """Return the probabilities by the chosen method, held out."""
        return self.comparison.held_out_probs(self.chosen, self.logits, index)

    def blocks(self) -> Iterator[slice]:
        """Yield all rows in blocks that fit into memory."""
        n, k = self.logits.shape
        step = max(BLOCK_ROWS, BLOCK_ENTRIES // k)
        return (slice(start, min(start + step, n)) for start in range(0, n, step))


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """What the page needs of all rows, each before and after."""

    confidence: tuple[NDArray[np.float64], NDArray[np.float64]]
    predicted: tuple[NDArray[np.intp], NDArray[np.intp]]
    correct: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    of_predicted: NDArray[np.float64]
    """probability after calibration of the class predicted before"""
    positive: tuple[NDArray[np.float64], NDArray[np.float64]]
    """probability of the last class"""
    classwise: tuple[Cells, Cells]


def judge_rows(pair: BeforeAfter, entries: Entries) -> JudgedRows:
    """Go through all rows once, in blocks, and add those that are shown to `entries`."""
    found: list[tuple[Any, ...]] = []
    for part in pair.blocks():
        labels = pair.labels[part]
        weights = None if pair.comparison.weights is None else pair.comparison.weights[part]
        probs = pair.before(part), pair.after(part)
        entries.add(part.start, *probs, labels)
        predicted = tuple(p.argmax(axis=1) for p in probs)
        confidence = tuple(np.minimum(p.max(axis=1).astype(np.float64), 1.0) for p in probs)
        at = np.arange(len(labels))
        found.append(
            (
                *confidence,
                *predicted,
                probs[1][at, predicted[0]].astype(np.float64),
                *(np.minimum(p[:, -1].astype(np.float64), 1.0) for p in probs),
                *(Cells.of_classes(p, labels, sample_weight=weights) for p in probs),
            )
        )
    *columns, raw, after = zip(*found, strict=True)
    c0, c1, p0, p1, of_predicted, last0, last1 = (np.concatenate(column) for column in columns)
    return JudgedRows(
        (c0, c1),
        (p0, p1),
        (p0 == pair.labels, p1 == pair.labels),
        of_predicted,
        (last0, last1),
        (sum(raw[1:], raw[0]), sum(after[1:], after[0])),
    )


def planned_entries(pair: BeforeAfter, rng: np.random.Generator) -> Entries:
    """Return the collector of the rows shown: all, or a random sample if not all fit."""
    n, k = pair.logits.shape
    pilot = np.sort(rng.permutation(n)[:PILOT])
    n_shown, floor = plan_entries(pair.before(pilot), pair.after(pilot), n=n)
    return Entries(sample_of(n, n_shown, pair.comparison.weights, rng), k, floor)
