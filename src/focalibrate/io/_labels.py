"""Labels as stored, turned into positions of classes, every row checked."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import SHOWN, fault, listing, rows_text


def check_names(names: tuple[str, ...] | None, *, n_classes: int, path: Path) -> None:
    """Raise unless `names`, where given, are one for each class and all different."""
    if names is None:
        return
    if len(names) != n_classes:
        raise fault(
            path,
            f"`class_names` must give one name a class, got {len(names)} names for {n_classes} "
            "classes. Save them in the order of the columns.",
        )
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise fault(path, f"`class_names` must differ, but {listing(twice)} stands twice.")


def is_number(cell: str) -> bool:
    """Say whether `cell` is a number: a header is a row where some cell is none."""
    try:
        float(cell)
    except ValueError:
        return False
    # Python reads 1_0 as 10 and other scripts' digits; a table does not.
    return "_" not in cell and cell.isascii()


def labels_are_names(
    labels: NDArray[Any], class_names: tuple[str, ...] | None, *, names_are_labels: bool
) -> bool:
    """Say whether labels are class names rather than positions.

    Text always is. Numbers are where the columns of a table name classes by numbers: the
    label 7 belongs to the column ``prob_7``, whatever its position.
    """
    if labels.dtype.kind in "US":
        return True
    return (
        names_are_labels
        and class_names is not None
        and any(is_number(name) for name in class_names)
    )


def checked_labels(
    labels: NDArray[Any],
    *,
    n_rows: int,
    n_classes: int,
    class_names: tuple[str, ...] | None,
    form: Literal["index", "name"],
    path: Path,
    name: str,
) -> NDArray[np.int64]:
    """Return labels as int64 ``[N]``, each the position of a class."""
    labels = _row(labels, n_rows=n_rows, n_classes=n_classes, path=path, name=name)
    if labels.dtype.kind == "f":
        labels = _whole(labels, path=path, name=name)
    if form == "name":
        return _positions(labels, class_names, path=path, name=name)
    labels = labels.astype(np.int8) if labels.dtype.kind == "b" else labels
    bad = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(bad):
        low, high = int(labels.min()), int(labels.max())
        step = "Number the classes from 0."
        if (low, high) == (1, n_classes):
            step = "They seem to be numbered from 1: subtract 1."
        raise fault(
            path,
            f"`{name}` must lie in [0, {n_classes - 1}] for {n_classes} classes, but "
            f"those in {_rows(bad)} do not, counted from 0; found {low} to {high}. {step}",
        )
    return labels.astype(np.int64)


def _rows(bad: Any) -> str:
    return rows_text(bad[:SHOWN].tolist(), len(bad))


def _row(
    labels: NDArray[Any], *, n_rows: int, n_classes: int, path: Path, name: str
) -> NDArray[Any]:
    """Return labels as one row of the right length."""
    if labels.shape == (n_rows, n_classes):
        raise fault(
            path,
            f"`{name}` must hold one class an example, shape [{n_rows}], got {labels.shape}. "
            f"If they are one-hot, save `{name}.argmax(axis=1)`.",
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise fault(path, f"`{name}` must have shape [{n_rows}], got {labels.shape}.")
    if len(labels) != n_rows:
        more = "more" if len(labels) > n_rows else "fewer"
        raise fault(
            path,
            f"`{name}` must hold one label a row, but there are {more} labels than rows: "
            f"{len(labels)} labels, {n_rows} rows. Check that both come from the same split.",
        )
    return labels


def _whole(labels: NDArray[Any], *, path: Path, name: str) -> NDArray[Any]:
    """Return float labels as integers; nan, infinities and fractions are refused by row."""
    bad = np.flatnonzero(~(np.abs(labels) < 2.0**53) | (labels != np.trunc(labels)))
    if len(bad):
        raise fault(
            path,
            f"`{name}` must be whole numbers, but those in {_rows(bad)} are not, counted from 0; "
            f"found {float(labels[bad[0]])!r}. Save class numbers, or the names of the classes.",
        )
    return labels.astype(np.int64)


def _positions(
    labels: NDArray[Any], class_names: tuple[str, ...] | None, *, path: Path, name: str
) -> NDArray[np.int64]:
    """Return the position of each label among the class names."""
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    distinct, where = np.unique(labels, return_inverse=True)
    if class_names is None:
        raise fault(
            path,
            f"`{name}` are text ({listing([repr(str(d)) for d in distinct])}), and nothing says "
            "which column is which class. Save numbers from 0, or add the names in the order of "
            "the columns: `class_names=np.array(['cat', 'dog'])` in an .npz file, columns named "
            "`prob_cat`, `prob_dog` in a table.",
        )
    index = np.array([_position(str(d), class_names) for d in distinct], dtype=np.int64)
    if (index < 0).any():
        at = int(np.argmax(index < 0))
        bad = np.flatnonzero((index < 0)[where])
        raise fault(
            path,
            f"`{name}` must be names of classes, but those in {_rows(bad)} are not, counted from "
            f"0; found {str(distinct[at])!r}, the classes are {listing(class_names)}. Correct "
            "the label, or add the class.",
        )
    return index[where.reshape(-1)]


def _position(label: str, class_names: tuple[str, ...]) -> int:
    """Return which class `label` names: by its text, else by its number (1.0 for 1), else -1."""
    if label in class_names:
        return class_names.index(label)
    if not is_number(label):
        return -1
    same = [
        i for i, name in enumerate(class_names) if is_number(name) and float(name) == float(label)
    ]
    return same[0] if len(same) == 1 else -1
