"""Which columns are the scores: an ordered table of rules over the facts."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.cells import is_numbering
from focalibrate.io.errors import Doubt, listing, short
from focalibrate.io.evidence import find_runs, is_same_model
from focalibrate.io.options import find_columns
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.diagnoses import no_scores, not_numbers, unclear_column, unclear_kind
from focalibrate.io.roles.events import event_columns
from focalibrate.io.roles.facts import Facts, Scores
from focalibrate.io.roles.vocabulary import (
    CLASS_NAMES,
    DERIVED,
    LOGIT,
    NOT_SCORES,
    OPTIONS,
    PREDICTIONS,
    PROBABILITY,
    SCORE,
    Meaning,
    outcome_of,
    plain,
    split_of,
)

Rule: TypeAlias = Callable[[Facts], Scores | None]
"""One way to find the scores: None where it does not apply; an error where several answers fit."""


def find_scores(facts: Facts) -> Scores:
    """Return the scores that the first rule of `SCORES` finds.

    Raises:
        PredictionFileError: none does, with the reason.
    """
    for rule in SCORES:
        if facts.view.schema.is_table or rule not in OF_TABLES:
            found = rule(facts)
            if found is not None:
                return found
    raise no_scores(facts)


def named_scores(facts: Facts) -> Scores | None:
    """Return the scores that the caller named, or None."""
    schema, request = facts.view.schema, facts.request
    if request.score_columns is not None:
        chosen = find_columns(schema, request.score_columns, option="score_columns")
        return _chosen(facts, chosen)
    keys: dict[ScoreKind, str | None] = {"logits": request.logits_key, "probs": request.probs_key}
    given = [kind for kind, key in keys.items() if key is not None]
    if not given:
        return None
    kind = request.kind if len(given) > 1 and request.kind is not None else given[0]
    key = keys[kind]
    if key not in schema.names:
        raise facts.error(
            f"`{kind}_key` must name an array of the file, got {key!r}; it holds "
            f"{listing([f'`{name}`' for name in schema.names])}."
        )
    if request.input != "percent":
        facts = replace(facts, request=replace(request, input=kind))
    return _chosen(facts, [schema.names.index(key)])


def _chosen(facts: Facts, positions: list[int]) -> Scores:
    """Return the scores in the columns that the caller chose."""
    for i in positions:
        if (problem := facts.view[i].problem) is not None:
            raise problem
    first = positions[0]
    if len(positions) > 1:
        return _columns(facts, positions)
    if facts.view.is_kind(first, "matrix"):
        return _matrix(facts, first)
    if not facts.view.is_kind(first, "number"):
        raise not_numbers(facts.view, first)
    return _positive(facts, first)


def _matrix(facts: Facts, position: int) -> Scores:
    """Return the scores in a matrix, an array ``[N, K]`` or a column of lists."""
    view, column = facts.view, facts.view[position]
    if len(column.shape) > 1:
        raise facts.error(
            f"`{short(column.name)}` must have shape [N, K], got "
            f"{(column.n_rows or view.n_rows, *column.shape)}. Save one row per example and one "
            "column per class."
        )
    form = "options" if column.plain in OPTIONS else "matrix"
    names, width = view.schema.class_names, max(0, column.shape[-1])
    return _settled(facts, [position], form=form, class_names=names, n_classes=width)


def _columns(facts: Facts, positions: list[int], notes: tuple[str, ...] = ()) -> Scores:
    """Return the scores in one column per class; none is left out, as labels would shift."""
    view = facts.view
    for i in positions:
        if not view.is_kind(i, "number"):
            raise not_numbers(view, i)
    if all(re.search(r"(^|_)(top|rank)_?\d", view[i].plain) for i in positions):
        raise facts.error(
            f"holds the probabilities by rank ({facts.quoted(positions)[0]}, ...), each row in an "
            "order of its own; one column per class is needed. Save `model.predict_proba(X)` or "
            "the logits."
        )
    names = _class_names(facts, positions) if view.schema.has_names else None
    form = {"form": "columns", "class_names": names, "n_classes": len(positions)}
    return _settled(facts, positions, notes, **form)


NO_CLASS = ("pos", "positive", "hat", "pred", "true", "")
"""What follows the prefix of a score without naming a class."""


def _positive(facts: Facts, position: int) -> Scores:
    """Return the scores in one column: of the positive of two classes."""
    column, positive = facts.view[position], facts.request.positive
    cut = None if column.plain in PROBABILITY | LOGIT else column.prefix
    if positive is None and cut is not None and plain(cut.name) not in NO_CLASS:
        positive = cut.name
    return _settled(facts, [position], form="single", positive=positive, n_classes=2)


def _settled(
    facts: Facts, positions: Sequence[int], notes: tuple[str, ...] = (), **of_form: Any
) -> Scores:
    """Return scores, once the caller, their names or every row say of which kind they are."""
    kind, more = _kind(facts, positions, of_form["form"])
    is_percent, notes = facts.request.input == "percent", (*notes, *more)
    return Scores(
        positions=tuple(positions), kind=kind, percent=is_percent, notes=notes, **of_form
    )


def _kind(facts: Facts, positions: Sequence[int], form: str) -> tuple[ScoreKind, tuple[str, ...]]:
    """Return the kind of scores, and what is to be said about it; raise where nothing shows it."""
    sums, told, what = facts.view.sums(positions), facts.request.kind, facts.text(positions)
    column, prefix = facts.view[positions[0]], facts.prefix_of(positions)
    kind = told or (None if form == "columns" else column.score_kind)
    if kind is None and prefix is not None and form != "matrix":
        kind = prefix.kind
    if kind is None and form == "single":
        says_score = column.plain in SCORE | PREDICTIONS | OPPOSITE.keys() or prefix
        if not (sums.in_unit and sums.fractions and says_score):
            raise unclear_column(facts, positions[0])
        return "probs", (
            f"{what} is read as probabilities because all values lie in [0, 1]; if these are "
            "margins, pass --input logits",
        )
    if kind is None and not sums.on_simplex:
        raise unclear_kind(facts, positions)
    if kind is None:
        return "probs", (f"probabilities because all rows of {what} lie in [0, 1] and sum to 1",)
    is_odd = kind == "logits" and sums.on_simplex and sums.fractions
    if not is_odd or (told is None and sums.worst >= 1e-3):
        return kind, ()
    by = "as requested" if told is not None else "as the name says"
    doubt = Doubt(
        f"WARNING: {what}: read as logits, {by}, but all values lie in [0, 1] and every row sums "
        "to 1, as probabilities do; if they are probabilities, pass --input probs"
    )
    return kind, (doubt,)


def _cut_names(facts: Facts, positions: Sequence[int]) -> tuple[str, ...]:
    """Return what follows the prefixes of columns that have one."""
    cut = (facts.view[i].prefix for i in positions)
    return tuple(c.name for c in cut if c is not None)


def _class_names(facts: Facts, positions: Sequence[int]) -> tuple[str, ...]:
    """Return the class names: those of the columns, without a prefix that all share.

    Where the labels repeat the whole names, such as ``class_0``, the prefix stays.
    """
    view = facts.view
    whole = tuple(name.strip() for name in facts.names(positions))
    if facts.prefix_of(positions) is None:
        return whole
    for i, column in enumerate(view.columns):
        may_be = i == facts.label if facts.label is not None else not column.is_prediction
        is_text = i not in positions and column.kind == "text" and column.problem is None
        if may_be and is_text and set(view.values(i).tolist()) <= set(whole):
            return whole
    return _cut_names(facts, positions)


Sets: TypeAlias = Mapping[Meaning, Sequence[list[int]]]
"""Columns that hold scores together, by what their names say."""


def _by_name(facts: Facts, sets: Sets, order: Sequence[Meaning], what: str) -> list[int] | None:
    """Return the only columns of the first kind that has some.

    Raises:
        PredictionFileError: several could be it; or there are logits and probabilities, and they
            are not those of one model.
    """
    for kind in order:
        found = sets.get(kind, ())
        if len(found) > 1:
            raise facts.which(what, found, [_option(facts, kind, some) for some in found])
        if not found:
            continue
        other: Meaning = "probs" if kind == "logits" else "logits"
        rivals = [some for some in sets.get(other, ()) if _are_alike(facts, found[0], some)]
        if facts.request.kind is None and kind != "scores" and rivals:
            own = _rows(facts, kind, found[0])
            rows = [_rows(facts, other, some) for some in rivals]
            pairs = [(own, r) if kind == "logits" else (r, own) for r in rows]
            if not any(is_same_model(z, p) for z, p in pairs):
                fixes = [_option(facts, other, some) for some in rivals]
                fixes.insert(0, _option(facts, kind, found[0]))
                what = f"{what}, but do not agree"
                raise facts.which(what, [found[0], *rivals], fixes)
        return found[0]
    return None


def _option(facts: Facts, kind: Meaning, positions: Sequence[int]) -> dict[str, object]:
    """Return how a user chooses these columns, whose names say the kind."""
    names = facts.names(positions)
    if facts.view.is_kind(positions[0], "matrix"):
        return {f"{kind}_key": names[0]}
    is_one = len(names) == 1 and kind != "scores"
    return {"score_columns": names, **({"input": kind} if is_one else {})}


def _are_alike(facts: Facts, some: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether columns could be the scores of the same rows and classes."""
    a, b = facts.view[some[0]], facts.view[other[0]]
    has_shape = a.n_rows == b.n_rows and len(b.shape) == len(a.shape)
    return has_shape and split_of(a.name) == split_of(b.name)


