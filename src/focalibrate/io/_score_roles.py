"""Which columns are the scores of the classes, and of which kind."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from focalibrate.io._error import PredictionFileError, file_error, listing, short
from focalibrate.io._evidence import Sums, find_runs, is_row_number
from focalibrate.io._request import Request, find_columns
from focalibrate.io._text import bad_cell
from focalibrate.io._view import View
from focalibrate.io._vocabulary import (
    CLASS_NAMES,
    DERIVED,
    LOGIT,
    PREDICTIONS,
    PROBABILITY,
    SCORE,
    WEIGHTS,
    is_id,
    is_label,
    is_prediction,
    kind_of,
    outcome_of,
    plain,
    prefixed,
    said_by,
)
from focalibrate.io.predictions import Kind


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The columns of the scores.

    Attributes:
        positions: one column per class, or one matrix, or one column of the positive class.
        kind: logits or probabilities.
        percent: probabilities are stored times 100.
        form: how the columns hold the classes.
        class_names: the names the columns have, or None.
        positive: name of the positive class, where one column holds its score.
        n_classes: number of classes, 0 where only the values tell.
        notes: what a person should know.
    """

    positions: tuple[int, ...]
    kind: Kind
    percent: bool = False
    form: str = "columns"
    class_names: tuple[str, ...] | None = None
    positive: str | None = None
    n_classes: int = 0
    notes: tuple[str, ...] = ()


def find_matrix(view: View, request: Request, taken: Iterable[int]) -> Scores | None:
    """Return the one matrix whose name says that it holds scores, or None.

    Logits come before probabilities where the caller does not say.
    """
    matrices = _matrices(view, taken)
    exact: dict[Kind, list[int]] = {"logits": [], "probs": []}
    loose: dict[Kind, list[int]] = {"logits": [], "probs": []}
    for i in matrices:
        text = plain(view.name(i))
        kind = kind_of(said_by(view.name(i)))
        if kind is not None and not _is_one_of_several(view, i):
            (exact if text in PROBABILITY | LOGIT else loose)[kind].append(i)
    order: tuple[Kind, ...] = ("logits", "probs")
    if request.kind is not None:
        order = (request.kind, "probs" if request.kind == "logits" else "logits")
    for kind in order:
        for found in (exact[kind], loose[kind]):
            if len(found) > 1:
                raise _which_matrix(view, found, kind)
            if found:
                return _matrix_scores(view, request, found[0], kind)
    return None


def _is_one_of_several(view: View, position: int) -> bool:
    """Say whether a list column is named like plain ones: ``prob_dog`` next to ``prob_cat``."""
    own = prefixed(view.name(position))
    if own is None or not view.frame.is_table:
        return False
    others = (prefixed(c.name) for i, c in enumerate(view.frame.columns) if i != position)
    return any(other is not None and other.word == own.word for other in others)


def find_scores(view: View, request: Request, taken: Iterable[int], label: int | None) -> Scores:
    """Return the score columns: told, by prefix, by the evidence of the values, or one alone."""
    taken = set(taken)
    told = _told_scores(view, request)
    if told is not None:
        return told
    free = [
        i
        for i, column in enumerate(view.frame.columns)
        if i not in taken and not column.is_index and column.problem is None
    ]
    found = _by_prefix(view, request, free)
    if found is None:
        found = _lone_matrix(view, request, taken)
    if found is None:
        found = _unprefixed(view, request, free, label)
    return found


def _matrices(view: View, taken: Iterable[int]) -> list[int]:
    taken = set(taken)
    return [
        i
        for i, column in enumerate(view.frame.columns)
        if i not in taken and column.kind == "matrix" and plain(column.name) not in CLASS_NAMES
    ]


def _matrix_scores(view: View, request: Request, position: int, kind: Kind | None) -> Scores:
    shape = view[position].shape
    if len(shape) > 2:
        raise file_error(
            view.path,
            f"`{short(view.name(position))}` must have shape [N, K], got {shape}. Save one row "
            "per example and one column per class.",
        )
    sums = view.sums([position])
    found, notes = _settle_kind(view, request, sums, kind, [position])
    return Scores(
        positions=(position,),
        kind=found,
        percent=request.input == "percent",
        form="matrix",
        class_names=view.frame.class_names,
        n_classes=max(0, shape[-1]),
        notes=notes,
    )


