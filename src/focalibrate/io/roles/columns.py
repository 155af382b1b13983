"""Scores in one column per class."""

import re

import numpy as np

from focalibrate.io.cells import is_numbering
from focalibrate.io.errors import PredictionFileError, file_error, listing
from focalibrate.io.evidence import find_runs, is_row_number, is_same_model
from focalibrate.io.options import Request
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.kind import (
    Scores,
    not_numbers,
    quoted,
    settle_kind,
    unclear_kind,
    which,
)
from focalibrate.io.roles.vocabulary import (
    DERIVED,
    WEIGHTS,
    is_id,
    is_label,
    is_prediction,
    is_thing,
    kind_of,
    meaning_of,
    plain,
    prefixed,
)
from focalibrate.io.table import Table


def class_columns(
    view: Table,
    request: Request,
    positions: list[int],
    names: tuple[str, ...],
    by_name: ScoreKind | None,
    notes: tuple[str, ...] = (),
) -> Scores:
    """Return the scores in one column per class, once their kind is settled."""
    _check_not_ranked(view, positions)
    sums = view.sums(positions)
    kind, more = settle_kind(view, request, sums, by_name, positions)
    return Scores(
        positions=tuple(positions),
        kind=kind,
        percent=request.input == "percent",
        class_names=names if view.schema.has_names else None,
        n_classes=len(positions),
        notes=(*notes, *more),
    )


def _check_not_ranked(view: Table, positions: list[int]) -> None:
    """Raise where the columns are the highest probability, the second and so on."""
    if all(re.search(r"(^|_)(top|rank)_?\d", plain(view.name(i))) for i in positions):
        raise file_error(
            view.path,
            f"holds the probabilities by rank ({quoted(view, positions[0])}, ...), each row in an "
            "order of its own; one column per class is needed. Save `model.predict_proba(X)` or "
            "the logits.",
        )


def columns_by_prefix(view: Table, request: Request, free: list[int]) -> Scores | None:
    """Return the columns whose prefix says that they are scores: ``prob_cat, prob_dog``."""
    if not view.schema.has_names:
        return None
    groups: dict[tuple[ScoreKind, str], list[int]] = {}
    for i in free:
        cut = prefixed(view.name(i))
        by_name = None if cut is None else kind_of(cut.meaning)
        if cut is None or by_name is None or is_prediction(view.name(i)):
            continue
        groups.setdefault((by_name, cut.word), []).append(i)
    sets: dict[ScoreKind, list[list[int]]] = {"logits": [], "probs": []}
    for (of, _), members in groups.items():
        if len(members) > 1 and any(view.is_kind(i, "number") for i in members):
            sets[of].append(_without_derived(view, members))
    for kind in request.kinds_by_preference:
        usable = sets[kind]
        if len(usable) > 1:
            usable = [m for m in usable if _is_simplex(view, m)] or usable
        if len(usable) > 1:
            raise _which_set(view, usable, "could be the classes")
        if usable:
            if request.kind is None and kind == "logits":
                others = [m for m in sets["probs"] if _is_simplex(view, m)]
                if others and not any(_is_one_model(view, usable[0], m) for m in others):
                    disagree = "could be the classes, and they do not agree"
                    raise _which_set(view, [usable[0], *others], disagree)
            return _prefixed_group(view, request, usable[0], kind)
    return None


def _which_set(view: Table, sets: list[list[int]], that: str) -> PredictionFileError:
    names = [[view.name(i) for i in some] for some in sets]
    return which(
        view, f"sets of columns that {that}", names, [{"score_columns": n} for n in names]
    )


def _is_one_model(view: Table, logits: list[int], probs: list[int]) -> bool:
    """Return whether columns of probabilities are the softmax of columns of logits."""
    names = [{_class_of(view, i): i for i in some} for some in (logits, probs)]
    if names[0].keys() != names[1].keys() or not all(view.is_kind(i, "number") for i in logits):
        return False
    order = [names[1][name] for name in names[0]]
    z, p = (np.stack([view.values(i) for i in some], axis=1) for some in (logits, order))
    return is_same_model(z, p)


def _class_of(view: Table, position: int) -> str:
    cut = prefixed(view.name(position))
    return view.name(position) if cut is None else cut.name


def _prefixed_group(view: Table, request: Request, members: list[int], kind: ScoreKind) -> Scores:
    """Return the scores in columns that share a prefix, all of which must be numbers."""
    for i in members:
        if not view.is_kind(i, "number"):
            raise not_numbers(view, i)  # never drop a class: labels would shift
    names = tuple(c.name for c in (prefixed(view.name(i)) for i in members) if c is not None)
    return class_columns(view, request, members, names, kind)


