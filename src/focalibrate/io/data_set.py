"""The files of a data set: opened when they are needed, checked for the same columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from focalibrate.io.errors import PredictionFileError, file_error, listing, short
from focalibrate.io.formats.arrays import grouped_npy, open_npy
from focalibrate.io.formats.choose import open_part
from focalibrate.io.formats.detections import open_detections
from focalibrate.io.formats.opened import Opened
from focalibrate.io.options import ReadOptions, Request
from focalibrate.io.source import Part, suffix_of
from focalibrate.io.table import Column, Schema, Table, with_constants
from focalibrate.io.values.scores import native_dtype


@dataclass(frozen=True)
class Piece:
    """What one worker reads at a time: a part, or some row groups of a large parquet file.

    Attributes:
        part: position of the part.
        number: which piece of the part it is; None: all of it.
        name: the part's path or URL.
        n_rows: number of rows it gives, or None where that is known only after reading it.
    """

    part: int
    number: int | None
    name: str
    n_rows: int | None


class DataSet:
    """Files with the same columns, opened when they are needed; in each process anew."""

    def __init__(self, path: Path, groups: Sequence[dict[str, Part]], request: Request) -> None:
        self.path, self.request = path, request
        self.groups = list(groups)
        self._folder = Path.cwd()  # of relative names, wherever this is sent from
        self._opened: dict[int, Opened] = {}
        self._places: dict[int, list[int]] = {}
        self.schema: Schema | None = None
        self.notes: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process opens the same files by, whatever its folder is."""
        groups = [
            {key: part.with_full_path(self._folder) for key, part in group.items()}
            for group in self.groups
        ]
        truth = self.request.truth
        request = replace(self.request, truth=truth and self._folder / truth)
        return {**self.__dict__, "groups": groups, "request": request, "_opened": {}}

    def main(self, index: int) -> Part:
        """Return the file of a part, or the first of several."""
        return next(iter(self.groups[index].values()))

    def size(self, index: int) -> int:
        """Return the bytes of a part."""
        return sum(part.n_bytes for part in self.groups[index].values())

    def opened(self, index: int) -> Opened:
        """Return a part, opened."""
        if index not in self._opened:
            group, truth = self.groups[index], self.request.truth
            if truth is not None:
                found = open_detections(self.path, Path(truth), iou=self.request.iou)
            elif len(group) > 1 or next(iter(group)):
                found = open_npy(group, limit=self.request.limit)
            else:
                found = _with_partition(open_part(group[""], self.request), group[""])
            self._opened[index] = found
        return self._opened[index]

    def with_roles(self, options: ReadOptions, schema: Schema) -> ReadOptions:
        """Return the options with what the format says about the columns.

        Of several logs the task is the group; names that the caller gives count first.
        """
        roles = dict(schema.roles)
        if roles and len(self.groups) > 1 and "task" in schema.names:
            roles.setdefault("by", "task")
        given = {name: value for name, value in options.items() if value not in (None, (), [])}
        if {"logits_key", "probs_key", "score_columns"} & set(given):
            for name in ("logits_key", "score_columns", "input", "positive"):
                roles.pop(name, None)
        return cast(ReadOptions, {**roles, **given}) if roles else options

    def places(self, index: int) -> list[int]:
        """Return where a part has the columns of the first one."""
        opened = self.opened(index)
        if self.schema is not None and index not in self._places:
            self._places[index] = in_order_of(self.schema, opened.schema)
        return self._places[index]

    def each(self) -> Iterator[tuple[Opened, list[int]]]:
        """Yield every part, opened, and where it has the columns of the first."""
        for index in range(len(self.groups)):
            yield self.opened(index), self.places(index)

    def settle(self, schema: Schema) -> None:
        """Set the columns that all parts must have."""
        self.schema = schema
        self._places.clear()

    def drop_empty(self) -> None:
        """Leave out the parts without rows."""
        n, sizes = len(self.groups), [self.size(i) for i in range(len(self.groups))]
        may_be = [bool(sizes[i]) or n == 1 or not any(sizes) for i in range(n)]
        kept = [i for i in range(n) if may_be[i] and self.opened(i).n_rows != 0]
        gone = [self.main(i).path.name for i in range(n) if i not in kept]
        if gone:
            self.notes = (f"parts without rows are left out: {listing(gone)}",)
        self.groups = [self.groups[i] for i in kept]
        self._opened = {new: self._opened[old] for new, old in enumerate(kept)}
        if not self.groups:
            raise no_rows(self.path)

    def read(
        self, index: int, wanted: Sequence[int] | None, rows: int, piece: int | None = None
    ) -> Iterator[Table]:
        """Yield the rows of a part, with the columns of the first one."""
        opened, schema = self.opened(index), self.schema
        if schema is None:
            yield from opened.read(None, rows, piece)
            return
        places = self.places(index)
        theirs = None if wanted is None else [places[i] for i in wanted]
        for table in opened.read(theirs, rows, piece):
            yield table.in_order(schema, places)


