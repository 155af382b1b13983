"""The rows of an output, and how each format writes them."""

import csv
import datetime
import io
import json
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io.bytes import optional, text_file
from focalibrate.io.cells import as_arrow, as_numpy, is_numbering, is_text_type
from focalibrate.io.errors import file_error, short
from focalibrate.io.formats.arrays import DTYPES
from focalibrate.io.predictions import Predictions
from focalibrate.io.roles.vocabulary import PROBABILITY, outcome_of, plain
from focalibrate.io.source import suffix_of

TEXT = (".csv", ".tsv", ".txt")
ARRAYS = (".npz", ".npy", ".safetensors", ".pt")
LISTS = (".parquet", ".feather", ".arrow", ".jsonl", ".json")
"""Formats of tables whose cells can be lists."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """How the rows of an output are laid out.

    Attributes:
        like: the predictions, whose layout the output has.
        suffix: of the format.
        header: names of all columns, in their order.
        new: those of the probabilities: one column, or one list, for all of them where it is one.
        kept: which of the other columns of the input are written.
        own_labels: labels of another file are the first column.
        place: where the probabilities are among the columns.
        order: position of each probability among the classes of a block; None: all in order.
        class_names: in the same order, or None.
    """

    like: Predictions
    suffix: str
    header: list[str]
    new: list[str]
    kept: list[int]
    own_labels: bool
    place: int
    order: list[int] | None
    class_names: tuple[str, ...] | None

    @classmethod
    def of(cls, like: Predictions, suffix: str, *, without: Sequence[str] = ()) -> "Output":
        """Return the layout of an output for the predictions `like`, without some columns."""
        layout, is_arrays = like.layout, suffix in ARRAYS
        scores, order = _score_names(like)
        in_lists = layout.form in ("matrix", "options") and suffix in LISTS
        new = ["probs"] if is_arrays or in_lists else scores
        written = {*new, "class_names"} if is_arrays else set(scores)
        kept = [i for i, name in enumerate(layout.names) if layout.rest and name not in without]
        shown = list[str]()
        for name in (layout.names[i] for i in kept):
            if not layout.has_names:
                name = "label" if name == layout.label_column else f"column_{name}"
            while name in written:  # keep the file's own column beside the new one
                name = f"uncalibrated_{name}"
            again = 0 if suffix in TEXT else shown.count(name)
            shown.append(f"{name}.{again}" if again else name)
        place = len([i for i in kept if i < layout.place])
        own_labels = like.labels is not None and layout.label_column is None
        if own_labels:
            own = "labels" if is_arrays else "label"
            while own in (*written, *shown):
                own = f"{own}_used"
            shown.insert(0, own)
            place += 1
        if suffix in (".jsonl", ".json"):
            place = len(shown)
        return cls(
            like=like,
            suffix=suffix,
            header=[*shown[:place], *new, *shown[place:]],
            new=new,
            kept=kept,
            own_labels=own_labels,
            place=place,
            order=order,
            class_names=layout.class_names if order and layout.class_names else like.class_names,
        )

    def rows(self, like: Predictions, blocks: Iterable[NDArray[Any]]) -> Iterator[Any]:
        """Yield the rows of blocks of probabilities that belong to `like`, as Arrow tables."""
        rest = like.layout.rest
        kept = [] if rest is None or not self.kept else rest().select(self.kept).columns
        if like.layout.separator is not None and self.suffix not in TEXT:
            kept = [_numbers(column) for column in kept]
        if self.own_labels:
            kept = [_own_labels(like, is_table=self.suffix not in ARRAYS), *kept]
        start, place = 0, self.place
        for block in blocks:
            probs = block if self.order is None else block[:, self.order]
            is_list = len(self.new) < probs.shape[1]
            new = [probs] if is_list else np.ascontiguousarray(probs.T)
            columns = [column.slice(start, len(block)) for column in kept]
            columns[place:place] = [as_arrow(array) for array in new]
            yield pa.table(columns, names=self.header)
            start += len(block)


def _own_labels(like: Predictions, *, is_table: bool) -> Any:
    labels: Any = like.labels
    if like.class_names is not None and is_table:
        return pa.array(np.array(like.class_names, dtype=object)[labels], pa.string())
    if like.class_names is not None and is_numbering(like.class_names):
        # Classes called 1, 0, 2: a number is read as the class of that name.
        labels = np.array([int(float(name)) for name in like.class_names])[labels]
    return pa.array(labels)


def _score_names(like: Predictions) -> tuple[list[str], list[int] | None]:
    """Return the columns of the probabilities of a table, and their positions if these differ."""
    layout = like.layout
    if layout.form == "single" and like.n_classes == 2:
        own = like.scores_names[0] if like.scores_names else "prob_1"
        positive = like.positive if like.positive is not None else "1"
        says_probs = plain(own) in PROBABILITY or (outcome_of(own) and "perc" not in own.lower())
        is_stated = layout.is_right or plain(own).endswith("confidence")
        own = own if says_probs or is_stated else f"prob_{positive}"
        at = 1
        if like.class_names is not None and positive in like.class_names:
            at = like.class_names.index(positive)
        elif positive == "0":
            at = 0
        return [own], [at]
    given = layout.class_names
    order = None
    names = like.class_names
    if given is not None and names is not None and given != names and set(given) == set(names):
        order = [names.index(name) for name in given]
        names = given
    shown = names if names is not None else [str(i) for i in range(like.n_classes)]
    return [f"prob_{name}" for name in shown], order


def _numbers(column: Any) -> Any:
    """Return cells of text as numbers if every one is written as that number is.

    A cell such as ``007``, ``1e1``, ``1.10`` or ``+49`` anywhere makes the column text.
    """
    if not pa.types.is_string(column.type):
        return column
    for kind in (pa.int64(), pa.float64()):
        try:
            found = column.cast(kind)
        except pa.ArrowInvalid:
            continue
        written = [repr(v) for v in found.to_pylist()]
        return found if written == column.to_pylist() else column
    return column


EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time stamp of every zip member, so that equal content gives equal bytes."""

