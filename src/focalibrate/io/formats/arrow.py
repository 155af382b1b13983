"""Arrow tables: `.parquet` (in pieces of row groups), `.feather` and `.arrow`."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from focalibrate.io.bytes import refused
from focalibrate.io.cells import Kind, is_text_type
from focalibrate.io.errors import file_error, short
from focalibrate.io.source import Part
from focalibrate.io.table import Column, Opened, Schema, Table

PIECE_BYTES = 1 << 26
"""A parquet file is cut into pieces of whole row groups of about so many bytes, uncompressed."""

Batches = Callable[[list[str], int, int | None], Iterator[Any]]
"""Yield batches of some columns, of at most so many rows, of one piece or of all."""


def open_parquet(part: Part) -> Opened:
    """Return the rows of a parquet file."""
    with (
        _damage_named(part.path, ".parquet"),
        part.open() as raw,
        pa_parquet.ParquetFile(raw) as file,
    ):
        schema, n_rows = file.schema_arrow, max(0, file.metadata.num_rows)
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        sizes = [(max(0, group.num_rows), group.total_byte_size) for group in groups]
    ranges = _ranges(sizes)

    def batches(names: list[str], rows: int, piece: int | None) -> Iterator[Any]:
        wanted = None if piece is None else list(ranges[piece])
        with part.open() as raw, pa_parquet.ParquetFile(raw) as file:
            yield from file.iter_batches(batch_size=rows, columns=names, row_groups=wanted)

    pieces = tuple(sum(sizes[i][0] for i in r) for r in ranges)
    found = _opened(part.path, schema, batches, ".parquet", pieces, n_rows)
    return replace(found, n_rows=n_rows, pieces=pieces if len(pieces) > 1 else ())


def _ranges(sizes: Sequence[tuple[int, int]]) -> list[range]:
    """Cut row groups, given by their rows and bytes, into the ranges of the pieces."""
    found, first, held = [], 0, 0
    for i, (_, n_bytes) in enumerate(sizes):
        held += n_bytes
        if held >= PIECE_BYTES or i == len(sizes) - 1:
            found.append(range(first, i + 1))
            first, held = i + 1, 0
    return [r for r in found if sum(sizes[i][0] for i in r)]


def open_ipc(part: Part) -> Opened:
    """Return the rows of a feather file, or of an Arrow file or stream."""
    suffix = part.path.suffix or ".arrow"
    with _damage_named(part.path, suffix), part.open() as raw:
        is_file = raw.read(6) == b"ARROW1"
        raw.seek(0)
        schema = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(raw).schema

    def batches(names: list[str], rows: int, _: int | None) -> Iterator[Any]:
        wanted = [schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(wanted))
        with part.open() as raw:
            if is_file:
                file = pa.ipc.open_file(raw, options=options)
                found: Any = (file.get_batch(i) for i in range(file.num_record_batches))
            else:
                found = iter(pa.ipc.open_stream(raw, options=options))
            for batch in found:
                batch.validate(full=True)  # buffers of a damaged file may point anywhere
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)

    return _opened(part.path, schema, batches, suffix)


def _damage_named(path: Path, suffix: str) -> AbstractContextManager[None]:
    text = f"is not a readable {suffix} file ({{}}). If it was copied, copy it again."
    return refused(path, text)


def _opened(
    path: Path,
    schema: Any,
    batches: Batches,
    suffix: str,
    pieces: tuple[int, ...] = (),
    n_rows: int | None = None,
) -> Opened:
    with _damage_named(path, suffix):
        metadata = schema.metadata or {}
        places = list(_places(schema))
    index = _index_names(metadata)
    counts, tops = Counter(name for name, _, _ in places), Counter(schema.names)
    columns = [
        _column(name, kind, is_index=name in index, count=max(counts[name], tops[top]), path=path)
        for name, kind, (top, *_) in places
    ]
    inside = {
        field.name: tuple(i for i, (_, _, place) in enumerate(places) if place[0] == field.name)
        for field in schema
        if pa.types.is_struct(field.type)
    }
    found = Schema(
        path=path,
        columns=tuple(columns),
        objects=tuple(
            (name, fields)
            for name, fields in inside.items()
            if fields and all(columns[i].problem is None for i in fields)
        ),
        class_names=names_from_json(metadata.get(b"class_names"), path),
        pandas=metadata.get(b"pandas"),
    )

    def read(wanted: Sequence[int] | None, rows: int, piece: int | None) -> Iterator[Table]:
        usable = [i for i, c in enumerate(columns) if c.problem is None]
        needed = usable if wanted is None else list(wanted)
        names = list(dict.fromkeys(places[i][2][0] for i in needed))
        start = sum(pieces[: piece or 0])
        expected = n_rows if piece is None else start + pieces[piece]
        with _damage_named(path, suffix):
            for batch in batches(names, rows, piece):
                if batch.num_rows:
                    data = {i: _cells_at(batch, places[i][2], path) for i in needed}
                    if wanted is None:
                        data |= {~i: batch.column(o) for i, (o, _) in enumerate(found.objects)}
                    yield Table(found, data, batch.num_rows, start)
                start += batch.num_rows
        if expected is not None and start != expected:
            raise file_error(path, f"promises {n_rows} rows and holds {start}. Write it again.")

    return Opened(schema=found, read=read)


def _places(schema: Any) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield name, type and place of every column; the fields of a struct are columns."""
    for field in schema:
        if is_vector(field.type):
            yield field.name, field.type.field("values").type, (field.name, "values")
        elif pa.types.is_struct(field.type):
            for inner in field.type:
                yield f"{field.name}.{inner.name}", inner.type, (field.name, inner.name)
        else:
            yield field.name, field.type, (field.name,)


