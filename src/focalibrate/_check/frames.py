"""Data frames of scores: the classes that their columns name, and the labels of their rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from focalibrate._array import Array, array_of, is_array_api_obj

SHOWN = 5
"""Most names that a message lists."""


def column_names(scores: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns; None for arrays and columns 0, 1, 2, ...

    Example:
        >>> column_names(np.zeros((2, 3))) is None
        True
    """
    columns = None if is_array_api_obj(scores) else getattr(scores, "columns", None)
    if columns is None or len(columns) < 2:
        return None
    names = tuple(str(name) for name in columns)
    return None if names == tuple(str(i) for i in range(len(names))) else names


def in_class_order(scores: Any, class_names: Sequence[str] | None, *, name: str) -> Any:
    """Return a data frame with its columns in the order of `class_names`; arrays as they are.

    What all columns begin with, such as ``prob_``, does not count.

    Raises:
        ValueError: the columns are not the classes.
    """
    names = column_names(scores)
    if names is None or class_names is None:
        return scores
    for cut in dict.fromkeys((0, _shared(names))):
        places = {n[cut:]: column for n, column in zip(names, scores.columns, strict=True)}
        if len(places) == len(names) and set(places) == set(class_names):
            return scores[[places[n] for n in class_names]]
    raise ValueError(
        f"`{name}` must have one column per class, {_listing(class_names)}, got "
        f"{_listing(names)}. Choose them: `df[{list(class_names[:SHOWN])!r}]`; to go by position, "
        "pass `df.to_numpy()`."
    )


def labels_for(scores: Any, labels: Any, class_names: Sequence[str] | None = None) -> Array:
    """Return the labels of the rows of `scores`, names of classes as positions.

    The classes are called as `class_names` says, or else as the columns. Numbers stay as they are,
    unless the columns are called by other numbers than 0, 1, 2, ...

    Raises:
        ValueError: labels are text that no column is called, or the rows are in another order.
    """
    _check_same_order(scores, labels)
    found = array_of(labels)
    names = column_names(scores) if class_names is None else tuple(map(str, class_names))
    if not isinstance(found, np.ndarray) or found.ndim != 1:
        return found
    if found.dtype.kind == "b":
        return found.astype(np.int64)
    is_text = found.dtype.kind in "OUS"
    if names is None and is_text:
        raise ValueError(
            f"`labels` are text ({_listing(sorted(set(map(str, found[:1000]))))}), and nothing "
            "says which column is which class. Pass class numbers from 0, or scores in a data "
            "frame whose columns are called as the classes."
        )
    if names is None or not (is_text or (found.dtype.kind in "iu" and _are_numbers(names))):
        return found
    cut = _shared(names)
    values, where = np.unique(found.astype(str), return_inverse=True)
    for places in ({n: i for i, n in enumerate(names)}, {n[cut:]: i for i, n in enumerate(names)}):
        if set(values.tolist()) <= set(places):
            return np.array([places[v] for v in values.tolist()], np.int64)[where.reshape(-1)]
    unknown = [v for v in values.tolist() if v not in names]
    raise ValueError(
        f"`labels` must be names of classes, {_listing(names)}; found {_listing(unknown)}. If "
        "they are positions of columns, pass the scores as an array."
    )


def _check_same_order(scores: Any, labels: Any) -> None:
    """Raise if both have an index, the same but in another order."""
    one, other = getattr(scores, "index", None), getattr(labels, "index", None)
    if not (hasattr(one, "difference") and hasattr(other, "difference")):  # pandas only
        return
    if one is None or other is None or len(one) != len(other) or one.equals(other):
        return
    if one.is_unique and other.is_unique and not len(one.difference(other, sort=False)):
        raise ValueError(
            "The scores and `labels` have the same index in another order. If rows belong "
            "together by index, pass `labels.reindex(scores.index)`; if by position, "
            "`labels.to_numpy()`."
        )


def _are_numbers(names: Sequence[str]) -> bool:
    return all(name.lstrip("-").isdigit() for name in names)


def _shared(names: Sequence[str]) -> int:
    """Return the length of what all names begin with, up to a mark such as ``_``."""
    low, high = min(names), max(names)
    at = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    while at and low[at - 1].isalnum():
        at -= 1
    return at


def _listing(items: Sequence[object]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(map(str, items[:SHOWN])) + more
