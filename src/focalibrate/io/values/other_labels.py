"""Labels in a file of their own, brought to the rows of the scores."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.errors import Doubt, RowError, file_error, listing, short
from focalibrate.io.evidence import is_row_number
from focalibrate.io.options import Request, find_columns
from focalibrate.io.roles.vocabulary import Named
from focalibrate.io.table import Table, texts_of
from focalibrate.io.values.labels import Labels

_WHOLE = re.compile(r"[+-]?\d{1,40}(\.0+)?", re.ASCII)


@dataclass(frozen=True)
class Key:
    """A column that names the rows in both files.

    Attributes:
        at: its columns in the file of scores; several name a row together.
        name: what messages call it.
        stored: the names of the labels' rows.
    """

    at: tuple[int, ...]
    name: str
    stored: NDArray[Any]

    @cached_property
    def _sorted(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The names in order, and the rows that have them."""
        order = np.argsort(self.stored, kind="stable")
        return self.stored[order], order

    @property
    def is_unique(self) -> bool:
        """Whether every row has a name of its own."""
        names, _ = self._sorted
        return not (names[1:] == names[:-1]).any()

    def rows_of(self, names: NDArray[Any]) -> NDArray[np.intp]:
        """Return the rows with these names; -1 where there is none."""
        known, order = self._sorted
        found = np.minimum(np.searchsorted(known, names), len(known) - 1)
        return np.where(known[found] == names, order[found], -1)


@dataclass(frozen=True)
class OtherLabels:
    """Labels that are in a file of their own.

    Attributes:
        all: of all rows of that file.
        key: what names the rows in both files; None: they are in the same order.
        note: how the labels are brought to the rows.
    """

    all: Labels
    key: Key | None
    note: str

    @property
    def is_by_order(self) -> bool:
        """Whether the labels are in the order of the rows, as no name is one row's alone."""
        return self.key is None or not self.key.is_unique

    def of_rows(self, scores: Table, rows: slice | NDArray[np.intp]) -> Labels:
        """Return the labels of rows of the file of scores.

        Args:
            scores: the rows.
            rows: where they are in the file of labels, if that has no names for them.

        Raises:
            PredictionFileError: a row has no label, or the names are not unique and differ.
        """
        if self.key is None:
            return self.all[rows]
        names = key_of(scores, self.key.at)
        if isinstance(rows, slice) and np.array_equal(names, self.key.stored[rows]):
            return self.all[rows]
        differs = (
            f'its rows are not those of {scores.path.name}: column "{short(self.key.name)}" '
            "differs"
        )
        if not self.key.is_unique:
            raise self.all.error(f"{differs} and is not unique. Sort both files in the same way.")
        found = self.key.rows_of(names)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            raise RowError(
                self.all.path,
                f"{differs}, and it has no label for ",
                missing,
                ". Give all labels.",
            )
        return self.all[found]


def labels_in(table: Table, request: Request, head: Table, scores: tuple[int, ...]) -> OtherLabels:
    """Return the labels of `table`, a file of their own.

    Args:
        table: all its rows.
        request: what the caller says.
        head: the first rows of the scores.
        scores: the columns of the scores, which name no rows.
    """
    label = _label(table, request, head, scores)
    key = _chosen(_keys(table, label, request, head, scores), table, head, request)
    others = [i for i in range(len(head.columns)) if i not in scores and _may_name(head, i)]
    own = next((head.name(i) for i in others if _is_named(head, i) and head[i].is_label), None)
    unused = "" if own is None else f'; those in "{short(own)}" are not used'
    named = "" if key is None else f'"{short(key.name)}"'
    if key is not None and key.is_unique:
        note = f"labels are matched to the rows by {named}{unused}"
    else:
        confirmed = f", which {named} confirms" if named else ""
        note = f"labels in {table.path.name} are taken in the order of the rows{confirmed}{unused}"
    numbered = None if key is not None else _disordered(table, label)
    if numbered is not None:
        note = Doubt(
            f'WARNING: {note}, but its column "{short(numbered)}" numbers them in another order; '
            "save the same column with the scores"
        )
    return OtherLabels(Labels(table.values(label), table.name(label), table.path), key, note)


def _disordered(table: Table, label: int) -> str | None:
    """Return the column that numbers the rows, but not in their order, or None."""
    for j in range(len(table.columns)):
        if j != label and _may_name(table, j) and table.is_kind(j, "number"):
            values = table.values(j)
            if is_row_number(np.sort(values)) and not is_row_number(values):
                return table.name(j) or "the first"
    return None


def _label(table: Table, request: Request, head: Table, scores: tuple[int, ...]) -> int:
    schema = table.schema
    wanted = request.label_column if request.label_column is not None else request.labels_key
    usable = [
        i
        for i, c in enumerate(schema.columns)
        if c.kind in ("number", "text", "bool", "matrix") and not c.is_index
    ]
    if wanted is not None:
        found = find_columns(schema, [str(wanted)], option="label_column")
    else:
        shared = {_folded(head.name(i)) for i in range(len(head.columns)) if i not in scores}
        found = [i for i in usable if table[i].is_label] if schema.has_names else []
        if schema.has_names:
            shared -= {_folded(table.name(i)) for i in found}
            usable = [
                i
                for i in usable
                if not table[i].is_id
                and not table[i].is_prediction
                and _folded(table.name(i)) not in shared
            ]
        if len(found) != 1 and len(usable) == 1:
            found = usable
    if len(found) != 1:
        problem = next((c.problem for c in schema.columns if c.problem is not None), None)
        raise problem or file_error(
            table.path,
            f"must hold one column of labels, but it holds {listing(schema.names) or 'none'}. Say "
            "which.",
            fixes=[{"label_column": table.name(i)} for i in (found or usable)[:3]],
        )
    return found[0]