def _rows(facts: Facts, kind: Meaning, positions: Sequence[int]) -> NDArray[Any]:
    """Return the scores of all classes: of columns, in the order of their class names."""
    view = facts.view
    if not all(view.is_kind(i, "number", "matrix") for i in positions):
        return np.empty((0, 0))
    if len(positions) > 1:
        named = zip(_cut_names(facts, positions), positions, strict=True)
        return np.stack([view.values(i) for _, i in sorted(named)], axis=1)
    values = view.values(positions[0])
    if values.ndim > 1:
        return values
    return np.stack([0 * values if kind == "logits" else 1 - values, values], axis=1)


def _matrices(facts: Facts) -> list[int]:
    """Return the matrices that are not taken and do not hold the names of the classes."""
    return [
        i
        for i, column in enumerate(facts.view.columns)
        if i not in facts.taken
        and column.kind == "matrix"
        and column.plain not in CLASS_NAMES | NOT_SCORES
    ]


ARRAYS = "arrays that could be the scores"


def named_matrix(facts: Facts) -> Scores | None:
    """Return the one matrix whose name says that it holds scores, or None.

    Of several, those with a usual name are preferred; a column of lists that is one of several
    with the same prefix, ``prob_dog, prob_cat``, is none.
    """
    view = facts.view
    prefixes = [c.prefix.word for c in view.columns if view.schema.is_table and c.prefix]
    sets: dict[Meaning, list[list[int]]] = {}
    for kind in facts.request.kinds_by_preference:
        named = [i for i in _matrices(facts) if view[i].score_kind == kind]
        own = {i: view[i].prefix for i in named}
        named = [i for i, cut in own.items() if cut is None or prefixes.count(cut.word) < 2]
        usual = [i for i in named if view[i].plain in PROBABILITY | LOGIT]
        sets[kind] = [[i] for i in usual or named]
    found = _by_name(facts, sets, facts.request.kinds_by_preference, ARRAYS)
    return None if found is None else _matrix(facts, found[0])


