"""Scores in one matrix, an array ``[N, K]`` or a column of lists."""

from collections.abc import Sequence

from focalibrate.io.errors import PredictionFileError, short
from focalibrate.io.evidence import is_same_model
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.facts import Facts, Fixes, Scores, settle_kind
from focalibrate.io.roles.vocabulary import (
    CLASS_NAMES,
    LOGIT,
    NOT_SCORES,
    OPTIONS,
    PROBABILITY,
    split_of,
)


def find_matrix(facts: Facts) -> Scores | None:
    """Return the one matrix whose name says that it holds scores, or None.

    Logits are preferred to probabilities unless the caller says otherwise, and a name that says
    nothing else to one that says more.
    """
    view = facts.view
    named = [i for i in _matrices(facts) if not _is_one_of_several(facts, i)]
    for kind in facts.request.kinds_by_preference:
        found = [i for i in named if view[i].score_kind == kind]
        found = [i for i in found if view[i].plain in PROBABILITY | LOGIT] or found
        if len(found) > 1:
            raise _which_matrix(facts, found, kind)
        if found:
            if kind == "logits" and facts.request.kind is None:
                _check_one_model(facts, found[0], named)
            return matrix_scores(facts, found[0], kind)
    return None


def _check_one_model(facts: Facts, logits: int, named: Sequence[int]) -> None:
    """Raise where probabilities of as many rows are not the softmax of the logits."""
    view = facts.view
    mine, split = view[logits], split_of(view.name(logits))
    probs = [
        i
        for i in named
        if view[i].score_kind == "probs"
        and view[i].n_rows == mine.n_rows
        and len(view[i].shape) == 1
        and split_of(view.name(i)) == split
    ]
    if probs and not any(is_same_model(view.values(logits), view.values(i)) for i in probs):
        names = facts.names([logits, *probs])
        fixes: Fixes = [{"probs_key": name} for name in names[1:]]
        raise facts.which(
            "arrays that could be the scores, and the probabilities are not the softmax of the "
            "logits",
            names,
            [{"logits_key": names[0]}, *fixes],
        )


def _is_one_of_several(facts: Facts, position: int) -> bool:
    """Return whether a column of lists has the prefix of others: ``prob_dog``, ``prob_cat``."""
    view, own = facts.view, facts.view[position].prefix
    if own is None or not view.schema.is_table:
        return False
    others = (column.prefix for i, column in enumerate(view.columns) if i != position)
    return any(other is not None and other.word == own.word for other in others)


def _matrices(facts: Facts) -> list[int]:
    """Return the matrices that are not taken and do not hold the names of the classes."""
    return [
        i
        for i, column in enumerate(facts.view.columns)
        if i not in facts.taken
        and column.kind == "matrix"
        and column.plain not in CLASS_NAMES | NOT_SCORES
    ]


def matrix_scores(facts: Facts, position: int, kind: ScoreKind | None) -> Scores:
    """Return the scores in the matrix at `position`, whose name says `kind`."""
    view, column = facts.view, facts.view[position]
    if len(column.shape) > 1:
        raise facts.error(
            f"`{short(column.name)}` must have shape [N, K], got "
            f"{(column.n_rows or view.n_rows, *column.shape)}. Save one row per example and one "
            "column per class."
        )
    found, notes = settle_kind(facts, [position], kind)
    return Scores(
        positions=(position,),
        kind=found,
        percent=facts.request.input == "percent",
        form="options" if column.plain in OPTIONS else "matrix",
        class_names=view.schema.class_names,
        n_classes=max(0, column.shape[-1]),
        notes=notes,
    )


def _which_matrix(
    facts: Facts, found: Sequence[int], kind: ScoreKind | None
) -> PredictionFileError:
    """Return the error for several matrices that could each be the scores."""
    fixes: Fixes = []
    for i in found[:3]:
        says = kind or facts.view[i].score_kind
        if says is None and facts.view.sums([i]).on_simplex:
            says = "probs"
        kinds = ("logits", "probs") if says is None else (says,)
        fixes += [{f"{k}_key": facts.view.name(i)} for k in kinds]
    return facts.which("arrays that could be the scores", facts.names(found), fixes)


def lone_matrix(facts: Facts) -> Scores | None:
    """Return the only matrix, or the only one whose rows sum to 1, whatever its name."""
    view = facts.view
    found = [i for i in _matrices(facts) if not view[i].is_label]
    if len(found) > 1:
        flat = [i for i in found if len(view[i].shape) == 1]
        found = [i for i in flat if view.sums([i]).on_simplex] or found
    if len(found) > 1:
        raise _which_matrix(facts, found, facts.request.kind)
    return matrix_scores(facts, found[0], None) if found else None
