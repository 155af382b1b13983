"""Arrow tables: `.parquet`, `.feather`, `.arrow`. The one use of pyarrow."""

import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import PredictionFileError, file_error, rows_text, short
from focalibrate.io._frame import Column, ColumnKind, Frame, Progress
from focalibrate.io._limit import check_fits
from focalibrate.io._safetensors import names_from_json


def import_arrow(module: str, *, path: Path) -> Any:
    """Return pyarrow's `module`, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise file_error(
            path,
            f"reading and writing {path.suffix or '.parquet'} needs pyarrow. "
            "Install it: `pip install 'focalibrate[parquet]'`.",
        ) from error


def open_parquet(path: Path, *, limit: int) -> Frame:
    """Return the columns of a parquet file, read batch by batch when needed."""
    parquet = import_arrow("pyarrow.parquet", path=path)
    with damage_named(path, ".parquet"), parquet.ParquetFile(path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows

    @contextmanager
    def batches(names: list[str]) -> Iterator[Iterator[Any]]:
        with parquet.ParquetFile(path) as file:
            yield file.iter_batches(columns=names)

    return _frame(path, schema, n_rows, batches, limit=limit, suffix=".parquet")


def open_ipc(path: Path, *, limit: int) -> Frame:
    """Return the columns of a feather file, or of an Arrow file or stream."""
    ipc = import_arrow("pyarrow.ipc", path=path)
    feather = import_arrow("pyarrow.feather", path=path)
    check_fits(path, path.stat().st_size, limit)
    with damage_named(path, path.suffix), path.open("rb") as raw:
        magic = raw.read(6)
        raw.seek(0)
        if magic == b"ARROW1":
            table = ipc.open_file(raw).read_all()
        elif magic.startswith(b"FEA1"):
            table = feather.read_table(raw)
        else:
            table = ipc.open_stream(raw).read_all()
        table.validate(full=True)  # buffers of a damaged file may point anywhere

    @contextmanager
    def batches(names: list[str]) -> Iterator[Iterator[Any]]:
        places = [table.schema.get_field_index(name) for name in names]
        yield iter(table.select(places).to_batches() if names else ())

    return _frame(path, table.schema, table.num_rows, batches, limit=limit, suffix=path.suffix)


@contextmanager
def damage_named(path: Path, suffix: str) -> Iterator[None]:
    """Turn the errors of Arrow on a damaged file into a `PredictionFileError`."""
    pa = import_arrow("pyarrow", path=path)
    try:
        yield
    except PredictionFileError:
        raise
    except pa.ArrowMemoryError as error:
        raise MemoryError(str(error)) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise file_error(
            path,
            f"is not a readable {suffix} file ({short(lines[0])}). If it was copied, copy it "
            "again.",
        ) from error


Field = tuple[str, Any, tuple[str, ...]]
"""Name, type and path in the file of one column."""


def described_schema(
    path: Path, schema: Any, n_rows: int, *, suffix: str
) -> tuple[list[Field], tuple[Column, ...], dict[bytes, bytes]]:
    """Return the fields of a schema, the columns they are, and the metadata."""
    pa = import_arrow("pyarrow", path=path)
    with damage_named(path, suffix):
        metadata = schema.metadata or {}
        fields = list(_flat(schema, pa))
    index = _index_names(metadata)
    counts = Counter(name for name, _, _ in fields)
    tops = Counter(schema.names)
    columns = tuple(
        _column(
            name,
            kind,
            n_rows,
            pa,
            is_index=name in index,
            count=max(counts[name], tops[place[0]]),
            path=path,
        )
        for name, kind, place in fields
    )
    return fields, columns, metadata


def _frame(
    path: Path,
    schema: Any,
    n_rows: int,
    batches: Callable[[list[str]], Any],
    *,
    limit: int,
    suffix: str,
) -> Frame:
    pa = import_arrow("pyarrow", path=path)
    if n_rows <= 0:  # a damaged file may say -1
        raise file_error(path, "holds no rows. Write at least one example.")
    fields, columns, metadata = described_schema(path, schema, n_rows, suffix=suffix)

    def load(wanted: Sequence[int], progress: Progress) -> list[NDArray[Any]]:
        for i in wanted:
            problem = columns[i].problem
            if problem is not None:
                raise problem
        width = sum(
            max(1, columns[i].shape[-1]) if columns[i].kind == "matrix" else 1 for i in wanted
        )
        check_fits(path, n_rows * width * 8, limit)
        parts: list[list[NDArray[Any]]] = [[] for _ in wanted]
        start = 0
        with damage_named(path, suffix), batches(top_names(fields, wanted)) as found:
            for batch in found:
                for part, i in zip(parts, wanted, strict=True):
                    cells = cells_at(batch, fields[i][2])
                    part.append(array_of(cells, columns[i], pa, start, path))
                start += batch.num_rows
                progress(start, n_rows)
        if start != n_rows and wanted:
            raise file_error(path, f"promises {n_rows} rows and holds {start}. Write it again.")
        return [_joined(part, columns[i], path) for part, i in zip(parts, wanted, strict=True)]

    def table(wanted: Sequence[int]) -> Any:
        for i in wanted:
            problem = columns[i].problem
            if problem is not None:
                raise problem
        names = [columns[i].name for i in wanted]
        parts: list[list[Any]] = [[] for _ in wanted]
        with damage_named(path, suffix), batches(top_names(fields, wanted)) as found:
            for batch in found:
                for part, i in zip(parts, wanted, strict=True):
                    part.append(cells_at(batch, fields[i][2]))
        arrays = [
            pa.chunked_array(part, type=fields[i][1])
            for part, i in zip(parts, wanted, strict=True)
        ]
        return pa.table(arrays, names=names)

    return Frame(
        path=path,
        columns=columns,
        load=load,
        class_names=names_from_json(metadata.get(b"class_names"), path),
        extra={"arrow": table, "pandas": metadata.get(b"pandas")},
    )


def _flat(schema: Any, pa: Any) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Yield name, type and path of every column; the fields of a struct are columns."""
    for field in schema:
        if pa.types.is_struct(field.type):
            for inner in field.type:
                yield f"{field.name}.{inner.name}", inner.type, (field.name, inner.name)
        else:
            yield field.name, field.type, (field.name,)