def _keys(
    table: Table, label: int, request: Request, head: Table, scores: tuple[int, ...]
) -> list[Key]:
    """Return the columns that may name the rows in both files.

    They have the same name, ignoring case, or the same values, and are unique in the file of
    labels. One of the same name that repeats its values counts if it is called an id or repeats
    the same values in both: it names no row, but shows whether the rows are in the same order.
    """
    given = {_folded(name) for name in request.id_column}
    ours = [i for i in range(len(head.columns)) if i not in scores and _is_usable(head, i)]
    theirs = [j for j in range(len(table.columns)) if j != label and _is_usable(table, j)]
    found = []
    for j in theirs:
        name = _folded(table.name(j))
        if given and name not in given:
            continue
        same = next(
            (i for i in ours if _is_named(head, i) and _folded(head.name(i)) == name), None
        )
        stored, may_name = key_of(table, [j]), _may_name(table, j)
        if same is not None:
            key = Key((same,), head.name(same), stored)
            is_id = Named(name).is_id or _shows_order(head, same, key)
            is_key = (key.is_unique or is_id) and bool((stored != stored[0]).any())
            if not (may_name and _may_name(head, same)):
                # fractions name rows where they are the same numbers, not the same to some digits
                is_key = key.is_unique and _are_same_names(key_of(head, key.at), key)
            found += [key] * (is_key or name in given)
        elif may_name and len(stored) > 1 and Key((), name, stored).is_unique:
            keys = (Key((i,), head.name(i), stored) for i in ours if _may_name(head, i))
            found += [key for key in keys if _are_same_names(key_of(head, key.at), key)]
    if len(found) < len(given):
        raise file_error(
            table.path,
            f"must have the column {listing(list(request.id_column))} too, which names the rows; "
            f"it holds {listing(table.schema.names)}.",
        )
    return found


def _chosen(keys: list[Key], table: Table, head: Table, request: Request) -> Key | None:
    """Return the key, or the first of several that match the rows in one way; else raise.

    Columns that name no row alone may do so together.
    """
    if len(keys) > 1 and (request.id_column or not any(key.is_unique for key in keys)):
        stored = _joined([key.stored for key in keys])
        at = tuple(i for key in keys for i in key.at)
        return Key(at, '", "'.join(key.name for key in keys), stored)
    # A row number says no more than the order does, where there is a better name.
    better = [key for key in keys if not is_row_number(_numbers(key.stored))] or keys
    unique = [key for key in better if key.is_unique] or better
    fitting = [k for k in unique if (k.rows_of(key_of(head, k.at)) >= 0).all()] or unique
    if not fitting:
        return None
    first = fitting[0]
    rows = first.rows_of(key_of(head, first.at))
    for other in fitting[1:]:
        if not np.array_equal(other.rows_of(key_of(head, other.at)), rows):
            quoted = [f'"{short(key.name)}"' for key in fitting]
            raise file_error(
                table.path,
                f"its rows are not those of {head.path.name}: columns {listing(quoted)} match "
                "them in different ways. Say which names the rows.",
                fixes=[{"id_column": key.name} for key in fitting[:3]],
            )
    return first


def _are_same_names(ours: NDArray[Any], key: Key) -> bool:
    """Return whether different rows of the scores have different names, most of them known.

    Two columns that number the rows, one of them from 1, have most names in common, too.
    """
    if len(ours) < 5 or len(set(ours.tolist())) < len(ours):
        return False
    known = key.rows_of(ours) >= 0
    if is_row_number(_numbers(ours)) and is_row_number(np.sort(_numbers(key.stored))):
        return bool(known.all())
    return bool(known.mean() >= 0.5)


def _shows_order(head: Table, position: int, key: Key) -> bool:
    """Return whether a column that names no row has the same values in both files."""
    if head[position].is_label or head[position].is_prediction:
        return False
    return bool((key.rows_of(key_of(head, [position])) >= 0).all())


def _is_named(table: Table, position: int) -> bool:
    return table.schema.has_names or table[position].unnamed


def _folded(name: str) -> str:
    return name.strip().lower()


def _is_usable(table: Table, position: int) -> bool:
    column = table[position]
    if column.problem is not None or position not in table.data or column.shape:
        return False
    if column.n_rows is not None and len(table.data[position]) != table.n_rows:
        return False
    return column.kind in ("text", "number")


def _may_name(table: Table, position: int) -> bool:
    """Return whether a column could name rows: text or whole numbers."""
    return _is_usable(table, position) and table.is_whole(position)


def key_of(table: Table, positions: Sequence[int]) -> NDArray[Any]:
    """Return columns as text, the same for 7, 7.0 and ``007``; long numbers keep all digits."""
    if len(positions) > 1:
        return _joined([key_of(table, [i]) for i in positions])
    position = positions[0]
    if table.has_cells:
        texts = texts_of(table.data[position])
    else:
        values = table.values(position)
        texts = values if values.dtype == object else values.astype(str)
    distinct, where = np.unique(np.asarray(texts, dtype=str), return_inverse=True)
    words = [
        str(int(w.partition(".")[0])) if _WHOLE.fullmatch(w) else w for w in distinct.tolist()
    ]
    return np.array(words, dtype=str)[where.reshape(-1)]


def _joined(keys: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the names that several columns make together."""
    return np.array(["\x1f".join(names) for names in zip(*keys, strict=True)])


def _numbers(texts: NDArray[Any]) -> NDArray[Any]:
    try:
        return texts.astype(np.float64)
    except ValueError:
        return texts
