"""Every row before and after calibration, looked at once, in blocks."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics import Cells
from focalibrate.report._entries import Entries

BLOCK_ENTRIES = 1 << 21
"""Probabilities held at once."""
BLOCK_ROWS = 64
"""Rows held at least: a table by class costs as much as about 15 of them."""

BeforeAfter = Callable[[Any], tuple[NDArray[Any], NDArray[Any]]]
"""Return the probabilities of the rows at an index, before calibration and after it, held out."""


@dataclass(frozen=True, eq=False)
class Side:
    """What the page needs of all rows, before calibration or after it."""

    confidence: Floats
    predicted: NDArray[np.intp]
    correct: NDArray[np.bool_]
    of_predicted: Floats
    """probability of the class predicted before calibration"""
    positive: Floats
    """probability of the last class"""
    classwise: Cells


def judge_rows(
    probs: BeforeAfter, labels: NDArray[np.intp], weights: Floats | None, entries: Entries
) -> tuple[Side, Side]:
    """Go through all rows once, in blocks, and add those that are shown to `entries`."""
    step = max(BLOCK_ROWS, BLOCK_ENTRIES // entries.n_classes)
    blocks: list[tuple[Side, Side]] = []
    for start in range(0, len(labels), step):
        part = slice(start, start + step)
        before, after = probs(part)
        entries.add(start, before, after, labels[part])
        told = before.argmax(axis=1), labels[part], None if weights is None else weights[part]
        blocks.append((_side(before, *told), _side(after, *told)))
    first, second = map(_joined, zip(*blocks, strict=True))
    return first, second


def _side(
    probs: NDArray[Any], before: NDArray[np.intp], labels: NDArray[np.intp], weights: Floats | None
) -> Side:
    predicted = probs.argmax(axis=1)
    return Side(
        confidence=np.minimum(probs.max(axis=1).astype(np.float64), 1.0),
        predicted=predicted,
        correct=predicted == labels,
        of_predicted=probs[np.arange(len(labels)), before].astype(np.float64),
        positive=np.minimum(probs[:, -1].astype(np.float64), 1.0),
        classwise=Cells.of_classes(probs, labels, sample_weight=weights),
    )


def _joined(blocks: tuple[Side, ...]) -> Side:
    names = [field.name for field in fields(Side)][:-1]
    columns: dict[str, Any] = {n: np.concatenate([getattr(b, n) for b in blocks]) for n in names}
    tables = [block.classwise for block in blocks]
    return Side(**columns, classwise=sum(tables[1:], tables[0]))
