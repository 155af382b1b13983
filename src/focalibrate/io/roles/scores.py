"""Which columns are the scores: an ordered table of rules over the facts, then why none fits."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from focalibrate.io.cells import is_numbering
from focalibrate.io.errors import PredictionFileError, listing
from focalibrate.io.evidence import find_runs, is_same_model
from focalibrate.io.options import find_columns
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.facts import (
    Facts,
    Fixes,
    Scores,
    not_numbers,
    settle_kind,
    unclear_kind,
)
from focalibrate.io.roles.matrix import lone_matrix, matrix_scores
from focalibrate.io.roles.single import (
    column_by_name,
    column_of_class,
    event_columns,
    positive_column,
    unnamed_column,
)
from focalibrate.io.roles.vocabulary import DERIVED, kind_of, says_correct


@dataclass(frozen=True)
class Rule:
    """One way to find the scores: what it looks for, in words, and the function that finds it.

    The function returns None where the rule does not apply, and raises where it does but several
    answers fit, with the options that choose one.
    """

    what: str
    find: Callable[[Facts], Scores | None]
    in_arrays: bool = False
    """It applies to files of arrays too."""


def find_scores(facts: Facts) -> Scores:
    """Return the scores that the first rule of `SCORES` finds.

    Raises:
        PredictionFileError: none does, with the reason.
    """
    for rule in SCORES:
        if facts.view.schema.is_table or rule.in_arrays:
            found = rule.find(facts)
            if found is not None:
                return found
    raise _no_scores(facts)


def named_scores(facts: Facts) -> Scores | None:
    """Return the scores that the caller named, or None."""
    view, request = facts.view, facts.request
    if request.score_columns is not None:
        return _chosen(
            facts, find_columns(view.schema, request.score_columns, option="score_columns")
        )
    keys: dict[ScoreKind, str | None] = {"logits": request.logits_key, "probs": request.probs_key}
    given = [kind for kind, key in keys.items() if key is not None]
    if not given:
        return None
    kind = request.kind if len(given) > 1 and request.kind is not None else given[0]
    key = keys[kind]
    if key not in view.schema.names:
        raise facts.error(
            f"`{kind}_key` must name an array of the file, got {key!r}; it holds "
            f"{listing([f'`{name}`' for name in view.schema.names])}."
        )
    position = view.schema.names.index(key)
    if request.input != "percent":
        facts = replace(facts, request=replace(request, input=kind))
    found = _one_chosen(facts, position, kind)
    if found is None:
        raise not_numbers(view, position)
    return found


def _one_chosen(facts: Facts, position: int, kind: ScoreKind | None) -> Scores | None:
    """Return the scores in one matrix or column; None where it holds no numbers."""
    _check_readable(facts, position)
    if facts.view.is_kind(position, "matrix"):
        return matrix_scores(facts, position, kind)
    is_number = facts.view.is_kind(position, "number")
    return positive_column(facts, position) if is_number else None


def _chosen(facts: Facts, positions: list[int]) -> Scores:
    """Return the scores in the columns that the caller chose."""
    view = facts.view
    if len(positions) == 1:
        found = _one_chosen(facts, positions[0], view[positions[0]].score_kind)
        if found is not None:
            return found
    for i in positions:
        _check_readable(facts, i)
    _check_numbers(facts, positions)
    prefix = view[positions[0]].prefix
    if prefix is None or facts.prefix_of(positions) is None:
        return _columns(facts, positions, tuple(facts.names(positions)), None)
    return _columns(facts, positions, _class_names(facts, positions), kind_of(prefix.meaning))


def _check_readable(facts: Facts, position: int) -> None:
    """Raise if the column is known to be unreadable."""
    problem = facts.view[position].problem
    if problem is not None:
        raise problem


def _check_numbers(facts: Facts, positions: Sequence[int]) -> None:
    """Raise where a column holds no numbers: a class is never left out, as labels would shift."""
    for i in positions:
        if not facts.view.is_kind(i, "number"):
            raise not_numbers(facts.view, i)


def _columns(
    facts: Facts,
    positions: list[int],
    names: tuple[str, ...],
    by_name: ScoreKind | None,
    notes: tuple[str, ...] = (),
) -> Scores:
    """Return the scores in one column per class, once their kind is settled."""
    if all(re.search(r"(^|_)(top|rank)_?\d", facts.view[i].plain) for i in positions):
        raise facts.error(
            f"holds the probabilities by rank ({facts.quoted(positions)[0]}, ...), each row in an "
            "order of its own; one column per class is needed. Save `model.predict_proba(X)` or "
            "the logits."
        )
    kind, more = settle_kind(facts, positions, by_name)
    return Scores(
        positions=tuple(positions),
        kind=kind,
        percent=facts.request.input == "percent",
        class_names=names if facts.view.schema.has_names else None,
        n_classes=len(positions),
        notes=(*notes, *more),
    )


def _with_prefix(facts: Facts) -> Scores | None:
    """Return the columns whose prefix says that they are scores: ``prob_cat, prob_dog``."""
    view = facts.view
    groups: dict[tuple[ScoreKind, str], list[int]] = {}
    for i in facts.free if view.schema.has_names else ():
        cut = view[i].prefix
        by_name = None if cut is None else kind_of(cut.meaning)
        if cut is not None and by_name is not None and not view[i].is_prediction:
            groups.setdefault((by_name, cut.word), []).append(i)
    sets: dict[ScoreKind, list[list[int]]] = {"logits": [], "probs": []}
    for (of, _), members in groups.items():
        if len(members) > 1 and any(view.is_kind(i, "number") for i in members):
            sets[of].append(_without_derived(facts, members))
    for kind in facts.request.kinds_by_preference:
        usable = sets[kind]
        if len(usable) > 1:
            usable = [m for m in usable if facts.is_simplex(m)] or usable
        if len(usable) > 1:
            raise facts.which_set(usable, "could be the classes")
        if not usable:
            continue
        probs = [m for m in sets["probs"] if facts.is_simplex(m)]
        is_open = facts.request.kind is None and kind == "logits" and probs
        if is_open and not any(_is_one_model(facts, usable[0], m) for m in probs):
            disagree = "could be the classes, and they do not agree"
            raise facts.which_set([usable[0], *probs], disagree)
        _check_numbers(facts, usable[0])
        return _columns(facts, usable[0], _class_names(facts, usable[0]), kind)
    return None


def _class_names(facts: Facts, positions: Sequence[int]) -> tuple[str, ...]:
    """Return what follows the prefixes of columns that have one."""
    cut = (facts.view[i].prefix for i in positions)
    return tuple(c.name for c in cut if c is not None)


def _is_one_model(facts: Facts, logits: list[int], probs: list[int]) -> bool:
    """Return whether columns of probabilities are the softmax of columns of logits."""
    at = [dict(zip(_class_names(facts, some), some, strict=True)) for some in (logits, probs)]
    if at[0].keys() != at[1].keys() or not all(facts.view.is_kind(i, "number") for i in logits):
        return False
    order = [at[1][name] for name in at[0]]
    z, p = (np.stack([facts.view.values(i) for i in some], axis=1) for some in (logits, order))
    return is_same_model(z, p)


def _without_derived(facts: Facts, members: list[int]) -> list[int]:
    """Leave out columns such as ``prob_max``, unless the rows sum to 1 only with them."""
    kept = [i for i in members if facts.view[i].plain not in DERIVED]
    are_numbers = all(facts.view.is_kind(i, "number") for i in members)
    is_changed = are_numbers and 2 <= len(kept) < len(members)
    return kept if is_changed and not facts.is_simplex(members) else members


def _given_classes(facts: Facts) -> Scores | None:
    """Return the columns called as the classes that the caller listed."""
    expected = facts.request.class_names or ()
    named = [i for i in facts.numbers if facts.view.name(i).strip() in set(expected)]
    if not len(named) == len(expected) > 1:
        return None
    return _columns(facts, named, tuple(n.strip() for n in facts.names(named)), None)


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
        return _columns(facts, fitting, _without_prefix(facts, fitting), None, notes)
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
        raise facts.which_set(sets, "sum to 1 in every row")
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
    if facts.label is None:
        return
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
            [facts.names(classes), facts.names(rivals)],
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


def _only_array(facts: Facts) -> Scores | None:
    """Return the only array of a file, of the positive class: an .npy file holds only scores."""
    if facts.view.schema.is_table or len(facts.view.columns) > 1 or not facts.numbers:
        return None
    return positive_column(facts, facts.numbers[0])


def _only_column(facts: Facts) -> Scores | None:
    """Return the only likely column, if it is called as one of two labels; else ask."""
    if len(facts.likely) != 1:
        return None
    at = facts.likely[0]
    single = column_of_class(facts, at)
    is_named = single is not None or facts.view[at].is_thing
    if not is_named and not (facts.view.is_whole(at) and facts.view.n_rows >= 5):
        raise unnamed_column(facts, at)
    return single


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
    names = _without_prefix(facts, likely)
    return _columns(facts, likely, names, None, _left_out(facts, likely))


def _are_numbered(facts: Facts, positions: Sequence[int]) -> bool:
    """Return whether columns are called 0, 1, 2, ... as in pandas."""
    return is_numbering([name.strip() for name in facts.names(positions)])


def _check_alike(facts: Facts, likely: list[int]) -> None:
    """Raise unless the caller says the kind and no column differs from the others in kind."""
    view, sums = facts.view, facts.view.sums(likely)
    labelled = facts.named_like_labels(likely)
    _check_as_many_as_labels(facts, likely)
    # In fewer than 5 rows, logits may all be whole.
    if view.schema.has_names and not _are_numbered(facts, likely) and sums.n_rows >= 5:
        whole = [i for i in likely if view.is_whole(i)]
        if whole and len(whole) < len(likely):
            rest = labelled or [i for i in likely if i not in whole]
            what, they = (
                ("column {} holds", "it") if len(whole) == 1 else ("columns {} hold", "they")
            )
            raise facts.error(
                f"{what.format(listing(facts.quoted(whole)))} whole numbers only, unlike the "
                f"others, so {they} may not be classes. Say which columns are classes.",
                fixes=facts.choices(rest, likely),
            )
    if facts.request.kind is not None:
        return
    if labelled and len(labelled) < len(likely):
        others = [i for i in likely if i not in labelled]
        raise facts.error(
            f"no label is called {listing(facts.quoted(others))}, unlike the other columns of "
            "numbers. Say which columns are classes.",
            fixes=facts.choices(labelled, likely),
        )
    raise unclear_kind(facts, sums, likely)


def _check_as_many_as_labels(facts: Facts, likely: list[int]) -> None:
    """Raise where labels show fewer classes than there are columns, which may be features."""
    is_named = _are_numbered(facts, likely) or facts.prefix_of(likely) is not None
    shown = _n_classes(facts, len(likely))
    if not facts.view.schema.has_names or is_named or not 2 <= (shown or 0) < len(likely):
        return
    rest = [i for i in likely if not facts.view[i].is_thing]
    raise facts.error(
        f"the labels show {shown} classes, but {len(likely)} columns of numbers could be classes: "
        f"{listing([name.strip() for name in facts.names(likely)])}. Say which are classes: "
        "`score_columns` (command line: --score-columns).",
        fixes=facts.choices(rest) if len(rest) == shown else (),
    )


def _without_prefix(facts: Facts, positions: list[int]) -> tuple[str, ...]:
    """Return the class names: those of the columns, without a prefix that all share.

    Where the labels repeat the whole names, such as ``class_0``, the prefix stays.
    """
    view = facts.view
    whole = tuple(name.strip() for name in facts.names(positions))
    if facts.prefix_of(positions) is None:
        return whole
    others = range(len(view.columns)) if facts.label is None else [facts.label]
    for i in others:
        is_text = i not in positions and view.is_kind(i, "text") and view[i].problem is None
        if is_text and set(view.values(i).tolist()) <= set(whole):
            return whole
    return _class_names(facts, positions)


def _left_out(facts: Facts, classes: list[int], *, why: str = "") -> tuple[str, ...]:
    """Return the note that lists the columns of numbers that are not read as classes."""
    left = facts.quoted(i for i in facts.numbers if i not in classes)
    return (f"not read as classes: {listing(left)}{why}",) if left else ()


SCORES: tuple[Rule, ...] = (
    Rule("you named them", named_scores, in_arrays=True),
    Rule("columns with one prefix", _with_prefix, in_arrays=True),
    Rule("the only matrix", lone_matrix, in_arrays=True),
    Rule("columns called as your classes", _given_classes),
    Rule("columns whose rows sum to 1", _on_the_simplex),
    Rule("a confidence and whether it was right", event_columns),
    Rule("one column named like a score", column_by_name, in_arrays=True),
    Rule("the only array", _only_array, in_arrays=True),
    Rule("one column called as a label", _only_column),
    Rule("columns of one kind", _alike),
)
"""Tried in this order; a matrix whose name says scores is found before, as labels need it."""


def _no_scores(facts: Facts) -> PredictionFileError:
    """Return the error for a file in which no scores were found."""
    view, numbers = facts.view, facts.numbers
    fractions = [i for i in numbers if not view.is_whole(i)]
    is_derived = len(fractions) == 1 and view[fractions[0]].plain in DERIVED
    if is_derived and any(c.is_prediction or says_correct(c.name) for c in view.columns):
        return facts.error(
            f"holds only the probability of the predicted class ({facts.quoted(fractions)[0]}), "
            "but those of all classes are needed. Save `model.predict_proba(X)` or the logits, "
            "one column per class."
        )
    for i, column in enumerate(view.columns):
        if column.score_kind is not None and column.kind not in ("number", "matrix"):
            return not_numbers(view, i, is_only=True)
    what, fixes = "arrays", Fixes()
    if view.schema.is_table:
        sums = {i: view.sums([i]) for i in numbers if not view[i].is_thing}
        unit = [i for i, found in sums.items() if found.in_unit and found.fractions]
        what, fixes = "columns", [{"score_columns": facts.names(unit[:50])}] if unit else []
    elif numbers:
        name = view.name(numbers[0])
        fixes = [{"logits_key": name}, {"probs_key": name}]
    return facts.error(
        f"has no {what} that can be recognised as scores, by name or by values; it holds "
        f"{listing(view.schema.names) if view.columns else 'nothing'}.",
        fixes=fixes,
    )