def top_names(fields: list[Field], wanted: Sequence[int]) -> list[str]:
    """Return the columns of the file in which the wanted fields are."""
    return list(dict.fromkeys(fields[i][2][0] for i in wanted))


def cells_at(batch: Any, place: tuple[str, ...]) -> Any:
    """Return one field of a batch; the fields of a struct are columns."""
    cells = batch.column(batch.schema.get_field_index(place[0]))
    if len(place) > 1:
        cells = importlib.import_module("pyarrow.compute").struct_field(cells, [place[1]])
    return cells


def _index_names(metadata: dict[bytes, bytes]) -> set[str]:
    """Return the columns that pandas stored as the index of its data frame."""
    try:
        stored = json.loads(metadata.get(b"pandas", b"{}"))
        found = stored.get("index_columns", [])
        return {name for name in found if isinstance(name, str)}
    except (ValueError, RecursionError, AttributeError, TypeError):
        return set()


def _column(
    name: str, kind: Any, n_rows: int, pa: Any, *, is_index: bool, count: int, path: Path
) -> Column:
    problem = None
    if count > 1:
        problem = file_error(
            path,
            f"names must differ between columns, but {short(repr(name))} occurs {count} times. "
            "Rename one, or leave them out.",
            fixes=[{"ignore": [name]}],
        )
    is_index = is_index or name.startswith("__index_level_")
    found, width = _kind(kind, pa)
    return Column(
        name=name,
        kind=found,
        shape=(n_rows, width) if found == "matrix" else (n_rows,),
        is_index=is_index,
        is_half=_is_half(kind, pa),
        problem=problem,
    )


