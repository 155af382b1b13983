"""One part of a data set, read some rows at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import file_error, listing
from focalibrate.io._frame import ColumnKind, Frame, silent
from focalibrate.io._parts import with_columns
from focalibrate.io._place import Place

HEAD_ROWS = 1 << 16
HEAD_CELLS = 1 << 22
"""Most rows and cells of the first part that decide which column is what."""

Kinds: TypeAlias = Mapping[str, ColumnKind]
"""What the columns of the first part hold, by name; text of the others is read in the same way."""

Read: TypeAlias = Callable[[Sequence[int] | None, int], Iterator[Frame]]
"""Yield frames of at most so many rows, in order; only the wanted columns can be loaded."""

Take: TypeAlias = Callable[[Sequence[int], NDArray[np.intp]], Frame]
"""Return the wanted columns of the rows at these positions, in ascending order."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """One part of a data set.

    Attributes:
        place: the file.
        frame: its columns; whether values can be loaded from it depends on the format.
        n_rows: number of rows, or None if the file does not say.
        read: its rows, some at a time.
        is_one_file: all its columns are in `place`.
        pieces: ranges of its rows, one after another, that can be read each by itself; empty for
            a file that is read from its beginning.
        take: some rows without reading the others; None where that saves nothing.
        partition: names and values that Hive keeps in the names of folders.
        in_path: the columns that are in `partition` only, not in the file.
    """

    place: Place
    frame: Frame
    n_rows: int | None
    read: Read
    is_one_file: bool = True
    pieces: "tuple[Stream, ...]" = ()
    take: Take | None = None
    partition: tuple[tuple[str, str], ...] = ()
    in_path: tuple[str, ...] = ()


def whole_stream(place: Place, frame: Frame) -> Stream:
    """Return the stream of a file that is read whole, in slices of its arrays."""
    n_rows = frame.columns[0].shape[0] if frame.is_table and frame.columns else None
    if n_rows is None:
        n_rows = max((c.shape[0] for c in frame.columns if c.shape), default=0)
    loaded: dict[int, NDArray[Any]] = {}

    def values(wanted: Sequence[int]) -> list[NDArray[Any]]:
        missing = [i for i in wanted if i not in loaded]
        if missing:
            loaded.update(zip(missing, frame.load(missing, silent), strict=True))
        return [loaded[i] for i in wanted]

    def read(wanted: Sequence[int] | None, rows: int) -> Iterator[Frame]:
        for start in range(0, n_rows, rows):
            yield _slice(frame, values, start, min(rows, n_rows - start))

    return Stream(place=place, frame=frame, n_rows=n_rows, read=read)


def _slice(
    frame: Frame,
    values: Callable[[Sequence[int]], list[NDArray[Any]]],
    start: int,
    n_rows: int,
) -> Frame:
    part = slice(start, start + n_rows)
    extra = dict(frame.extra)
    for key in ("cells", "values"):
        if key in extra:
            extra[key] = lambda wanted, key=key: [c[part] for c in frame.extra[key](wanted)]
    if "arrow" in extra:
        extra["arrow"] = lambda wanted: frame.extra["arrow"](wanted).slice(start, n_rows)
    columns = frame.columns
    if frame.is_table:
        columns = tuple(replace(c, shape=(n_rows, *c.shape[1:])) for c in columns)
    return replace(
        frame,
        columns=columns,
        load=lambda wanted, _: [np.atleast_1d(array)[part] for array in values(wanted)],
        extra=extra,
    )


def in_order_of(first: Frame, frame: Frame) -> list[int]:
    """Return the positions in `frame` of the columns of `first`; raise if they differ."""
    names, given = first.names, frame.names
    if given == names and len(set(names)) == len(names):
        return list(range(len(names)))
    if sorted(given) != sorted(names) or len(set(names)) < len(names):
        missing = [n for n in names if n not in given]
        more = [n for n in given if n not in names]
        raise file_error(
            frame.path,
            f"must have the columns of {first.path.name} ({listing(names)}), but lacks "
            f"{listing(missing) or 'none'} and has in addition {listing(more) or 'none'}.",
        )
    return [given.index(name) for name in names]


def reordered(frame: Frame, places: Sequence[int]) -> Frame:
    """Return the frame with its columns in another order."""
    if list(places) == list(range(len(frame.columns))):
        return frame
    extra = dict(frame.extra)
    for key in ("cells", "values", "arrow"):
        if key in extra:
            extra[key] = lambda wanted, key=key: frame.extra[key]([places[i] for i in wanted])
    return replace(
        frame,
        columns=tuple(frame.columns[i] for i in places),
        load=lambda wanted, progress: frame.load([places[i] for i in wanted], progress),
        extra=extra,
    )


def with_constants(stream: Stream, pairs: Sequence[tuple[str, str]]) -> Stream:
    """Add columns that have one value in the whole part, as Hive keeps in names of folders."""

    def read(wanted: Sequence[int] | None, rows: int) -> Iterator[Frame]:
        width = len(stream.frame.columns)
        own = None if wanted is None else [i for i in wanted if i < width]
        for frame in stream.read(own, rows):
            yield with_columns(frame, pairs)

    pieces = tuple(with_constants(piece, pairs) for piece in stream.pieces)
    frame = with_columns(stream.frame, pairs)
    return replace(
        stream,
        frame=frame,
        read=read,
        pieces=pieces,
        take=None,
        partition=tuple(pairs),
        in_path=tuple(frame.names[len(stream.frame.columns) :]),
    )
