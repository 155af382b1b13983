"""Writing probabilities as tables: `.csv`, `.parquet`."""

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._arrow import import_arrow
from focalibrate.io._error import fault
from focalibrate.io._labels import labels_are_names
from focalibrate.io.predictions import Predictions

FLOAT32_DIGITS = "%.9g"
"""Enough digits to get every float32 back."""


def write_csv(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write a header and one line an example, with digits enough to get every float back."""
    broken = [name for name in like.class_names or () if "\n" in name or "\r" in name]
    if broken:
        raise fault(path, f"class {broken[0]!r} has a line break, which .csv cannot hold.")
    labels = _stored_labels(like)
    start = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        head = [] if labels is None else [like.layout.label_column]
        writer.writerow([*head, *_column_names(like)])
        for block in blocks:
            if like.scores.dtype == np.float32:
                line = ",".join([FLOAT32_DIGITS] * like.n_classes)
                rows = [line % tuple(row) for row in block.tolist()]
            else:
                rows = [",".join(map(repr, row)) for row in block.tolist()]
            if labels is not None:
                cells = _quoted(labels[start : start + len(block)])
                rows = [f"{cell},{row}" for cell, row in zip(cells, rows, strict=True)]
            file.write("\n".join(rows) + "\n")
            start += len(block)


def write_parquet(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write one row group a block: a list column ``probs``, or one column a class."""
    pa = import_arrow("pyarrow", path=path)
    parquet = import_arrow("pyarrow.parquet", path=path)
    labels = _stored_labels(like)
    number = pa.from_numpy_dtype(like.scores.dtype)
    if like.layout.list_column:
        fields = [pa.field("probs", pa.list_(number, like.n_classes))]
    else:
        fields = [pa.field(name, number) for name in _column_names(like)]
    if labels is not None:
        text_or_number = pa.string() if labels.dtype.kind == "U" else pa.int64()
        fields.insert(0, pa.field(like.layout.label_column, text_or_number))
    metadata = {} if like.class_names is None else {"class_names": json.dumps(like.class_names)}
    schema = pa.schema(fields, metadata=metadata)
    start = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for block in blocks:
            if like.layout.list_column:
                columns = [pa.FixedSizeListArray.from_arrays(block.reshape(-1), like.n_classes)]
            else:
                columns = [pa.array(column) for column in np.ascontiguousarray(block.T)]
            if labels is not None:
                part = labels[start : start + len(block)]
                columns.insert(0, pa.array(part.tolist(), fields[0].type))
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            start += len(block)


def _column_names(like: Predictions) -> list[str]:
    names: Sequence[object] = like.class_names or range(like.n_classes)
    return [f"prob_{name}" for name in names]


def _stored_labels(like: Predictions) -> NDArray[Any] | None:
    """Return labels as they stood in the input: class names or positions.

    Where a class name is a number, a position would be read back as a name, so names are
    written whatever the input had.
    """
    if like.labels is None or like.class_names is None:
        return like.labels
    numeric = labels_are_names(like.labels, like.class_names, names_are_labels=True)
    if like.layout.labels_as == "index" and not numeric:
        return like.labels
    names: NDArray[Any] = np.array(like.class_names, dtype=np.str_)
    return names[like.labels]


def _quoted(labels: NDArray[Any]) -> list[str]:
    """Return labels as cells of a line, in quotes where a comma or quote asks for them."""
    if labels.dtype.kind != "U":
        return [str(label) for label in labels.tolist()]
    return [
        '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\r\n') else text
        for text in labels.tolist()
    ]
