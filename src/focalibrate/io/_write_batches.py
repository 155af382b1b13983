"""Writing tables batch by batch, each batch with its own other columns."""

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

from focalibrate.io._arrow import import_arrow
from focalibrate.io._output import output_of
from focalibrate.io._write_tables import (
    arrow_tables,
    json_records,
    open_output,
    text_header,
    text_separator,
    write_text_rows,
)
from focalibrate.io.predictions import Predictions

Pairs: TypeAlias = Iterator[tuple[Predictions, NDArray[Any]]]
"""Batches of what was read, with all columns, and their probabilities."""


def write_text_batches(path: Path, pairs: Pairs) -> None:
    """Write a header and one line per example; other cells as the input has them."""
    with open_output(path) as file:
        writer: Any = None
        for like, probs in pairs:
            output = output_of(like, is_table=True)
            if writer is None:
                separator = text_separator(path, like)
                writer = csv.writer(file, delimiter=separator, lineterminator="\n")
                writer.writerow(text_header(output))
            write_text_rows(writer, iter([probs]), like, output, text_separator(path, like))


def write_json_line_batches(path: Path, pairs: Pairs) -> None:
    """Write one JSON object per line."""
    with open_output(path) as file:
        for like, probs in pairs:
            output = output_of(like, is_table=True)
            for record in json_records(output, iter([probs]), like):
                file.write(record + "\n")


def _tables(path: Path, pairs: Pairs) -> Iterator[Any]:
    for like, probs in pairs:
        yield from arrow_tables(path, iter([probs]), like)


def write_parquet_batches(path: Path, pairs: Pairs) -> None:
    """Write one row group per batch."""
    parquet = import_arrow("pyarrow.parquet", path=path)
    tables = _tables(path, pairs)
    first = next(tables)
    with parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table.cast(first.schema))


def write_ipc_batches(path: Path, pairs: Pairs) -> None:
    """Write an Arrow file, one record batch per batch."""
    ipc = import_arrow("pyarrow.ipc", path=path)
    tables = _tables(path, pairs)
    first = next(tables)
    with path.open("wb") as file, ipc.new_file(file, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table.cast(first.schema))


BATCH_WRITERS: Mapping[str, Callable[[Path, Pairs], None]] = {
    ".csv": write_text_batches,
    ".tsv": write_text_batches,
    ".txt": write_text_batches,
    ".jsonl": write_json_line_batches,
    ".parquet": write_parquet_batches,
    ".feather": write_ipc_batches,
    ".arrow": write_ipc_batches,
}
