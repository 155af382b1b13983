"""Writing probabilities as tables: text, parquet, feather, JSON lines, Excel."""

import bz2
import csv
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._arrow import import_arrow
from focalibrate.io._bytes import zstd_output
from focalibrate.io._error import file_error
from focalibrate.io._formats import suffix_of
from focalibrate.io._output import Output, as_numbers, output_of
from focalibrate.io._write_arrays import as_array
from focalibrate.io.predictions import Predictions

FLOAT32_DIGITS = "%.9g"
"""Enough digits to restore every float32."""


EXCEL_ROWS = 1 << 20


@contextmanager
def open_output(path: Path) -> Iterator[IO[str]]:
    """Open a text file, compressed as its suffix says; equal content gives equal bytes."""
    suffix = path.suffix.lower()
    with ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("wb"))
        if suffix == ".gz":
            raw = stack.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
        elif suffix == ".bz2":
            raw = stack.enter_context(bz2.open(raw, "wb"))
        elif suffix == ".xz":
            raw = stack.enter_context(lzma.open(raw, "wb"))
        elif suffix == ".zst":
            raw = stack.enter_context(zstd_output(raw, path))
        elif suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(raw, "w"))
            member = zipfile.ZipInfo(f"predictions{suffix_of(path)}")  # dated 1980
            member.compress_type = zipfile.ZIP_DEFLATED
            raw = stack.enter_context(archive.open(member, "w", force_zip64=True))
        yield stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline=""))


