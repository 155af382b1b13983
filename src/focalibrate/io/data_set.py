"""The files of a data set: opened when they are needed, checked for the same columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from focalibrate.io.errors import PredictionFileError, file_error, listing
from focalibrate.io.formats.arrays import grouped_npy, open_npy
from focalibrate.io.formats.choose import open_part
from focalibrate.io.formats.detections import open_detections
from focalibrate.io.formats.opened import Opened
from focalibrate.io.options import Request
from focalibrate.io.roles.listed import with_class_names
from focalibrate.io.source import Part, suffix_of
from focalibrate.io.table import Schema


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
    """Files with the same columns, opened when they are needed; in each process anew.

    Attributes:
        path: what messages call them.
        request: what the caller says about them.
        groups: the files of each part: one, or several of arrays.
        schema: the columns of the first part, once its first rows have described them.
        notes: what was left out.
    """

    def __init__(self, path: Path, parts: Sequence[Part], request: Request) -> None:
        self.path, self.request = path, request
        self._folder = Path.cwd()  # of relative names, wherever this is sent from
        self.groups = [{"": part} for part in parts]
        if request.truth is not None:
            self.groups = [{str(part.path): part for part in parts}]
        elif len(parts) > 1 and suffix_of(parts[0].path) == ".npy":
            self.groups = grouped_npy(path, parts)
        self.schema: Schema | None = None
        self.notes: tuple[str, ...] = ()
        self._opened: dict[int, Opened] = {}
        self._drop_empty()

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
        """Return a part, opened, with its columns in the order of the first one."""
        if index not in self._opened:
            group, truth = self.groups[index], self.request.truth
            if truth is not None:
                found = open_detections(self.path, Path(truth), iou=self.request.iou)
            elif "" in group:
                found = open_part(group[""], self.request)
            else:
                found = open_npy(group, limit=self.request.limit)
            found = replace(found, schema=with_class_names(found))
            self._opened[index] = found if self.schema is None else _as_in(self.schema, found)
        return self._opened[index]

    def each(self) -> Iterator[Opened]:
        """Yield every part, opened."""
        return map(self.opened, range(len(self.groups)))

    def settle(self, schema: Schema) -> None:
        """Set the columns that all parts must have; raise where one has others."""
        self.schema = schema
        self._opened = {index: _as_in(schema, found) for index, found in self._opened.items()}

    def _drop_empty(self) -> None:
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


def _as_in(first: Schema, opened: Opened) -> Opened:
    """Return a part with the columns of the first one; raise if it has others."""
    other = opened.schema
    names, given = first.names, other.names
    if other.has_names != first.has_names:
        raise file_error(other.path, f"must have a header as {first.path.name} has, or none.")
    if given == names:
        return opened.as_in(first, range(len(names)))
    if sorted(given) != sorted(names) or len(set(names)) < len(names):
        missing = [n for n in names if n not in given]
        more = [n for n in given if n not in names]
        raise file_error(
            other.path,
            f"must have the columns of {first.path.name} ({listing(names)}), but lacks "
            f"{listing(missing) or 'none'} and has in addition {listing(more) or 'none'}.",
        )
    return opened.as_in(first, [given.index(name) for name in names])


def no_rows(path: Path) -> PredictionFileError:
    """Return the error for a data set without rows."""
    return file_error(path, "holds no rows. Write at least one example.")