def _with_prefix(facts: Facts) -> Scores | None:
    """Return the columns whose prefix says that they are scores: ``prob_cat, prob_dog``."""
    view = facts.view
    groups: dict[tuple[ScoreKind, str], list[int]] = {}
    for i in facts.free if view.schema.has_names else ():
        cut = view[i].prefix
        if cut is not None and cut.kind is not None and not view[i].is_prediction:
            groups.setdefault((cut.kind, cut.word), []).append(i)
    sets: dict[Meaning, list[list[int]]] = {"logits": [], "probs": []}
    for (of, _), members in groups.items():
        if len(members) > 1 and any(view.is_kind(i, "number") for i in members):
            sets[of].append(_without_derived(facts, members))
    order = facts.request.kinds_by_preference
    for kind, found in sets.items():  # fractions of a mixture are called p_, too
        simplex = [some for some in found if facts.is_simplex(some)]
        is_second = kind != order[0] and bool(sets[order[0]])
        sets[kind] = simplex if is_second else (len(found) > 1 and simplex) or found
    chosen = _by_name(facts, sets, order, "sets of columns that could be the classes")
    return None if chosen is None else _columns(facts, chosen)


def _without_derived(facts: Facts, members: list[int]) -> list[int]:
    """Leave out columns such as ``prob_max``, unless the rows sum to 1 only with them."""
    kept = [i for i in members if facts.view[i].plain not in DERIVED]
    are_numbers = all(facts.view.is_kind(i, "number") for i in members)
    is_changed = are_numbers and 2 <= len(kept) < len(members)
    return kept if is_changed and not facts.is_simplex(members) else members