ALIGNMENT = 8
"""The data of a .safetensors file begins at a multiple of this."""

TENSOR_NAMES = {np.dtype(code).name: name for name, code in DTYPES.items() if name != "BF16"}


def write_npy(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write the probabilities only, block by block.

    Not through a memory map: a full disk would kill the process instead of raising.
    """
    with path.open("wb") as file:
        _write_probs(file, rows, output)


def write_npz(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write ``probs``, ``class_names`` and the other arrays, uncompressed as `np.savez` does."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open(_member("probs"), "w", force_zip64=True) as file:
            kept = _write_probs(file, rows, output)
        for name, blocks in _arrays(kept, output).items():
            archive.writestr(_member(name), _npy_bytes(np.concatenate(blocks)))
        if output.class_names is not None and output.like.layout.form != "single":
            names = np.array(output.class_names, dtype=np.str_)
            archive.writestr(_member("class_names"), _npy_bytes(names))


def write_safetensors(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write ``probs`` and the other numbers, and ``class_names`` as JSON in the metadata.

    The format has no text: other columns of text are left out, and labels that are names are
    written as positions.
    """
    header: dict[str, object] = {}
    tensors, start = _tensors(rows, output), 0
    for name, blocks in tensors.items():
        stop = start + sum(block.nbytes for block in blocks)
        header[name] = {
            "dtype": TENSOR_NAMES[blocks[0].dtype.name],
            "shape": [sum(map(len, blocks)), *blocks[0].shape[1:]],
            "data_offsets": [start, stop],
        }
        start = stop
    if output.class_names is not None:
        header["__metadata__"] = {"class_names": json.dumps(output.class_names)}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for block in chain(*tensors.values()):
            file.write(block.astype(block.dtype.newbyteorder("<"), copy=False).data)


def write_torch(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write a dictionary of tensors: ``probs``, the other numbers, ``class_names`` as a list."""
    torch = optional("torch", path, "writing .pt")
    tensors = _tensors(rows, output)
    stored = {k: torch.from_numpy(np.concatenate(blocks)) for k, blocks in tensors.items()}
    if output.class_names is not None:
        stored["class_names"] = list(output.class_names)
    torch.save(stored, path)


def _write_probs(file: IO[bytes], rows: Iterator[Any], output: Output) -> list[Any]:
    """Write the array of the probabilities block by block; return the tables without them."""
    kept = list[Any]()
    for table in rows:
        probs = _as_array(table.column("probs"))
        if not kept:
            file.write(_npy_header((output.like.n_rows, *probs.shape[1:]), probs.dtype))
        file.write(np.ascontiguousarray(probs).data)
        kept.append(table.drop_columns(["probs"]))
    return kept


def _arrays(tables: Sequence[Any], output: Output) -> dict[str, list[NDArray[Any]]]:
    """Return the columns of all rows, block by block, and the arrays with no entry per row."""
    names = tables[0].column_names
    found = {name: [_as_array(table.column(name)) for table in tables] for name in names}
    for name, array in output.like.layout.constants().items():
        while name in ("probs", "class_names") or name in found:
            name = f"uncalibrated_{name}"
        found[name] = [array.astype(np.str_) if array.dtype == object else array]
    return found


def _tensors(rows: Iterator[Any], output: Output) -> dict[str, list[NDArray[Any]]]:
    found = _arrays(list(rows), output)
    found = {"probs": found.pop("probs"), **found}
    labels, label = output.like.labels, output.like.layout.label_column
    if label in found and found[label][0].dtype.kind == "U" and labels is not None:
        found[label] = [labels]
    numbers = {k: v for k, v in found.items() if v[0].dtype.name in TENSOR_NAMES}
    return {k: [np.ascontiguousarray(block) for block in v] for k, v in numbers.items()}


def _as_array(column: Any) -> NDArray[Any]:
    """Return a kept column as a NumPy array of numbers or of text."""
    cells = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = cells.type
    if pa.types.is_fixed_size_list(kind):
        inner = _as_array(cells.flatten())
        return inner.reshape(len(cells), kind.list_size, *inner.shape[1:])
    is_plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if cells.null_count and pa.types.is_integer(kind):  # NaN in their place makes them floats
        numbers = cells.to_numpy(zero_copy_only=False)
        is_plain = not bool((np.abs(numbers) > 1 << 53).any())
    if is_plain and not (pa.types.is_boolean(kind) and cells.null_count):
        found: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return found
    return np.array(["" if v is None else str(v) for v in cells.to_pylist()], dtype=np.str_)


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{name}.npy", date_time=EPOCH)


def _npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    buffer = io.BytesIO()
    npy_format.write_array_header_1_0(
        buffer, {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    )
    return buffer.getvalue()


def _npy_bytes(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    npy_format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


EXCEL_ROWS = 1 << 20
EXCEL_TEXT = 32_767
EXCEL_DIGITS = 15
"""Excel keeps so many digits of a number; longer ones are written as text."""


def write_text(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write a header and one line per example, with enough digits to restore every float.

    The separator and the decimal mark are those of the input, and so are its cells.
    """
    like = output.like
    separator = like.layout.separator or ","
    if separator == " " or (output.suffix != suffix_of(like.source) and separator == "\t"):
        separator = ","  # also in a .csv made from a .tsv
    separator = "\t" if output.suffix == ".tsv" else separator
    comma = like.layout.decimal_comma and separator != ","
    with text_file(path, output.suffix) as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        quoting = csv.writer(file, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_ALL)
        writer.writerow(output.header)
        for table in rows:
            columns = []
            for name, column in zip(table.column_names, table.columns, strict=True):
                if name in output.new or is_text_type(column.type):
                    # of a number the fewest digits that restore it
                    cells = [text or "" for text in column.cast(pa.string()).to_pylist()]
                else:
                    cells = [_cell(value) for value in _values(column)]
                if comma and pa.types.is_floating(column.type):
                    cells = [cell.replace(".", ",") for cell in cells]
                columns.append(cells)
            lines = zip(*columns, strict=True)
            if not any("\r" in "".join(cells) for cells in columns):
                writer.writerows(lines)
                continue
            # Python before 3.13 does not quote a return alone, which ends a line for readers.
            for line in lines:  # row by row, so that batches change no byte
                (quoting if "\r" in "".join(line) else writer).writerow(line)


def _values(column: Any) -> list[Any]:
    """Return a column as Python values, which have no nanoseconds: these become text."""
    kind = column.type
    if kind == pa.json_():  # objects without a common structure
        return [value and json.loads(value) for value in column.to_pylist()]
    if pa.types.is_fixed_size_list(kind) and not column.null_count:
        cells = column.combine_chunks()
        inner = cells.flatten()
        if pa.types.is_floating(inner.type) and not inner.null_count:
            numbers = as_numpy(inner).reshape(len(cells), -1)
            return cast(list[Any], numbers.tolist())
    if pa.types.is_floating(kind) and not column.null_count:
        return cast(list[Any], as_numpy(column).tolist())
    if getattr(kind, "unit", "") == "ns":
        try:
            whole = pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")
            is_moment = pa.types.is_timestamp(kind)
            column = column.cast(pa.timestamp("us", kind.tz) if is_moment else whole)
        except pa.ArrowInvalid:
            column = column.cast(pa.int64() if pa.types.is_duration(kind) else pa.string())
    return cast(list[Any], column.to_pylist())


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=str)
    return repr(value) if isinstance(value, float) else str(value)


def write_arrow(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write one row group of parquet, or one batch of an Arrow file (feather), per block.

    Other columns and a pandas index are kept as they were.
    """
    opened: Any = pa_parquet.ParquetWriter if output.suffix == ".parquet" else pa.ipc.new_file
    metadata = {"pandas": _pandas_metadata(output)}
    if output.class_names is not None:
        metadata["class_names"] = json.dumps(output.class_names)
    first = next(rows)
    schema = first.schema.with_metadata({k: v for k, v in metadata.items() if v is not None})
    with path.open("wb") as file, opened(file, schema) as writer:
        for table in chain([first], rows):
            writer.write_table(table.cast(schema))


def _pandas_metadata(output: Output) -> str | None:
    """Return pandas' description of the kept columns and the index, if it had one."""
    kept = {*output.header} - {*output.new}
    try:
        stored = json.loads(output.like.layout.pandas or b"")
        columns = [c for c in stored.get("columns", []) if c.get("field_name") in kept]
        return json.dumps({**stored, "columns": columns, "column_indexes": []})
    except (ValueError, RecursionError, AttributeError, TypeError):
        return None


def write_json(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write one JSON object per example: one per line, or as a list in a `.json` file."""
    is_list = output.suffix == ".json"
    start, between, end = ("[\n", ",\n", "\n]\n") if is_list else ("", "\n", "\n")
    with text_file(path, output.suffix) as file:
        for table in rows:
            for row in zip(*map(_values, table.columns), strict=True):
                record = dict(zip(output.header, row, strict=True))
                file.write(start + json.dumps(record, ensure_ascii=False, default=str))
                start = between
        file.write(end)


def write_excel(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write one sheet with a header; formulas and numbers of many digits as text."""
    openpyxl = optional("openpyxl", path, "writing .xlsx")
    if output.like.n_rows >= EXCEL_ROWS:
        raise file_error(path, f".xlsx holds at most {EXCEL_ROWS - 1:,} rows. Write a .csv.")
    lines: list[Any] = [output.header]
    for table in rows:
        cells = [[_excel_value(v, path) for v in _values(column)] for column in table.columns]
        lines += zip(*cells, strict=True)
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("calibrated")
    text_cell = openpyxl.cell.WriteOnlyCell
    for line in lines:  # only now: an unfinished sheet cannot be discarded
        cells = []
        for value in line:
            if isinstance(value, str) and value[:1] in ("=", "#"):  # a formula, or an error
                cell = text_cell(sheet, value=value)
                cell.data_type = "s"
                value = cell
            cells.append(value)
        sheet.append(cells)
    book.save(path)


_NOT_IN_EXCEL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def _excel_value(value: Any, path: Path) -> Any:
    """Return what a cell holds without loss, which is text where a number would be cut."""
    if isinstance(value, int) and not isinstance(value, bool) and len(str(value)) > EXCEL_DIGITS:
        return str(value)
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > EXCEL_DIGITS:
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if isinstance(value, (list, dict, bytes)):
        value = _cell(value)
    if isinstance(value, (datetime.datetime, datetime.time)) and (
        value.tzinfo is not None or value.microsecond % 1000
    ):
        return value.isoformat()
    if isinstance(value, datetime.timedelta) and value.microseconds % 1000:
        return str(value)
    if isinstance(value, datetime.date) and (value.year, value.month) < (1900, 3):
        # Excel numbers these days otherwise, or not at all
        return value.isoformat()
    if isinstance(value, str) and (len(value) > EXCEL_TEXT or _NOT_IN_EXCEL.search(value)):
        raise file_error(
            path,
            f"a cell of .xlsx holds at most {EXCEL_TEXT:,} characters and no control characters, "
            f"but one is {short(repr(value))} ({len(value):,} characters). Write a .csv.",
        )
    return value