def _without_derived(view: Table, members: list[int]) -> list[int]:
    """Leave out columns such as ``prob_max``, unless the rows sum to 1 only with them."""
    if not all(view.is_kind(i, "number") for i in members):
        return members
    kept = [i for i in members if plain(view.name(i)) not in DERIVED]
    if len(kept) == len(members) or len(kept) < 2 or _is_simplex(view, members):
        return members
    return kept


def _is_simplex(view: Table, positions: list[int]) -> bool:
    return all(view.is_kind(i, "number") for i in positions) and view.sums(positions).on_simplex


def is_aside(view: Table, position: int) -> bool:
    """Return whether a column is usually not a class: an id, a prediction, a weight."""
    name = view.name(position)
    text = plain(name)
    if not view.schema.has_names:
        return False
    if view[position].unnamed or is_id(name) or text in WEIGHTS or text in DERIVED:
        return True
    if is_prediction(name) or is_label(name):
        return view.is_whole(position)
    return is_row_number(view.values(position))


def columns_by_sum(view: Table, candidates: list[int], label: int | None) -> list[int] | None:
    """Return those of the `candidates` whose rows sum to 1: all, or neighbours; else None."""
    if view.sums(candidates).on_simplex:
        _check_needed(view, candidates, label)
        return candidates
    bounded = [i for i in candidates if view.sums([i]).in_unit]
    if len(bounded) > 1 and len(bounded) < len(candidates):
        sums = view.sums(bounded)
        if sums.on_simplex and sums.fractions:
            return bounded
    if label is not None and view.is_kind(label, "text"):
        known = set(view.values(label).tolist())
        named = [i for i in bounded if view.name(i).strip() in known]
        if len(named) > 1 and known <= {view.name(i).strip() for i in named}:
            sums = view.sums(named)
            if sums.on_simplex and sums.fractions:
                return named
    runs = find_runs([view.values(i) for i in bounded]) if len(bounded) > 1 else []
    if len(runs) == 1:
        return bounded[runs[0][0] : runs[0][1] + 1]
    if runs:
        raise _which_set(view, [bounded[a : b + 1] for a, b in runs], "sum to 1 in every row")
    return None


def _check_needed(view: Table, classes: list[int], label: int | None) -> None:
    """Raise where whole numbers, all 0, stand beside fractions that sum to 1 without them."""
    names = [view.name(i).strip() for i in classes]
    if not view.schema.has_names or is_numbering(names):
        return
    known = set[str]()
    if label is not None and view.is_kind(label, "text"):
        known = set(view.values(label).astype(str).tolist())
    zeros = [
        i
        for i, name in zip(classes, names, strict=True)
        if name not in known and prefixed(name) is None and _is_whole_zero(view, i)
    ]
    rest = [i for i in classes if i not in zeros]
    if zeros and len(rest) > 1 and view.sums(rest).fractions:
        is_one = len(zeros) == 1
        raise file_error(
            view.path,
            f"{'column' if is_one else 'columns'} {listing([quoted(view, i) for i in zeros])} "
            f"{'holds' if is_one else 'hold'} the whole number 0 in the first rows, and the "
            "others sum to 1 alone. Say which columns are classes.",
            fixes=[{"score_columns": [view.name(i) for i in some]} for some in (rest, classes)],
        )


def _is_whole_zero(view: Table, position: int) -> bool:
    """Return whether a column is 0 everywhere and is stored, or written, as whole numbers."""
    values = view.values(position)
    if (values != 0).any():
        return False
    if view.has_cells:
        return all(cell.strip().lstrip("+-").isdigit() for cell in set(view.cells(position)))
    return bool(values.dtype.kind in "iu")


def numbered_columns(view: Table, candidates: list[int]) -> list[int]:
    """Return those of the `candidates` that are called 0, 1, 2, ... as in pandas, or all."""
    found = [i for i in candidates if view.name(i).strip().removesuffix(".0").isdigit()]
    is_all = len(found) > 1 and is_numbering([view.name(i).strip() for i in found])
    return found if view.schema.has_names and is_all else candidates


def check_alike(view: Table, request: Request, likely: list[int], label: int | None) -> None:
    """Raise unless the caller says the kind and no column differs from the others in kind."""
    sums = view.sums(likely)
    is_numbered = is_numbering([view.name(i).strip() for i in likely])
    labelled = named_like_labels(view, likely, label)
    _check_as_many_as_labels(view, request, likely, label)
    # In fewer than 5 rows, logits may all be whole.
    if view.schema.has_names and not is_numbered and sums.n_rows >= 5:
        whole = [i for i in likely if view.is_whole(i)]
        if whole and len(whole) < len(likely):
            rest = labelled or [i for i in likely if i not in whole]
            is_one = len(whole) == 1
            raise file_error(
                view.path,
                f"{'column' if is_one else 'columns'} "
                f"{listing([quoted(view, i) for i in whole])} "
                f"{'holds' if is_one else 'hold'} whole numbers only, unlike the others, so "
                f"{'it' if is_one else 'they'} may not be classes. Say which columns are classes.",
                fixes=_choices(view, request, rest, likely),
            )
    if request.kind is not None:
        return
    if labelled and len(labelled) < len(likely):
        others = [i for i in likely if i not in labelled]
        raise file_error(
            view.path,
            f"no label is called {listing([quoted(view, i) for i in others])}, unlike the other "
            "columns of numbers. Say which columns are classes.",
            fixes=_choices(view, request, labelled, likely),
        )
    raise unclear_kind(view, sums, likely)


