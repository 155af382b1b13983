"""Scores in one column: of the positive of two classes, or a confidence with its outcome."""

from dataclasses import replace

import numpy as np

from focalibrate.io.errors import PredictionFileError, RowError, file_error, listing, short
from focalibrate.io.evidence import is_same_model
from focalibrate.io.options import Request
from focalibrate.io.roles.kind import Scores, not_numbers, which
from focalibrate.io.roles.vocabulary import (
    CONFIDENCE,
    DERIVED,
    LOGIT,
    PREDICTIONS,
    PROBABILITY,
    RIGHT,
    SCORE,
    WRONG,
    is_id,
    kind_of,
    meaning_of,
    outcome_of,
    plain,
    prefixed,
    says_correct,
)
from focalibrate.io.table import Table, texts_of

OPPOSITE = {"1": "0", "true": "false", "yes": "no"}
"""Names of a positive class that are names of a score where the other class has no column."""


ONE_SCORE = "columns that could be the score of the positive class"


def column_by_name(view: Table, request: Request, numbers: list[int]) -> Scores | None:
    """Return the one column whose name means the score of the positive class, or None."""
    if not view.schema.has_names:
        return None
    by_meaning: dict[str, list[int]] = {"probs": [], "logits": [], "scores": []}
    texts = {plain(view.name(i)) for i in numbers}
    for i in numbers:
        text = plain(view.name(i))
        cut = prefixed(view.name(i))
        if text in DERIVED or (is_id(view.name(i)) and text != "p"):
            continue
        if text in PROBABILITY or (cut is not None and cut.meaning == "probs"):
            by_meaning["probs"].append(i)
        elif text in LOGIT or (cut is not None and cut.meaning == "logits"):
            by_meaning["logits"].append(i)
        elif outcome_of(text) and meaning_of(text) == "probs":
            by_meaning["probs"].append(i)
        elif (
            text in SCORE
            or (text in OPPOSITE and OPPOSITE[text] not in texts)
            or (
                (text in PREDICTIONS or (cut is not None and cut.meaning == "scores"))
                and (not view.is_whole(i))
            )
        ):
            by_meaning["scores"].append(i)
    order = ["logits", "probs"] if request.kind == "logits" else ["probs", "logits"]
    probs, margins = by_meaning["probs"], by_meaning["logits"]
    if request.kind is None and len(probs) == len(margins) == 1:
        p, z = view.values(probs[0]), view.values(margins[0])
        if not is_same_model(np.stack([0 * z, z], axis=1), np.stack([1 - p, p], axis=1)):
            names = [view.name(probs[0]), view.name(margins[0])]
            raise which(
                view,
                f"{ONE_SCORE}, and they do not agree",
                names,
                [
                    {"score_columns": names[:1], "input": "probs"},
                    {"score_columns": names[1:], "input": "logits"},
                ],
            )
    for meaning in (*order, "scores"):
        found = by_meaning[meaning]
        if _are_classes(view, found):
            return None
        if len(found) > 1:
            names = [view.name(i) for i in found]
            raise which(view, ONE_SCORE, names, [{"score_columns": [name]} for name in names])
        if found:
            return positive_column(view, request, found[0])
    return None


def _are_classes(view: Table, positions: list[int]) -> bool:
    """Return whether several columns share a prefix and so are one per class: ``output_0``."""
    cut = [prefixed(view.name(i)) for i in positions]
    return len(cut) > 1 and len({None if c is None else c.word for c in cut} - {None}) == 1


def positive_column(view: Table, request: Request, position: int) -> Scores:
    """Return the scores of one column: of the positive of two classes."""
    name = view.name(position)
    text = plain(name)
    cut = prefixed(name)
    kind = kind_of(meaning_of(name)) or (None if cut is None else kind_of(cut.meaning))
    sums = view.sums([position])
    notes: tuple[str, ...] = ()
    if request.kind is not None:
        kind = request.kind
    elif kind is None:
        says_score = text in SCORE | PREDICTIONS | OPPOSITE.keys() or cut is not None
        if sums.in_unit and sums.fractions and says_score:
            kind = "probs"
            notes = (
                f'"{short(name)}" is read as probabilities because all values lie in [0, 1]; '
                "if these are margins, pass --input logits",
            )
        else:
            fixes: list[dict[str, object]] = []
            if sums.in_unit:
                fixes.append({"score_columns": [name], "input": "probs"})
            fixes.append({"score_columns": [name], "input": "logits"})
            raise file_error(
                view.path,
                f'has one column of scores, "{short(name)}", and does not say whether it holds '
                "probabilities or log-odds of the positive class; that is never guessed.",
                fixes=fixes,
            )
    positive = request.positive
    if positive is None and cut is not None and text not in PROBABILITY | LOGIT:
        suffix = cut.name
        if plain(suffix) not in ("pos", "positive", "hat", "pred", "true", ""):
            positive = suffix
    return Scores(
        positions=(position,),
        kind=kind,
        percent=request.input == "percent",
        form="single",
        positive=positive,
        n_classes=2,
        notes=notes,
    )


def column_of_class(
    view: Table, request: Request, position: int, label: int | None
) -> Scores | None:
    """Return the probabilities in a column called as one of two labels: ``spam``, or None."""
    name = view.name(position).strip()
    if label is None or not view.is_kind(label, "text") or request.kind == "logits":
        return None
    values = set(np.unique(view.values(label).astype(str)).tolist())
    if len(values) != 2 or name not in values or not view.sums([position]).in_unit:
        return None
    positive = request.positive or name
    return replace(
        positive_column(view, replace(request, input="probs"), position), positive=positive
    )


def unnamed_column(view: Table, request: Request, position: int) -> PredictionFileError:
    """Return the error for one column of numbers whose name does not say that it is a score."""
    name = view.name(position)
    kinds = [request.input] if request.input is not None else ["probs", "logits"]
    if request.input is None and not view.sums([position]).in_unit:
        kinds = ["logits"]
    return file_error(
        view.path,
        f'has one column of numbers, "{short(name)}", that could be the score of the positive '
        "class. Say so, and of which kind it is.",
        fixes=[{"score_columns": [name], "input": kind} for kind in kinds],
    )


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
    _check_words(view, outcome)
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


def _check_words(view: Table, position: int) -> None:
    """Raise where a value says neither right nor wrong."""
    known = RIGHT | WRONG | {"", "nan"}
    others = [v for v in _values(view, position) if _word(v) not in known]
    if others:
        stored = view.data[position]
        cells = texts_of(stored) if view.has_cells else view.values(position).astype(str)
        rows = np.flatnonzero(np.isin(cells.astype(str), others))
        name, right = view.name(position), _right_and_wrong(view, position)
        if view.is_kind(position, "number") and view.sums([position]).in_unit:
            return  # ties and other shares count as both
        raise RowError(
            view.path,
            f"`{short(name)}` must say whether an answer was right or wrong, but ",
            rows,
            f" hold {listing([repr(v) for v in others])}. Leave these rows out, or count them as "
            f"wrong: `df[{name!r}] = df[{name!r}] == {right!r}`.",
        )
