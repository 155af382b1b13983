"""Writing probabilities as tables: text, parquet, feather, JSON, Excel."""

import csv
import datetime
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from focalibrate.io.bytes import optional, text_file
from focalibrate.io.errors import file_error, short
from focalibrate.io.source import suffix_of
from focalibrate.io.write.rows import Output, Rows

FLOAT32_DIGITS = "%.9g"
"""Enough digits to restore every float32."""

EXCEL_ROWS = 1 << 20
EXCEL_TEXT = 32_767
EXCEL_DIGITS = 15
"""Excel keeps so many digits of a number; longer ones are written as text."""


def write_text(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write a header and one line per example, with enough digits to restore every float.

    The separator and the decimal mark are those of the input, and so are its cells.
    """
    like = output.like
    separator = like.layout.separator or ","
    if separator == " " or (output.suffix != suffix_of(like.source) and separator == "\t"):
        separator = ","  # also in a .csv made from a .tsv
    separator = "\t" if output.suffix == ".tsv" else separator
    comma = like.layout.decimal_comma and separator != ","
    digit = (FLOAT32_DIGITS if like.scores.dtype == np.float32 else "%r").__mod__
    with text_file(path, output.suffix) as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        for at, some in enumerate(rows):
            if not at:
                writer.writerow(output.beside(some.kept.column_names, output.names))
            kept = [_cells(column, comma=comma) for column in some.kept.columns]
            probs = [list(map(digit, column)) for column in some.probs.T.tolist()]
            if comma:
                probs = [[cell.replace(".", ",") for cell in column] for column in probs]
            writer.writerows(zip(*output.beside(kept, probs), strict=True))


def _cells(column: Any, *, comma: bool) -> list[str]:
    """Return a kept column as cells; what the input had as text stays as it is."""
    cells = [_cell(value) for value in _values(column)]
    is_fraction = pa.types.is_floating(column.type)
    return [c.replace(".", ",") for c in cells] if comma and is_fraction else cells


def _values(column: Any) -> list[Any]:
    """Return a kept column as Python values, which have no nanoseconds: these become text."""
    kind = column.type
    if kind == pa.json_():  # objects without a common structure
        return [value and json.loads(value) for value in column.to_pylist()]
    if getattr(kind, "unit", "") == "ns":
        try:
            column = column.cast(
                pa.timestamp("us", kind.tz)
                if pa.types.is_timestamp(kind)
                else pa.duration("us")
                if pa.types.is_duration(kind)
                else pa.time64("us")
            )
        except pa.ArrowInvalid:
            column = column.cast(pa.int64() if pa.types.is_duration(kind) else pa.string())
    found: list[Any] = column.to_pylist()
    return found


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        return json.dumps(value, default=str)
    return repr(value) if isinstance(value, float) else str(value)


def write_parquet(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write one row group per block; other columns and a pandas index are kept as they were."""
    _write_arrow(path, rows, output, pa_parquet.ParquetWriter)


def write_ipc(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write an Arrow file (feather version 2), one batch per block."""
    _write_arrow(path, rows, output, pa.ipc.new_file)


def _write_arrow(
    path: Path, rows: Iterator[Rows], output: Output, opened: Callable[[IO[bytes], Any], Any]
) -> None:
    tables = _arrow_tables(rows, output)
    first = next(tables)
    with path.open("wb") as file, opened(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table.cast(first.schema))


def _arrow_tables(rows: Iterator[Rows], output: Output) -> Iterator[Any]:
    """Yield one table per block: kept columns, and a list column or one column per class."""
    names = ["probs"] if output.is_list else output.names
    metadata = {}
    if output.class_names is not None:
        metadata["class_names"] = json.dumps(output.class_names)
    for some in rows:
        if output.like.layout.pandas is not None:
            changed = _pandas_metadata(some.kept.column_names, names, output)
            if changed is not None:
                metadata["pandas"] = changed
        probs = some.probs
        if output.is_list:
            arrays = [pa.FixedSizeListArray.from_arrays(probs.reshape(-1), probs.shape[1])]
        else:
            arrays = [pa.array(column) for column in np.ascontiguousarray(probs.T)]
        columns = output.beside(some.kept.columns, arrays)
        order = output.beside(some.kept.column_names, names)
        yield pa.table(columns, names=order).replace_schema_metadata(metadata)


def _pandas_metadata(kept: list[str], names: list[str], output: Output) -> str | None:
    """Return pandas' description of the table for the columns that it has now."""
    try:
        stored = json.loads(output.like.layout.pandas or b"")
        columns = [c for c in stored.get("columns", []) if c.get("field_name") in kept]
        dtype = output.like.scores.dtype.name
        columns += [
            {
                "name": name,
                "field_name": name,
                "pandas_type": "list" if output.is_list else dtype,
                "numpy_type": "object" if output.is_list else dtype,
                "metadata": None,
            }
            for name in names
        ]
        header = {
            "name": None,
            "field_name": None,
            "pandas_type": "unicode",
            "numpy_type": "object",
            "metadata": {"encoding": "UTF-8"},
        }
        return json.dumps({**stored, "columns": columns, "column_indexes": [header]})
    except (ValueError, RecursionError, AttributeError, TypeError):
        return None


def write_json(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write one JSON object per example: one per line, or as a list in a `.json` file."""
    is_list = output.suffix == ".json"
    start, between, end = ("[\n", ",\n", "\n]\n") if is_list else ("", "\n", "\n")
    with text_file(path, output.suffix) as file:
        for i, record in enumerate(_records(rows, output)):
            file.write((between if i else start) + record)
        file.write(end)


def _records(rows: Iterator[Rows], output: Output) -> Iterator[str]:
    for some in rows:
        names = [*some.kept.column_names, *(["probs"] if output.is_list else output.names)]
        probs = [some.probs.tolist()] if output.is_list else some.probs.T.tolist()
        for row in zip(*map(_values, some.kept.columns), *probs, strict=True):
            record = dict(zip(names, row, strict=True))
            yield json.dumps(record, ensure_ascii=False, default=str)


def write_excel(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write one sheet with a header; formulas and numbers of many digits as text."""
    openpyxl = optional("openpyxl", path, "writing .xlsx")
    if output.like.n_rows >= EXCEL_ROWS:
        raise file_error(path, f".xlsx holds at most {EXCEL_ROWS - 1:,} rows. Write a .csv.")
    lines: list[Any] = []
    for some in rows:
        if not lines:
            lines.append(output.beside(some.kept.column_names, output.names))
        kept = [[_excel_value(v, path) for v in _values(c)] for c in some.kept.columns]
        lines += zip(*output.beside(kept, some.probs.T.tolist()), strict=True)
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
    if isinstance(value, str) and (len(value) > EXCEL_TEXT or _NOT_IN_EXCEL.search(value)):
        raise file_error(
            path,
            f"a cell of .xlsx holds at most {EXCEL_TEXT:,} characters and no control characters, "
            f"but one is {short(repr(value))} ({len(value):,} characters). Write a .csv.",
        )
    return value
