"""Labels of two classes, where one column holds the scores of the positive one."""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.cells import is_number
from focalibrate.io.errors import PredictionFileError, file_error, listing, short
from focalibrate.io.values.rows import Matched, as_row, as_whole

NEGATIVE = {"1": "0", "true": "false", "yes": "no", "y": "n", "t": "f", "pos": "neg"}
NEGATIVE |= {"positive": "negative", "+1": "-1", "+": "-"}
"""Usual names of the positive class, and those of the negative class beside them."""
_NUMBERED = re.compile(r"(?:class|label|cls|cat|category|target|y|c)[ _.-]*(\d+)", re.IGNORECASE)
_NEGATED = re.compile(r"(?:no|non|not|without)[ _.-].+", re.IGNORECASE)


def is_negative(name: str) -> bool:
    """Return whether a class is usually the negative one: ``no``, ``false``, ``not_fraud``."""
    text = name.strip().lower()
    return text in NEGATIVE.values() or _NEGATED.fullmatch(text) is not None


def match_binary(
    labels: NDArray[Any] | None,
    *,
    positive: str | None,
    requested: bool,
    n_rows: int,
    path: Path,
    name: str,
    pair: tuple[str, str] | None = None,
) -> tuple[Matched | None, tuple[str, ...] | None]:
    """Return labels of two classes, and the names of the classes, negative first.

    Args:
        labels: as stored, or None.
        positive: name of the class whose score the column holds, where known.
        requested: `positive` comes from the caller, not from the column's name.
        n_rows: number of rows.
        path: the file of the labels.
        name: what messages call the labels.
        pair: the negative and the positive label, where they are known from all rows.
    """
    if labels is None:
        if positive is None or positive == "1":
            return None, None
        return None, (NEGATIVE.get(positive.lower(), f"not {positive}"), positive)
    values, where = distinct_labels(labels, n_rows=n_rows, path=path, name=name)
    names = pair or pair_of(values, positive=positive, requested=requested, path=path, name=name)
    unknown = [value for value in values if value not in names]
    if unknown:
        raise _more_than_two([*names, *unknown], path=path, name=name)
    positions = np.array([names.index(v) for v in values], np.int64)[where]
    shown = None if names == ("0", "1") else names
    form: Literal["index", "name"] = "index" if shown is None else "name"
    is_told = shown is not None or positive is None or any(c.isdigit() for c in positive)
    notes = () if is_told else (f"labels are numbers: 1 = {short(str(positive))}",)
    return Matched(positions, form, shown, notes), shown


def distinct_labels(
    labels: NDArray[Any], *, n_rows: int, path: Path, name: str
) -> tuple[list[str], NDArray[np.intp]]:
    """Return the distinct labels as text, and the position among them of each row's label."""
    labels = as_row(labels, n_rows=n_rows, path=path, name=name)
    if labels.dtype.kind == "f":
        labels = as_whole(labels, path=path, name=name)
    distinct, where = np.unique(labels.astype(str), return_inverse=True)
    return [str(value) for value in distinct], where.reshape(-1)


def pair_of(
    values: list[str], *, positive: str | None, requested: bool, path: Path, name: str
) -> tuple[str, str]:
    """Return the negative and the positive label, given all distinct labels."""
    if len(values) > 2:
        raise _more_than_two(values, path=path, name=name)
    chosen = _positive_of(values, positive, requested=requested, path=path, name=name)
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
    values: list[str], positive: str | None, *, requested: bool, path: Path, name: str
) -> str:
    """Return which of the one or two label values is the positive class."""
    if positive is not None:
        numbered = _NUMBERED.fullmatch(positive.strip())
        for value in values:
            if value == positive or _same_number(value, positive):
                return value
            if numbered is not None and _same_number(value, numbered[1]):
                return value
        folded = [v for v in values if v.strip().lower() == positive.strip().lower()]
        if len(folded) == 1:
            return folded[0]
        if len(values) == 1:
            if requested or NEGATIVE.get(positive.lower()) == values[0].lower():
                return positive
        elif requested:
            raise file_error(
                path,
                f"`positive` must be a value of `{name}`, got {positive!r}; its values are "
                f"{listing(values)}.",
            )
    lower = {v.lower(): v for v in values}
    if positive is not None and is_negative(positive):
        raise file_error(
            path,
            f"has the scores of {positive!r}, and nothing says which of the labels "
            f"{listing(values)} that is. Say which.",
            fixes=[{"positive": value} for value in values],
        )
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
        f"has one column of scores, and nothing says which of the labels {listing(values)} it is "
        "the score of. Say which is the positive class.",
        fixes=[{"positive": value} for value in values],
    )


def _same_number(a: str, b: str) -> bool:
    return is_number(a) and is_number(b) and float(a) == float(b)