def write_text(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write a header and one line per example, with enough digits to restore every float.

    The separator and the decimal mark are those of the input.
    """
    output = output_of(like, is_table=True)
    separator = text_separator(path, like)
    with open_output(path) as file:
        writer = csv.writer(file, delimiter=separator, lineterminator="\n")
        writer.writerow(text_header(output))
        write_text_rows(writer, blocks, like, output, separator)


def text_separator(path: Path, like: Predictions) -> str:
    """Return what separates the cells: as in the input, or a tab where the suffix says so."""
    given = str(like.layout.extra.get("separator", ","))
    separator = "\t" if suffix_of(path) == ".tsv" else given
    return "," if separator.isspace() and separator != "\t" else separator


def text_header(output: Output) -> list[str]:
    """Return the names of the columns."""
    return [*(n for n, _ in output.before), *output.names, *(n for n, _ in output.after)]


def write_text_rows(
    writer: Any,
    blocks: Iterator[NDArray[Any]],
    like: Predictions,
    output: Output,
    separator: str,
) -> None:
    """Write one line per example, the other columns beside the probabilities."""
    comma = bool(like.layout.extra.get("decimal_comma")) and separator != ","
    digits = FLOAT32_DIGITS if like.scores.dtype == np.float32 else None
    before = [_cells(value, comma=comma) for _, value in output.before]
    after = [_cells(value, comma=comma) for _, value in output.after]
    start = 0
    for block in blocks:
        cells = [
            [(digits % v if digits else repr(v)) for v in row]
            for row in output.columns(block).tolist()
        ]
        if comma:
            cells = [[cell.replace(".", ",") for cell in row] for row in cells]
        for i, row in enumerate(cells, start=start):
            writer.writerow([*(c[i] for c in before), *row, *(c[i] for c in after)])
        start += len(block)


def _cells(value: Any, *, comma: bool) -> list[str]:
    """Return a kept column as cells; what the input had as text stays as it is."""
    if isinstance(value, list):
        return ["" if v is None else v if isinstance(v, str) else _cell(v) for v in value]
    cells = [_cell(v) for v in np.asarray(value).tolist()]
    return [c.replace(".", ",") for c in cells] if comma and value.dtype.kind == "f" else cells


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    return repr(value) if isinstance(value, float) else str(value)


def write_parquet(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write one row group per block; other columns and a pandas index are kept as they were."""
    parquet = import_arrow("pyarrow.parquet", path=path)
    tables = arrow_tables(path, blocks, like)
    first = next(tables)
    with parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def write_ipc(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write an Arrow file (feather version 2), one batch per block."""
    ipc = import_arrow("pyarrow.ipc", path=path)
    tables = arrow_tables(path, blocks, like)
    first = next(tables)
    with path.open("wb") as file, ipc.new_file(file, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def arrow_tables(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> Iterator[Any]:
    """Yield one table per block: kept columns, and a list column or one column per class."""
    pa = import_arrow("pyarrow", path=path)
    output = output_of(like, is_table=True)
    kept = _arrow_kept(like, output, pa)
    n_before = len(output.before)
    is_list = like.layout.form == "matrix"
    names = ["probs"] if is_list else output.names
    metadata = {}
    if output.class_names is not None:
        metadata["class_names"] = json.dumps(output.class_names)
    pandas = like.layout.extra.get("pandas")
    if pandas is not None:
        changed = _pandas_metadata(pandas, [n for n, _ in output.kept], names, like)
        if changed is not None:
            metadata["pandas"] = changed
    start = 0
    for block in blocks:
        cells = output.columns(block)
        if is_list:
            arrays = [pa.FixedSizeListArray.from_arrays(cells.reshape(-1), cells.shape[1])]
        else:
            arrays = [pa.array(column) for column in np.ascontiguousarray(cells.T)]
        others = [column.slice(start, len(block)) for column in kept]
        columns = [*others[:n_before], *arrays, *others[n_before:]]
        shown = [*(n for n, _ in output.before), *names, *(n for n, _ in output.after)]
        yield pa.table(columns, names=shown).replace_schema_metadata(metadata)
        start += len(block)


def _arrow_kept(like: Predictions, output: Output, pa: Any) -> list[Any]:
    """Return the kept columns as Arrow arrays, of the type that the input had."""
    if "arrow" in like.layout.extra:
        table = like.layout.extra["arrow"]()
        stored = [table.column(i) for i in range(table.num_columns)]
        added = len(output.kept) - len(stored)  # labels of another file come first
        return [*(pa.array(as_array(v)) for _, v in output.kept[:added]), *stored]
    arrays = []
    for _, value in output.kept:
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            value = as_numbers(value)
        if isinstance(value, np.ndarray) and value.ndim > 1:
            value = value.tolist()
        arrays.append(pa.array(value.tolist() if _is_text(value) else value))
    return arrays


def _is_text(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "OU"


def _pandas_metadata(
    raw: bytes, kept: list[str], names: list[str], like: Predictions
) -> str | None:
    """Return pandas' description of the table for the columns that it has now."""
    try:
        stored = json.loads(raw)
        columns = [c for c in stored.get("columns", []) if c.get("field_name") in kept]
        dtype = like.scores.dtype.name
        is_list = like.layout.form == "matrix"
        columns += [
            {
                "name": name,
                "field_name": name,
                "pandas_type": "list" if is_list else dtype,
                "numpy_type": "object" if is_list else dtype,
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


def write_json_lines(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write one JSON object per line."""
    output = output_of(like, is_table=True)
    with open_output(path) as file:
        for record in json_records(output, blocks, like):
            file.write(record + "\n")


def write_json(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write a JSON list of objects, one per example."""
    output = output_of(like, is_table=True)
    start = 0
    with open_output(path) as file:
        for record in json_records(output, blocks, like):
            file.write(("[\n" if start == 0 else ",\n") + record)
            start += 1
        file.write("\n]\n")


def json_records(
    output: Output, blocks: Iterator[NDArray[Any]], like: Predictions
) -> Iterator[str]:
    """Yield one JSON object per example."""
    kept = [(name, _json_values(value)) for name, value in output.kept]
    is_list = like.layout.form == "matrix"
    start = 0
    for block in blocks:
        for i, row in enumerate(output.columns(block).tolist(), start=start):
            record = {name: values[i] for name, values in kept}
            probs = {"probs": row} if is_list else dict(zip(output.names, row, strict=True))
            yield json.dumps({**record, **probs}, ensure_ascii=False, default=str)
        start += len(block)


def _json_values(value: Any) -> list[Any]:
    if isinstance(value, list):
        if all(isinstance(v, str) for v in value):
            return list(as_numbers(value).tolist())
        return value
    return list(np.asarray(value).tolist())


def write_excel(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write one sheet with a header."""
    try:
        openpyxl = import_module("openpyxl")
    except ImportError as error:
        raise file_error(
            path, "writing .xlsx needs openpyxl. Install it: `pip install 'focalibrate[excel]'`."
        ) from error
    if like.n_rows >= EXCEL_ROWS:
        raise file_error(path, f".xlsx holds at most {EXCEL_ROWS - 1:,} rows. Write a .csv.")
    output = output_of(like, is_table=True)
    before = [_json_values(value) for _, value in output.before]
    after = [_json_values(value) for _, value in output.after]
    rows = [[*(n for n, _ in output.before), *output.names, *(n for n, _ in output.after)]]
    for block in blocks:
        for row in output.columns(block).tolist():
            i = len(rows) - 1
            rows.append([*(c[i] for c in before), *row, *(c[i] for c in after)])
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("calibrated")
    for row in rows:  # only now: an unfinished sheet cannot be discarded
        sheet.append(row)
    book.save(path)
