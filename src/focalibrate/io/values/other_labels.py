"""Labels in a file of their own, brought to the rows of the scores."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.cells import is_row_number, texts_of
from focalibrate.io.errors import Doubt, RowError, listing, short
from focalibrate.io.options import Request, find_columns
from focalibrate.io.roles.diagnoses import is_one_hot, of_one_hot
from focalibrate.io.roles.vocabulary import DERIVED, Named
from focalibrate.io.table import Table
from focalibrate.io.values.labels import Labels

_WHOLE = re.compile(r"[+-]?\d{1,40}(\.0+)?", re.ASCII)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d.*)", re.ASCII)
_MIDNIGHT = re.compile(r"00:00(:00(\.0+)?)?", re.ASCII)


@dataclass(frozen=True)
class Key:
    """A column that names the rows in both files.

    Attributes:
        at: its columns in the file of scores; several name a row together.
        name: what messages call it.
        stored: the names of the labels' rows.
        is_loose: names are compared without folders, suffixes of files, and case.
    """

    at: tuple[int, ...]
    name: str
    stored: NDArray[Any]
    is_loose: bool = False

    def names(self, scores: Table) -> NDArray[Any]:
        """Return the names of rows of the file of scores."""
        names = key_of(scores, self.at)
        return _loose(names) if self.is_loose else names

    def loosely(self) -> "Key":
        """Return the same key, for names that are written in two ways."""
        return replace(self, stored=_loose(self.stored), is_loose=True)

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

    def are_numbered_again(self, scores: Table, first: Table) -> bool:
        """Return whether a part numbers its rows from where the first part does.

        That first part has not a row for every label, so the numbers are those within a part.
        """
        if self.key is None:
            return False
        ours, theirs = (self.key.names(table)[:5] for table in (scores, first))
        if not (is_row_number(_numbers(ours)) and np.array_equal(ours, theirs)):
            return False
        return is_row_number(np.sort(_numbers(self.key.stored)))

    def of_rows(self, scores: Table, rows: slice) -> Labels:
        """Return the labels of rows of the file of scores."""
        if self.key is None:
            n_labels = len(self.all.values)
            if n_labels < rows.stop:
                raise self.all.error(
                    f"`{short(self.all.name)}` must hold one label per row, but there are fewer "
                    f"labels than rows: {n_labels} labels, {rows.stop} rows. Check that both come "
                    "from the same split."
                )
            return self.all[rows]
        names = self.key.names(scores)
        if np.array_equal(names, self.key.stored[rows]):
            return self.all[rows]
        differs = (
            f'its rows are not those of {scores.path.name}: column "{short(self.key.name)}" '
            "differs"
        )
        if not self.key.is_unique:
            raise self.all.error(
                f"{differs} and is not unique, and labels of one name differ. Sort both files in "
                "the same way, or give one label per name."
            )
        found = self.key.rows_of(names)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            advice = "Give all labels."
            if len(missing) == len(names):
                here, there = (short(repr(str(some[0]))) for some in (self.key.stored, names))
                advice = f"It has {here} where {scores.path.name} has {there}: write them alike."
            raise RowError(
                self.all.path, f"{differs}, and it has no label for ", missing, f". {advice}"
            )
        return self.all[found]


def labels_in(table: Table, request: Request, head: Table, scores: tuple[int, ...]) -> OtherLabels:
    """Return the labels of `table`, a file of their own."""
    label = _label(table, request, head, scores)
    values = table.values(label)
    key = _chosen(_keys(table, label, request, head, scores), table, head, request)
    if key is not None and not key.is_unique:  # such as one label per patient, of several visits
        _, first, names = np.unique(key.stored, return_index=True, return_inverse=True)
        if values.ndim == 1 and (values[first][names] == values).all():
            values, key = values[first], replace(key, stored=key.stored[first])
    others = [i for i in range(len(head.columns)) if i not in scores and _may_name(head, i)]
    own = next((head.name(i) for i in others if _is_named(head, i) and head[i].is_label), None)
    unused = "" if own is None else f'; those in "{short(own)}" are not used'
    named = "" if key is None else f'"{short(key.name)}"'
    if key is not None and key.is_unique:
        alike = " without folders, suffixes and case" if key.is_loose else ""
        note = f"labels are matched to the rows by {named}{alike}{unused}"
    else:
        confirmed = f", which {named} confirms" if named else ""
        note = f"labels in {table.path.name} are taken in the order of the rows{confirmed}{unused}"
    doubt = None if key is not None else _against_order(table, label, head, others)
    if doubt is not None:
        note = Doubt(f"WARNING: {note}, but {doubt}")
    return OtherLabels(Labels(values, table.name(label), table.path), key, note)


def _against_order(table: Table, label: int, head: Table, others: list[int]) -> str | None:
    """Return what shows that the rows are in another order than the labels, or None."""
    named = [i for i in others if head[i].unnamed or head[i].is_id or head[i].is_index]
    total = cache(_total)
    for i in named if len(table.columns) == 1 else ():
        if _numbers_labels(head, i, table.n_rows):
            return (
                f'"{short(head.name(i) or "the first column")}" of {head.path.name} numbers its '
                "rows in another order; save the same column with the labels"
            )
    for j in range(len(table.columns)):
        if j == label or not _is_flat(table, j):
            continue
        what = f'its column "{short(table.name(j) or "the first")}"'
        name = _folded(table.name(j))
        if _is_shuffled(table, j):
            return f"{what} numbers them in another order; save the same column with the scores"
        for i in range(len(head.columns)):
            if _is_named(head, i) and _folded(head.name(i)) == name and _differ(table, j, head, i):
                return (
                    f"{what} differs from that of {head.path.name}: check that both have the same "
                    "rows"
                )
            if (
                _is_named(head, i)
                and _folded(head.name(i)) == name
                and _reordered(table, j, head, i)
            ):
                return (
                    f"{what} has the values of that of {head.path.name} in another order: check "
                    "that both have the same rows in one order"
                )
            is_name = i in others and not (head[i].is_label or head[i].is_prediction)
            may_be = is_name and _may_name(table, j) and table.n_rows == head.n_rows
            if may_be and total(table, j) == total(head, i) and _are_permuted(table, j, head, i):
                return (
                    f'{what} has the values of "{short(head.name(i))}" in another order: call '
                    "both alike, so that they match the rows"
                )
            if i in others and _are_moved(table, j, head, i):
                return (
                    f'{what} has the names in "{short(head.name(i))}" in another order: write '
                    "them alike, so that they match the rows"
                )
    return None


def _is_shuffled(table: Table, position: int) -> bool:
    """Return whether a column numbers the rows, but not in their order."""
    if not table.is_kind(position, "number"):
        return False
    values = table.values(position)
    return is_row_number(np.sort(values)) and not is_row_number(values)


def _numbers_labels(head: Table, position: int, n_labels: int) -> bool:
    """Return whether a column numbers labels, but other than those in the order of the rows.

    So it is in the first of several parts, too, that hold every second row or the last rows.
    """
    if not head.is_kind(position, "number"):
        return False
    values = head.values(position)
    if len(values) < 5 or not ((values >= 0) & (values <= n_labels)).all():
        return False
    is_distinct = len(np.unique(values)) == len(values)
    return is_distinct and not (is_row_number(values) and values[0] in (0, 1))


def _total(table: Table, position: int) -> float:
    """Return what columns have in common whose values are the same in another order."""
    values = table.values(position)
    is_number = values.dtype.kind in "fiu"
    return float(np.nansum(values)) if is_number else float(sum(map(len, map(str, values))))


def _are_permuted(table: Table, j: int, head: Table, i: int) -> bool:
    """Return whether columns that may name rows have the same values, in two orders."""
    ours, theirs = key_of(head, [i]), key_of(table, [j])
    is_varied = len(set(ours.tolist())) >= min(10, len(ours) // 2)
    same = is_varied and np.array_equal(np.sort(ours), np.sort(theirs))
    return same and not np.array_equal(ours, theirs)


def _reordered(table: Table, j: int, head: Table, i: int) -> bool:
    """Return whether columns have the same values, each as often, in two orders.

    They need not name rows: ``a/1.png`` and ``b/1.png`` are both ``1.png`` in the other file.
    """
    if table.n_rows != head.n_rows or not _is_flat(head, i) or head[i].is_prediction:
        return False
    ours, theirs = (_loose(key_of(t, [at])) for t, at in ((head, i), (table, j)))
    return not np.array_equal(ours, theirs) and np.array_equal(np.sort(ours), np.sort(theirs))


def _are_moved(table: Table, j: int, head: Table, i: int) -> bool:
    """Return whether columns of text have the same names, written in two ways, in two orders."""
    if not (table.is_kind(j, "text") and head.is_kind(i, "text")):
        return False
    ours, theirs = (_loose(key_of(t, [at])) for t, at in ((head, i), (table, j)))
    key, n = Key((), "", theirs), min(len(ours), len(theirs))
    is_moved = not np.array_equal(ours[:n], theirs[:n])
    return is_moved and key.is_unique and _are_same_names(ours, key)


def _name_alike(table: Table, j: int, head: Table, i: int) -> bool:
    """Return whether a column has a name for every row that another column names."""
    if not (table.is_kind(j, "text") and _may_name(table, j) and head.is_kind(i, "text")):
        return False
    key = Key((i,), "", key_of(table, [j]))
    return key.is_unique and any(_knows_all(k, head) for k in (key, key.loosely()))


def _differ(table: Table, j: int, head: Table, i: int) -> bool:
    """Return whether columns of numbers differ in most rows by more than rounding."""
    are_numbers = table.is_kind(j, "number") and head.is_kind(i, "number")
    is_score = head[i].meaning is not None or head[i].plain in DERIVED  # may be that of another
    if not are_numbers or is_score or not _is_usable(head, i):
        return False
    n = min(table.n_rows, head.n_rows)
    a, b = (np.asarray(t.values(at)[:n], np.float64) for t, at in ((table, j), (head, i)))
    with np.errstate(invalid="ignore"):
        return bool((np.abs(a - b) > 0.01 * np.ptp(b)).mean() > 0.5)


def _loose(names: NDArray[Any]) -> NDArray[Any]:
    """Return names in lower case, those of files without their folders and their suffix."""
    found = (re.split(r"[/\\]", name.lower())[-1] for name in names.tolist())
    return np.array([re.sub(r"(?<=.)\.[a-z0-9]{1,5}$", "", name) for name in found], dtype=str)


def _label(table: Table, request: Request, head: Table, scores: tuple[int, ...]) -> int:
    schema = table.schema
    wanted = request.label_column if request.label_column is not None else request.labels_key
    usable = [
        i
        for i, c in enumerate(schema.columns)
        if c.kind in ("number", "text", "bool", "matrix") and not c.is_index
    ]
    if wanted is not None:
        return find_columns(schema, [str(wanted)], option="label_column")[0]
    found = [i for i in usable if schema.has_names and table[i].is_label]
    if schema.has_names:
        shared = {_folded(head.name(i)) for i in range(len(head.columns)) if i not in scores}
        shared -= {_folded(table.name(i)) for i in found}
        aside = [c.is_id or c.is_prediction or _folded(c.name) in shared for c in schema.columns]
        usable = [i for i in usable if not aside[i]]
    if not found:  # a column that names the rows is none
        ours = [i for i in range(len(head.columns)) if i not in scores and _may_name(head, i)]
        usable = [j for j in usable if not any(_name_alike(table, j, head, i) for i in ours)]
    for one in (found, usable):
        if len(one) == 1:
            return one[0]
    one_hot = [j for j in found or usable if table.is_kind(j, "number", "bool")]
    if is_one_hot(table, one_hot):
        raise of_one_hot(table, one_hot, head)
    problem = next((c.problem for c in schema.columns if c.problem is not None), None)
    raise problem or table.error(
        f"must hold one column of labels, but it holds {listing(schema.names) or 'none'}. Say "
        "which.",
        fixes=[{"label_column": table.name(i)} for i in (found or usable)[:3]],
    )


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
                is_key = key.is_unique and _are_same_names(key.names(head), key)
            if key.is_unique and not (key.rows_of(key.names(head)) >= 0).any():
                key = next(filter(lambda k: _knows_all(k, head), [key.loosely()]), key)
            found += [key] * (is_key or name in given)
        elif may_name and len(stored) > 1 and Key((), name, stored).is_unique:
            keys = (Key((i,), head.name(i), stored) for i in ours if _may_name(head, i))
            found += [key for key in keys if _are_same_names(key.names(head), key)]
    if len(found) < len(given):
        raise table.error(
            f"must have the column {listing(list(request.id_column))} too, which names the rows; "
            f"it holds {listing(table.schema.names)}."
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
    fitting = [k for k in unique if _knows_all(k, head)] or unique
    if not fitting:
        return None
    first = fitting[0]
    rows = first.rows_of(first.names(head))
    for other in fitting[1:]:
        if not np.array_equal(other.rows_of(other.names(head)), rows):
            quoted = [f'"{short(key.name)}"' for key in fitting]
            raise table.error(
                f"its rows are not those of {head.path.name}: columns {listing(quoted)} match "
                "them in different ways. Say which names the rows.",
                fixes=[{"id_column": key.name} for key in fitting[:3]],
            )
    return first


def _knows_all(key: Key, head: Table) -> bool:
    return key.is_unique and bool((key.rows_of(key.names(head)) >= 0).all())


def _are_same_names(ours: NDArray[Any], key: Key) -> bool:
    """Return whether different rows of the scores have different names, most of them known.

    Two columns that number the rows, one of them from 1, have most names in common, too.
    """
    if len(ours) < 5 or len(set(ours.tolist())) < len(ours):
        return False
    known = key.rows_of(ours) >= 0
    if is_row_number(_numbers(ours)) and is_row_number(np.sort(_numbers(key.stored))):
        return bool(known.all())
    is_number = _numbers(key.stored).dtype.kind == "f"
    return bool(known.mean() >= (0.5 if is_number else SHARED))


SHARED = 0.1
"""Part of the names, written in words, that two columns hardly have in common by chance."""


def _shows_order(head: Table, position: int, key: Key) -> bool:
    """Return whether a column has the same values in both files, or most: names that repeat."""
    if head[position].is_label or head[position].is_prediction:
        return False
    known = key.rows_of(key_of(head, [position])) >= 0
    is_almost_unique = len(set(key.stored.tolist())) >= 0.5 * len(key.stored)
    return bool(known.all() or (is_almost_unique and known.mean() >= 0.5))


def _is_named(table: Table, position: int) -> bool:
    return table.schema.has_names or table[position].unnamed


def _folded(name: str) -> str:
    return name.strip().lower()


def _is_flat(table: Table, position: int) -> bool:
    """Return whether a column has one value per row."""
    column = table[position]
    if column.problem is not None or position not in table.data or column.shape:
        return False
    if column.n_rows is not None and len(table.data[position]) != table.n_rows:
        return False
    return column.kind in ("text", "number", "bool") or _is_date(table, position)


def _is_usable(table: Table, position: int) -> bool:
    return _is_flat(table, position) and not table.is_kind(position, "bool")


def _is_date(table: Table, position: int) -> bool:
    kind = getattr(table.data[position], "type", None)
    return kind is not None and bool(pa.types.is_temporal(kind))


def _may_name(table: Table, position: int) -> bool:
    """Return whether a column could name rows: text, dates or whole numbers."""
    is_usable = _is_usable(table, position)
    return is_usable and (table.is_whole(position) or _is_date(table, position))


def key_of(table: Table, positions: Sequence[int]) -> NDArray[Any]:
    """Return columns as text: one for 7, 7.0 and ``007``, and for ``2026-01-31`` and its midnight.

    Long numbers keep all digits.
    """
    if len(positions) > 1:
        return _joined([key_of(table, [i]) for i in positions])
    position = positions[0]
    if table.has_cells:
        texts = texts_of(table.data[position])
    else:
        values = table.values(position)
        texts = values if values.dtype == object else values.astype(str)
    distinct, where = np.unique(np.asarray(texts, dtype=str), return_inverse=True)
    return np.array([one_way(w) for w in distinct.tolist()], dtype=str)[where.reshape(-1)]


def one_way(word: str) -> str:
    """Return a whole number or a time in one of the ways to write it."""
    if _WHOLE.fullmatch(word):
        return str(int(word.partition(".")[0]))
    time = _TIME.fullmatch(word)
    if time is None:
        return word
    return time[1] if _MIDNIGHT.fullmatch(time[2]) else f"{time[1]} {time[2]}"


def _joined(keys: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.array(["\x1f".join(names) for names in zip(*keys, strict=True)])


def _numbers(texts: NDArray[Any]) -> NDArray[Any]:
    try:
        return texts.astype(np.float64)
    except ValueError:
        return texts
