"""Scores in one matrix, an array ``[N, K]`` or a column of lists."""

from collections.abc import Iterable

from focalibrate.io.errors import PredictionFileError, file_error, short
from focalibrate.io.evidence import is_same_model
from focalibrate.io.options import Request
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.kind import Scores, settle_kind, which
from focalibrate.io.roles.vocabulary import (
    CLASS_NAMES,
    LOGIT,
    NOT_SCORES,
    PROBABILITY,
    is_label,
    is_options,
    kind_of,
    meaning_of,
    plain,
    prefixed,
    split_of,
)
from focalibrate.io.table import Table


def find_matrix(view: Table, request: Request, taken: Iterable[int]) -> Scores | None:
    """Return the one matrix whose name says that it holds scores, or None.

    Logits are preferred to probabilities unless the caller says otherwise.
    """
    matrices = _matrices(view, taken)
    exact: dict[ScoreKind, list[int]] = {"logits": [], "probs": []}
    loose: dict[ScoreKind, list[int]] = {"logits": [], "probs": []}
    for i in matrices:
        text = plain(view.name(i))
        kind = kind_of(meaning_of(view.name(i)))
        if kind is not None and not _is_one_of_several(view, i):
            (exact if text in PROBABILITY | LOGIT else loose)[kind].append(i)
    for kind in request.kinds_by_preference:
        for found in (exact[kind], loose[kind]):
            if len(found) > 1:
                raise _which_matrix(view, found, kind)
            if found:
                others = [*exact["probs"], *loose["probs"]]
                if kind == "logits" and request.kind is None:
                    _check_one_model(view, found[0], others)
                return matrix_scores(view, request, found[0], kind)
    return None


def _check_one_model(view: Table, logits: int, probs: list[int]) -> None:
    """Raise where probabilities of as many rows are not the softmax of the logits."""
    mine = view[logits]
    alike = [i for i in probs if view[i].n_rows == mine.n_rows and len(view[i].shape) == 1]
    of_split = [i for i in alike if split_of(view.name(i)) == split_of(view.name(logits))]
    z = view.values(logits) if of_split else None
    if z is not None and not any(is_same_model(z, view.values(i)) for i in of_split):
        names = [view.name(i) for i in (logits, *of_split)]
        fixes: list[dict[str, object]] = [{"probs_key": name} for name in names[1:]]
        raise which(
            view,
            "arrays that could be the scores, and the probabilities are not the softmax of the "
            "logits",
            names,
            [{"logits_key": names[0]}, *fixes],
        )


def _is_one_of_several(view: Table, position: int) -> bool:
    """Return whether a column of lists has the prefix of others: ``prob_dog``, ``prob_cat``."""
    own = prefixed(view.name(position))
    if own is None or not view.schema.is_table:
        return False
    others = (prefixed(c.name) for i, c in enumerate(view.columns) if i != position)
    return any(other is not None and other.word == own.word for other in others)


def _matrices(view: Table, taken: Iterable[int]) -> list[int]:
    """Return the matrices that are not taken and do not hold the names of the classes."""
    taken = set(taken)
    return [
        i
        for i, column in enumerate(view.columns)
        if i not in taken
        and column.kind == "matrix"
        and plain(column.name) not in CLASS_NAMES | NOT_SCORES
    ]


def matrix_scores(view: Table, request: Request, position: int, kind: ScoreKind | None) -> Scores:
    """Return the scores in the matrix at `position`, whose name says `kind`."""
    shape = view[position].shape
    if len(shape) > 1:
        raise file_error(
            view.path,
            f"`{short(view.name(position))}` must have shape [N, K], got "
            f"{(view[position].n_rows or view.n_rows, *shape)}. Save one row per example and one "
            "column per class.",
        )
    sums = view.sums([position])
    found, notes = settle_kind(view, request, sums, kind, [position])
    return Scores(
        positions=(position,),
        kind=found,
        percent=request.input == "percent",
        form="options" if is_options(view.name(position)) else "matrix",
        class_names=view.schema.class_names,
        n_classes=max(0, shape[-1]),
        notes=notes,
    )


def _which_matrix(view: Table, found: list[int], kind: ScoreKind | None) -> PredictionFileError:
    """Return the error for several matrices that could each be the scores."""
    fixes: list[dict[str, object]] = []
    for i in found[:3]:
        says = kind or kind_of(meaning_of(view.name(i)))
        if says is None and view.sums([i]).on_simplex:
            says = "probs"
        kinds = ("logits", "probs") if says is None else (says,)
        fixes += [{f"{k}_key": view.name(i)} for k in kinds]
    return which(view, "arrays that could be the scores", [view.name(i) for i in found], fixes)


def lone_matrix(view: Table, request: Request, taken: Iterable[int]) -> Scores | None:
    """Return the only matrix, or the only one whose rows sum to 1, whatever its name."""
    found = [i for i in _matrices(view, taken) if not is_label(view.name(i))]
    if len(found) > 1:
        found = [
            i for i in found if len(view[i].shape) == 1 and view.sums([i]).on_simplex
        ] or found
    if len(found) > 1:
        raise _which_matrix(view, found, request.kind)
    return matrix_scores(view, request, found[0], None) if found else None