def _lone_matrix(facts: Facts) -> Scores | None:
    """Return the only matrix, or the only one whose rows sum to 1, whatever its name."""
    view = facts.view
    found = [i for i in _matrices(facts) if not view[i].is_label]
    if len(found) > 1:
        flat = [i for i in found if len(view[i].shape) == 1]
        found = [i for i in flat if view.sums([i]).on_simplex] or found
    if len(found) > 1:
        fixes = []
        for i in found:
            by_value: ScoreKind = "probs" if view.sums([i]).on_simplex else "logits"
            kind = facts.request.kind or view[i].score_kind or by_value
            fixes.append(_option(facts, kind, [i]))
        raise facts.which(ARRAYS, [[i] for i in found], fixes)
    return _matrix(facts, found[0]) if found else None


def _given_classes(facts: Facts) -> Scores | None:
    """Return the columns called as the classes that the caller listed."""
    expected = facts.request.class_names or ()
    named = [i for i in facts.numbers if facts.view.name(i).strip() in set(expected)]
    return _columns(facts, named) if len(named) == len(expected) > 1 else None


def _on_the_simplex(facts: Facts) -> Scores | None:
    """Return the columns whose rows sum to 1: of the likely ones, else of all."""
    view = facts.view
    for candidates in (facts.likely, facts.numbers):
        fitting = _with_sum_1(facts, candidates) if len(candidates) > 1 else None
        if fitting is None:
            continue
        rest = [i for i in facts.likely if i not in fitting and not view.is_whole(i)]
        if rest and facts.request.kind == "logits":
            return None  # they are no logits, and others may be
        if view.schema.has_names and facts.request.kind is None:
            _check_no_rivals(facts, fitting, rest)
        notes = _left_out(facts, fitting, why=" (the other columns sum to 1)")
        return _columns(facts, fitting, notes)
    return None


def _with_sum_1(facts: Facts, candidates: list[int]) -> list[int] | None:
    """Return those of the `candidates` whose rows sum to 1: all, or neighbours; else None."""
    view = facts.view
    if view.sums(candidates).on_simplex:
        _check_needed(facts, candidates)
        return candidates
    bounded = [i for i in candidates if view.sums([i]).in_unit]
    named = [i for i in bounded if facts.called_as_label(i)]
    if not facts.label_words <= {view.name(i).strip() for i in named}:
        named = []
    for some in (bounded if len(bounded) < len(candidates) else [], named):
        if len(some) > 1 and view.sums(some).on_simplex and view.sums(some).fractions:
            return some
    runs = find_runs([view.values(i) for i in bounded]) if len(bounded) > 1 else []
    sets = [bounded[first : last + 1] for first, last in runs]
    if len(sets) > 1:
        raise facts.which("sets of columns that sum to 1 in every row", sets)
    return sets[0] if sets else None


def _check_needed(facts: Facts, classes: list[int]) -> None:
    """Raise where whole numbers, all 0, stand beside fractions that sum to 1 without them."""
    view = facts.view
    if not view.schema.has_names or _are_numbered(facts, classes):
        return
    zeros = [
        i
        for i in classes
        if not facts.called_as_label(i) and view[i].prefix is None and _is_whole_zero(facts, i)
    ]
    rest = [i for i in classes if i not in zeros]
    if zeros and len(rest) > 1 and view.sums(rest).fractions:
        what = "column {} holds" if len(zeros) == 1 else "columns {} hold"
        raise facts.error(
            f"{what.format(listing(facts.quoted(zeros)))} the whole number 0 in the first rows, "
            "and the others sum to 1 alone. Say which columns are classes.",
            fixes=[{"score_columns": facts.names(some)} for some in (rest, classes)],
        )


