"""Arrow tables, read some rows at a time and only the columns that are needed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from focalibrate.io._arrow import (
    Field,
    array_of,
    cells_at,
    damage_named,
    described_schema,
    import_arrow,
    open_ipc,
    top_names,
)
from focalibrate.io._error import file_error
from focalibrate.io._frame import Frame, Progress
from focalibrate.io._limit import default_limit
from focalibrate.io._place import Place
from focalibrate.io._safetensors import names_from_json
from focalibrate.io._stream import Stream, whole_stream

PIECE_BYTES = 1 << 26
"""A parquet file is cut into pieces of whole row groups of about so many bytes, uncompressed."""


def stream_parquet(place: Place) -> Stream:
    """Return the rows of a parquet file."""
    parquet = import_arrow("pyarrow.parquet", path=place.path)
    path = place.path
    with damage_named(path, ".parquet"), place.open() as raw, parquet.ParquetFile(raw) as file:
        schema, n_rows = file.schema_arrow, max(0, file.metadata.num_rows)
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        sizes = [(max(0, group.num_rows), group.total_byte_size) for group in groups]

    def batches_of(groups: Sequence[int] | None, names: list[str], rows: int) -> Iterator[Any]:
        with place.open() as raw, parquet.ParquetFile(raw) as file:
            yield from file.iter_batches(batch_size=rows, columns=names, row_groups=groups)

    def stream(groups: Sequence[int] | None, n_rows: int) -> Stream:
        return _stream(place, schema, n_rows, partial(batches_of, groups), ".parquet")

    ranges = _ranges(sizes)
    pieces = [stream(list(r), sum(sizes[i][0] for i in r)) for r in ranges]
    return replace(stream(None, n_rows), pieces=tuple(pieces) if len(pieces) > 1 else ())


def _ranges(sizes: Sequence[tuple[int, int]]) -> list[range]:
    """Cut row groups, given by their rows and bytes, into ranges of about `PIECE_BYTES`."""
    found, first, held = [], 0, 0
    for i, (_, n_bytes) in enumerate(sizes):
        held += n_bytes
        if held >= PIECE_BYTES or i == len(sizes) - 1:
            found.append(range(first, i + 1))
            first, held = i + 1, 0
    return [r for r in found if sum(sizes[i][0] for i in r)]


def stream_ipc(place: Place) -> Stream:
    """Return the rows of a feather file, or of an Arrow file or stream."""
    ipc = import_arrow("pyarrow.ipc", path=place.path)
    pa = import_arrow("pyarrow", path=place.path)
    suffix = place.path.suffix or ".arrow"
    with damage_named(place.path, suffix), place.open() as raw:
        magic = raw.read(6)
        raw.seek(0)
        if magic.startswith(b"FEA1"):
            return _first_feather(place)
        is_file = magic == b"ARROW1"
        schema = (ipc.open_file if is_file else ipc.open_stream)(raw).schema

    def batches(names: list[str], rows: int) -> Iterator[Any]:
        wanted = [schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=sorted(wanted))
        with place.open() as raw:
            if is_file:
                file = ipc.open_file(raw, options=options)
                found: Any = (file.get_batch(i) for i in range(file.num_record_batches))
            else:
                found = iter(ipc.open_stream(raw, options=options))
            for batch in found:
                batch.validate(full=True)  # buffers of a damaged file may point anywhere
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows)

    return _stream(place, schema, None, batches, suffix)


def _first_feather(place: Place) -> Stream:
    """Return the first version of feather, which is read whole."""
    return whole_stream(place, open_ipc(place.local(), limit=default_limit()))


def _stream(
    place: Place,
    schema: Any,
    n_rows: int | None,
    batches: Callable[[list[str], int], Iterator[Any]],
    suffix: str,
) -> Stream:
    path = place.path
    fields, columns, metadata = described_schema(path, schema, n_rows or 0, suffix=suffix)
    base = Frame(
        path=path,
        columns=columns,
        load=_not_loaded,
        class_names=names_from_json(metadata.get(b"class_names"), path),
        extra={"pandas": metadata.get(b"pandas")},
    )

    def read(wanted: Sequence[int] | None, rows: int) -> Iterator[Frame]:
        usable = [i for i, c in enumerate(columns) if c.problem is None]
        needed = usable if wanted is None else list(wanted)
        start = 0
        with damage_named(path, suffix):
            for batch in batches(top_names(fields, needed), rows):
                if batch.num_rows:
                    yield _block(base, fields, batch, start, suffix)
                start += batch.num_rows
        if n_rows is not None and start != n_rows:
            raise file_error(path, f"promises {n_rows} rows and holds {start}. Write it again.")

    return Stream(place=place, frame=base, n_rows=n_rows, read=read)


def _not_loaded(wanted: Sequence[int], _: object) -> list[NDArray[Any]]:
    raise RuntimeError(f"columns {wanted} of an Arrow table are read in batches only")


def _block(base: Frame, fields: list[Field], batch: Any, start: int, suffix: str) -> Frame:
    pa = import_arrow("pyarrow", path=base.path)
    path = base.path
    columns = tuple(replace(c, shape=(batch.num_rows, *c.shape[1:])) for c in base.columns)

    def load(wanted: Sequence[int], _: Progress) -> list[NDArray[Any]]:
        for i in wanted:
            problem = columns[i].problem
            if problem is not None:
                raise problem
        with damage_named(path, suffix):
            return [
                array_of(cells_at(batch, fields[i][2]), columns[i], pa, start, path)
                for i in wanted
            ]

    def table(wanted: Sequence[int]) -> Any:
        with damage_named(path, suffix):
            arrays = [cells_at(batch, fields[i][2]) for i in wanted]
            return pa.table(arrays, names=[columns[i].name for i in wanted])

    return replace(base, columns=columns, load=load, extra={**base.extra, "arrow": table})