def is_vector(kind: Any) -> bool:
    """Return whether an Arrow type is Spark's vector: 1 and all values, or 0 and some of them."""
    fields = ["type", "size", "indices", "values"]
    return pa.types.is_struct(kind) and [field.name for field in kind] == fields


def _cells_at(batch: Any, place: tuple[str, ...], path: Path) -> Any:
    cells = batch.column(batch.schema.get_field_index(place[0]))
    if is_vector(cells.type) and pc.any(pc.equal(pc.struct_field(cells, ["type"]), 0)).as_py():
        raise file_error(
            path,
            f"column `{short(place[0])}` holds sparse vectors of Spark. Write lists: "
            f"`from pyspark.ml.functions import vector_to_array; "
            f"df.withColumn({place[0]!r}, vector_to_array({place[0]!r}))`.",
        )
    return pc.struct_field(cells, [place[1]]) if len(place) > 1 else cells


def _index_names(metadata: dict[bytes, bytes]) -> set[str]:
    """Return the columns that pandas stored as the index of its data frame."""
    try:
        stored = json.loads(metadata.get(b"pandas", b"{}"))
        found = stored.get("index_columns", [])
        return {name for name in found if isinstance(name, str)}
    except (ValueError, RecursionError, AttributeError, TypeError):
        return set()


def _column(name: str, stored: Any, *, is_index: bool, count: int, path: Path) -> Column:
    problem = None
    if count > 1:
        problem = file_error(
            path,
            f"names must differ between columns, but {short(repr(name))} occurs {count} times. "
            "Rename one, or leave them out.",
            fixes=[{"ignore": [name]}],
        )
    kind, width, dtype = described_type(stored)
    return Column(
        name=name,
        kind=kind,
        shape=(width,) if kind == "matrix" else (),
        dtype=dtype,
        is_index=is_index or name.startswith("__index_level_"),
        is_half=dtype == np.float16,
        problem=problem,
    )


def described_type(stored: Any) -> tuple[Kind, int, np.dtype[Any] | None]:
    """Return what cells of an Arrow type are, how many numbers one holds, and their dtype."""
    types = pa.types
    stored = getattr(stored, "storage_type", stored)
    if types.is_dictionary(stored):
        return described_type(stored.value_type)
    if types.is_integer(stored) or types.is_floating(stored):
        return "number", 1, np.dtype(stored.to_pandas_dtype())
    if types.is_decimal(stored):
        return "number", 1, np.dtype(np.float64)
    if types.is_list(stored) or types.is_large_list(stored) or types.is_fixed_size_list(stored):
        kind, _, dtype = described_type(stored.value_type)
        if kind == "number" and not types.is_decimal(stored.value_type):
            return "matrix", getattr(stored, "list_size", -1), dtype
        return "other", 1, None
    named: dict[str, Kind] = {"bool": "bool", "null": "empty"}
    named |= {"binary": "text", "large_binary": "text"}
    return "text" if is_text_type(stored) else named.get(str(stored), "other"), 1, None


def names_from_json(raw: object, path: Path) -> tuple[str, ...] | None:
    """Return class names stored as a JSON list of text, or None where there are none."""
    if raw is None:
        return None
    try:
        names = json.loads(raw if isinstance(raw, bytes) else str(raw))
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise file_error(
            path,
            f"`class_names` in the metadata must be a JSON list of text, got {short(repr(raw))}. "
            "Write `json.dumps(['cat', 'dog'])`.",
        )
    return tuple(names)
