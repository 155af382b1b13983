"""Scores in one column: those of the positive of two classes."""

from dataclasses import replace

import numpy as np

from focalibrate.io.errors import PredictionFileError, file_error, listing, short
from focalibrate.io.evidence import is_same_model
from focalibrate.io.options import Request
from focalibrate.io.roles.kind import Scores
from focalibrate.io.roles.vocabulary import (
    DERIVED,
    LOGIT,
    PREDICTIONS,
    PROBABILITY,
    SCORE,
    is_id,
    kind_of,
    meaning_of,
    outcome_of,
    plain,
    prefixed,
)
from focalibrate.io.table import Table

OPPOSITE = {"1": "0", "true": "false", "yes": "no"}
"""Names of a positive class that are names of a score where the other class has no column."""


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
            raise file_error(
                view.path,
                "has two columns that could be the score of the positive class, "
                f"{listing(names)}, and they do not agree. Say which.",
                fixes=[
                    {"score_columns": names[:1], "input": "probs"},
                    {"score_columns": names[1:], "input": "logits"},
                ],
            )
    for meaning in (*order, "scores"):
        found = by_meaning[meaning]
        if _are_classes(view, found):
            return None
        if len(found) > 1:
            raise file_error(
                view.path,
                f"has {len(found)} columns that could be the score of the positive class: "
                f"{listing([view.name(i) for i in found])}. Say which.",
                fixes=[{"score_columns": [view.name(i)]} for i in found[:3]],
            )
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
