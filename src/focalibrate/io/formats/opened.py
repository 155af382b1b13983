"""One opened file: what is known of it, and its rows, some at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.table import Schema, Table

Read: TypeAlias = Callable[[Sequence[int] | None, int, int | None], Iterator[Table]]
"""Yield tables of at most so many rows, in order, with the wanted columns; of one piece or all."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """One opened file.

    Attributes:
        schema: its columns.
        read: its rows, some at a time.
        n_rows: number of rows, or None if the file does not say.
        pieces: number of rows of each piece that can be read by itself; empty for a file that is
            read from its beginning.
        constants: reads the arrays that do not have one entry per row.
        digest: returns the SHA-256 of its bytes, once all of them were read.
        layout: fields of `Layout` that the format knows.
    """

    schema: Schema
    read: Read
    n_rows: int | None = None
    pieces: tuple[int, ...] = ()
    constants: Callable[[Sequence[int]], list[NDArray[Any]]] | None = None
    digest: Callable[[], str | None] | None = None
    layout: Mapping[str, Any] = field(default_factory=dict)

    def as_in(self, first: Schema, places: Sequence[int]) -> "Opened":
        """Return the file with its columns in the order of `first`, where they are at `places`.

        Its tables have the columns that `first` describes, its schema says what it has itself.
        """

        def read(wanted: Sequence[int] | None, rows: int, piece: int | None) -> Iterator[Table]:
            theirs = None if wanted is None else [places[i] for i in wanted]
            for table in self.read(theirs, rows, piece):
                yield table.in_order(first, places)

        columns = tuple(self.schema.columns[i] for i in places)
        return replace(self, schema=replace(self.schema, columns=columns), read=read)


def in_memory(schema: Schema, data: Mapping[int, Any], n_rows: int) -> Opened:
    """Return a file that was read whole."""
    whole = Table(schema, data, n_rows)

    def read(wanted: Sequence[int] | None, rows: int, _: int | None) -> Iterator[Table]:
        for start in range(0, n_rows, rows):
            yield whole.slice(start, rows)

    return Opened(
        schema=schema,
        read=read,
        n_rows=n_rows if schema.is_table else None,
        constants=lambda wanted: [np.asarray(data[i]) for i in wanted],
    )
