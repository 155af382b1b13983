"""Why no scores or labels are found, or those found are none: what is asked, or to be changed."""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from focalibrate.io.cells import is_value
from focalibrate.io.errors import PredictionFileError, listing, short
from focalibrate.io.roles.facts import Facts, Fixes, Scores
from focalibrate.io.roles.vocabulary import (
    DERIVED,
    LABELS_SHOWN,
    outcome_of,
    plain,
    says_correct,
    says_log_probability,
    says_percent,
)
from focalibrate.io.table import WORDS, Table

Why: TypeAlias = PredictionFileError | None


def unclear_kind(facts: Facts, positions: Sequence[int]) -> PredictionFileError:
    """Return the error for scores of unknown kind, with the options that say which."""
    sums, what = facts.view.sums(positions), facts.text(positions)
    verb = "hold" if len(positions) > 1 else "holds"
    if sums.in_percent:
        text = f"{what} {verb} percentages (rows sum to 100)."
        return facts.error(text, fixes=[{"input": "percent"}])
    fixes: Fixes = [{"input": "logits"}]
    parts = [i for i in positions if not facts.view.is_whole(i)]
    if sums.in_unit and len(parts) == 1 and len(positions) == 2 and facts.label is None:
        (label,) = set(positions) - set(parts)
        one, other = facts.names([label, *parts])
        return facts.error(
            f"does not say what its columns hold; {one} has only 0 and 1, as labels, and {other} "
            "lies in [0, 1], as probabilities. If it is so, say so.",
            fixes=[{"score_columns": [other], "input": "probs", "label_column": one}],
        )
    if sums.in_unit and len(positions) > 1:
        return facts.error(
            f"{what} lie in [0, 1], but their rows do not sum to 1. If each is a model of its "
            "own, or a class of its own (sigmoid), read one at a time; if they are logits, say "
            "so.",
            fixes=[*one_at_a_time(facts.names(positions)), *fixes],
        )
    found = "some numbers are negative" if sums.negative else "rows do not sum to 1"
    return facts.error(
        f"does not say whether {what} {verb} logits or probabilities ({found}), and that is never "
        "guessed.",
        fixes=fixes,
    )


def boxes_of_yolo(facts: Facts) -> PredictionFileError | None:
    """Return the error for a text file whose lines are ``class cx cy w h score``, or None."""
    view, request, columns = facts.view, facts.request, facts.numbers
    is_told = request.score_columns is not None or request.label_column is not None
    if is_told or view.schema.has_names or view.schema.path.suffix != ".txt" or len(columns) != 6:
        return None
    first, *rest = columns
    are_boxes = view.is_whole(first) and all(view.sums([i]).in_unit for i in rest)
    if not are_boxes or view.sums(rest).on_simplex:
        return None
    return facts.error(
        "holds boxes as YOLO writes them. To evaluate and to calibrate, pass the truth (command "
        "line: --truth LABELS). `focalibrate apply` writes COCO results: calibrate and apply "
        "predictions.json, which `yolo val save_json=True` writes."
    )


def log_probability(facts: Facts, position: int) -> PredictionFileError:
    """Return the error for one column of logarithms of probabilities, which are no log-odds."""
    name = facts.view.name(position)
    return facts.error(
        f"{facts.text([position])} holds logarithms of probabilities, which in one column are no "
        f"log-odds. Write probabilities: `df['confidence'] = np.exp(df.pop({name!r}))`."
    )


def unclear_column(facts: Facts, position: int) -> PredictionFileError:
    """Return the error for one column of numbers that nothing says to be a score, or which."""
    if says_log_probability(facts.view.name(position)):
        return log_probability(facts, position)
    told = facts.request.input
    sums, values = facts.view.sums([position]), facts.view.values(position)
    kinds = ["probs", "logits"] if sums.in_unit else ["logits"]
    if not sums.negative and 50 < np.nanmax(values) <= 100:
        kinds = ["percent", "logits"]
    if sums.in_unit and says_percent(facts.view.name(position)):
        kinds = ["percent", "probs"]
    return facts.error(
        f"has one column of numbers, {facts.text([position])}, that could be the score of the "
        "positive class, but nothing says whether it holds probabilities or log-odds of it. Say "
        "so.",
        fixes=[
            {"score_columns": facts.names([position]), "input": kind}
            for kind in ([told] if told is not None else kinds)
        ],
    )


