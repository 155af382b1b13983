"""A confidence and whether it was right: answers, detections, judgements."""

import numpy as np

from focalibrate.io.errors import PredictionFileError, RowError, file_error, listing, short
from focalibrate.io.options import Request
from focalibrate.io.roles.kind import Scores, not_numbers
from focalibrate.io.roles.labels import tie_error
from focalibrate.io.roles.vocabulary import CONFIDENCE, RIGHT, WRONG, plain, says_correct
from focalibrate.io.table import Table, texts_of


def event_columns(view: Table, request: Request, numbers: list[int]) -> Scores | None:
    """Return the confidence of answers whose outcome another column holds, or None.

    Raises:
        PredictionFileError: several columns could be either, or a word says neither right nor
            wrong.
    """
    if not view.schema.has_names or request.kind == "logits" or not request.wants_labels:
        return None
    outcomes = _outcomes(view)
    named = [i for i, c in enumerate(view.columns) if plain(c.name) in CONFIDENCE]
    named = [i for i in named if i not in outcomes]
    if not outcomes or not named or request.label_column is not None:
        return None
    likely = [i for i in named if i in numbers]
    if not likely and view.is_kind(named[0], "text"):
        raise not_numbers(view, named[0], is_only=True)
    stated = [i for i in likely if "conf" in plain(view.name(i))] or likely
    if not stated:
        return None
    if len(outcomes) > 1 or len(stated) > 1:
        raise file_error(
            view.path,
            "has several columns that could be a confidence "
            f"({listing([view.name(i) for i in stated])}) or say whether it was right "
            f"({listing([view.name(i) for i in outcomes])}). Say which.",
            fixes=[
                {"score_columns": [view.name(i)], "label_column": view.name(j), "input": "probs"}
                for i in stated[:2]
                for j in outcomes[:2]
            ],
        )
    at, outcome = stated[0], outcomes[0]
    sums = view.sums([at])
    values = view.values(at)
    high = float(np.nanmax(values)) if len(values) else 0.0
    is_above = request.input is None and not sums.negative and 1 < high <= 100
    if is_above and high <= LEAST_PERCENT:
        raise _scale(view, at, high)
    is_percent = request.input == "percent" or is_above
    if not sums.in_unit and not is_percent:
        return None
    _check_words(view, at, outcome)
    name, right = view.name(at), view.name(outcome)
    notes = [f'"{short(name)}" is the probability that the answer is right, by "{short(right)}"']
    if is_percent:
        notes.append(f'"{short(name)}" goes up to {high:g}: it is read as percentages')
    return Scores(
        positions=(at,),
        kind="probs",
        percent=is_percent,
        form="single",
        positive=request.positive or _right_and_wrong(view, outcome),
        n_classes=2,
        outcome=outcome,
        notes=tuple(notes),
    )


LEAST_PERCENT = 20
"""Numbers above 1 of which none is larger may be a scale, such as one from 1 to 5."""


def _scale(view: Table, position: int, high: float) -> PredictionFileError:
    name = view.name(position)
    return file_error(
        view.path,
        f"`{short(name)}` goes up to {high:g}, so that it holds no probabilities, and hardly "
        f"percentages. Turn a scale into probabilities, such as `df[{name!r}] /= {high:g}`; "
        "percentages can be read.",
        fixes=[{"input": "percent"}],
    )


def _outcomes(view: Table) -> list[int]:
    """Return the columns that say whether an answer was right; of those that agree, the first."""
    found: dict[bytes, int] = {}
    for i, column in enumerate(view.columns):
        if says_correct(column.name) and column.kind in ("bool", "number", "text"):
            right = _right_and_wrong(view, i)
            if right is not None:
                values = view.values(i)
                is_right = values == 1 if column.kind == "number" else values.astype(str) == right
                found.setdefault(np.asarray(is_right).tobytes(), i)
    return list(found.values())


def _values(view: Table, position: int) -> list[str]:
    """Return the distinct values of a column as text."""
    stored = view.data[position]
    cells = texts_of(stored) if view.has_cells else view.values(position).astype(str)
    return sorted(set(cells.tolist()))


def _word(value: str) -> str:
    return value.strip().lower().removesuffix(".0")


def _right_and_wrong(view: Table, position: int) -> str | None:
    """Return the value that means right, where the values are words for right and wrong."""
    values = [v for v in _values(view, position) if v.strip()]
    right = [v for v in values if _word(v) in RIGHT]
    wrong = [v for v in values if _word(v) in WRONG]
    if view.is_kind(position, "number"):
        if not view.sums([position]).in_unit:
            return None
    elif len(values) > 8:
        return None
    if len(right) != 1 or len(wrong) > 1:
        return None
    return right[0].removesuffix(".0") if view.is_kind(position, "number") else right[0]


def _check_words(view: Table, score: int, position: int) -> None:
    """Raise where a value says neither right nor wrong."""
    known = RIGHT | WRONG | {"", "nan"}
    others = [v for v in _values(view, position) if _word(v) not in known]
    if others:
        stored = view.data[position]
        cells = texts_of(stored) if view.has_cells else view.values(position).astype(str)
        rows = np.flatnonzero(np.isin(cells.astype(str), others))
        name, right = view.name(position), _right_and_wrong(view, position)
        if view.is_kind(position, "number"):
            raise tie_error(view, view.name(score), position)
        raise RowError(
            view.path,
            f"`{short(name)}` must say whether an answer was right or wrong, but ",
            rows,
            f" hold {listing([repr(v) for v in others])}. Leave these rows out, or count them as "
            f"wrong: `df[{name!r}] = df[{name!r}] == {right!r}`.",
        )