def _which_matrix(view: View, found: list[int], kind: Kind | None) -> PredictionFileError:
    kinds: tuple[Kind, ...] = ("logits", "probs") if kind is None else (kind,)
    return file_error(
        view.path,
        f"holds {len(found)} arrays that could be the scores: "
        f"{listing([f'`{view.name(i)}`' for i in found])}. Say which.",
        fixes=[{f"{k}_key": view.name(i)} for k in kinds for i in found[:3]],
    )


def _lone_matrix(view: View, request: Request, taken: Iterable[int]) -> Scores | None:
    """Return the only matrix, or the only one on the simplex; its name says nothing."""
    found = [i for i in _matrices(view, taken) if not is_label(view.name(i))]
    if len(found) > 1:
        found = [
            i for i in found if len(view[i].shape) == 2 and view.sums([i]).on_simplex
        ] or found
    if len(found) > 1:
        raise _which_matrix(view, found, request.kind)
    return _matrix_scores(view, request, found[0], None) if found else None


def _settle_kind(
    view: View, request: Request, sums: Sums, said: Kind | None, positions: list[int]
) -> tuple[Kind, tuple[str, ...]]:
    """Return the kind: told, said by the names, or shown by every row; else raise."""
    what = _named(view, positions)
    if request.kind is not None:
        notes: tuple[str, ...] = ()
        if request.kind == "logits" and sums.on_simplex and sums.fractions:
            notes = (_looks_like_probs(what, told=True),)
        return request.kind, notes
    if said == "logits" and sums.on_simplex and sums.fractions and sums.worst < 1e-3:
        return "logits", (_looks_like_probs(what, told=False),)
    if said is not None:
        return said, ()
    if sums.on_simplex:
        return "probs", (f"probabilities because all rows of {what} lie in [0, 1] and sum to 1",)
    raise unclear_kind(view, sums, what)


def _looks_like_probs(what: str, *, told: bool) -> str:
    by = "as told" if told else "as the name says"
    return (
        f"WARNING: {what} is read as logits, {by}, but every row lies in [0, 1] and sums to 1 as "
        "probabilities do; if they are probabilities pass --input probs"
    )


def unclear_kind(view: View, sums: Sums, what: str) -> PredictionFileError:
    """Return the error for scores that nothing says the kind of, with the options that do."""
    if sums.in_percent:
        return file_error(
            view.path,
            f"{what} holds percentages (rows sum to 100).",
            fixes=[{"input": "percent"}],
        )
    fixes: list[dict[str, object]] = [{"input": "logits"}]
    if sums.in_unit:
        fixes.append({"input": "probs"})
    found = "some numbers are negative" if sums.negative else "rows do not sum to 1"
    return file_error(
        view.path,
        f"does not say whether {what} holds logits or probabilities ({found}), and that is never "
        "guessed.",
        fixes=fixes,
    )


def _named(view: View, positions: list[int]) -> str:
    if not view.frame.has_names and len(positions) > 1:
        return f"columns {positions[0]} to {positions[-1]}"
    names = [view.name(i) for i in positions]
    if len(names) == 1:
        return f'"{short(names[0])}"'
    return f"columns {listing(names)}"


def _told_scores(view: View, request: Request) -> Scores | None:
    """Return the scores that the caller named, or None."""
    keys = {"logits": request.logits_key, "probs": request.probs_key}
    if request.score_columns is not None:
        positions = find_columns(view.frame, request.score_columns, option="score_columns")
        return _chosen(view, request, positions)
    given = [k for k in ("logits", "probs") if keys[k] is not None]
    if not given:
        return None
    kind: Kind = "logits" if given[0] == "logits" else "probs"
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
        return _single(view, request, position)
    if not view.is_kind(position, "matrix"):
        raise not_numbers(view, position)
    return _matrix_scores(view, request, position, kind)


def not_numbers(view: View, position: int) -> PredictionFileError:
    """Return the error for a column of scores that holds no numbers."""
    column = view[position]
    if column.kind == "text" and "cells" in view.frame.extra:
        return bad_cell(view.frame, position)
    kind = {"matrix": "lists", "bool": "booleans", "empty": "no values"}.get(column.kind, "text")
    return file_error(
        view.path,
        f"column `{short(column.name)}` must hold numbers, but holds {kind}. If it is no class, "
        "leave it out.",
        fixes=[{"ignore": [column.name]}],
    )


