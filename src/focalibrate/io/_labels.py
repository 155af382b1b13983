"""Labels as stored, turned into positions of classes, every row checked."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._dialect import is_number
from focalibrate.io._error import SHOWN, PredictionFileError, file_error, listing, rows_text, short

NEGATIVE = {"1": "0", "true": "false", "yes": "no", "y": "n", "t": "f", "pos": "neg"}
NEGATIVE |= {"positive": "negative", "+1": "-1", "+": "-"}
"""Positive answers and what is said otherwise."""


@dataclass(frozen=True)
class Matched:
    """Labels as positions of classes.

    Attributes:
        labels: int64 ``[N]``.
        form: whether the file has positions or names.
        class_names: the names, where the labels told more about them than the columns did.
        notes: what a person should know.
    """

    labels: NDArray[np.int64]
    form: Literal["index", "name"]
    class_names: tuple[str, ...] | None
    notes: tuple[str, ...] = ()


def check_names(names: tuple[str, ...] | None, *, n_classes: int, path: Path) -> None:
    """Raise unless `names`, where given, are one for each class and all different."""
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
            path, f"`class_names` must differ, but {listing(twice)} is there more than once."
        )


def missing_rows(labels: NDArray[Any], class_names: tuple[str, ...] | None) -> NDArray[np.bool_]:
    """Return which rows have no label: nan, or empty text where no class is called so."""
    if labels.ndim != 1:
        return np.zeros(labels.shape[:1], bool)
    if labels.dtype.kind == "f":
        return np.asarray(np.isnan(labels))
    if labels.dtype.kind in "OU" and "" not in (class_names or ()):
        return np.asarray(labels == "", bool)
    return np.zeros(len(labels), bool)


def match_labels(
    labels: NDArray[Any],
    *,
    n_rows: int,
    n_classes: int,
    class_names: tuple[str, ...] | None,
    names_are_labels: bool,
    path: Path,
    name: str,
) -> Matched:
    """Return labels as int64 ``[N]``, each the position of a class.

    Text is matched to the class names. Numbers are matched to names that are numbers where
    the columns of a table are called so; else they are positions.
    """
    notes: tuple[str, ...] = ()
    if labels.shape == (n_rows, n_classes) and n_classes > 1:
        labels = _from_one_hot(labels, path=path, name=name)
        notes = (f"`{name}` is one-hot: the class of each row is where the 1 is",)
    labels = _row(labels, n_rows=n_rows, path=path, name=name)
    if labels.dtype.kind == "f":
        labels = _whole(labels, path=path, name=name)
    numeric_names = any(is_number(n) for n in class_names or ())
    if labels.dtype.kind in "OU":
        plain = _plain_numbers(labels) if class_names is None else None
        if plain is None:
            return _by_name(labels, class_names, path=path, name=name)
        labels = plain
    elif labels.dtype.kind == "b":
        if {n.lower() for n in class_names or ()} == {"false", "true"}:
            words = np.where(labels, "True", "False").astype(object)
            return _by_name(words, class_names, path=path, name=name)
        labels = labels.astype(np.int8)
    elif names_are_labels and numeric_names:
        return _by_name(labels, class_names, path=path, name=name)
    positions = _in_range(labels, n_classes=n_classes, path=path, name=name)
    if class_names is not None and names_are_labels:
        order = ", ".join(f"{i} = {short(n)}" for i, n in enumerate(class_names[:4]))
        notes = (
            *notes,
            f"labels are numbers, in the order of the columns: {order}"
            + (", ..." if n_classes > 4 else ""),
        )
    return Matched(positions, "index", class_names, notes)


def match_binary(
    labels: NDArray[Any] | None,
    *,
    positive: str | None,
    told: bool,
    n_rows: int,
    path: Path,
    name: str,
    pair: tuple[str, str] | None = None,
) -> tuple[Matched | None, tuple[str, ...] | None]:
    """Return labels of two classes, and their names, negative first, where one column has scores.

    Args:
        labels: as stored, or None.
        positive: name of the class whose score the column holds, where known.
        told: the caller said so, rather than the column's name.
        n_rows: number of rows.
        path: the file of the labels.
        name: what messages call the labels.
        pair: the negative and the positive label, where all rows were looked at before.
    """
    if labels is None:
        if positive is None or positive == "1":
            return None, None
        return None, (NEGATIVE.get(positive.lower(), f"not {positive}"), positive)
    values, where = distinct_labels(labels, n_rows=n_rows, path=path, name=name)
    names = pair or pair_of(values, positive=positive, told=told, path=path, name=name)
    unknown = [value for value in values if value not in names]
    if unknown:
        raise _more_than_two([*names, *unknown], path=path, name=name)
    positions = np.array([names.index(v) for v in values], np.int64)[where]
    shown = None if names == ("0", "1") else names
    form: Literal["index", "name"] = "index" if shown is None else "name"
    return Matched(positions, form, shown), shown


def distinct_labels(
    labels: NDArray[Any], *, n_rows: int, path: Path, name: str
) -> tuple[list[str], NDArray[np.intp]]:
    """Return the different labels as text, and which of them every row has."""
    labels = _row(labels, n_rows=n_rows, path=path, name=name)
    if labels.dtype.kind == "f":
        labels = _whole(labels, path=path, name=name)
    distinct, where = np.unique(labels.astype(str), return_inverse=True)
    return [str(value) for value in distinct], where.reshape(-1)


def pair_of(
    values: list[str], *, positive: str | None, told: bool, path: Path, name: str
) -> tuple[str, str]:
    """Return the negative and the positive label, given all the different ones."""
    if len(values) > 2:
        raise _more_than_two(values, path=path, name=name)
    chosen = _positive_of(values, positive, told=told, path=path, name=name)
    other = next((v for v in values if v != chosen), None)
    if other is None:
        known = {**NEGATIVE, **{v: k for k, v in NEGATIVE.items()}}
        other = known.get(chosen.lower(), f"not {chosen}")
    return other, chosen


def _more_than_two(values: list[str], *, path: Path, name: str) -> PredictionFileError:
    return file_error(
        path,
        f"has one column of scores, so two classes, but `{name}` holds {len(values)} "
        f"different values: {listing(values)}. Save one column of scores per class.",
    )


def _positive_of(
    values: list[str], positive: str | None, *, told: bool, path: Path, name: str
) -> str:
    """Return which of the one or two label values is the positive class."""
    if positive is not None:
        for value in values:
            if value == positive or _same_number(value, positive):
                return value
        folded = [v for v in values if v.strip().lower() == positive.strip().lower()]
        if len(folded) == 1:
            return folded[0]
        if len(values) == 1:
            if told or NEGATIVE.get(positive.lower()) == values[0].lower():
                return positive
        elif told:
            raise file_error(
                path,
                f"`positive` must be a value of `{name}`, got {positive!r}; its values are "
                f"{listing(values)}.",
            )
    lower = {v.lower(): v for v in values}
    for yes, no in NEGATIVE.items():
        if set(lower) == {yes, no}:
            return lower[yes]
        if set(lower) == {yes}:
            return lower[yes]
        if set(lower) == {no}:
            return {"0": "1", "False": "True", "false": "true"}.get(values[0], yes)
    if set(values) == {"-1", "1"}:
        return "1"
    raise file_error(
        path,
        f"nothing says which of the labels {listing(values)} the one column of scores belongs "
        "to. Say which is the positive class.",
        fixes=[{"positive": value} for value in values],
    )


def _same_number(a: str, b: str) -> bool:
    return is_number(a) and is_number(b) and float(a) == float(b)


def _plain_numbers(labels: NDArray[Any]) -> NDArray[Any] | None:
    """Return text that is nothing but whole numbers as numbers, or None."""
    distinct, where = np.unique(labels.astype(str), return_inverse=True)
    if len(distinct) > 10_000 or not all(
        v.isascii() and v.isdigit() and len(v) < 10 for v in distinct
    ):
        return None
    return distinct.astype(np.int64)[where.reshape(-1)]


def _in_range(labels: NDArray[Any], *, n_classes: int, path: Path, name: str) -> NDArray[np.int64]:
    bad = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(bad):
        low, high = int(labels.min()), int(labels.max())
        step = "Number the classes from 0."
        fixes: list[dict[str, object]] = []
        if (low, high) == (1, n_classes):
            step = "They seem to be numbered from 1."
            fixes = [{"class_names": [str(i + 1) for i in range(n_classes)]}]
            if n_classes > 20:
                fixes, step = [], "They seem to be numbered from 1: subtract 1."
        raise file_error(
            path,
            f"`{name}` must lie in [0, {n_classes - 1}] for {n_classes} classes, but those in "
            f"{_rows(bad)} do not; found {low} to {high}. {step}",
            fixes=fixes,
        )
    return labels.astype(np.int64)


def _rows(bad: Any) -> str:
    return rows_text(bad[:SHOWN].tolist(), len(bad))


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


def _row(labels: NDArray[Any], *, n_rows: int, path: Path, name: str) -> NDArray[Any]:
    """Return labels as one row of the right length."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise file_error(path, f"`{name}` must have shape [{n_rows}], got {labels.shape}.")
    if len(labels) != n_rows:
        more = "more" if len(labels) > n_rows else "fewer"
        raise file_error(
            path,
            f"`{name}` must hold one label per row, but there are {more} labels than rows: "
            f"{len(labels)} labels, {n_rows} rows. Check that both come from the same split.",
        )
    return labels


