"""A file as named columns: what is known of it, and its rows, some at a time."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.cells import (
    Kind,
    RowSums,
    _kind_of_cells,
    _matrix,
    as_arrow,
    as_numpy,
    is_text_type,
    is_value,
    is_whole,
    parsed,
    row_sums,
    texts_of,
)
from focalibrate.io.errors import OfFile, PredictionFileError, short
from focalibrate.io.roles.vocabulary import CLASS_NAMES, Named, says_confidence

WORDS = {"number": "numbers", "bool": "true and false", "matrix": "lists", "empty": "nothing"}


@dataclass(frozen=True, kw_only=True)
class Column(Named):
    """One column of a table, or one array of a file of arrays.

    Attributes:
        name: as the file has it; ``"Unnamed: 3"`` where it has none.
        kind: what the cells are.
        shape: of one row: ``()`` of a plain column, ``(K,)`` of a matrix, ``(-1,)`` if unknown.
        n_rows: of an array; None for the column of a table.
        dtype: of numbers, as stored; None where they are text.
        is_index: the file itself says that this is the index of a data frame.
        unnamed: the file gives no name.
        is_half: numbers have only the precision of float16 or bfloat16.
        problem: why it cannot be read; raised if it is needed.
    """

    kind: Kind
    shape: tuple[int, ...] = ()
    n_rows: int | None = None
    dtype: np.dtype[Any] | None = None
    is_index: bool = False
    unnamed: bool = False
    is_half: bool = False
    problem: PredictionFileError | None = None


@dataclass(frozen=True, kw_only=True)
class Schema(OfFile):
    """What is known of a file before its rows are read.

    Attributes:
        path: the file.
        columns: in the order of the file.
        is_table: rows of a table, rather than arrays of any shape.
        has_names: the columns of the table have names.
        is_ordered: the columns have an order; not so if every row lists them in its own.
        is_partial: some rows lack some columns, not only their values.
        class_names: names of the classes stored beside the data, in the order of a matrix.
        numeric_classes: `class_names` were stored as numbers, which labels repeat.
        class_names_at: the array that holds them.
        listed: position and cells of a column that lists the classes in every row.
        separator: between the cells of a text table, else None.
        decimal_comma: numbers are written ``0,5``.
        pandas: what pandas stored about the table.
        objects: name of each column of objects, and the positions of its fields among the columns.
        notes: what was decided while opening the file.
        roles: options of `read_predictions` that say what the columns are, where the format
            knows; what the caller says counts first.
    """

    path: Path
    columns: tuple[Column, ...]
    is_table: bool = True
    has_names: bool = True
    is_ordered: bool = True
    is_partial: bool = False
    class_names: tuple[str, ...] | None = None
    numeric_classes: bool = False
    class_names_at: int | None = None
    listed: tuple[int, str] | None = None
    separator: str | None = None
    decimal_comma: bool = False
    pandas: bytes | None = None
    objects: tuple[tuple[str, tuple[int, ...]], ...] = ()
    notes: tuple[str, ...] = ()
    roles: Mapping[str, Any] = field(default_factory=dict)

    def where(
        self, test: Callable[[Column], object], but: Collection[int | None] = ()
    ) -> list[int]:
        """Return the positions of the columns for which `test` is true, `but` for some."""
        return [i for i, column in enumerate(self.columns) if i not in but and test(column)]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]


class Table(OfFile):
    """Some rows of a file; the values of a column are converted when first needed, then kept.

    Attributes:
        schema: the columns.
        data: the columns that were read, by position; objects from -1 downwards.
        n_rows: how many rows; of a file of arrays, those of the longest.
        first_row: the number of the first of them in its file.
    """

    def __init__(
        self, schema: Schema, data: Mapping[int, Any], n_rows: int, first_row: int = 0
    ) -> None:
        self.schema, self.data, self.n_rows, self.first_row = schema, data, n_rows, first_row
        self.path, self.columns = schema.path, schema.columns
        self._values: dict[int, NDArray[Any]] = {}
        self._sums: dict[tuple[int, ...], RowSums] = {}

    def __getitem__(self, position: int) -> Column:
        return self.columns[position]

    def name(self, position: int) -> str:
        """Return a column's name."""
        return self.columns[position].name

    def slice(self, start: int, n_rows: int) -> "Table":
        """Return some of the rows."""
        n = max(0, min(n_rows, self.n_rows - start))
        if n == self.n_rows:
            return self
        data = {i: column[start : start + n] for i, column in self.data.items()}
        return Table(self.schema, data, n, self.first_row + start)

    def in_order(self, schema: Schema, places: Sequence[int]) -> "Table":
        """Return the same rows with the columns of `schema`, which are here at `places`."""
        data = {i: self.data[p] for i, p in enumerate(places) if p in self.data}
        names = [name for name, _ in self.schema.objects]
        for at, (name, _) in enumerate(schema.objects):
            if name in names and ~names.index(name) in self.data:
                data[~at] = self.data[~names.index(name)]
        found = Table(replace(schema, path=self.path), data, self.n_rows, self.first_row)
        found._values = {i: self._values[p] for i, p in enumerate(places) if p in self._values}
        return found

    def values(self, position: int) -> NDArray[Any]:
        """Return a column as an array: numbers, booleans, a matrix or text."""
        found = self._values.get(position)
        if found is None:
            column = self.columns[position]
            if column.problem is not None:
                raise column.problem
            if position not in self.data:
                raise self.error(
                    f"`{short(column.name)}` must hold one value per row, not only one."
                )
            stored = self.data[position]
            if isinstance(stored, np.ndarray):
                found = stored
            else:
                try:
                    found = self._converted(column, getattr(stored, "storage", stored))
                except (pa.ArrowException, UnicodeDecodeError) as error:
                    raise self.error(
                        f"column `{short(column.name)}` is damaged ({short(error)}). Write the "
                        "file again."
                    ) from error
            if found is None:
                raise self._changed(position, column)
            self._values[position] = found
        return found

    def _converted(self, column: Column, cells: Any) -> NDArray[Any] | None:
        """Return cells as an array, None where one is of another kind; missing text is ""."""
        kind = column.kind
        if kind == "text":
            return texts_of(cells)
        if is_text_type(cells.type):
            found = parsed(cells, kind, decimal_comma=self.schema.decimal_comma)
            return None if kind == "empty" and any(texts_of(cells)) else found
        if kind == "matrix":
            return _matrix(cells, self.path)
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        if kind == "number":
            if pa.types.is_decimal(cells.type):
                cells = cells.cast(pa.float64())
            numbers = as_numpy(cells)
            return numbers if numbers.dtype.kind in "fiu" else numbers.astype(np.float64)
        if kind == "bool" and not cells.null_count:
            return as_numpy(cells)
        return np.array(["" if v is None else str(v) for v in cells.to_pylist()], dtype=object)

    def _changed(self, position: int, column: Column) -> PredictionFileError:
        """Return the error for a column that holds other values than in the first rows."""
        cells = self.cells(position)
        comma = self.schema.decimal_comma
        row = 0
        if column.kind == "number":
            bad = (i for i, c in enumerate(cells) if not is_value(c, decimal_comma=comma))
            row = next(bad, 0)
        return self.rows_error(
            f"column `{short(column.name)}` holds {WORDS[column.kind]} in the first rows, but ",
            [row],
            f" has {short(repr(cells[row]))}. Correct it, or leave the column out.",
            fixes=[{"ignore": [column.name]}],
        )

    @property
    def has_cells(self) -> bool:
        """Whether this is a text table."""
        return self.schema.separator is not None

    def is_written(self, position: int) -> bool:
        """Return whether a column is stored as text, also where it was read as numbers."""
        kind = getattr(self.data[position], "type", None)
        return kind is not None and is_text_type(kind)

    def cells(self, position: int) -> list[str]:
        """Return the cells of a column stored as text, as the file has them."""
        found: list[str] = self.data[position].to_pylist()
        return found

    def described(self) -> Schema:
        """Return the schema of a text table, its columns described by these rows."""
        comma, columns = self.schema.decimal_comma, list[Column]()
        for i, column in enumerate(self.columns):
            kind, values = _kind_of_cells(self.data[i], decimal_comma=comma)
            if values is not None:
                self._values[i] = values
            shape = () if values is None else values.shape[1:]
            columns.append(replace(column, kind=kind, shape=shape))
        return replace(self.schema, columns=tuple(columns))

    def is_kind(self, position: int, *kinds: str) -> bool:
        """Return whether the column's cells are of one of these kinds."""
        return self.columns[position].kind in kinds

    def is_whole(self, position: int) -> bool:
        """Return whether a column could be classes: whole numbers, booleans or text."""
        if self.is_kind(position, "text", "bool"):
            return True
        return self.is_kind(position, "number") and is_whole(self.values(position))

    def sums(self, positions: Sequence[int]) -> RowSums:
        """Return what the rows over these columns sum to."""
        key = tuple(positions)
        if key in self._sums:
            return self._sums[key]
        arrays = [self.values(i) for i in positions]
        if len({array.shape for array in arrays}) > 1:
            raise self.error(
                "scores must have the same number of rows, but "
                f"`{short(self.name(positions[0]))}` has shape {arrays[0].shape} and another "
                f"{arrays[-1].shape}."
            )
        is_matrix = len(arrays) == 1 and arrays[0].ndim == 2
        self._sums[key] = row_sums(arrays[0] if is_matrix else np.stack(arrays, axis=1))
        return self._sums[key]

    def kept(self, gone: Set[int | None], label: int | None) -> tuple[list[str], list[int]]:
        """Return names and positions of the columns that an output keeps.

        An object is kept whole, unless it holds the label or a column that is gone.
        """
        names, positions = list[str](), list[int]()
        fields: dict[int, tuple[int, str]] = {}
        for at, (name, inside) in enumerate(self.schema.objects):
            if not (gone | {label}) & {*inside}:
                fields.update(dict.fromkeys(inside, (~at, name)))
        for i, column in enumerate(self.columns):
            at, name = fields.get(i, (i, column.name))
            if i not in gone and at not in positions:
                names.append(name)
                positions.append(at)
        return names, positions

    def arrow(self, position: int) -> Any:
        """Return a column as an Arrow array, as the file has it."""
        stored = self.data[position]
        return as_arrow(stored) if isinstance(stored, np.ndarray) else stored