def one_at_a_time(names: Sequence[str]) -> Fixes:
    """Return the options that read a column alone, as the probability of one class against all."""
    return [{"score_columns": [name], "input": "probs"} for name in names[:2]]


def not_numbers(view: Table, position: int, *, is_only: bool = False) -> PredictionFileError:
    """Return the error for a column of scores that holds no numbers, with its first such cell.

    Where it `is_only`, the only scores of the file, it cannot be left out.
    """
    column = view[position]
    name, fixes = column.name, [] if is_only else [{"ignore": [column.name]}]
    before = f"column `{short(name)}` must hold numbers, but "
    if column.kind not in ("text", "number") or not view.has_cells:
        after = "Save one column of numbers per class."
        if not is_only:
            after = "If it is not a class, leave it out."
        holds = {"empty": "no values", "other": "values of another kind", "text": "text"}
        kind = {**WORDS, **holds}[column.kind]
        return view.error(f"{before}holds {kind}. {after}", fixes=fixes)
    cells, comma = view.cells(position), view.schema.decimal_comma
    bad = (i for i, cell in enumerate(cells) if not is_value(cell, decimal_comma=comma))
    row = next(bad, 0)
    if cells[row].lstrip().startswith("{"):
        return view.error(
            f"column `{short(name)}` holds dictionaries. Save one column per class: "
            f"`df.join(pd.DataFrame(df[{name!r}].map(ast.literal_eval).tolist(), df.index))`."
        )
    if "..." in cells[row]:
        return view.rows_error(
            f"column `{short(name)}` holds lists that were cut short when they were printed: ",
            [row],
            " has '...' instead of numbers. Save one column per class: "
            f"`pd.DataFrame(np.stack(df[{name!r}]))`.",
        )
    or_else = "" if is_only else ", or leave the column out"
    after = f" has {short(repr(cells[row]))}. Correct it{or_else}."
    return view.rows_error(before, [row], after, fixes=fixes)


def _or_correct(facts: Facts) -> str:
    """Return how to make an outcome of predictions and labels, where the file has one of each."""
    columns = facts.view.columns
    said = [column.name for column in columns if column.is_prediction]
    right = [column.name for column in columns if column.is_label]
    if len(said) != 1 or len(right) != 1:
        return ""
    return (
        "; or, for the confidence alone, say which are right: "
        f"`df['correct'] = df[{said[0]!r}] == df[{right[0]!r}]`"
    )


def no_scores(facts: Facts) -> PredictionFileError:
    """Return the error for a file in which no scores were found."""
    view, numbers = facts.view, facts.numbers
    fractions = [i for i in numbers if not view.is_whole(i)]
    is_derived = len(fractions) == 1 and view[fractions[0]].plain in DERIVED
    if is_derived and any(c.is_prediction or says_correct(c.name) for c in view.columns):
        return facts.error(
            f"holds only the probability of the predicted class ({facts.quoted(fractions)[0]}), "
            "but those of all classes are needed. Save `model.predict_proba(X)` or the logits, "
            f"one column per class{_or_correct(facts)}."
        )
    for i, column in enumerate(view.columns):
        if column.score_kind is not None and column.kind not in ("number", "matrix"):
            return not_numbers(view, i, is_only=True)
    what, fixes = "arrays", Fixes()
    if view.schema.is_table:
        likely = [i for i in numbers if not view[i].is_thing or view[i].meaning is not None]
        sums = {i: view.sums([i]) for i in likely}
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


LEAST_ROWS = 20
"""In fewer rows it is no surprise that every probability is above a half."""


def of_predicted_class(facts: Facts, scores: Scores, label: int) -> Why:
    """Return the error if one column holds the probability of the predicted class, whichever.

    It is so if it is never below a half, and a column of predictions has two classes whose
    probabilities overlap: no threshold explains these predictions.
    """
    view, at = facts.view, scores.positions[0]
    values = view.values(at)
    if scores.form != "single" or scores.kind != "probs" or scores.percent:
        return None
    if values.ndim != 1 or len(values) < LEAST_ROWS or not (values >= 0.5).all():
        return None
    for i, column in enumerate(view.columns):
        may_be = column.is_prediction or column.is_label
        is_other = i in (label, at) or column.n_rows not in (None, len(values))
        if is_other or not may_be or not view.is_whole(i):
            continue
        predicted = view.values(i)
        classes = sorted(set(predicted.tolist()), key=str)
        if len(classes) != 2:
            continue
        one, other = (values[predicted == c] for c in classes)
        if one.min() <= other.max() and other.min() <= one.max():
            score, pred, positive = view.name(at), column.name, classes[1]
            is_number = isinstance(positive, (int, float))
            shown = repr(int(positive)) if is_number else repr(positive)
            name = f"prob_{positive if isinstance(positive, str) else shown}"
            return facts.error(
                f'"{short(score)}" holds the probability of the predicted class, '
                f'"{short(pred)}": it is at least 0.5 in every row. That of one class is needed. '
                f"With pandas: `df[{name!r}] = df[{score!r}].where(df[{pred!r}] == {shown}, "
                f"1 - df[{score!r}])`."
            )
    return None