def _whole(labels: NDArray[Any], *, path: Path, name: str) -> NDArray[Any]:
    """Return float labels as integers; nan, infinities and fractions are refused by row."""
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(np.abs(labels) < 2.0**53) | (labels != np.trunc(labels)))
    if len(bad):
        raise file_error(
            path,
            f"`{name}` must be whole numbers, but those in {_rows(bad)} are not; found "
            f"{float(labels[bad[0]])!r}. Save class numbers, or the names of the classes.",
        )
    return labels.astype(np.int64)


def _by_name(
    labels: NDArray[Any], class_names: tuple[str, ...] | None, *, path: Path, name: str
) -> Matched:
    """Return the position of each label among the class names."""
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
    index = np.array([places.get(v, -1) for v in values], np.int64)
    notes: tuple[str, ...] = ()
    names = class_names
    if (index < 0).any():
        numbers = _number_places(class_names)
        index = np.array(
            [
                i if i >= 0 or not is_number(v) else numbers.get(float(v), -1)
                for v, i in zip(values, index, strict=True)
            ],
            np.int64,
        )
    if (index < 0).any():
        looser = _looser(values, class_names)
        if looser is not None:
            index, names, notes = looser
    if (index < 0).any():
        unknown = [v for v, i in zip(values, index, strict=True) if i < 0]
        bad = np.flatnonzero((index < 0)[where.reshape(-1)])
        raise file_error(
            path,
            f"`{name}` must be names of classes, but those in {_rows(bad)} are not: "
            f"found {listing([repr(v) for v in unknown])}, the classes are "
            f"{listing(class_names)}. Correct the labels, or add the class.",
        )
    return Matched(index[where.reshape(-1)], "name", names, notes)


