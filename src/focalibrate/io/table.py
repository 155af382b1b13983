"""Rows of a file as named columns: Arrow arrays of a table, NumPy arrays of a file of arrays."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from focalibrate.io.cells import MISSING, is_number, is_value
from focalibrate.io.errors import PredictionFileError, RowError, file_error, short
from focalibrate.io.evidence import RowSums, is_whole, row_sums
from focalibrate.io.roles.vocabulary import Named

Kind: TypeAlias = Literal["number", "text", "bool", "matrix", "empty", "other"]
"""What the cells of a column are; a matrix has a list of numbers in every row."""

BOOLEANS = {"true": True, "false": False}
WORDS = {"number": "numbers", "bool": "true and false", "matrix": "lists", "empty": "nothing"}

_SCALAR = re.compile(r"(?:np\.|numpy\.)?(?:float|int|bfloat)\d+\(([^()]*)\)")
_ARRAY = re.compile(
    r"(?:tensor|array|Array|DenseVector)\((.*?)(?:,\s*(?:dtype|device|grad_fn)=.*)?\)", re.DOTALL
)


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
class Schema:
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

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]


class Table:
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
        """Return a column as an array: numbers, booleans, a matrix or text.

        Raises:
            PredictionFileError: it cannot be read, or a cell is not of the column's kind.
        """
        found = self._values.get(position)
        if found is None:
            column = self.columns[position]
            if column.problem is not None:
                raise column.problem
            if position not in self.data:
                raise file_error(
                    self.path, f"`{short(column.name)}` must hold one value per row, not only one."
                )
            stored = self.data[position]
            if isinstance(stored, np.ndarray):
                found = stored
            else:
                try:
                    found = self._converted(column, getattr(stored, "storage", stored))
                except (pa.ArrowException, UnicodeDecodeError) as error:
                    raise file_error(
                        self.path,
                        f"column `{short(column.name)}` is damaged ({short(error)}). Write the "
                        "file again.",
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
        return RowError(
            self.path,
            f"column `{short(column.name)}` holds {WORDS[column.kind]} in the first rows, but ",
            [row],
            f" has {short(repr(cells[row]))}. Correct it, or leave the column out.",
            fixes=[{"ignore": [column.name]}],
        )

    @property
    def has_cells(self) -> bool:
        """Whether this is a text table."""
        return self.schema.separator is not None

    def cells(self, position: int) -> list[str]:
        """Return the cells of a column of a text table, as the file has them."""
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
        if key not in self._sums:
            self._sums[key] = self._sums_of(positions)
        return self._sums[key]

    def _sums_of(self, positions: Sequence[int]) -> RowSums:
        arrays = [self.values(i) for i in positions]
        if len(arrays) == 1 and arrays[0].ndim == 2:
            return row_sums(arrays[0])
        if len({array.shape for array in arrays}) > 1:
            raise file_error(
                self.path,
                "scores must have the same number of rows, but "
                f"`{short(self.name(positions[0]))}` has shape {arrays[0].shape} and another "
                f"{arrays[-1].shape}.",
            )
        return row_sums(np.stack(arrays, axis=1))

    def kept(self, gone: Set[int], label: int | None) -> tuple[list[str], list[int]]:
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


def as_numpy(cells: Any) -> NDArray[Any]:
    """Return numbers or truth values as a NumPy array, missing ones as nan.

    Not by `to_numpy` where it can be avoided: it imports pandas, which takes longer than the rest.
    """
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if cells.null_count or pa.types.is_temporal(cells.type) or pa.types.is_decimal(cells.type):
        found: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return found
    if pa.types.is_boolean(cells.type):
        return np.from_dlpack(cells.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(cells)


def _codes(codes: Any, missing: int) -> NDArray[Any]:
    """Return the numbers of dictionary-encoded cells, `missing` where there is none."""
    return as_numpy(codes.indices.fill_null(missing) if codes.null_count else codes.indices)


def as_arrow(array: NDArray[Any]) -> Any:
    """Return an array as an Arrow array; one of several axes as lists of fixed size.

    By `pa.array` only where it must be, as `pa.array` imports pandas too.
    """
    if array.ndim > 1:
        inner = as_arrow(array.reshape(-1, *array.shape[2:]))
        return pa.FixedSizeListArray.from_arrays(inner, array.shape[1])
    if array.dtype.kind in "UO":
        texts = array.tolist()
        if None in texts:
            return pa.array(texts, pa.string())
        cells = [text.encode() for text in texts]
        ends = np.cumsum([0, *map(len, cells)], dtype=np.int32)
        buffers = pa.py_buffer(ends), pa.py_buffer(b"".join(cells))
        return pa.StringArray.from_buffers(len(cells), *buffers)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)  # Arrow has no longer ones
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if array.dtype == np.bool_:
        return as_arrow(array.view(np.uint8)).cast(pa.bool_())
    if array.dtype.kind not in "fiu":
        return pa.array(array)
    kind, content = pa.from_numpy_dtype(array.dtype), pa.py_buffer(array)
    return pa.Array.from_buffers(kind, len(array), [None, content])


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


def is_text_type(kind: Any) -> bool:
    """Return whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def texts_of(cells: Any) -> NDArray[Any]:
    """Return cells as text without white space around them; missing text is ``""``."""
    codes = cells.cast(pa.string()).dictionary_encode()
    words = [word.strip() for word in codes.dictionary.to_pylist()]
    distinct = np.array([*words, ""], dtype=object)
    places = _codes(codes, len(words))
    return np.asarray(distinct[places])


