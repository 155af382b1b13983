"""Scores in one column per class."""

from focalibrate.io.cells import is_numbering
from focalibrate.io.errors import file_error, listing
from focalibrate.io.evidence import find_runs, is_row_number
from focalibrate.io.options import Request
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.kind import (
    Scores,
    not_numbers,
    quoted,
    settle_kind,
    unclear_kind,
)
from focalibrate.io.roles.vocabulary import (
    DERIVED,
    WEIGHTS,
    is_id,
    is_label,
    is_prediction,
    kind_of,
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
    for kind in request.kinds_by_preference:
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
        sets = [[view.name(i) for i in bounded[a : b + 1]] for a, b in runs]
        raise file_error(
            view.path,
            f"has {len(runs)} sets of columns whose rows sum to 1: "
            f"{listing([listing(names) for names in sets])}. Say which are the classes.",
            fixes=[{"score_columns": names} for names in sets[:3]],
        )
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
    labelled = _named_like_labels(view, likely, label)
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


def _named_like_labels(view: Table, likely: list[int], label: int | None) -> list[int]:
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
