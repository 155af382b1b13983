"""Labels as stored, turned into positions of classes, every row checked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.cells import is_number, numbers_in
from focalibrate.io.errors import RowError, file_error, short
from focalibrate.io.values.names import match_names
from focalibrate.io.values.rows import Matched, as_row, as_whole


def match_labels(
    labels: NDArray[Any],
    *,
    n_rows: int,
    n_classes: int,
    class_names: tuple[str, ...] | None,
    names_are_labels: bool,
    path: Path,
    name: str,
    first: int | None = None,
    known: Mapping[str, int] | None = None,
) -> Matched:
    """Return labels as int64 ``[N]``, each the position of a class.

    Text is matched to the class names. Numbers are matched to the names where the columns of a
    table are named by numbers; else they are positions, counted from `first`. Default: from 1 if
    a label or the names show that, else from 0.
    """
    notes: tuple[str, ...] = ()
    if labels.shape == (n_rows, n_classes) and n_classes > 1:
        labels = _from_one_hot(labels, path=path, name=name)
        notes = (f"`{name}` is one-hot: the class of each row is where the 1 is",)
    labels = as_row(labels, n_rows=n_rows, path=path, name=name)
    if labels.dtype.kind == "f":
        labels = as_whole(labels, path=path, name=name)
    numeric_names = any(is_number(n) for n in class_names or ())
    if labels.dtype.kind in "OU":
        plain = _plain_numbers(labels) if class_names is None else None
        if plain is None:
            return match_names(labels, class_names, path=path, name=name, known=known)
        labels = plain
    elif labels.dtype.kind == "b":
        if {n.lower() for n in class_names or ()} == {"false", "true"}:
            words = np.where(labels, "True", "False").astype(object)
            return match_names(words, class_names, path=path, name=name)
        labels = labels.astype(np.int8)
    elif names_are_labels and numeric_names:
        return match_names(labels, class_names, path=path, name=name)
    if first is None:
        first = first_number(labels, n_classes=n_classes)
    from_1 = min(numbers_in(class_names or ()) or [0]) == 1 if first is None else first == 1
    positions = _in_range(labels, int(from_1), n_classes=n_classes, path=path, name=name)
    if from_1 or (class_names is not None and names_are_labels):
        shown = class_names or tuple(f"column {i + 1}" for i in range(n_classes))
        order = ", ".join(f"{i + from_1} = {short(n)}" for i, n in enumerate(shown[:4]))
        what = "numbers from 1" if from_1 else "numbers"
        more = ", ..." if n_classes > 4 else ""
        notes = (*notes, f"labels are {what}, in the order of the classes: {order}{more}")
    is_unclear = first is None and not from_1 and labels.dtype.kind != "b" and n_classes > 2
    return Matched(
        positions,
        "index from 1" if from_1 else "index",
        class_names,
        notes,
        is_unclear=is_unclear and not (labels == 0).any(),
    )


def first_number(labels: NDArray[Any], *, n_classes: int) -> int | None:
    """Return the number of the first class, 0 or 1, or None where the labels do not tell.

    With a label K no numbering from 0 is possible, with a label 0 none from 1.

    Example:
        >>> first_number(np.array([1, 3]), n_classes=3)
        1
        >>> first_number(np.array([2, 0]), n_classes=3)
        0
        >>> first_number(np.array([1, 2]), n_classes=3) is None
        True
    """
    if not len(labels) or labels.ndim != 1 or labels.dtype.kind not in "iuf":
        return None
    labels = labels[labels >= 0]  # -1 is no class: the row is refused
    if not len(labels):
        return None
    low, high = labels.min(), labels.max()
    if 0 < low <= high <= n_classes:
        return 1 if high == n_classes else None
    return 0


def _plain_numbers(labels: NDArray[Any]) -> NDArray[Any] | None:
    """Return text labels as numbers where all are whole numbers, else None."""
    distinct, where = np.unique(labels.astype(str), return_inverse=True)
    if len(distinct) > 10_000 or not all(
        v.isascii() and v.isdigit() and len(v) < 10 for v in distinct
    ):
        return None
    return distinct.astype(np.int64)[where.reshape(-1)]


def _in_range(
    labels: NDArray[Any], first: int, *, n_classes: int, path: Path, name: str
) -> NDArray[np.int64]:
    """Return labels, counted from `first`, as positions."""
    bad = np.flatnonzero((labels < first) | (labels >= first + n_classes))
    if len(bad):
        if (labels[bad] == -1).all():
            raise RowError(
                path,
                f"`{name}` is -1 in ",
                bad,
                f", and classes are numbered from {first}. If -1 means "
                f"that the label is missing (pandas' code for it), leave these rows out: "
                f"`df = df[df[{name!r}] >= 0]`; if it is a class, save the names of the classes.",
            )
        raise RowError(
            path,
            f"`{name}` must lie in [{first}, {first + n_classes - 1}] for {n_classes} classes, "
            f"{'as other rows count from 1, ' if first else ''}but those in ",
            bad,
            f" do not; found {labels.min()} to {labels.max()}. Number the classes from 0.",
        )
    return labels.astype(np.int64) - first


def _from_one_hot(labels: NDArray[Any], *, path: Path, name: str) -> NDArray[np.int64]:
    if labels.dtype.kind in "fiub":
        is_zero_one = ((labels == 0) | (labels == 1)).all()
        if is_zero_one and (labels.sum(axis=1) == 1).all():
            return np.asarray(np.argmax(labels, axis=1), np.int64)
    raise file_error(
        path,
        f"`{name}` must hold one class per example, shape [{len(labels)}], got {labels.shape}, "
        f"and is not one-hot. Save `{name}.argmax(axis=1)`.",
    )
