"""Scores and their kind: logits or probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from focalibrate.io.cells import is_value
from focalibrate.io.errors import Doubt, PredictionFileError, RowError, file_error, listing, short
from focalibrate.io.evidence import RowSums
from focalibrate.io.options import Request
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.table import Table


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Which columns hold the scores, and how.

    Attributes:
        positions: one column per class, or one matrix, or one column of the positive class.
        kind: logits or probabilities.
        percent: probabilities are stored times 100.
        form: how the columns hold the classes.
        class_names: the names the columns have, or None.
        positive: name of the positive class, where one column holds its score.
        n_classes: number of classes; 0 if known only once the values are read.
        outcome: the column that says whether the answer with this confidence was right.
        notes: what the user should know.
    """

    positions: tuple[int, ...]
    kind: ScoreKind
    percent: bool = False
    form: str = "columns"
    class_names: tuple[str, ...] | None = None
    positive: str | None = None
    n_classes: int = 0
    outcome: int | None = None
    notes: tuple[str, ...] = ()


def settle_kind(
    view: Table, request: Request, sums: RowSums, by_name: ScoreKind | None, positions: list[int]
) -> tuple[ScoreKind, tuple[str, ...]]:
    """Return the kind: from the caller, else from the names, else from every row; or raise."""
    what = names_text(view, positions)
    if request.kind is not None:
        notes: tuple[str, ...] = ()
        if request.kind == "logits" and sums.on_simplex and sums.fractions:
            notes = (_looks_like_probs(what, requested=True),)
        return request.kind, notes
    if by_name == "logits" and sums.on_simplex and sums.fractions and sums.worst < 1e-3:
        return "logits", (_looks_like_probs(what, requested=False),)
    if by_name is not None:
        return by_name, ()
    if sums.on_simplex:
        return "probs", (f"probabilities because all rows of {what} lie in [0, 1] and sum to 1",)
    raise unclear_kind(view, sums, positions)


def _looks_like_probs(what: str, *, requested: bool) -> str:
    by = "as requested" if requested else "as the name says"
    return Doubt(
        f"WARNING: {what}: read as logits, {by}, but all values lie in [0, 1] and every row sums "
        "to 1, as probabilities do; if they are probabilities, pass --input probs"
    )


def unclear_kind(view: Table, sums: RowSums, positions: list[int]) -> PredictionFileError:
    """Return the error for scores of unknown kind, with the options that say which."""
    what = names_text(view, positions)
    verb = "hold" if len(positions) > 1 else "holds"
    if sums.in_percent:
        return file_error(
            view.path,
            f"{what} {verb} percentages (rows sum to 100).",
            fixes=[{"input": "percent"}],
        )
    fixes: list[dict[str, object]] = [{"input": "logits"}]
    if sums.in_unit and len(positions) > 1:
        return file_error(
            view.path,
            f"{what} lie in [0, 1], but their rows do not sum to 1. If each is a model of its "
            "own, or a class of its own (sigmoid), read one at a time; if they are logits, say "
            "so.",
            fixes=[*one_at_a_time([view.name(i) for i in positions]), *fixes],
        )
    found = "some numbers are negative" if sums.negative else "rows do not sum to 1"
    return file_error(
        view.path,
        f"does not say whether {what} {verb} logits or probabilities ({found}), and that is never "
        "guessed.",
        fixes=fixes,
    )


def one_at_a_time(names: Sequence[str]) -> list[dict[str, object]]:
    """Return the options that read a column alone, as the probability of one class against all."""
    return [{"score_columns": [name], "input": "probs"} for name in names[:2]]


def which(
    view: Table, what: str, choices: Sequence[Any], fixes: Sequence[dict[str, object]]
) -> PredictionFileError:
    """Return the question where several columns or arrays fit, with the options that choose one.

    Args:
        view: the file.
        what: what they could be, after their number.
        choices: their names, or sets of names.
        fixes: one per choice.
    """
    are_sets = any(isinstance(one, list) for one in choices)
    names = "; ".join(map(listing, choices[:3])) if are_sets else listing(choices)
    return file_error(
        view.path, f"has {len(choices)} {what}: {names}. Say which.", fixes=fixes[:4]
    )


def names_text(view: Table, positions: list[int]) -> str:
    """Return what messages call these columns."""
    if not view.schema.has_names and len(positions) > 1:
        return f"columns {positions[0]} to {positions[-1]}"
    names = [view.name(i) for i in positions]
    if len(names) == 1:
        return f'"{short(names[0])}"'
    return f"columns {listing(names)}"


def quoted(view: Table, position: int) -> str:
    """Return a column's name in double quotes, cut where it is long."""
    return f'"{short(view.name(position))}"'


def not_numbers(view: Table, position: int, *, is_only: bool = False) -> PredictionFileError:
    """Return the error for a column of scores that holds no numbers.

    Where it `is_only`, the only scores of the file, it cannot be left out.
    """
    column = view[position]
    if column.kind == "text" and view.has_cells:
        return bad_cell(view, position, is_only=is_only)
    kind = {
        "matrix": "lists",
        "bool": "booleans",
        "empty": "no values",
        "other": "values of another kind",
    }.get(column.kind, "text")
    rule = f"column `{short(column.name)}` must hold numbers, but holds {kind}."
    if is_only:
        return file_error(view.path, f"{rule} Save one column of numbers per class.")
    return file_error(
        view.path,
        f"{rule} If it is not a class, leave it out.",
        fixes=[{"ignore": [column.name]}],
    )


def bad_cell(view: Table, position: int, *, is_only: bool = False) -> PredictionFileError:
    """Return the error for a column of scores that holds text: its first such cell.

    Where it `is_only`, the only scores of the file, it cannot be left out.
    """
    cells = view.cells(position)
    comma = view.schema.decimal_comma
    bad = (i for i, cell in enumerate(cells) if not is_value(cell, decimal_comma=comma))
    row = next(bad, 0)
    name = view.name(position)
    if "..." in cells[row]:
        return RowError(
            view.path,
            f"column `{short(name)}` holds lists that were cut short when they were printed: ",
            [row],
            " has '...' instead of numbers. Save one column per class: "
            f"`pd.DataFrame(np.stack(df[{name!r}]))`.",
        )
    if cells[row].lstrip().startswith("{"):
        return file_error(
            view.path,
            f"column `{short(name)}` holds dictionaries. Save one column per class: "
            f"`df.join(pd.DataFrame(df[{name!r}].map(ast.literal_eval).tolist(), df.index))`.",
        )
    before = f"column `{short(name)}` must hold numbers, but "
    after = f" has {short(repr(cells[row]))}. Correct it"
    if is_only:
        return RowError(view.path, before, [row], f"{after}.")
    return RowError(
        view.path,
        before,
        [row],
        f"{after}, or leave the column out.",
        fixes=[{"ignore": [name]}],
    )