def _chosen(view: View, request: Request, positions: list[int]) -> Scores:
    """Return the scores in columns that the caller chose."""
    if len(positions) == 1:
        if view.is_kind(positions[0], "matrix"):
            kind = kind_of(said_by(view.name(positions[0])))
            return _matrix_scores(view, request, positions[0], kind)
        if view.is_kind(positions[0], "number"):
            return _single(view, request, positions[0])
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
    said = kind_of(cut[0].said) if len(words) == 1 and cut[0] is not None else None
    return _columns(view, request, positions, names, said)


def _columns(
    view: View,
    request: Request,
    positions: list[int],
    names: tuple[str, ...],
    said: Kind | None,
    notes: tuple[str, ...] = (),
) -> Scores:
    """Return scores of one column per class, their kind settled."""
    sums = view.sums(positions)
    kind, more = _settle_kind(view, request, sums, said, positions)
    return Scores(
        positions=tuple(positions),
        kind=kind,
        percent=request.input == "percent",
        class_names=names if view.frame.has_names else None,
        n_classes=len(positions),
        notes=(*notes, *more),
    )


def _by_prefix(view: View, request: Request, free: list[int]) -> Scores | None:
    """Return the columns whose prefix says that they are scores: ``prob_cat, prob_dog``."""
    if not view.frame.has_names:
        return None
    groups: dict[tuple[Kind, str], list[int]] = {}
    for i in free:
        cut = prefixed(view.name(i))
        said = None if cut is None else kind_of(cut.said)
        if cut is None or said is None or is_prediction(view.name(i)):
            continue
        groups.setdefault((said, cut.word), []).append(i)
    order: tuple[Kind, ...] = ("logits", "probs")
    if request.kind is not None:
        order = (request.kind, "probs" if request.kind == "logits" else "logits")
    for kind in order:
        usable = []
        for (of, _), members in groups.items():
            if of == kind and len(members) > 1 and any(view.is_kind(i, "number") for i in members):
                usable.append(_without_derived(view, members))
        if len(usable) > 1:
            usable = [m for m in usable if _is_simplex(view, m)] or usable
        if len(usable) > 1:
            raise file_error(
                view.path,
                f"has {len(usable)} sets of columns that could be the classes: "
                f"{listing([listing([view.name(i) for i in m]) for m in usable])}. Say which.",
                fixes=[{"score_columns": [view.name(i) for i in m]} for m in usable[:3]],
            )
        if usable:
            return _prefixed_group(view, request, usable[0], kind)
    return None


def _prefixed_group(view: View, request: Request, members: list[int], kind: Kind) -> Scores:
    for i in members:
        if not view.is_kind(i, "number"):
            raise not_numbers(view, i)  # never drop a class: labels would shift
    names = tuple(c.name for c in (prefixed(view.name(i)) for i in members) if c is not None)
    return _columns(view, request, members, names, kind)


def _without_derived(view: View, members: list[int]) -> list[int]:
    """Leave out ``prob_max`` and the like, unless the rows sum to 1 only with it."""
    if not all(view.is_kind(i, "number") for i in members):
        return members
    kept = [i for i in members if plain(view.name(i)) not in DERIVED]
    if len(kept) == len(members) or len(kept) < 2 or _is_simplex(view, members):
        return members
    return kept


def _is_simplex(view: View, positions: list[int]) -> bool:
    return all(view.is_kind(i, "number") for i in positions) and view.sums(positions).on_simplex


def _unprefixed(view: View, request: Request, free: list[int], label: int | None) -> Scores:
    """Return the class columns that no prefix marks, by the evidence of all their rows."""
    numbers = [i for i in free if view.is_kind(i, "number")]
    if not view.frame.is_table:
        single = _single_by_name(view, request, numbers)
        if single is None and len(view.frame.columns) == 1 and numbers:
            single = _single(view, request, numbers[0])  # an .npy file is nothing but scores
        if single is None:
            raise _no_scores(view, numbers)
        return single
    expected = request.class_names
    if expected is not None:
        named = [i for i in numbers if view.name(i).strip() in set(expected)]
        if len(named) == len(expected) > 1:
            return _columns(view, request, named, tuple(view.name(i).strip() for i in named), None)
    likely = [i for i in numbers if not _is_aside(view, i)]
    notes: tuple[str, ...] = ()
    for candidates in (likely, numbers):
        if len(candidates) > 1:
            fitting = _simplex_among(view, candidates, label)
            if fitting is not None:
                left = [i for i in numbers if i not in fitting]
                if left:
                    notes = (
                        f"not read as classes: {listing([_quoted(view, i) for i in left])} (the "
                        "other columns sum to 1 without them)",
                    )
                return _columns(
                    view, request, fitting, _stripped(view, fitting, label), None, notes
                )
    single = _single_by_name(view, request, numbers)
    if single is not None:
        return single
    if len(likely) == 1:
        raise _unnamed_single(view, request, likely[0])
    if not likely:
        raise _no_scores(view, numbers)
    return _whole_set(view, request, likely, numbers, label)


