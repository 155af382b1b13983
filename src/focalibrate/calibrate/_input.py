"""The door of every fit: logits and labels as NumPy arrays, looked at once."""

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, is_array_api_obj, to_numpy
from focalibrate._check import check_labels, check_logits

FLOAT32_ABOVE = 2**19
"""Entries above which single-precision logits are worked on in float32, block by block."""


def read_logits(logits: Array, labels: Array) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return logits ``[N, K]``, not copied where they are NumPy's, and labels ``[N]``.

    Shapes, dtypes and labels are checked here; the values of the logits are checked by the
    first pass over them (`check_rows`), as a pass over memory of its own would cost as much
    as the fit.
    """
    if not is_array_api_obj(logits) or logits.ndim != 2 or 0 in logits.shape:
        if is_array_api_obj(logits) and logits.ndim != 2:
            raise ValueError(
                f"`logits` must have shape [N, K], got {tuple(logits.shape)}. "
                "Flatten leading axes with `logits.reshape(-1, K)` and the labels alike."
            )
        check_logits(logits)
    rows = to_numpy(logits)
    check_logits(rows[:1])  # dtype and class count, on one row; `check_rows` sees to the rest
    check_labels(labels, shape=(rows.shape[0],), n_classes=rows.shape[1])
    return rows, to_numpy(labels).astype(np.intp, copy=False)


def check_rows(
    top: NDArray[Any], true: NDArray[Any], logits: NDArray[Any], labels: NDArray[np.intp]
) -> None:
    """Raise unless some rows' largest logits `top` and labels' logits `true` are finite.

    nan and +inf reach the largest logit of their row; -inf does so only where it fills it.
    `logits` and `labels` are all there are, to name the first bad row by its own number.
    """
    if not (np.isfinite(top).all() and np.isfinite(true).all()):
        _explain(logits, labels)


def _explain(logits: NDArray[Any], labels: NDArray[np.intp]) -> NoReturn:
    for start in range(0, len(logits), 4096):
        block = logits[start : start + 4096]
        true = block[np.arange(len(block)), labels[start : start + 4096]]
        is_bad = ~np.isfinite(block.max(axis=-1)) | ~np.isfinite(true)
        if is_bad.any():
            row = start + int(is_bad.argmax())
            break
    try:
        check_logits(logits[row : row + 1])
    except ValueError as error:
        raise ValueError(str(error).replace("row 0 ", f"row {row} ")) from None
    raise ValueError(
        f"`logits` must not rule out the true class, but the logit of row {row}'s label is "
        "-inf. Unmask it, correct the label or drop the row."
    )


def working_precision(logits: NDArray[Any]) -> Any:
    """Return float64, or float32 for large single- and half-precision logits."""
    is_large = logits.size > FLOAT32_ABOVE and logits.dtype.itemsize <= 4
    return np.float32 if is_large else np.float64