def joined_tables(tables: Sequence[Table]) -> Table:
    """Return tables with the same columns one below another."""
    first = tables[0]
    if len(tables) == 1:
        return first
    data = {i: _stacked([table.data[i] for table in tables]) for i in first.data}
    return Table(first.schema, data, sum(t.n_rows for t in tables), first.first_row)


def _stacked(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if pa.types.is_dictionary(parts[0].type):
        return pa.chunked_array(parts).unify_dictionaries().combine_chunks()
    return pa.concat_arrays(parts)


Read: TypeAlias = Callable[[Sequence[int] | None, int, int | None], Iterator[Table]]
"""Yield tables of at most so many rows, in order, with the wanted columns; of one piece or all."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """One opened file.

    Attributes:
        schema: its columns.
        read: its rows, some at a time.
        n_rows: number of rows, or None if the file does not say.
        pieces: number of rows of each piece that can be read by itself; empty for a file that is
            read from its beginning.
        constants: reads the arrays that do not have one entry per row.
        digest: returns the SHA-256 of its bytes, once all of them were read.
        layout: fields of `Layout` that the format knows.
    """

    schema: Schema
    read: Read
    n_rows: int | None = None
    pieces: tuple[int, ...] = ()
    constants: Callable[[Sequence[int]], list[NDArray[Any]]] | None = None
    digest: Callable[[], str | None] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)

    def as_in(self, first: Schema, places: Sequence[int]) -> "Opened":
        """Return the file with its columns in the order of `first`, where they are at `places`.

        Its tables have the columns that `first` describes, its schema says what it has itself.
        """

        def read(wanted: Sequence[int] | None, rows: int, piece: int | None) -> Iterator[Table]:
            theirs = None if wanted is None else [places[i] for i in wanted]
            for table in self.read(theirs, rows, piece):
                yield table.in_order(first, places)

        columns = tuple(self.schema.columns[i] for i in places)
        return replace(self, schema=replace(self.schema, columns=columns), read=read)


def in_memory(schema: Schema, data: Mapping[int, Any], n_rows: int) -> Opened:
    """Return a file that was read whole."""
    whole = Table(schema, data, n_rows)

    def read(wanted: Sequence[int] | None, rows: int, _: int | None) -> Iterator[Table]:
        for start in range(0, n_rows, rows):
            yield whole.slice(start, rows)

    return Opened(
        schema=schema,
        read=read,
        n_rows=n_rows if schema.is_table else None,
        constants=lambda wanted: [np.asarray(data[i]) for i in wanted],
    )


_LISTED = CLASS_NAMES | {"labels"}


def with_class_names(opened: Opened) -> Schema:
    """Return the schema of a file of arrays with the names of the classes that one of them has."""
    schema = opened.schema
    if schema.is_table or schema.class_names is not None or opened.constants is None:
        return schema
    sizes = {c.shape[0] for c in schema.columns if c.kind == "matrix" and len(c.shape) == 1}
    found = schema.where(
        lambda c: (
            c.plain in CLASS_NAMES
            and ((c.n_rows is not None and not c.shape) or c.problem is not None)
            and (c.plain == "class_names" or c.n_rows in sizes)
        )
    )
    if not found:
        return schema
    problem = schema.columns[found[0]].problem
    if problem is not None:
        raise problem
    (names,) = opened.constants([found[0]])
    numeric = names.dtype.kind in "iufb"
    if numeric and names.dtype.kind == "f" and (names == np.trunc(names)).all():
        names = names.astype(np.int64)
    return replace(
        schema,
        class_names=tuple(str(name) for name in names.tolist()),
        numeric_classes=numeric,
        class_names_at=found[0],
    )


def with_numbers_in_text(head: Table) -> Schema:
    """Return the schema with columns of text as numbers that are named like scores, and are."""
    schema = head.schema
    if not schema.is_table or head.has_cells:
        return schema
    columns = list(schema.columns)
    for i, column in enumerate(columns):
        cells, is_score = head.data.get(i), says_confidence(column.name) or column.meaning
        if column.kind != "text" or column.problem is not None or not is_score or cells is None:
            continue
        if not isinstance(cells, np.ndarray) and is_text_type(cells.type):
            numbers = parsed(cells, "number", decimal_comma=False)
            if numbers is not None and not np.isnan(numbers).all():
                columns[i] = replace(column, kind="number", dtype=np.dtype(np.float64))
    return replace(schema, columns=tuple(columns))


def with_listed_names(head: Table) -> Schema:
    """Take the names of the classes from a column whose cells are all ``['cat', 'dog']``.

    It is found by the first rows; `check_listed` refuses a later row with another list.
    """
    schema = with_numbers_in_text(head)
    if not schema.is_table or schema.class_names is not None:
        return schema
    matrices = [i for i, c in enumerate(schema.columns) if c.kind == "matrix"]
    for i, column in enumerate(schema.columns):
        if not matrices or column.kind != "text" or column.plain not in _LISTED:
            continue
        cells = head.values(i)
        if (cells == cells[0]).all() and str(cells[0]).startswith("["):
            names = tuple(a or b for a, b in re.findall(r"'([^']*)'|\"([^\"]*)\"", str(cells[0])))
            widths = {head.values(j).shape[1] for j in matrices}
            if len(names) in widths and len(set(names)) == len(names):
                return replace(schema, class_names=names, listed=(i, str(cells[0])))
    return schema


def check_listed(table: Table) -> None:
    """Raise where a row of a batch lists other classes than the first rows."""
    if table.schema.listed is None:
        return
    at, expected = table.schema.listed
    cells = table.values(at)
    other = np.flatnonzero(cells != expected)
    if len(other):
        raise table.rows_error(
            f"column `{short(table.name(at))}` must list the same classes in every row, but ",
            other,
            f" lists {short(cells[other[0]])}.",
        )