def _quoted(view: View, position: int) -> str:
    return f'"{short(view.name(position))}"'


def _stripped(view: View, positions: list[int], label: int | None) -> tuple[str, ...]:
    """Return the names as classes: without a prefix where all have the same.

    Labels of text that repeat the whole names, as ``class_0``, keep them.
    """
    whole = tuple(view.name(i).strip() for i in positions)
    cut = [prefixed(view.name(i)) for i in positions]
    words = {None if c is None else c.word for c in cut}
    if len(words) != 1 or None in words:
        return whole
    others = [label] if label is not None else range(len(view.frame.columns))
    for i in others:
        is_text = i not in positions and view.is_kind(i, "text") and view[i].problem is None
        if is_text and set(view.values(i)[0].tolist()) <= set(whole):
            return whole
    return tuple(c.name for c in cut if c is not None)


def _is_aside(view: View, position: int) -> bool:
    """Say whether a column is usually no class: an id, a prediction, a weight."""
    name = view.name(position)
    text = plain(name)
    if not view.frame.has_names:
        return False
    if view[position].unnamed or is_id(name) or text in WEIGHTS or text in DERIVED:
        return True
    if is_prediction(name):
        return view.is_whole(position)
    if is_label(name):
        return view.is_whole(position)
    return is_row_number(view.values(position)[0])


def _simplex_among(view: View, candidates: list[int], label: int | None) -> list[int] | None:
    """Return the columns among `candidates` whose rows sum to 1: all, or one run of them."""
    if view.sums(candidates).on_simplex:
        return candidates
    bounded = [i for i in candidates if view.sums([i]).in_unit]
    if len(bounded) > 1 and len(bounded) < len(candidates):
        sums = view.sums(bounded)
        if sums.on_simplex and sums.fractions:
            return bounded
    if label is not None and view.is_kind(label, "text"):
        known = set(view.values(label)[0].tolist())
        named = [i for i in bounded if view.name(i).strip() in known]
        if len(named) > 1 and known <= {view.name(i).strip() for i in named}:
            sums = view.sums(named)
            if sums.on_simplex and sums.fractions:
                return named
    runs = find_runs(view.values(*bounded)) if len(bounded) > 1 else []
    if len(runs) == 1:
        return bounded[runs[0][0] : runs[0][1] + 1]
    if runs:
        sets = [[view.name(i) for i in bounded[a : b + 1]] for a, b in runs]
        raise file_error(
            view.path,
            f"has {len(runs)} sets of columns whose rows sum to 1: "
            f"{listing([listing(names) for names in sets])}. Say which are the classes.",
            fixes=[{"score_columns": names} for names in sets[:3]],
        )
    return None


def _whole_set(
    view: View, request: Request, likely: list[int], numbers: list[int], label: int | None
) -> Scores:
    """Take every likely column as a class where the caller says the kind; else raise."""
    sums = view.sums(likely)
    if view.frame.has_names and sums.n_rows >= 5:  # of fewer rows whole numbers say nothing
        whole = [i for i in likely if view.is_whole(i)]
        if whole and len(whole) < len(likely):
            rest = [i for i in likely if i not in whole]
            more = {"input": "logits"} if request.kind is None else {}
            raise file_error(
                view.path,
                f"column {listing([_quoted(view, i) for i in whole])} holds whole numbers only, "
                "unlike the others, so it may be no class. Say which columns are classes.",
                fixes=[
                    {"score_columns": [view.name(i) for i in rest], **more},
                    {"score_columns": [view.name(i) for i in likely], **more},
                ],
            )
    if request.kind is None:
        raise unclear_kind(view, sums, _named(view, likely))
    notes: tuple[str, ...] = ()
    left = [i for i in numbers if i not in likely]
    if left:
        notes = (f"not read as classes: {listing([_quoted(view, i) for i in left])}",)
    return _columns(view, request, likely, _stripped(view, likely, label), None, notes)