def _number_places(class_names: tuple[str, ...]) -> dict[float, int]:
    """Return the position of each name that is a number, where no other is the same number."""
    numbers = [(float(n), i) for i, n in enumerate(class_names) if is_number(n)]
    counts = Counter(number for number, _ in numbers)
    return {number: i for number, i in numbers if counts[number] == 1}


def _looser(
    values: list[str], class_names: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...], tuple[str, ...]] | None:
    """Match after cutting what all names begin or end with, or without regard to capitals."""
    shared = _shared(class_names)
    cut = tuple(n[shared[0] : len(n) - shared[1]].strip() for n in class_names)
    for names, what in (
        (cut, f"the part that differs of the column names ({listing(cut)})"),
        (tuple(n.strip().lower() for n in class_names), "the names in any capitals"),
        (tuple(n.lower() for n in cut), "the part that differs of the column names"),
    ):
        if len(set(names)) < len(names) or "" in names:
            continue
        places = {n: i for i, n in enumerate(names)}
        folded = [v.strip().lower() if names[0] == names[0].lower() else v for v in values]
        exact = [places.get(v, places.get(f, -1)) for v, f in zip(values, folded, strict=True)]
        if min(exact) < 0:
            numbers = _number_places(names)
            exact = [
                i if i >= 0 or not is_number(v) else numbers.get(float(v), -1)
                for i, v in zip(exact, values, strict=True)
            ]
        if min(exact) >= 0 and len(set(exact)) == len(exact):
            kept = class_names if "capitals" in what else cut
            return np.array(exact, np.int64), kept, (f"labels are matched to {what}",)
    return None


def _shared(names: tuple[str, ...]) -> tuple[int, int]:
    """Return how many characters all names begin with, and end with, cut between words.

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
    at = len(prefix.rstrip("0123456789"))
    if prefix and all(n[at : at + 1].isdigit() for n in names):
        return at
    while at and prefix[at - 1].isalnum():
        at -= 1
    return at