def _kind(column_type: Any, pa: Any) -> tuple[ColumnKind, int]:
    types = pa.types
    storage = getattr(column_type, "storage_type", column_type)
    if types.is_dictionary(storage):
        return _kind(storage.value_type, pa)
    if types.is_integer(storage) or types.is_floating(storage) or types.is_decimal(storage):
        return "number", 1
    if types.is_boolean(storage):
        return "bool", 1
    if types.is_string(storage) or types.is_large_string(storage) or types.is_string_view(storage):
        return "text", 1
    if types.is_binary(storage) or types.is_large_binary(storage):  # text without a type
        return "text", 1
    if types.is_null(storage):
        return "empty", 1
    if types.is_fixed_size_list(storage) and _is_number(storage.value_type, pa):
        return "matrix", int(storage.list_size)
    if (types.is_list(storage) or types.is_large_list(storage)) and _is_number(
        storage.value_type, pa
    ):
        return "matrix", -1
    return "other", 1


def _is_number(column_type: Any, pa: Any) -> bool:
    return bool(pa.types.is_integer(column_type) or pa.types.is_floating(column_type))


def _is_half(column_type: Any, pa: Any) -> bool:
    storage = getattr(column_type, "storage_type", column_type)
    storage = getattr(storage, "value_type", storage)
    return bool(pa.types.is_float16(storage))


def array_of(cells: Any, column: Column, pa: Any, start: int, path: Path) -> NDArray[Any]:
    """Return one batch of a column; a missing number becomes nan, missing text ""."""
    cells = getattr(cells, "storage", cells)
    if column.kind == "matrix":
        return _matrix(cells, start, path)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if column.kind == "number":
        if pa.types.is_decimal(cells.type):
            cells = cells.cast(pa.float64())
        numbers: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return numbers if numbers.dtype.kind in "fiu" else numbers.astype(np.float64)
    if column.kind == "text":
        codes = cells.cast(pa.string()).dictionary_encode()
        distinct = np.array([*codes.dictionary.to_pylist(), ""], dtype=object)
        places = codes.indices.fill_null(len(distinct) - 1).to_numpy(zero_copy_only=False)
        return np.asarray(distinct[places])
    if column.kind == "bool" and not cells.null_count:
        flags: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return flags
    return np.array(["" if v is None else str(v) for v in cells.to_pylist()], dtype=object)


def _matrix(column: Any, start: int, path: Path) -> NDArray[Any]:
    """Return a list column as ``[n, K]``; `start` is the number of its first row."""
    if column.null_count:
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        rows = rows_text((missing[:5] + start).tolist(), len(missing))
        raise file_error(path, f"scores must not be missing, but they are in {rows}. Drop them.")
    if hasattr(column.type, "list_size"):
        lengths = np.full(len(column), column.type.list_size)
    else:
        lengths = np.diff(column.offsets.to_numpy())
    if len(lengths) and lengths.min() != lengths.max():
        at = int(np.argmax(lengths != lengths[0]))
        raise uneven(path, start + at, int(lengths[at]), int(lengths[0]))
    values: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), int(lengths[0]) if len(lengths) else 0)


def uneven(path: Path, row: int, found: int, expected: int) -> PredictionFileError:
    """Return the error for a row with another number of classes than those before."""
    return file_error(
        path,
        f"every row must have the same number of scores, but row {row} (0-based) has {found} and "
        f"those before it {expected}.",
    )


def _joined(parts: list[NDArray[Any]], column: Column, path: Path) -> NDArray[Any]:
    filled = [part for part in parts if len(part)] or parts[:1]
    if column.kind == "matrix":
        start = 0
        for part in filled:
            if part.shape[1] != filled[0].shape[1]:
                raise uneven(path, start, part.shape[1], filled[0].shape[1])
            start += len(part)
    return np.concatenate(filled) if len(filled) > 1 else filled[0]