def _single_by_name(view: View, request: Request, numbers: list[int]) -> Scores | None:
    """Return the one column whose name means the score of the positive class, or None."""
    if not view.frame.has_names:
        return None
    by_said: dict[str, list[int]] = {"probs": [], "logits": [], "scores": []}
    for i in numbers:
        text = plain(view.name(i))
        cut = prefixed(view.name(i))
        if text in DERIVED or (is_id(view.name(i)) and text != "p"):
            continue
        if text in PROBABILITY or (cut is not None and cut.said == "probs"):
            by_said["probs"].append(i)
        elif text in LOGIT or (cut is not None and cut.said == "logits"):
            by_said["logits"].append(i)
        elif outcome_of(text) and said_by(text) == "probs":
            by_said["probs"].append(i)
        elif (
            text in SCORE
            or text in ("1", "true", "yes")
            or (
                (text in PREDICTIONS or (cut is not None and cut.said == "scores"))
                and (not view.is_whole(i))
            )
        ):
            by_said["scores"].append(i)
    order = ["logits", "probs"] if request.kind == "logits" else ["probs", "logits"]
    for said in (*order, "scores"):
        found = by_said[said]
        if len(found) > 1:
            raise file_error(
                view.path,
                f"has {len(found)} columns that could be the score of the positive class: "
                f"{listing([view.name(i) for i in found])}. Say which.",
                fixes=[{"score_columns": [view.name(i)]} for i in found[:3]],
            )
        if found:
            return _single(view, request, found[0])
    return None


def _single(view: View, request: Request, position: int) -> Scores:
    """Return the scores of one column: of the positive of two classes."""
    name = view.name(position)
    text = plain(name)
    cut = prefixed(name)
    kind = kind_of(said_by(name)) or (None if cut is None else kind_of(cut.said))
    sums = view.sums([position])
    notes: tuple[str, ...] = ()
    if request.kind is not None:
        kind = request.kind
    elif kind is None:
        if sums.in_unit and text in SCORE | {"1", "true", "yes"}:
            kind = "probs"
            notes = (
                f'"{short(name)}" is read as probabilities because all of it lies in [0, 1]; if '
                "these are margins pass --input logits",
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


def _unnamed_single(view: View, request: Request, position: int) -> PredictionFileError:
    """Return the error for one column of numbers whose name does not say that it is a score."""
    name = view.name(position)
    kinds = [request.input] if request.input is not None else ["probs", "logits"]
    if request.input is None and not view.sums([position]).in_unit:
        kinds = ["logits"]
    return file_error(
        view.path,
        f'has one column of numbers, "{short(name)}", that could be the score of the positive '
        "class. Say that it is, and of which kind.",
        fixes=[{"score_columns": [name], "input": kind} for kind in kinds],
    )


def _only_confidence(view: View, numbers: list[int]) -> PredictionFileError | None:
    """Return the error for a file with the predicted class and its probability alone."""
    fractions = [i for i in numbers if not view.is_whole(i)]
    if len(fractions) != 1 or plain(view.name(fractions[0])) not in DERIVED:
        return None
    if not any(is_prediction(column.name) for column in view.frame.columns):
        return None
    return file_error(
        view.path,
        f"holds the probability of the predicted class alone ({_quoted(view, fractions[0])}); "
        "those of all classes are needed. Save `model.predict_proba(X)` or the logits, one "
        "column per class.",
    )


def _no_scores(view: View, numbers: list[int]) -> PredictionFileError:
    only = _only_confidence(view, numbers)
    if only is not None:
        return only
    for i, column in enumerate(view.frame.columns):
        if kind_of(said_by(column.name)) is not None and column.kind not in ("number", "matrix"):
            raise not_numbers(view, i)
    what = "columns" if view.frame.is_table else "arrays"
    fixes: list[dict[str, object]] = []
    if numbers and view.frame.is_table:
        fixes = [{"score_columns": [view.name(i) for i in numbers[:50]]}]
    elif numbers:
        fixes = [{"logits_key": view.name(numbers[0])}, {"probs_key": view.name(numbers[0])}]
    return file_error(
        view.path,
        f"has no {what} of scores that can be told by name or values; it holds "
        f"{listing(view.frame.names) if view.frame.columns else 'nothing'}.",
        fixes=fixes,
    )
