"""Writing probabilities as tables: text, parquet, feather, JSON, Excel."""

import csv
import datetime
import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pa_parquet

from focalibrate.io.bytes import optional, text_file
from focalibrate.io.errors import file_error, short
from focalibrate.io.source import suffix_of
from focalibrate.io.table import as_numpy, is_text_type
from focalibrate.io.write.rows import Output

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
            writer.writerows(zip(*columns, strict=True))


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
            column = column.cast(
                pa.timestamp("us", kind.tz)
                if pa.types.is_timestamp(kind)
                else pa.duration("us")
                if pa.types.is_duration(kind)
                else pa.time64("us")
            )
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
    if isinstance(value, str) and (len(value) > EXCEL_TEXT or _NOT_IN_EXCEL.search(value)):
        raise file_error(
            path,
            f"a cell of .xlsx holds at most {EXCEL_TEXT:,} characters and no control characters, "
            f"but one is {short(repr(value))} ({len(value):,} characters). Write a .csv.",
        )
    return value