def n_values(view: Table, position: int) -> int:
    """Return how many different values a column has."""
    return len(np.unique(view.values(position).astype(str)))


def long_table(facts: Facts, labels: Sequence[int]) -> Why:
    """Return the error for a table of one row per example and class, as several labels show."""
    view = facts.view
    numbers = [i for i in range(len(view.columns)) if view.is_kind(i, "number")]
    if not any(view.sums([i]).in_unit and not view.is_whole(i) for i in numbers):
        return None
    for i in labels if view.schema.is_table else ():
        classes = n_values(view, i)
        for j, column in enumerate(view.columns):
            if j in labels or not column.is_id or classes < 2 or column.problem:
                continue
            counts = np.unique(view.values(j).astype(str), return_counts=True)[1]
            if (counts == classes).all() and len(counts) * classes == view.n_rows:
                return facts.error(
                    f"has one row per example and class ({classes} rows for each "
                    f'"{short(column.name)}"); one row per example is needed. With pandas: '
                    f"`df.pivot(index={column.name!r}, columns={view.name(i)!r}, values=...)`, "
                    "and join the labels."
                )
    return None


def no_labels(facts: Facts, scores: Scores) -> PredictionFileError:
    """Return the error for a file without labels, with the columns that could be them."""
    view, schema = facts.view, facts.view.schema
    n_rows = view[scores.positions[0]].n_rows
    free = [
        i
        for i, column in enumerate(schema.columns)
        if i not in scores.positions
        and not column.is_prediction
        and not column.plain.endswith(("prediction", "predicted", "pred"))
        and not column.is_id
        and view.is_whole(i)
        and (schema.is_table or column.n_rows == n_rows)
        and n_values(view, i) <= max(2, 2 * scores.n_classes)
    ]
    for diagnosis in WHY_NO_LABELS:
        found = diagnosis(facts, scores, free)
        if found is not None:
            return found
    option = "label_column" if schema.is_table else "labels_key"
    classes = {plain(name) for name in scores.class_names or ()}
    named = [
        i
        for i in free
        if not (schema.is_table and schema.has_names)
        or view[i].is_outcome
        or (view.is_kind(i, "text") and plain_values(view, i) & classes)
    ]
    fixes: Fixes = [{option: name} for name in facts.names(named[:2])]
    or_name = ""
    if not fixes:
        fixes = [{"labels_path": "labels.npy"}]
        flag = option.replace("_", "-")
        or_name = (
            f" If one of them holds the labels, name it: --{flag} NAME; if another file does:"
        )
    return facts.error(
        f"has no {'column' if schema.is_table else 'array'} of labels (usual names: "
        f"{LABELS_SHOWN}); it holds {listing(schema.names)}.{or_name}",
        fixes=fixes,
    )


def outcomes_beside(facts: Facts, whole: Sequence[int], scores: Sequence[int]) -> Why:
    """Return the error where labels are needed, and columns of 0 and 1 say what happened."""
    view, request = facts.view, facts.request
    if facts.label is not None or not (request.wants_labels and request.need_labels):
        return None
    found = [i for i in whole if view[i].is_outcome and view.sums([i]).in_unit]
    if not found:
        return None
    return facts.error(
        f"has no column that is called as labels are, but {listing(facts.quoted(found))} may say "
        "what happened. Say which are the labels, and which the scores.",
        fixes=[{"label_column": view.name(i), **facts.choices(scores)[0]} for i in found[:2]],
    )


def plain_values(view: Table, position: int) -> set[str]:
    """Return the values of a column as plain names."""
    return {plain(str(value)) for value in set(view.values(position).tolist())}


