"""Labels as stored: one per row, whole numbers or text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.cells import MISSING
from focalibrate.io.errors import RowError, file_error

IGNORED = -100
"""Label of the examples that PyTorch's losses leave out."""


@dataclass(frozen=True)
class Matched:
    """Labels as positions of classes.

    Attributes:
        labels: int64 ``[N]``.
        form: whether the file has positions, from 0 or from 1, or names.
        class_names: the names, where the labels show better ones than the columns have.
        notes: what the user should know.
        known: the names, where they were matched loosely, and the positions of their classes.
        is_unclear: nothing shows whether numbers count from 0 or from 1.
    """

    labels: NDArray[np.int64]
    form: Literal["index", "index from 1", "name"]
    class_names: tuple[str, ...] | None
    notes: tuple[str, ...] = ()
    known: tuple[tuple[str, int], ...] = ()
    is_unclear: bool = False


def missing_rows(labels: NDArray[Any], class_names: tuple[str, ...] | None) -> NDArray[np.bool_]:
    """Return which rows have no label: nan, -100, or text such as NA unless that names a class.

    Where the classes have no names, such a text may be one of two labels.
    """
    if labels.ndim != 1:
        return np.zeros(labels.shape[:1], bool)
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels) | (labels == IGNORED))
    if labels.dtype.kind in "iu":
        return np.asarray(labels == IGNORED)
    if labels.dtype.kind in "OU":
        values = set(labels.tolist())
        words = {v for v in values if v.strip().lower() in MISSING} - set(class_names or ())
        if class_names is None and len(values) <= 2:
            words &= {""}
        if words:
            return np.array([value in words for value in labels.tolist()], bool)
    return np.zeros(len(labels), bool)


def is_share(outcomes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which outcomes lie between 0 and 1; none does where others are not 0 or 1.

    Example:
        >>> is_share(np.array([0.0, 0.5, 1.0])).tolist(), is_share(np.array([0.5, 2.0])).tolist()
        ([False, True, False], [False, False])
    """
    if outcomes.dtype.kind != "f" or outcomes.ndim != 1:
        return np.zeros(outcomes.shape[:1], bool)
    with np.errstate(invalid="ignore"):
        outside = (outcomes < 0) | (outcomes > 1)
        return np.asarray((outcomes > 0) & (outcomes < 1) & ~outside.any())


def as_row(labels: NDArray[Any], *, n_rows: int, path: Path, name: str) -> NDArray[Any]:
    """Return labels as an array ``[n_rows]``; raise where there are more or fewer."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise file_error(path, f"`{name}` must have shape [{n_rows}], got {labels.shape}.")
    if len(labels) != n_rows:
        more = "more" if len(labels) > n_rows else "fewer"
        advice = "Check that both come from the same split."
        if len(labels) and n_rows % len(labels) == 0:
            advice = f"If the scores of all classes are in one row: `.reshape({len(labels)}, -1)`."
        raise file_error(
            path,
            f"`{name}` must hold one label per row, but there are {more} labels than rows: "
            f"{len(labels)} labels, {n_rows} rows. {advice}",
        )
    return labels


def as_whole(labels: NDArray[Any], *, path: Path, name: str) -> NDArray[Any]:
    """Return float labels as integers; raise where one is nan, infinite or a fraction."""
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(np.abs(labels) < 2.0**53) | (labels != np.trunc(labels)))
    if len(bad):
        raise RowError(
            path,
            f"`{name}` must be whole numbers, but those in ",
            bad,
            f" are not; found {float(labels[bad[0]])!r}. Save class numbers, or the names of the "
            "classes.",
        )
    return labels.astype(np.int64)
