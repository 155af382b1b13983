"""Labels that are the names of classes."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.cells import is_number
from focalibrate.io.errors import RowError, file_error, listing, short
from focalibrate.io.roles.vocabulary import plain
from focalibrate.io.values.rows import Matched


def check_names(names: tuple[str, ...] | None, *, n_classes: int, path: Path) -> None:
    """Raise unless `names`, where given, has one name per class and no name twice."""
    if names is None:
        return
    if len(names) != n_classes:
        raise file_error(
            path,
            f"`class_names` must give one name per class, got {len(names)} names for {n_classes} "
            "classes. Save them in the order of the columns.",
        )
    if len(set(names)) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise file_error(
            path,
            f"`class_names` must differ, but {listing(twice)} occurs more than once. Rename one "
            "of the columns.",
        )


def match_names(
    labels: NDArray[Any],
    class_names: tuple[str, ...] | None,
    *,
    path: Path,
    name: str,
    known: Mapping[str, int] | None = None,
) -> Matched:
    """Return the position of each label among the class names.

    Labels that the first rows `known` are those classes, so that all rows are matched alike.
    """
    distinct, where = np.unique(labels.astype(str), return_inverse=True)
    values = [str(value) for value in distinct]
    if class_names is None:
        fixes = [{"class_names": values}] if 2 <= len(values) <= 50 else []
        raise file_error(
            path,
            f"`{name}` are text ({listing([repr(v) for v in values])}), and nothing says which "
            "column is which class. Save numbers from 0, or give the names in the order of the "
            "columns"
            + (" (scikit-learn sorts them)." if fixes else ": `class_names` in an .npz file."),
            fixes=fixes,
        )
    places = {n: i for i, n in enumerate(class_names)}
    if known:
        places = {**places, **known}
    index = _or_by_number([places.get(v, -1) for v in values], values, class_names)
    notes: tuple[str, ...] = ()
    names = class_names
    if (index < 0).any():
        looser = _looser(values, class_names)
        if looser is not None:
            index, names, notes = looser
    if (index < 0).any():
        unknown = [v for v, i in zip(values, index, strict=True) if i < 0]
        bad = np.flatnonzero((index < 0)[where.reshape(-1)])
        raise RowError(
            path,
            f"`{name}` must be names of classes, but those in ",
            bad,
            f" are not: found {listing([repr(v) for v in unknown])}, the classes are "
            f"{listing(class_names)}. Correct the labels, or add the class.",
        )
    matched = tuple((v, int(i)) for v, i in zip(values, index, strict=True)) if notes else ()
    return Matched(index[where.reshape(-1)], "name", names, notes, matched)


def _or_by_number(
    index: list[int], values: list[str], names: tuple[str, ...]
) -> NDArray[np.int64]:
    """Return positions; if one is -1, the position of the only name that is the same number."""
    if min(index, default=0) < 0:
        numbers = [(float(n), i) for i, n in enumerate(names) if is_number(n)]
        counts = Counter(number for number, _ in numbers)
        places = {number: i for number, i in numbers if counts[number] == 1}
        index = [
            i if i >= 0 or not is_number(v) else places.get(float(v), -1)
            for i, v in zip(index, values, strict=True)
        ]
    return np.array(index, np.int64)


@dataclass(frozen=True)
class _Way:
    """One way to compare labels with names: what is compared, and the names that are kept."""

    names: tuple[str, ...]
    fold: Callable[[str], str]
    kept: tuple[str, ...]
    what: str


def _ways(values: list[str], names: tuple[str, ...]) -> tuple[_Way, ...]:
    """Return the looser ways to compare, in the order in which they are tried."""
    shared = _shared(names)
    cut = tuple(n[shared[0] : len(n) - shared[1]].strip() for n in names)
    common = len(_common(list(names)))
    if set(values) <= {n[common:] for n in names}:  # P_targetcat, P_targetdog
        cut = tuple(n[common:] for n in names)
    part = "the part of the column names that differs"

    def lower(text: str) -> str:
        return text.strip().lower()

    return (
        _Way(cut, str, cut, f"{part} ({listing(cut)})"),
        _Way(tuple(map(lower, names)), lower, names, "the names, ignoring case"),
        _Way(tuple(n.lower() for n in cut), lower, cut, part),
        _Way(tuple(map(plain, names)), plain, names, "the names, ignoring case and punctuation"),
    )


def _looser(
    values: list[str], class_names: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]] | None:
    """Return the positions by the first looser way that finds every label; None if none does."""
    for way in _ways(values, class_names):
        if len(set(way.names)) < len(way.names) or "" in way.names:
            continue
        places = {n: i for i, n in enumerate(way.names)}
        loose = [places.get(v, places.get(way.fold(v), -1)) for v in values]
        index = _or_by_number(loose, values, way.names)
        if index.min() >= 0 and len(set(index.tolist())) == len(index):
            return index, way.kept, (f"labels are matched to {way.what}",)
    return _by_beginning(values, class_names)


def _by_beginning(
    values: list[str], class_names: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]] | None:
    """Match ``neg`` and ``pos`` to ``negative`` and ``positive``, where only one way fits."""
    short_names = [n.strip().lower() for n in class_names]
    places = []
    for value in (v.strip().lower() for v in values):
        fits = [
            i
            for i, n in enumerate(short_names)
            if min(len(n), len(value)) > 1 and (n.startswith(value) or value.startswith(n))
        ]
        places.append(fits[0] if len(fits) == 1 else -1)
    if min(places) < 0 or sorted(places) != list(range(len(class_names))):
        return None
    pairs = [f"{short(v)} = {short(class_names[i])}" for v, i in zip(values, places, strict=True)]
    return np.array(places), class_names, (f"labels are matched to the classes: {listing(pairs)}",)


def _shared(names: tuple[str, ...]) -> tuple[int, int]:
    """Return the lengths of what all names begin with and end with, cut between words.

    Example:
        >>> _shared(("model_cat", "model_car")), _shared(("c1", "c2"))
        ((6, 0), (1, 0))
    """
    start = _boundary(_common(list(names)), list(names))
    rest = [n[start:][::-1] for n in names]
    return start, _boundary(_common(rest), rest)


def _common(names: list[str]) -> str:
    """Return the characters that all names begin with."""
    low, high = min(names), max(names)
    at = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    return low[:at]


def _boundary(prefix: str, names: list[str]) -> int:
    """Return the length of `prefix` without the part of a word or number at its end."""
    at = len(prefix.rstrip("0123456789"))
    if prefix and all(n[at : at + 1].isdigit() for n in names):
        return at
    while at and prefix[at - 1].isalnum():
        at -= 1
    return at