def _are_detections(facts: Facts, scores: Scores, free: Sequence[int]) -> Why:
    if not {"image_id", "category_id", "bbox"} <= set(facts.view.schema.names):
        return None
    return facts.error(
        "holds detections, and the objects that they should find are in another file. Pass it as "
        "`truth='instances.json'` (command line: --truth instances.json)."
    )


def _are_answers(facts: Facts, scores: Scores, free: Sequence[int]) -> Why:
    schema = facts.view.schema
    if "response" not in schema.names or schema.roles.get("score_columns") != "confidence":
        return None
    return facts.error(
        "holds responses with `logprobs`, but not the right answers. Add them to each line: "
        '{"label": "B", "choices": [...]}, or whether it is right: {"is_correct": true, ...}; or '
        "pass a table with the columns question and correct (command line: --labels FILE)."
    )


def _are_one_hot(facts: Facts, scores: Scores, free: Sequence[int]) -> Why:
    view = facts.view
    columns = [i for i in free if view.is_kind(i, "number") and view.sums([i]).in_unit]
    fits = len(columns) == scores.n_classes and is_one_hot(view, columns)
    return of_one_hot(view, columns, view) if fits else None


def is_one_hot(table: Table, positions: Sequence[int]) -> bool:
    """Return whether columns are 0, and one of them 1, in every row."""
    if len(positions) < 2 or not all(table.is_kind(i, "number", "bool") for i in positions):
        return False
    rows = np.stack([table.values(i) for i in positions], axis=1)
    return bool(((rows == 0) | (rows == 1)).all() and (rows.sum(axis=1) == 1).all())


def of_one_hot(table: Table, positions: Sequence[int], scores: Table) -> PredictionFileError:
    """Return the error for labels in one column per class of `scores`, if they are called so."""
    names = [table.name(i) for i in positions]
    start = re.match(r".*[_.: -]", names[0])
    prefix = start[0] if start and all(name.startswith(start[0]) for name in names) else ""
    cut, others = f".str.removeprefix({prefix!r})" * bool(prefix), scores.schema.names
    if scores is table:
        others = [name for name in others if name not in names]
    columns = f"df[{names[:20]!r}]"
    order, code = ", where the order is that of the scores", f"{columns}.to_numpy().argmax(axis=1)"
    if all(any(o.endswith(name.removeprefix(prefix)) for o in others) for name in names):
        order, code = "", f"{columns}.astype(int).idxmax(axis=1){cut}"
    return table.error(
        f"has its labels in {len(names)} columns of 0 and 1, {listing(names)}; one column is "
        f"needed. With pandas{order}: `df['label'] = {code}`."
    )


def _have_outcomes(facts: Facts, scores: Scores, free: Sequence[int]) -> Why:
    """Return the error where scores have columns of outcomes: ``prob1, prob1_outcome``."""
    names = {column.plain: column.name for column in facts.view.columns}
    pairs = [
        (column.name, names[f"{column.plain}_{word}"])
        for column in (facts.view[i] for i in scores.positions)
        for word in ("outcome", "result", "label", "won")
        if f"{column.plain}_{word}" in names
    ]
    if not pairs:
        return None
    return facts.error(
        "has a column of outcomes for each probability "
        f"({listing([f'{a}, {b}' for a, b in pairs])}). Read one at a time.",
        fixes=[{"score_columns": [a], "label_column": b} for a, b in pairs[:2]],
    )


def _are_multi_label(facts: Facts, scores: Scores, free: Sequence[int]) -> Why:
    """Return the error where every class has labels of its own: ``spam`` beside ``prob_spam``."""
    names = {facts.view[i].plain: facts.view.name(i) for i in free}
    pairs = [(name, outcome_of(name) or "") for name in facts.names(scores.positions)]
    if len(pairs) < 2 or not all(outcome in names for _, outcome in pairs):
        return None
    return facts.error(
        "has a column of labels for every class, so that several classes may be true of one "
        "example (multi-label). Read one class at a time.",
        fixes=[
            {"score_columns": [name], "label_column": names[outcome]}
            for name, outcome in pairs[:3]
        ],
    )


WHY_NO_LABELS: tuple[Callable[[Facts, Scores, Sequence[int]], Why], ...] = (
    _are_detections,
    _are_answers,
    _are_one_hot,
    _have_outcomes,
    _are_multi_label,
)
"""Why a file has no labels, by its scores and the columns that could be labels; the first fits."""
