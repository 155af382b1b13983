"""Which columns are the scores: those the caller names, or found by name or by values."""

import re
from collections.abc import Iterable
from dataclasses import replace

from focalibrate.io._error import PredictionFileError, file_error, listing
from focalibrate.io._positive_column import (
    column_by_name,
    column_of_class,
    positive_column,
    unnamed_column,
)
from focalibrate.io._request import Request, find_columns
from focalibrate.io._score_columns import (
    check_alike,
    class_columns,
    columns_by_prefix,
    columns_by_sum,
    is_aside,
    numbered_columns,
    without_prefix,
)
from focalibrate.io._score_kind import Scores, not_numbers, quoted
from focalibrate.io._score_matrix import lone_matrix, matrix_scores
from focalibrate.io._view import View
from focalibrate.io._vocabulary import (
    DERIVED,
    is_prediction,
    kind_of,
    meaning_of,
    plain,
    prefixed,
)
from focalibrate.io.predictions import ScoreKind


def find_scores(view: View, request: Request, taken: Iterable[int], label: int | None) -> Scores:
    """Return the score columns, by the first of these rules that finds some.

    The caller names them; their names share a prefix such as ``prob_``; there is only one
    matrix; their values sum to 1 in every row; or one column is named like a score.
    """
    taken = set(taken)
    named = _named_scores(view, request)
    if named is not None:
        return named
    free = [
        i
        for i, column in enumerate(view.frame.columns)
        if i not in taken and not column.is_index and column.problem is None
    ]
    found = columns_by_prefix(view, request, free)
    if found is None:
        found = lone_matrix(view, request, taken)
    if found is None:
        found = _unprefixed(view, request, free, label)
    return found


def _named_scores(view: View, request: Request) -> Scores | None:
    """Return the scores that the caller named, or None."""
    keys = {"logits": request.logits_key, "probs": request.probs_key}
    if request.score_columns is not None:
        positions = find_columns(view.frame, request.score_columns, option="score_columns")
        return _chosen(view, request, positions)
    given = [k for k in ("logits", "probs") if keys[k] is not None]
    if not given:
        return None
    kind: ScoreKind = "logits" if given[0] == "logits" else "probs"
    if len(given) > 1 and request.kind is not None:
        kind = request.kind
    key = keys[kind]
    if key is None or key not in view.frame.names:
        raise file_error(
            view.path,
            f"`{kind}_key` must name an array of the file, got {key!r}; it holds "
            f"{listing([f'`{name}`' for name in view.frame.names])}.",
        )
    position = view.frame.names.index(key)
    view.raise_problem(position)
    request = request if request.input == "percent" else replace(request, input=kind)
    if view.is_kind(position, "number"):
        return positive_column(view, request, position)
    if not view.is_kind(position, "matrix"):
        raise not_numbers(view, position)
    return matrix_scores(view, request, position, kind)


def _chosen(view: View, request: Request, positions: list[int]) -> Scores:
    """Return the scores in the columns that the caller chose."""
    if len(positions) == 1:
        if view.is_kind(positions[0], "matrix"):
            kind = kind_of(meaning_of(view.name(positions[0])))
            return matrix_scores(view, request, positions[0], kind)
        if view.is_kind(positions[0], "number"):
            return positive_column(view, request, positions[0])
    for i in positions:
        view.raise_problem(i)
        if not view.is_kind(i, "number"):
            raise not_numbers(view, i)
    cut = [prefixed(view.name(i)) for i in positions]
    words = {None if c is None else c.word for c in cut}
    names = tuple(
        view.name(i) if c is None or len(words) > 1 else c.name
        for i, c in zip(positions, cut, strict=True)
    )
    by_name = kind_of(cut[0].meaning) if len(words) == 1 and cut[0] is not None else None
    return class_columns(view, request, positions, names, by_name)