def _is_whole_zero(facts: Facts, position: int) -> bool:
    """Return whether a column is 0 everywhere and is stored, or written, as whole numbers."""
    values = facts.view.values(position)
    if (values != 0).any():
        return False
    if facts.view.has_cells:
        cells = set(facts.view.cells(position))
        return all(cell.strip().lstrip("+-").isdigit() for cell in cells)
    return bool(values.dtype.kind in "iu")


def _check_no_rivals(facts: Facts, classes: list[int], rest: list[int]) -> None:
    """Raise where other columns than `classes`, which sum to 1, fit the labels better.

    Sand, silt and clay sum to 1, too, beside the logits of three classes.
    """
    view, rivals = facts.view, list[int]()
    if facts.label_words:
        labelled = facts.named_like_labels([*classes, *rest])
        rivals = [] if set(labelled) & set(classes) else labelled
    else:
        shown = _n_classes(facts, len(classes))
        scores = [i for i in rest if view[i].score_kind is not None]
        if shown == len(rest) > 1 and any(view.sums([i]).negative for i in rest):
            rivals = rest
        elif shown == 2 < len(classes) and len(scores) == 1:
            rivals = scores
    if rivals:
        raise facts.which(
            "sets of columns that could be the classes, those that sum to 1 and those that fit "
            "the labels",
            [classes, rivals],
            facts.choices(rivals, classes),
        )


def _n_classes(facts: Facts, n_columns: int) -> int | None:
    """Return how many classes whole numbers as labels show, or None.

    None: there are no such labels, or too few rows to show all of so many classes.
    """
    view, label = facts.view, facts.label
    if label is None or view.is_kind(label, "text", "matrix") or view.n_rows < 5 * n_columns:
        return None
    shown = view.values(label)
    if shown.dtype.kind not in "biuf":
        return None
    return int((np.unique(shown.astype(np.float64)) >= 0).sum())


OPPOSITE = {"1": "0", "true": "false", "yes": "no"}
"""Names of a positive class that are names of a score where the other class has no column."""


def _named_column(facts: Facts) -> Scores | None:
    """Return the one column whose name means the score of the positive class, or None."""
    view = facts.view
    if not view.schema.has_names:
        return None
    sets: dict[Meaning, list[list[int]]] = {}
    for i in facts.numbers:
        meaning = _says(facts, i)
        if meaning is not None:
            sets.setdefault(meaning, []).append([i])
    kinds = facts.request.kinds_by_preference if facts.request.kind else ("probs", "logits")
    first = next((sets[kind] for kind in (*kinds, "scores") if kind in sets), [])
    if len(first) > 1 and facts.prefix_of(i for (i,) in first) is not None:
        return None  # they are one per class: ``output_0``
    what = "columns that could be the score of the positive class"
    found = _by_name(facts, sets, (*kinds, "scores"), what)
    return None if found is None else _positive(facts, found[0])


def _says(facts: Facts, position: int) -> Meaning | None:
    """Return what the name of a column of numbers says that it holds, if it is a score."""
    column = facts.view[position]
    text, prefix = column.plain, column.prefix
    if text in DERIVED or (column.is_id and text != "p"):
        return None
    if text in PROBABILITY:
        return "probs"
    if prefix is not None and prefix.kind is not None:
        return prefix.kind
    if text in LOGIT:
        return "logits"
    if outcome_of(text) and column.meaning == "probs":
        return "probs"
    is_loose = text in PREDICTIONS or prefix is not None
    others = {facts.view[i].plain for i in facts.numbers}
    is_score = text in SCORE or (text in OPPOSITE and OPPOSITE[text] not in others)
    return "scores" if is_score or (is_loose and not facts.view.is_whole(position)) else None


