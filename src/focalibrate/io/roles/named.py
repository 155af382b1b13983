"""Scores that are found by the names of their columns, and which of several agree."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.cells import AGREEMENT, is_same_model, texts_of
from focalibrate.io.errors import listing, short
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.chosen import (
    OPPOSITE,
    column_scores,
    cut_names,
    matrix_scores,
    positive_scores,
)
from focalibrate.io.roles.diagnoses import not_numbers
from focalibrate.io.roles.facts import Facts, Scores
from focalibrate.io.roles.vocabulary import (
    CLASS_NAMES,
    DERIVED,
    LOGIT,
    NOT_SCORES,
    PREDICTIONS,
    PROBABILITY,
    RIGHT,
    SCORE,
    WRONG,
    Meaning,
    outcome_of,
    plain,
    says_confidence,
    says_correct,
    split_of,
)
from focalibrate.io.table import Table

Sets: TypeAlias = Mapping[Meaning, Sequence[list[int]]]
"""Columns that hold scores together, by what their names say."""


def _by_name(facts: Facts, sets: Sets, order: Sequence[Meaning], what: str) -> list[int] | None:
    """Return the first columns of the first kind that has some."""
    ranked = [(kind, some) for kind in order for some in sets.get(kind, ())]
    if not ranked:
        return None
    told, (kind, first) = facts.request.kind, ranked[0]
    asked = [one for one in ranked if told is None or one[0] == kind]
    rivals = [one for one in asked[1:] if not _is_one_model(facts, asked[0], one)]
    if rivals:
        if any(other != kind for other, _ in rivals):
            what = f"{what}, but do not agree"
        found = [asked[0], *rivals]
        raise facts.which(what, [some for _, some in found], [_option(facts, *f) for f in found])
    return first


def _option(facts: Facts, kind: Meaning, positions: Sequence[int]) -> dict[str, object]:
    """Return how a user chooses these columns, whose names say the kind."""
    names = facts.names(positions)
    if facts.view.is_kind(positions[0], "matrix"):
        return {f"{kind}_key": names[0]}
    is_one = len(names) == 1 and kind != "scores"
    return {"score_columns": names, **({"input": kind} if is_one else {})}


def _is_one_model(
    facts: Facts, some: tuple[Meaning, list[int]], other: tuple[Meaning, list[int]]
) -> bool:
    """Return whether columns of one or two kinds are the scores of one model.

    Columns of other rows are scores of another; of another kind, they are not meant.
    """
    view, kinds = facts.view, (some[0], other[0])
    a, b = view[some[1][0]], view[other[1][0]]
    is_same_kind = len(set(kinds)) == 1
    is_alike = a.n_rows == b.n_rows and len(a.shape) == len(b.shape)
    if not is_alike or split_of(a.name) != split_of(b.name):
        return not is_same_kind
    if "scores" in kinds and not is_same_kind:
        return _are_in_one_order(view, some[1][0], other[1][0])
    z, p = (_rows(facts, *one) for one in (some, other))
    if is_same_kind:
        return z.shape == p.shape and np.allclose(z, p, atol=AGREEMENT, equal_nan=True)
    return is_same_model(z, p) if kinds[0] == "logits" else is_same_model(p, z)


def _rows(facts: Facts, kind: Meaning, positions: Sequence[int]) -> NDArray[Any]:
    """Return the scores of all classes: of columns, in the order of their class names."""
    view = facts.view
    if not all(view.is_kind(i, "number", "matrix") for i in positions):
        return np.empty((0, 0))
    if len(positions) > 1:
        if facts.prefix_of(positions) is not None:
            named = zip(cut_names(facts, positions), positions, strict=True)
            positions = [i for _, i in sorted(named)]
        return np.stack([view.values(i) for i in positions], axis=1)
    values = view.values(positions[0])
    if values.ndim > 1:
        return values
    return np.stack([0 * values if kind == "logits" else 1 - values, values], axis=1)


def _are_in_one_order(view: Table, position: int, other: int) -> bool:
    """Return whether `other`, if it could be probabilities, orders the rows as a column does.

    It may hold the probability of the predicted class, which is the larger of p and 1 - p.
    """
    sums, values = view.sums([other]), view.values(position)
    if not (sums.in_unit and sums.fractions):
        return True
    sure = np.abs(values - (0.5 if view.sums([position]).in_unit else 0))
    ordered = (view.values(other)[np.argsort(by, kind="stable")] for by in (values, sure))
    return any((np.diff(found) < -AGREEMENT).mean() < 0.05 for found in ordered)


def matrices(facts: Facts) -> list[int]:
    """Return the matrices that are not taken and do not hold the names of the classes."""
    others = CLASS_NAMES | NOT_SCORES
    schema = facts.view.schema
    return schema.where(lambda c: c.kind == "matrix" and c.plain not in others, facts.taken)


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
        named = [i for i in matrices(facts) if view[i].score_kind == kind]
        own = {i: view[i].prefix for i in named}
        named = [i for i, cut in own.items() if cut is None or prefixes.count(cut.word) < 2]
        usual = [i for i in named if view[i].plain in PROBABILITY | LOGIT]
        sets[kind] = [[i] for i in usual or named]
    found = _by_name(facts, sets, facts.request.kinds_by_preference, ARRAYS)
    return None if found is None else matrix_scores(facts, found[0])


def prefixed_columns(facts: Facts) -> Scores | None:
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
    first = next((sets[kind][0] for kind in order if sets[kind]), None)
    if first is None:
        return None
    sets["probs"] += _of_same_classes(facts, first)
    chosen = _by_name(facts, sets, order, "sets of columns that could be the classes")
    return None if chosen is None else column_scores(facts, chosen)


def _of_same_classes(facts: Facts, classes: list[int]) -> list[list[int]]:
    """Return other probabilities of the same classes: ``calibrated_prob_cat`` or only ``cat``."""
    view, sets = facts.view, dict[str, list[int]]()
    used, prefixes = set(classes), {i: view[i].prefix for i in facts.numbers}
    rests = [i for i, c in prefixes.items() if i not in used and (c is None or c.kind is None)]
    for name in sorted(cut_names(facts, classes)):
        end = plain(name)
        for i in rests:
            if f"_{view[i].plain}".endswith(f"_{end}"):
                sets.setdefault(view[i].plain.removesuffix(end), []).append(i)
    full = [some for some in sets.values() if len(some) == len(classes) and facts.is_simplex(some)]
    return [some for some in full if view.sums(some).fractions]


def _without_derived(facts: Facts, members: list[int]) -> list[int]:
    """Leave out columns such as ``prob_max``, unless the rows sum to 1 only with them."""
    kept = [i for i in members if facts.view[i].plain not in DERIVED]
    are_numbers = all(facts.view.is_kind(i, "number") for i in members)
    is_changed = are_numbers and 2 <= len(kept) < len(members)
    return kept if is_changed and not facts.is_simplex(members) else members


def lone_matrix(facts: Facts) -> Scores | None:
    """Return the only matrix, or the only one whose rows sum to 1, whatever its name."""
    view = facts.view
    found = [i for i in matrices(facts) if not view[i].is_label]
    if len(found) > 1:
        flat = [i for i in found if len(view[i].shape) == 1]
        found = [i for i in flat if view.sums([i]).on_simplex] or found
    sets: dict[Meaning, list[list[int]]] = {}
    for i in found:
        by_value: ScoreKind = "probs" if view.sums([i]).on_simplex else "logits"
        sets.setdefault(facts.request.kind or view[i].score_kind or by_value, []).append([i])
    chosen = _by_name(facts, sets, facts.request.kinds_by_preference, ARRAYS)
    return None if chosen is None else matrix_scores(facts, chosen[0])


def named_column(facts: Facts) -> Scores | None:
    """Return the one column whose name means the score of the positive class, or None."""
    view = facts.view
    if not view.schema.has_names:
        return None
    sets: dict[Meaning, list[list[int]]] = {}
    for i in facts.numbers:
        meaning = says_score(facts, i)
        if meaning is not None:
            sets.setdefault(meaning, []).append([i])
    kinds = facts.request.kinds_by_preference if facts.request.kind else ("probs", "logits")
    first = next((sets[kind] for kind in (*kinds, "scores") if kind in sets), [])
    if len(first) > 1 and facts.prefix_of(i for (i,) in first) is not None:
        return None  # they are one per class: ``output_0``
    what = "columns that could be the score of the positive class"
    found = _by_name(facts, sets, (*kinds, "scores"), what)
    return None if found is None else positive_scores(facts, found[0])


def says_score(facts: Facts, position: int) -> Meaning | None:
    """Return what the name of a column says that it holds, if it is a score."""
    column = facts.view[position]
    text, prefix = column.plain, column.prefix
    if column.kind == "matrix":
        return column.meaning
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


LEAST_PERCENT = 20
"""Numbers above 1 of which none is larger may be a scale, such as one from 1 to 5."""


def event_columns(facts: Facts) -> Scores | None:
    """Return the confidence of answers whose outcome another column holds, or None."""
    view, request = facts.view, facts.request
    is_told = request.kind == "logits" or request.label_column is not None
    if is_told or not view.schema.has_names or not request.wants_labels:
        return None
    outcomes = _outcomes(view)
    named = view.schema.where(lambda c: says_confidence(c.name), outcomes)
    if not outcomes or not named:
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
                for j in list(outcomes)[:2]
            ],
        )
    at, (outcome, right) = stated[0], next(iter(outcomes.items()))
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
    _check_words(view, outcome, right)
    notes = [f'"{name}" is the probability that the answer is right, by {facts.text([outcome])}']
    if is_percent:
        notes.append(f'"{name}" goes up to {high:g}: it is read as percentages')
    return Scores(
        positions=(at,),
        kind="probs",
        percent=is_percent,
        form="single",
        positive=request.positive or right,
        n_classes=2,
        outcome=outcome,
        notes=tuple(notes),
    )


def _outcomes(view: Table) -> dict[int, str]:
    """Return the columns that say whether an answer was right, and the value that means right.

    Of those that agree, the first.
    """
    found: dict[bytes, tuple[int, str]] = {}
    for i, column in enumerate(view.columns):
        if says_correct(column.name) and column.kind in ("bool", "number", "text"):
            right = _right(view, i)
            if right is not None:
                values = view.values(i)
                is_right = values == 1 if column.kind == "number" else values.astype(str) == right
                found.setdefault(np.asarray(is_right).tobytes(), (i, right))
    return dict(found.values())


def _cells(view: Table, position: int) -> list[str]:
    cells = texts_of(view.data[position]) if view.has_cells else view.values(position)
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
    letters = {v for v in map(_word, values) if len(v) == 1 and v.isalpha()}
    may_be &= letters <= RIGHT | WRONG  # A, B, C, D are answers or grades
    if not may_be or len(right) != 1 or len(wrong) > 1:
        return None
    return right[0].removesuffix(".0") if is_number else right[0]


def _check_words(view: Table, position: int, right: str) -> None:
    """Raise where a value says neither right nor wrong; shares, such as ties, count as both."""
    if view.is_kind(position, "number") and view.sums([position]).in_unit:
        return
    known, cells = RIGHT | WRONG | {"", "nan"}, _cells(view, position)
    rows = [row for row, cell in enumerate(cells) if _word(cell) not in known]
    if rows:
        others = sorted({cells[row] for row in rows})
        name = view.name(position)
        raise view.rows_error(
            f"`{short(name)}` must say whether an answer was right or wrong, but ",
            rows,
            f" hold {listing([repr(v) for v in others])}. Leave these rows out, or count them as "
            f"wrong: `df[{name!r}] = df[{name!r}] == {right!r}`.",
        )