def n_classes_of(view: Table, label: int | None, n_columns: int) -> int | None:
    """Return how many classes whole numbers as labels show, or None.

    None: there are no such labels, or too few rows to show all of so many classes.
    """
    if label is None or view.is_kind(label, "text", "matrix") or view.n_rows < 5 * n_columns:
        return None
    values = np.unique(view.values(label).astype(np.float64))
    return int((values >= 0).sum())


def _check_as_many_as_labels(
    view: Table, request: Request, likely: list[int], label: int | None
) -> None:
    """Raise where labels show fewer classes than there are columns, which may be features."""
    names = [view.name(i).strip() for i in likely]
    cut = {None if c is None else c.word for c in map(prefixed, names)}
    if not view.schema.has_names or is_numbering(names) or (len(cut) == 1 and None not in cut):
        return
    things = [i for i in likely if is_thing(view.name(i))]
    rest = [i for i in likely if i not in things]
    shown = n_classes_of(view, label, len(likely))
    if shown is None or shown >= len(likely) or shown < 2:
        return
    raise file_error(
        view.path,
        f"the labels show {shown} classes, but {len(likely)} columns of numbers could be classes: "
        f"{listing(names)}. Say which are classes: `score_columns` (command line: "
        "--score-columns).",
        fixes=_choices(view, request, rest) if len(rest) == shown and things else (),
    )


def check_no_rivals(
    view: Table, request: Request, classes: list[int], rest: list[int], label: int | None
) -> None:
    """Raise where other columns than `classes`, which sum to 1, fit the labels better.

    Sand, silt and clay sum to 1, too, beside the logits of three classes.
    """
    if label is None:
        return
    rivals: list[int] = []
    if view.is_kind(label, "text"):
        labelled = named_like_labels(view, [*classes, *rest], label)
        rivals = [] if set(labelled) & set(classes) else labelled
    else:
        shown = n_classes_of(view, label, len(classes))
        scores = [i for i in rest if kind_of(meaning_of(view.name(i))) is not None]
        if shown == len(rest) > 1 and any(view.sums([i]).negative for i in rest):
            rivals = rest
        elif shown == 2 < len(classes) and len(scores) == 1:
            rivals = scores
    if rivals:
        raise which(
            view,
            "sets of columns that could be the classes, those that sum to 1 and those that fit "
            "the labels",
            [[view.name(i) for i in some] for some in (classes, rivals)],
            _choices(view, request, rivals, classes),
        )


def named_like_labels(view: Table, likely: list[int], label: int | None) -> list[int]:
    """Return the columns that are called as labels, if every label has one, or none."""
    if label is None or not view.is_kind(label, "text"):
        return []
    known = set(view.values(label).astype(str).tolist())
    found = [i for i in likely if view.name(i).strip() in known]
    return found if len(known) == len(found) > 1 else []


def _choices(view: Table, request: Request, *choices: list[int]) -> list[dict[str, object]]:
    """Return the options that choose the columns, with their kind where it is not known."""
    found = list[dict[str, object]]()
    for positions in choices:
        kind: dict[str, object] = {}
        if request.kind is None:
            sums = view.sums(positions)
            is_probs = sums.in_unit if len(positions) == 1 else sums.on_simplex
            is_percent = sums.in_percent and len(positions) > 1
            kind = {"input": "probs" if is_probs else "percent" if is_percent else "logits"}
        found.append({"score_columns": [view.name(i) for i in positions], **kind})
    return found


def without_prefix(view: Table, positions: list[int], label: int | None) -> tuple[str, ...]:
    """Return the class names: those of the columns, without a prefix that all share.

    Where the labels repeat the whole names, such as ``class_0``, the prefix stays.
    """
    whole = tuple(view.name(i).strip() for i in positions)
    cut = [prefixed(view.name(i)) for i in positions]
    words = {None if c is None else c.word for c in cut}
    if len(words) != 1 or None in words:
        return whole
    others = [label] if label is not None else range(len(view.columns))
    for i in others:
        is_text = i not in positions and view.is_kind(i, "text") and view[i].problem is None
        if is_text and set(view.values(i).tolist()) <= set(whole):
            return whole
    return tuple(c.name for c in cut if c is not None)