def _only_column(facts: Facts) -> Scores | None:
    """Return the only array of a file, or the only likely column, called as one of two labels.

    Raises:
        PredictionFileError: it could be the score of the positive class, but nothing says so.
    """
    view, told = facts.view, facts.request
    if not view.schema.is_table:  # an .npy file holds only scores
        is_only = len(view.columns) == 1 and facts.numbers
        return _positive(facts, facts.numbers[0]) if is_only else None
    if len(facts.likely) != 1:
        return None
    at = facts.likely[0]
    is_unit = told.kind != "logits" and view.sums([at]).in_unit
    if len(facts.label_words) == 2 and facts.called_as_label(at) and is_unit:
        found = _positive(replace(facts, request=replace(told, input="probs")), at)
        return replace(found, positive=told.positive or view.name(at).strip())
    if not view[at].is_thing and not (view.is_whole(at) and view.n_rows >= 5):
        raise unclear_column(facts, at)
    return None


def _alike(facts: Facts) -> Scores | None:
    """Return all likely columns, called 0, 1, 2, ... or not, if the caller says their kind."""
    if len(facts.likely) < 2:
        return None
    view, likely = facts.view, facts.likely
    numbered = [i for i in likely if view.name(i).strip().removesuffix(".0").isdigit()]
    if view.schema.has_names and len(numbered) > 1 and _are_numbered(facts, numbered):
        likely = numbered
    labelled = facts.named_like_labels(likely)
    if view.schema.has_names and not labelled and all(view[i].is_thing for i in likely):
        return None
    if facts.request.kind is not None and labelled:
        likely = labelled
    _check_alike(facts, likely)
    return _columns(facts, likely, _left_out(facts, likely))


def _are_numbered(facts: Facts, positions: Sequence[int]) -> bool:
    """Return whether columns are called 0, 1, 2, ... as in pandas."""
    return is_numbering([name.strip() for name in facts.names(positions)])


def _check_alike(facts: Facts, likely: list[int]) -> None:
    """Raise where one of the columns may not be a class: nothing but its numbers says that."""
    view = facts.view
    labelled, shown = facts.named_like_labels(likely), _n_classes(facts, len(likely))
    is_named = view.schema.has_names and not _are_numbered(facts, likely)
    if is_named and facts.prefix_of(likely) is None and 2 <= (shown or 0) < len(likely):
        rest = [i for i in likely if not view[i].is_thing]
        raise facts.error(
            f"the labels show {shown} classes, but {len(likely)} columns of numbers could be "
            f"classes: {listing([name.strip() for name in facts.names(likely)])}. Say which are "
            "classes: `score_columns` (command line: --score-columns).",
            fixes=facts.choices(rest) if len(rest) == shown else (),
        )
    # In fewer than 5 rows, logits may all be whole.
    whole = [i for i in likely if is_named and view.is_whole(i)]
    if 0 < len(whole) < len(likely) and view.sums(likely).n_rows >= 5:
        rest = labelled or [i for i in likely if i not in whole]
        many = len(whole) > 1
        raise facts.error(
            f"column{'s' if many else ''} {listing(facts.quoted(whole))} "
            f"{'hold' if many else 'holds'} whole numbers only, unlike the others, so "
            f"{'they' if many else 'it'} may not be classes. Say which columns are classes.",
            fixes=facts.choices(rest, likely),
        )
    if facts.request.kind is None and 0 < len(labelled) < len(likely):
        others = [i for i in likely if i not in labelled]
        raise facts.error(
            f"no label is called {listing(facts.quoted(others))}, unlike the other columns of "
            "numbers. Say which columns are classes.",
            fixes=facts.choices(labelled, likely),
        )
    if facts.request.kind is None:
        raise unclear_kind(facts, likely)


def _left_out(facts: Facts, classes: list[int], *, why: str = "") -> tuple[str, ...]:
    """Return the note that lists the columns of numbers that are not read as classes."""
    left = facts.quoted(i for i in facts.numbers if i not in classes)
    return (f"not read as classes: {listing(left)}{why}",) if left else ()


SCORES: tuple[Rule, ...] = (
    _with_prefix,
    _lone_matrix,
    _given_classes,
    _on_the_simplex,
    event_columns,
    _named_column,
    _only_column,
    _alike,
)
"""Tried in this order. What the caller names, and then a matrix whose name says scores, are found
before, as labels need them."""

OF_TABLES = (_given_classes, _on_the_simplex, event_columns, _alike)
"""Rules that compare columns, which arrays of any shape are not."""
