"""Checks of scores as read: shape, dtype, and every row's values, by row number."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import HALF_PROBS_ATOL, PROBS_ATOL
from focalibrate.io._error import SHOWN, fault, how, rows_text
from focalibrate.io._table import Progress, Table
from focalibrate.io.predictions import rows_per_block


class _Bad:
    """The first few numbers, and the count, of the rows that break one rule."""

    def __init__(self) -> None:
        self.first: list[int] = []
        self.count = 0

    def add(self, mask: NDArray[np.bool_], start: int) -> None:
        rows = np.flatnonzero(mask)
        self.count += len(rows)
        self.first += (rows[: SHOWN - len(self.first)] + start).tolist()

    def __str__(self) -> str:
        return rows_text(self.first, self.count)


def checked_scores(
    table: Table, *, path: Path, probs_atol: float, progress: Progress
) -> NDArray[Any]:
    """Return scores ``[N, K]`` in float32 or float64, every row checked.

    Memory maps of either dtype are returned as they are. Probabilities whose sums are off
    by more than rounding of float32, but within the tolerance, are divided by their sum.
    """
    name = table.scores_name
    _check_form(table.scores, path=path, name=name)
    was_half = table.was_half or table.scores.dtype == np.float16
    scores = _native_float(table.scores)
    if table.kind == "logits":
        _check_logits(scores, path=path, name=name, progress=progress)
        return scores
    atol = max(probs_atol, HALF_PROBS_ATOL) if was_half else max(probs_atol, PROBS_ATOL)
    worst = _check_probs(scores, path=path, name=name, atol=atol, progress=progress)
    return scores if worst <= PROBS_ATOL else _normalised(scores)


def _check_form(scores: NDArray[Any], *, path: Path, name: str) -> None:
    if scores.dtype.kind not in "fiu":
        raise fault(
            path, f"`{name}` must hold numbers, got dtype {scores.dtype}. Save them as float32."
        )
    if scores.ndim != 2:
        step = "Save one row an example and one column a class."
        if scores.ndim == 1:
            step = (
                "For two classes and one score an example, save "
                "`np.stack([np.zeros_like(s), s], axis=1)` for logits s, "
                "`np.stack([1 - p, p], axis=1)` for probabilities p."
            )
        raise fault(path, f"`{name}` must have shape [N, K], got {scores.shape}. {step}")
    if scores.shape[1] < 2:
        raise fault(
            path,
            f"`{name}` must have at least 2 classes, got shape {scores.shape}. For one score an "
            "example, save the scores of both classes.",
        )


def _native_float(scores: NDArray[Any]) -> NDArray[Any]:
    """Return `scores` in this machine's float32 or float64; itself where it already is."""
    if scores.dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        return scores
    return np.asarray(scores).astype(  # a copy in memory must not pass for a memory map
        np.float32 if scores.dtype.kind == "f" and scores.dtype.itemsize <= 4 else np.float64
    )


def _check_logits(scores: NDArray[Any], *, path: Path, name: str, progress: Progress) -> None:
    nan, high, none = _Bad(), _Bad(), _Bad()
    step = rows_per_block(scores)
    for start in range(0, len(scores), step):
        with np.errstate(invalid="ignore"):
            top = scores[start : start + step].max(axis=1)
        if not np.isfinite(top).all():
            nan.add(np.isnan(top), start)
            high.add(top == np.inf, start)
            none.add(top == -np.inf, start)
        progress(min(start + step, len(scores)), len(scores))
    rule = f"`{name}` must be numbers"
    if nan.count:
        raise fault(path, f"{rule}, but nan stands in {nan}, counted from 0. {_DROP}")
    if high.count:
        raise fault(
            path, f"{rule} below infinity, but +inf stands in {high}, counted from 0. {_DROP}"
        )
    if none.count:
        raise fault(
            path, f"{rule}, but nothing but -inf stands in {none}, counted from 0. {_DROP}"
        )


_DROP = "Drop these rows, or find the step that made them."


def _check_probs(
    scores: NDArray[Any], *, path: Path, name: str, atol: float, progress: Progress
) -> float:
    """Return how far the worst row's sum is from 1; raise where it is beyond `atol`."""
    nan, negative, off = _Bad(), _Bad(), _Bad()
    worst = 0.0
    step = rows_per_block(scores)
    for start in range(0, len(scores), step):
        block = scores[start : start + step]
        with np.errstate(invalid="ignore"):
            gap = np.abs(block.sum(axis=1, dtype=np.float64) - 1.0)
            low = block.min(axis=1)
        nan.add(np.isnan(gap), start)
        negative.add(low < 0, start)
        off.add(gap > atol, start)
        worst = max(worst, float(np.nanmax(gap, initial=0.0)))
        progress(min(start + step, len(scores)), len(scores))
    if nan.count:
        raise fault(
            path, f"`{name}` must be numbers, but nan stands in {nan}, counted from 0. {_DROP}"
        )
    if negative.count:
        raise fault(
            path,
            f"`{name}` must be probabilities, but numbers below 0 stand in {negative}, counted "
            f"from 0. If these are logits, say so: {how('logits_key', name)} for a named array, "
            f"{how('input', 'logits')} otherwise.",
        )
    if off.count:
        raise fault(
            path,
            f"`{name}` must sum to 1 in every row, but not in {off}, counted from 0; the worst "
            f"is off by {worst:.3g}. If they were rounded when written, pass "
            f"{how('probs_atol', _round_up(worst))} to have each row divided by its sum.",
        )
    return worst


def _round_up(x: float) -> float:
    """Return the power of ten at or above `x`.

    Example:
        >>> _round_up(0.0003)
        0.001
    """
    return float(f"1e{int(np.ceil(np.log10(x)))}") if np.isfinite(x) else 1.0


def _normalised(scores: NDArray[Any]) -> NDArray[Any]:
    probs = np.empty(scores.shape, scores.dtype)
    step = rows_per_block(scores)
    for start in range(0, len(scores), step):
        block = scores[start : start + step]
        sums = block.sum(axis=1, dtype=np.float64, keepdims=True)
        np.divide(block, sums, out=probs[start : start + step], casting="same_kind")
    return probs