def unwrapped(cell: str) -> str:
    """Return a number or list without the names of types around it.

    Example:
        >>> unwrapped("[np.float64(0.25), np.float64(0.75)]")
        '[0.25, 0.75]'
        >>> unwrapped("tensor(0.5, device='cpu')")
        '0.5'
    """
    text = cell.strip()
    if "(" not in text:
        return text
    if text.startswith("(") and text.endswith(")"):
        text = f"[{text[1:-1].rstrip(',')}]"
    found = _ARRAY.fullmatch(text)
    return _SCALAR.sub(r"\1", text if found is None else found[1])


def _kind_of_cells(cells: Any, *, decimal_comma: bool) -> tuple[Kind, NDArray[Any] | None]:
    """Return what cells of text are, and their values if they are not text."""
    numbers = parsed(cells, "number", decimal_comma=decimal_comma)
    if numbers is not None and not np.isnan(numbers).all():
        return "number", numbers
    known = [unwrapped(cell) for cell in pc.unique(cells).to_pylist() if cell and cell.strip()]
    if not known:
        return "empty", None
    if numbers is not None:  # a column of nothing but "None" or "?" is text
        is_number = any(cell.lower() not in MISSING for cell in known)
        return ("number", numbers) if is_number else ("text", None)
    kind: Kind = "matrix"
    if all(cell.lower() in BOOLEANS for cell in known):
        kind = "bool"
    elif not all(cell.startswith("[") and cell.endswith("]") for cell in known):
        return "text", None
    values = parsed(cells, kind, decimal_comma=decimal_comma)
    return ("text", None) if values is None else (kind, values)


def parsed(cells: Any, kind: Kind, *, decimal_comma: bool) -> NDArray[Any] | None:
    """Return cells of text as numbers, booleans or lists; None where one is of another kind."""
    if kind not in _PARSE:
        return texts_of(cells)
    if kind == "number":
        if decimal_comma:
            if pc.any(pc.match_substring(cells, ".")).as_py():
                return None  # thousands, or another way to write numbers
            cells = pc.replace_substring(cells, ",", ".", max_replacements=1)
        for attempt in (cells, _trimmed):
            try:
                found = (attempt(cells) if callable(attempt) else attempt).cast(pa.float64())
                return as_numpy(found)
            except pa.ArrowInvalid:
                continue
    codes = cells.dictionary_encode()
    words = ["" if word is None else word for word in codes.dictionary.to_pylist()]
    distinct = _PARSE[kind](words)
    if distinct is None:
        return None
    if codes.null_count:
        if kind != "number":
            return None
        distinct = np.append(distinct, np.nan)
    places = _codes(codes, len(words))
    return np.asarray(distinct[places])


def _trimmed(cells: Any) -> Any:
    """Return cells without white space around them; empty ones are missing."""
    cells = pc.utf8_trim_whitespace(cells)
    empty = as_arrow(np.array([""])).cast(cells.type)
    return pc.if_else(pc.equal(cells, empty[0]), pa.nulls(1, cells.type)[0], cells)


def _numbers(words: Sequence[str]) -> NDArray[np.float64] | None:
    numbers = np.empty(len(words))
    for i, word in enumerate(words):
        text = unwrapped(word)
        if text.lower() in MISSING:
            numbers[i] = np.nan
        elif is_number(text):
            numbers[i] = float(text)
        elif text.endswith("%") and is_number(text[:-1]):
            numbers[i] = float(text[:-1]) / 100
        else:
            return None
    return numbers


def _booleans(words: Sequence[str]) -> NDArray[np.bool_] | None:
    found = [BOOLEANS.get(word.strip().lower()) for word in words]
    return None if None in found else np.array(found, bool)


def _lists(words: Sequence[str]) -> NDArray[np.float64] | None:
    """Return lists written as text: ``[0.1, 0.9]``, NumPy's ``[0.1 0.9]``, or a tensor."""
    rows: list[list[float]] = []
    for word in words:
        text = unwrapped(word)
        if not (text.startswith("[") and text.endswith("]")):
            return None
        try:
            rows.append([float(number) for number in text[1:-1].replace(",", " ").split()])
        except ValueError:
            return None
        if len(rows[-1]) != len(rows[0]):
            return None
    return np.array(rows, np.float64)


_PARSE: dict[str, Any] = {"number": _numbers, "bool": _booleans, "matrix": _lists}


def _matrix(column: Any, path: Path) -> NDArray[Any]:
    """Return a list column as ``[n, K]``."""
    if column.null_count:
        missing = np.flatnonzero(as_numpy(column.is_null()))
        raise RowError(
            path,
            "scores must not be missing, but they are in ",
            missing,
            ". Drop them.",
        )
    if hasattr(column.type, "list_size"):
        lengths = np.full(len(column), column.type.list_size)
    else:
        lengths = np.diff(as_numpy(column.offsets))
    if len(lengths) and lengths.min() != lengths.max():
        at = int(np.argmax(lengths != lengths[0]))
        raise uneven(path, at, int(lengths[at]), int(lengths[0]))
    return as_numpy(column.flatten()).reshape(len(column), int(lengths[0]) if len(lengths) else 0)


def uneven(path: Path, row: int, found: int, expected: int) -> PredictionFileError:
    """Return the error for a row with another number of classes than those before."""
    return RowError(
        path,
        "every row must have the same number of scores, but ",
        [row],
        f" has {found} and those before it {expected}.",
    )
