"""A confidence, such as that of an answer, and the column that says whether it was right."""

import numpy as np

from focalibrate.io.errors import RowError, listing, short
from focalibrate.io.roles.diagnoses import not_numbers
from focalibrate.io.roles.facts import Facts, Scores
from focalibrate.io.roles.vocabulary import CONFIDENCE, RIGHT, WRONG, says_correct
from focalibrate.io.table import Table, texts_of

LEAST_PERCENT = 20
"""Numbers above 1 of which none is larger may be a scale, such as one from 1 to 5."""


def event_columns(facts: Facts) -> Scores | None:
    """Return the confidence of answers whose outcome another column holds, or None.

    Raises:
        PredictionFileError: several columns could be either, or a word says neither right nor
            wrong.
    """
    view, request = facts.view, facts.request
    is_told = request.kind == "logits" or request.label_column is not None
    if is_told or not view.schema.has_names or not request.wants_labels:
        return None
    outcomes = _outcomes(view)
    named = [i for i, c in enumerate(view.columns) if c.plain in CONFIDENCE and i not in outcomes]
    if not outcomes or not named:
        return None
    likely = [i for i in named if i in facts.numbers]
    if not likely and view.is_kind(named[0], "text"):
        raise not_numbers(view, named[0], is_only=True)
    stated = [i for i in likely if "conf" in view[i].plain] or likely
    if not stated:
        return None
    if len(outcomes) > 1 or len(stated) > 1:
        raise facts.error(
            f"has several columns that could be a confidence ({listing(facts.names(stated))}) or "
            f"say whether it was right ({listing(facts.names(outcomes))}). Say which.",
            fixes=[
                {"score_columns": [view.name(i)], "label_column": view.name(j), "input": "probs"}
                for i in stated[:2]
                for j in list(outcomes)[:2]
            ],
        )
    at, (outcome, right) = stated[0], next(iter(outcomes.items()))
    sums, values, name = view.sums([at]), view.values(at), short(view.name(at))
    high = float(np.nanmax(values)) if len(values) else 0.0
    is_above = request.input is None and not sums.negative and 1 < high <= 100
    if is_above and high <= LEAST_PERCENT:
        raise facts.error(
            f"`{name}` goes up to {high:g}, so that it holds no probabilities, and hardly "
            "percentages. Turn a scale into probabilities, such as "
            f"`df[{view.name(at)!r}] /= {high:g}`; percentages can be read.",
            fixes=[{"input": "percent"}],
        )
    is_percent = request.input == "percent" or is_above
    if not sums.in_unit and not is_percent:
        return None
    _check_words(view, outcome, right)
    notes = [f'"{name}" is the probability that the answer is right, by {facts.text([outcome])}']
    if is_percent:
        notes.append(f'"{name}" goes up to {high:g}: it is read as percentages')
    return Scores(
        positions=(at,),
        kind="probs",
        percent=is_percent,
        form="single",
        positive=request.positive or right,
        n_classes=2,
        outcome=outcome,
        notes=tuple(notes),
    )


def _outcomes(view: Table) -> dict[int, str]:
    """Return the columns that say whether an answer was right, and the value that means right.

    Of those that agree, the first.
    """
    found: dict[bytes, tuple[int, str]] = {}
    for i, column in enumerate(view.columns):
        if says_correct(column.name) and column.kind in ("bool", "number", "text"):
            right = _right(view, i)
            if right is not None:
                values = view.values(i)
                is_right = values == 1 if column.kind == "number" else values.astype(str) == right
                found.setdefault(np.asarray(is_right).tobytes(), (i, right))
    return dict(found.values())


def _cells(view: Table, position: int) -> list[str]:
    """Return the values of a column as text."""
    stored = view.data[position]
    cells = texts_of(stored) if view.has_cells else view.values(position)
    found: list[str] = cells.astype(str).tolist()
    return found


def _word(value: str) -> str:
    return value.strip().lower().removesuffix(".0")


def _right(view: Table, position: int) -> str | None:
    """Return the value that means right, where the values are words for right and wrong."""
    values = sorted({v for v in _cells(view, position) if v.strip()})
    right = [v for v in values if _word(v) in RIGHT]
    wrong = [v for v in values if _word(v) in WRONG]
    is_number = view.is_kind(position, "number")
    may_be = view.sums([position]).in_unit if is_number else len(values) <= 8
    if not may_be or len(right) != 1 or len(wrong) > 1:
        return None
    return right[0].removesuffix(".0") if is_number else right[0]


def _check_words(view: Table, position: int, right: str) -> None:
    """Raise where a value says neither right nor wrong; shares, such as ties, count as both."""
    if view.is_kind(position, "number") and view.sums([position]).in_unit:
        return
    known, cells = RIGHT | WRONG | {"", "nan"}, _cells(view, position)
    rows = [row for row, cell in enumerate(cells) if _word(cell) not in known]
    if rows:
        others = sorted({cells[row] for row in rows})
        name = view.name(position)
        raise RowError(
            view.path,
            f"`{short(name)}` must say whether an answer was right or wrong, but ",
            rows,
            f" hold {listing([repr(v) for v in others])}. Leave these rows out, or count them as "
            f"wrong: `df[{name!r}] = df[{name!r}] == {right!r}`.",
        )
