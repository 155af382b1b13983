"""Scores in one column: of the positive of two classes, or a confidence with its outcome."""

from dataclasses import replace

import numpy as np

from focalibrate.io.errors import PredictionFileError, RowError, listing, short
from focalibrate.io.evidence import is_same_model
from focalibrate.io.roles.facts import Facts, Fixes, Scores, not_numbers
from focalibrate.io.roles.vocabulary import (
    CONFIDENCE,
    DERIVED,
    LOGIT,
    PREDICTIONS,
    PROBABILITY,
    RIGHT,
    SCORE,
    WRONG,
    Meaning,
    kind_of,
    outcome_of,
    plain,
    says_correct,
)
from focalibrate.io.table import Table, texts_of

OPPOSITE = {"1": "0", "true": "false", "yes": "no"}
"""Names of a positive class that are names of a score where the other class has no column."""

NO_CLASS = ("pos", "positive", "hat", "pred", "true", "")
"""What follows the prefix of a score without naming a class."""

ONE_SCORE = "columns that could be the score of the positive class"


def column_by_name(facts: Facts) -> Scores | None:
    """Return the one column whose name means the score of the positive class, or None."""
    view, kind = facts.view, facts.request.kind
    if not view.schema.has_names:
        return None
    by_meaning: dict[Meaning, list[int]] = {"probs": [], "logits": [], "scores": []}
    for i in facts.numbers:
        meaning = _says(facts, i)
        if meaning is not None:
            by_meaning[meaning].append(i)
    probs, margins = by_meaning["probs"], by_meaning["logits"]
    if kind is None and len(probs) == len(margins) == 1:
        p, z = view.values(probs[0]), view.values(margins[0])
        if not is_same_model(np.stack([0 * z, z], axis=1), np.stack([1 - p, p], axis=1)):
            names = facts.names([*probs, *margins])
            kinds = zip(names, ("probs", "logits"), strict=True)
            fixes: Fixes = [{"score_columns": [name], "input": k} for name, k in kinds]
            raise facts.which(f"{ONE_SCORE}, and they do not agree", names, fixes)
    order = (margins, probs) if kind == "logits" else (probs, margins)
    for found in (*order, by_meaning["scores"]):
        if len(found) > 1:
            words = {c.word for c in (view[i].prefix for i in found) if c is not None}
            if len(words) == 1:
                return None  # they are one per class: ``output_0``
            names = facts.names(found)
            raise facts.which(ONE_SCORE, names, [{"score_columns": [name]} for name in names])
        if found:
            return positive_column(facts, found[0])
    return None


def _says(facts: Facts, position: int) -> Meaning | None:
    """Return what the name of a column of numbers says that it holds, if it is a score."""
    column = facts.view[position]
    text, prefix = column.plain, None if column.prefix is None else column.prefix.meaning
    if text in DERIVED or (column.is_id and text != "p"):
        return None
    if text in PROBABILITY or prefix == "probs":
        return "probs"
    if text in LOGIT or prefix == "logits":
        return "logits"
    if outcome_of(text) and column.meaning == "probs":
        return "probs"
    is_loose = text in PREDICTIONS or prefix == "scores"
    others = {facts.view[i].plain for i in facts.numbers}
    is_score = text in SCORE or (text in OPPOSITE and OPPOSITE[text] not in others)
    return "scores" if is_score or (is_loose and not facts.view.is_whole(position)) else None


def positive_column(facts: Facts, position: int) -> Scores:
    """Return the scores of one column: of the positive of two classes."""
    column, request, sums = facts.view[position], facts.request, facts.view.sums([position])
    name, text, cut = column.name, column.plain, column.prefix
    kind = request.kind or column.score_kind or (None if cut is None else kind_of(cut.meaning))
    notes: tuple[str, ...] = ()
    if kind is None:
        says_score = text in SCORE | PREDICTIONS | OPPOSITE.keys() or cut is not None
        if not (sums.in_unit and sums.fractions and says_score):
            raise facts.error(
                f'has one column of scores, "{short(name)}", and does not say whether it holds '
                "probabilities or log-odds of the positive class; that is never guessed.",
                fixes=_of_kinds(facts, position),
            )
        kind = "probs"
        notes = (
            f'"{short(name)}" is read as probabilities because all values lie in [0, 1]; '
            "if these are margins, pass --input logits",
        )
    positive = request.positive
    if positive is None and cut is not None and text not in PROBABILITY | LOGIT:
        positive = None if plain(cut.name) in NO_CLASS else cut.name
    return Scores(
        positions=(position,),
        kind=kind,
        percent=request.input == "percent",
        form="single",
        positive=positive,
        n_classes=2,
        notes=notes,
    )