def _unprefixed(view: View, request: Request, free: list[int], label: int | None) -> Scores:
    """Return the scores in columns without a prefix, recognised by the values of all rows."""
    numbers = [i for i in free if view.is_kind(i, "number")]
    if not view.frame.is_table:
        return _in_arrays(view, request, numbers)
    expected = request.class_names
    if expected is not None:
        named = [i for i in numbers if view.name(i).strip() in set(expected)]
        if len(named) == len(expected) > 1:
            names = tuple(view.name(i).strip() for i in named)
            return class_columns(view, request, named, names, None)
    known = set[object]()
    if label is not None and view.is_kind(label, "text"):
        known = set(view.values(label)[0].tolist())
    likely = [i for i in numbers if view.name(i).strip() in known or not is_aside(view, i)]
    for candidates in (likely, numbers):
        fitting = columns_by_sum(view, candidates, label) if len(candidates) > 1 else None
        if fitting is not None:
            _check_not_ranked(view, fitting)
            names = without_prefix(view, fitting, label)
            notes = _left_out(view, numbers, fitting, why=" (the other columns sum to 1)")
            return class_columns(view, request, fitting, names, None, notes)
    single = column_by_name(view, request, numbers)
    if single is not None:
        return single
    if len(likely) == 1:
        single = column_of_class(view, request, likely[0], label)
        if single is None:
            raise unnamed_column(view, request, likely[0])
        return single
    if not likely:
        raise _no_scores(view, numbers)
    likely = numbered_columns(view, likely)
    check_alike(view, request, likely, label)
    names = without_prefix(view, likely, label)
    return class_columns(view, request, likely, names, None, _left_out(view, numbers, likely))


def _check_not_ranked(view: View, positions: list[int]) -> None:
    """Raise where the columns are the highest probability, the second and so on."""
    if all(re.match(r"(top|rank)_?\d", plain(view.name(i))) for i in positions):
        raise file_error(
            view.path,
            f"holds the probabilities by rank ({quoted(view, positions[0])}, ...), each row in an "
            "order of its own; one column per class is needed. Save `model.predict_proba(X)` or "
            "the logits.",
        )


def _in_arrays(view: View, request: Request, numbers: list[int]) -> Scores:
    """Return the scores of a file of arrays none of which is a matrix: the positive class's."""
    single = column_by_name(view, request, numbers)
    if single is None and len(view.frame.columns) == 1 and numbers:
        single = positive_column(view, request, numbers[0])  # an .npy file holds only scores
    if single is None:
        raise _no_scores(view, numbers)
    return single


def _left_out(
    view: View, numbers: list[int], classes: list[int], *, why: str = ""
) -> tuple[str, ...]:
    """Return the note that lists the columns of numbers that are not read as classes."""
    left = [quoted(view, i) for i in numbers if i not in classes]
    return (f"not read as classes: {listing(left)}{why}",) if left else ()


def _only_confidence(view: View, numbers: list[int]) -> PredictionFileError | None:
    """Return the error for a file that has only the predicted class and its probability."""
    fractions = [i for i in numbers if not view.is_whole(i)]
    if len(fractions) != 1 or plain(view.name(fractions[0])) not in DERIVED:
        return None
    is_right = {"correct", "is_correct", "error"}
    if not any(is_prediction(c.name) or plain(c.name) in is_right for c in view.frame.columns):
        return None
    return file_error(
        view.path,
        f"holds only the probability of the predicted class ({quoted(view, fractions[0])}), "
        "but those of all classes are needed. Save `model.predict_proba(X)` or the logits, one "
        "column per class.",
    )


def _no_scores(view: View, numbers: list[int]) -> PredictionFileError:
    """Return the error for a file in which no scores were found."""
    only = _only_confidence(view, numbers)
    if only is not None:
        return only
    for i, column in enumerate(view.frame.columns):
        if kind_of(meaning_of(column.name)) is not None and column.kind not in (
            "number",
            "matrix",
        ):
            return not_numbers(view, i, is_only=True)
    what = "columns" if view.frame.is_table else "arrays"
    fixes: list[dict[str, object]] = []
    if numbers and view.frame.is_table:
        fixes = [{"score_columns": [view.name(i) for i in numbers[:50]]}]
    elif numbers:
        fixes = [{"logits_key": view.name(numbers[0])}, {"probs_key": view.name(numbers[0])}]
    return file_error(
        view.path,
        f"has no {what} that can be recognised as scores, by name or by values; it holds "
        f"{listing(view.frame.names) if view.frame.columns else 'nothing'}.",
        fixes=fixes,
    )