def _with_partition(opened: Opened, part: Part) -> Opened:
    """Add columns that have one value in the whole part, as Hive keeps in names of folders."""
    schema = opened.schema
    pairs = [(k, v) for k, v in part.partition if k not in schema.names]
    if not pairs or not schema.is_table:
        return opened
    added = tuple(Column(name=name, kind="text") for name, _ in pairs)
    more = replace(schema, columns=(*schema.columns, *added))
    width = len(schema.columns)

    def read(wanted: Sequence[int] | None, rows: int, piece: int | None) -> Iterator[Table]:
        own = None if wanted is None else [i for i in wanted if i < width]
        for table in opened.read(own, rows, piece):
            yield with_constants(table, more, pairs)

    return replace(opened, schema=more, read=read)


def in_order_of(first: Schema, other: Schema) -> list[int]:
    """Return the positions in `other` of the columns of `first`; raise if they differ."""
    names, given = first.names, other.names
    if other.has_names != first.has_names:
        raise file_error(other.path, f"must have a header as {first.path.name} has, or none.")
    if given == names:
        return list(range(len(names)))
    if sorted(given) != sorted(names) or len(set(names)) < len(names):
        missing = [n for n in names if n not in given]
        more = [n for n in given if n not in names]
        raise file_error(
            other.path,
            f"must have the columns of {first.path.name} ({listing(names)}), but lacks "
            f"{listing(missing) or 'none'} and has in addition {listing(more) or 'none'}.",
        )
    return [given.index(name) for name in names]


def no_rows(path: Path) -> PredictionFileError:
    """Return the error for a data set without rows."""
    return file_error(path, "holds no rows. Write at least one example.")


def groups_of(path: Path, parts: Sequence[Part]) -> list[dict[str, Part]]:
    """Return the files of each part: one, or several of arrays."""
    if len(parts) > 1 and {suffix_of(part.path) for part in parts} == {".npy"}:
        return grouped_npy(path, parts)
    return [{"": part} for part in parts]


def other_length(path: Path, scores: Column, other: Column) -> PredictionFileError:
    """Return the error for an array that does not have one entry per row of the scores."""
    n, found = scores.n_rows or 0, other.n_rows or 0
    if scores.shape == (found,):
        advice = f"Its columns do: save `{short(scores.name)}.T`, one row per example."
    elif found and n % found == 0 and not scores.shape:
        advice = f"If the scores of all classes are in one row: `.reshape({found}, -1)`."
    else:
        advice = "Check that both come from the same split."
    more = "more" if found > n else "fewer"
    return file_error(
        path,
        f"`{short(other.name)}` must hold one label per row, but there are {more} labels than "
        f"rows: {found} labels, {n} rows. {advice}",
    )


def dtype_of(data: DataSet, positions: Sequence[int], *, percent: bool) -> np.dtype[Any]:
    """Return the dtype in which the scores of all parts keep every digit."""
    found = []
    for opened, places in data.each():
        columns = opened.schema.columns
        stored = [columns[places[i]].dtype or np.dtype(np.float64) for i in positions]
        found.append(native_dtype(np.result_type(*stored)))
    return np.result_type(*found) if not percent else np.dtype(np.float64)


def parts_of(data: DataSet, scores: int) -> tuple[Part, ...]:
    """Return the parts with their rows; `scores` is the column that says how many."""
    found = []
    for index, (opened, places) in enumerate(data.each()):
        n_rows = opened.n_rows
        if n_rows is None and not opened.schema.is_table:
            n_rows = opened.schema.columns[places[scores]].n_rows
        size = data.size(index)
        found.append(
            replace(data.main(index), n_bytes=size, n_rows=n_rows, remote=None, content=None)
        )
    return tuple(found)


def pieces_of(data: DataSet, parts: Sequence[Part], *, drop: bool) -> tuple[Piece, ...]:
    """Return the pieces of all parts; with `drop`, rows may be left out, so none are counted."""
    found = list[Piece]()
    for index, part in enumerate(parts):
        sizes = data.opened(index).pieces
        rows: list[tuple[int | None, int | None]] = [(None, part.n_rows)]
        if sizes:
            rows = [(number, n_rows) for number, n_rows in enumerate(sizes)]
        found += [Piece(index, i, part.name, None if drop else n_rows) for i, n_rows in rows]
    return tuple(found)
