"""One class at a time: its probabilities against whether it was the label."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate._engine.blocks import row_blocks
from focalibrate.calibrate._input import check_rows
from focalibrate.calibrate.fit_report import warn

COLUMN_SHARE = 0.05
COLUMN_FLOOR = 2**20
"""Columns are processed several at a time: at most this fraction of the logits, or this many
bytes."""


def check_classes_present(labels: NDArray[np.intp], n_classes: int, *, method: str) -> None:
    """Raise if only one class occurs; warn if some of the classes never occur."""
    present = np.unique(labels)
    if len(present) < 2:
        raise ValueError(
            f"`labels` must hold at least two classes to fit {method}, found only class "
            f"{present[0]}. Fit on data with more classes, or fit a temperature."
        )
    if len(present) < n_classes:
        missing = np.setdiff1d(np.arange(n_classes), present)
        shown = ", ".join(map(str, missing[:5].tolist())) + (", ..." if len(missing) > 5 else "")
        warn(
            f"{len(missing)} of {n_classes} classes never occur among the labels ({shown}): "
            f"{method} gives them probability 0 or nearly so. A temperature needs no label of "
            "every class."
        )


def class_columns(
    logits: NDArray[Any], labels: NDArray[np.intp]
) -> Iterator[tuple[Floats, NDArray[np.bool_]]]:
    """Yield, for each class, its probability in every row and whether it is the label."""
    n, k = logits.shape
    log_total = np.empty(n)
    for part in row_blocks(n, row_bytes=8 * k):
        block = logits[part].astype(np.float64)
        top = block.max(axis=-1)
        check_rows(top, block[np.arange(len(block)), labels[part]], logits, labels)
        log_total[part] = top + np.log(np.exp(block - top[:, None]).sum(axis=-1))
    width = int(max(COLUMN_FLOOR, COLUMN_SHARE * n * k * logits.itemsize) / (8 * n))
    for start in range(0, k, max(1, width)):
        columns = logits[:, start : start + max(1, width)].T.astype(np.float64)
        columns -= log_total
        np.exp(columns, out=columns)
        for offset, column in enumerate(columns):
            yield column, labels == start + offset