def _of_kinds(facts: Facts, position: int) -> Fixes:
    """Return the options that read one column as probabilities, if it may hold them, or logits."""
    kinds = ["probs"] if facts.view.sums([position]).in_unit else []
    name = facts.view.name(position)
    return [{"score_columns": [name], "input": kind} for kind in (*kinds, "logits")]


def column_of_class(facts: Facts, position: int) -> Scores | None:
    """Return the probabilities in a column called as one of two labels: ``spam``, or None."""
    is_class = len(facts.label_words) == 2 and facts.called_as_label(position)
    if not is_class or facts.request.kind == "logits" or not facts.view.sums([position]).in_unit:
        return None
    name = facts.view.name(position).strip()
    found = positive_column(
        replace(facts, request=replace(facts.request, input="probs")), position
    )
    return replace(found, positive=facts.request.positive or name)


def unnamed_column(facts: Facts, position: int) -> PredictionFileError:
    """Return the error for one column of numbers whose name does not say that it is a score."""
    name, told = facts.view.name(position), facts.request.input
    fixes: Fixes = [{"score_columns": [name], "input": told}]
    return facts.error(
        f'has one column of numbers, "{short(name)}", that could be the score of the positive '
        "class. Say so, and of which kind it is.",
        fixes=_of_kinds(facts, position) if told is None else fixes,
    )


LEAST_PERCENT = 20
"""Numbers above 1 of which none is larger may be a scale, such as one from 1 to 5."""


def event_columns(facts: Facts) -> Scores | None:
    """Return the confidence of answers whose outcome another column holds, or None.

    Raises:
        PredictionFileError: several columns could be either, or a word says neither right nor
            wrong.
    """
    view, request = facts.view, facts.request
    if not view.schema.has_names or request.kind == "logits" or not request.wants_labels:
        return None
    outcomes = _outcomes(view)
    named = [i for i, c in enumerate(view.columns) if c.plain in CONFIDENCE and i not in outcomes]
    if not outcomes or not named or request.label_column is not None:
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
                for j in outcomes[:2]
            ],
        )
    at, outcome = stated[0], outcomes[0]
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
    _check_words(view, outcome)
    right = short(view.name(outcome))
    notes = [f'"{name}" is the probability that the answer is right, by "{right}"']
    if is_percent:
        notes.append(f'"{name}" goes up to {high:g}: it is read as percentages')
    return Scores(
        positions=(at,),
        kind="probs",
        percent=is_percent,
        form="single",
        positive=request.positive or _right(view, outcome),
        n_classes=2,
        outcome=outcome,
        notes=tuple(notes),
    )


def _outcomes(view: Table) -> list[int]:
    """Return the columns that say whether an answer was right; of those that agree, the first."""
    found: dict[bytes, int] = {}
    for i, column in enumerate(view.columns):
        if says_correct(column.name) and column.kind in ("bool", "number", "text"):
            right = _right(view, i)
            if right is not None:
                values = view.values(i)
                is_right = values == 1 if column.kind == "number" else values.astype(str) == right
                found.setdefault(np.asarray(is_right).tobytes(), i)
    return list(found.values())


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


def _check_words(view: Table, position: int) -> None:
    """Raise where a value says neither right nor wrong; shares, such as ties, count as both."""
    if view.is_kind(position, "number") and view.sums([position]).in_unit:
        return
    known, cells = RIGHT | WRONG | {"", "nan"}, _cells(view, position)
    rows = [row for row, cell in enumerate(cells) if _word(cell) not in known]
    if rows:
        others = sorted({cells[row] for row in rows})
        name, right = view.name(position), _right(view, position)
        raise RowError(
            view.path,
            f"`{short(name)}` must say whether an answer was right or wrong, but ",
            rows,
            f" hold {listing([repr(v) for v in others])}. Leave these rows out, or count them as "
            f"wrong: `df[{name!r}] = df[{name!r}] == {right!r}`.",
        )
