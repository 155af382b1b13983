"""Labels in a file of their own, brought to the rows of the scores."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.errors import PredictionFileError, RowError, file_error, listing, short
from focalibrate.io.evidence import is_row_number
from focalibrate.io.options import Request, find_columns
from focalibrate.io.roles.vocabulary import is_id, is_label, is_prediction
from focalibrate.io.table import Table, texts_of

_WHOLE = re.compile(r"[+-]?\d{1,40}(\.0+)?", re.ASCII)


@dataclass(frozen=True)
class Key:
    """A column that names the rows in both files.

    Attributes:
        at: its position in the file of scores.
        name: what messages call it.
        names: the names of the labels' rows, sorted.
        order: the rows that have them.
        stored: the names in the order of the file.
    """

    at: int
    name: str
    names: NDArray[Any]
    order: NDArray[np.intp]
    stored: NDArray[Any]

    @property
    def is_unique(self) -> bool:
        """Whether every row has a name of its own."""
        return not (self.names[1:] == self.names[:-1]).any()

    def rows_of(self, names: NDArray[Any]) -> NDArray[np.intp]:
        """Return the rows with these names; -1 where there is none."""
        found = np.minimum(np.searchsorted(self.names, names), len(self.names) - 1)
        return np.where(self.names[found] == names, self.order[found], -1)


@dataclass(frozen=True)
class OtherLabels:
    """Labels that are in a file of their own.

    Attributes:
        path: that file.
        values: as stored, one per row.
        name: what they are called there.
        key: what names the rows in both files; None: they are in the same order.
    """

    path: Path
    values: NDArray[Any]
    name: str
    key: Key | None

    @property
    def is_by_order(self) -> bool:
        """Whether the labels are in the order of the rows, as no name is one row's alone."""
        return self.key is None or not self.key.is_unique

    @property
    def note(self) -> str:
        """How the labels are brought to the rows."""
        if self.key is None or self.is_by_order:
            same = "" if self.key is None else f', which "{short(self.key.name)}" confirms'
            return f"labels in {self.path.name} are taken in the order of the rows{same}"
        return f'labels are matched to the rows by "{short(self.key.name)}"'

    def of_rows(self, scores: Table, rows: slice | NDArray[np.intp]) -> NDArray[Any]:
        """Return the labels of rows of the file of scores.

        Args:
            scores: the rows.
            rows: where they are in the file of labels, if that has no names for them.

        Raises:
            PredictionFileError: a row has no label, or the names are not unique and differ.
        """
        if self.key is None:
            return self.values[rows]
        names = key_of(scores, self.key.at)
        if isinstance(rows, slice) and np.array_equal(names, self.key.stored[rows]):
            return self.values[rows]
        differs = (
            f'its rows are not those of {scores.path.name}: column "{short(self.key.name)}" '
            "differs"
        )
        if not self.key.is_unique:
            raise file_error(
                self.path, f"{differs} and is not unique. Sort both files in the same way."
            )
        found = self.key.rows_of(names)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            raise RowError(
                self.path, f"{differs}, and it has no label for ", missing, ". Give all labels."
            )
        return self.values[found]


def labels_in(table: Table, request: Request, head: Table, scores: tuple[int, ...]) -> OtherLabels:
    """Return the labels of `table`, a file of their own.

    Args:
        table: all its rows.
        request: what the caller says.
        head: the first rows of the scores.
        scores: the columns of the scores, which name no rows.
    """
    label = _label(table, request)
    keys = _keys(table, label, request, head, scores) if table.schema.is_table else []
    values = table.values(label)
    return OtherLabels(table.path, values, table.name(label), _chosen(keys, table, head))


def _label(table: Table, request: Request) -> int:
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
        found = [i for i in usable if is_label(table.name(i))] if schema.has_names else []
        if len(found) != 1:
            named = [i for i in usable if not (schema.has_names and is_id(table.name(i)))]
            if len(named) == 1:
                found = named
    if len(found) != 1:
        problem = next((c.problem for c in schema.columns if c.problem is not None), None)
        raise problem or file_error(
            table.path,
            f"must hold one column of labels, but it holds {listing(schema.names) or 'none'}. Say "
            "which.",
            fixes=[{"label_column": table.name(i)} for i in usable[:3]],
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
    given = {name.strip().lower() for name in request.id_columns}
    ours = [i for i in range(len(head.columns)) if i not in scores and _may_name(head, i)]
    theirs = [j for j in range(len(table.columns)) if j != label and _may_name(table, j)]
    found = []
    for j in theirs:
        name = table.name(j).strip().lower()
        stored = key_of(table, j)
        order = np.argsort(stored, kind="stable")
        same = [i for i in ours if _named(head, i) and head.name(i).strip().lower() == name]
        if given and name not in given:
            same = []
        key = Key(-1, table.name(j), stored[order], order, stored)
        for i in same[:1]:
            is_constant = key.names[0] == key.names[-1]
            is_usable = key.is_unique or is_id(name) or _shows_order(head, i, key)
            if (is_usable and not is_constant) or name in given:
                found.append(Key(i, head.name(i), key.names, order, stored))
        if not same and not given and key.is_unique and len(stored) > 1:
            found += [
                Key(i, head.name(i), key.names, order, stored)
                for i in ours
                if _is_same_set(key_of(head, i), key)
            ]
    if given and not found:
        raise file_error(
            table.path,
            f"must have the column {listing(list(request.id_columns))} too, which names the rows; "
            f"it holds {listing(table.schema.names)}.",
        )
    return found


def _chosen(keys: list[Key], table: Table, head: Table) -> Key | None:
    """Return the key, or the first of several that match the rows in one way; else raise."""
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
            raise _which(table, head, [key.name for key in fitting])
    return first


def _which(table: Table, head: Table, names: list[str]) -> PredictionFileError:
    return file_error(
        table.path,
        f"its rows are not those of {head.path.name}: columns "
        f"{listing([f'{chr(34)}{short(n)}{chr(34)}' for n in names])} match them in different "
        "ways. Say which names the rows.",
        fixes=[{"id_column": name} for name in names[:3]],
    )


def _is_same_set(ours: NDArray[Any], key: Key) -> bool:
    """Return whether different rows of the scores have different names, all of them known."""
    if len(ours) < 5 or len(set(ours.tolist())) < len(ours):
        return False
    return bool((key.rows_of(ours) >= 0).all())


def _shows_order(head: Table, position: int, key: Key) -> bool:
    """Return whether a column that names no row has the same values in both files."""
    name = head.name(position)
    if is_label(name) or is_prediction(name):
        return False
    return bool((key.rows_of(key_of(head, position)) >= 0).all())


def _named(table: Table, position: int) -> bool:
    return (table.schema.has_names and not table[position].unnamed) or table[position].unnamed


def _may_name(table: Table, position: int) -> bool:
    """Return whether a column could name rows: text or whole numbers."""
    column = table[position]
    if column.problem is not None or position not in table.data:
        return False
    return column.kind == "text" or (column.kind == "number" and table.is_whole(position))


def key_of(table: Table, position: int) -> NDArray[Any]:
    """Return a column as text, the same for 7, 7.0 and ``007``; long numbers keep all digits."""
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


def _numbers(texts: NDArray[Any]) -> NDArray[Any]:
    try:
        return texts.astype(np.float64)
    except ValueError:
        return texts
