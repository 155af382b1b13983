"""The parts of a data set, in order, checked for the same columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from focalibrate.io._error import file_error, listing, shown
from focalibrate.io._formats import READERS, Opening, suffix_of
from focalibrate.io._frame import Frame
from focalibrate.io._listed_classes import with_class_names
from focalibrate.io._open_any import check_readable, open_any
from focalibrate.io._open_stream import open_stream
from focalibrate.io._parts import find_parts, is_pattern, name_of, natural, partition_of
from focalibrate.io._place import Place, remote_places, url_of
from focalibrate.io._stream import Kinds, Stream, in_order_of, whole_stream, with_constants
from focalibrate.io._stream_arrays import side_by_side


@dataclass(frozen=True)
class DataSet:
    """Parts with the same columns.

    Attributes:
        path: what messages call the data set.
        streams: the parts that have rows, in order.
        places: for each part, the positions in it of the columns of the first part.
        first: the columns of the first part, with the names of the classes.
    """

    path: Path
    streams: tuple[Stream, ...]
    places: tuple[list[int], ...]
    first: Frame

    def completed(self, frame: Frame) -> Frame:
        """Return a block of rows with what is known of the whole data set."""
        extra = dict(frame.extra)
        if "class_names_at" in self.first.extra:
            extra["class_names_at"] = self.first.extra["class_names_at"]
        return replace(
            frame,
            class_names=self.first.class_names,
            numeric_classes=self.first.numeric_classes,
            extra=extra,
        )

    def rows_of(self, index: int, position: int) -> int | None:
        """Return the number of rows of a part, or None if it is not stored."""
        stream = self.streams[index]
        if stream.n_rows is None and not stream.frame.is_table:
            return stream.frame.columns[self.places[index][position]].shape[0]
        return stream.n_rows

    def check_same_length(self, needed: Sequence[int]) -> None:
        """Raise where the arrays of a file that are needed have different numbers of rows."""
        for index, stream in enumerate(self.streams):
            if stream.frame.is_table:
                continue
            columns = [stream.frame.columns[self.places[index][i]] for i in needed]
            rows = {column.shape[0] for column in columns if column.shape}
            if len(rows) > 1:
                sizes = ", ".join(f"`{c.name}` {c.shape[0]}" for c in columns if c.shape)
                raise file_error(
                    stream.frame.path,
                    f"its arrays must have the same number of rows, got {sizes}. Check that they "
                    "come from the same split.",
                )


def find_streams(
    source: str | Path | Sequence[str | Path], opening: Opening
) -> tuple[str, DataSet]:
    """Return the name of the source, and its parts."""
    if not isinstance(source, (str, Path)):
        if not source:
            raise ValueError("`source` must name at least one file, got an empty list.")
        places = [found for one in source for found in _places(one)]
        path = name_of(source)
        name = str(path)
    elif str(source) == "-":
        frame = open_any(Path("-"), opening).frame
        stream = whole_stream(Place(Path("-"), 0), frame)
        return "standard input", _data_set(Path("-"), [stream])
    else:
        places = _places(source)
        name, path = str(source), Path(source)
    shown_name = shown(path.name if url_of(path) is None and path.name else name)
    suffixes = {suffix_of(root_place.path) for _, root_place in places}
    if suffixes == {".npy"} and len(places) > 1:
        return shown_name, _data_set(path, _named_arrays(path, [p for _, p in places]))
    if len(suffixes) > 1:
        raise file_error(
            path,
            f"holds files of different formats: {listing([p.path.name for _, p in places])}. "
            f"Give a pattern, such as '*{sorted(suffixes)[0]}'.",
        )
    first: Stream | None = None
    streams = []
    for root, place in places:
        kinds: Kinds | None = (
            None if first is None else {c.name: c.kind for c in first.frame.columns}
        )
        stream = open_stream(place, opening, kinds)
        pairs = [] if root is None else partition_of(root, place.path)
        stream = with_constants(stream, pairs) if pairs else stream
        streams.append(stream)
        if first is None and stream.n_rows != 0:
            first = stream
    return shown_name, _data_set(path, streams)


def is_data_set(source: str | Path) -> bool:
    """Return whether `source` is a folder, a glob or a URL that has no suffix of a file."""
    path = Path(source)
    if url_of(path) is not None:
        has_marks = any(mark in str(path) for mark in "*[")
        return has_marks or suffix_of(path) not in READERS
    return path.is_dir() or is_pattern(path)


def _places(source: str | Path) -> list[tuple[Path | None, Place]]:
    """Return the files, each with the folder that it was found in."""
    url = url_of(source)
    if url is not None:
        found = remote_places(url)
        ordered = sorted(found, key=lambda place: natural(place.path))
        return [(Path(url) if len(found) > 1 else None, place) for place in ordered]
    path = Path(source)
    if path.is_dir() or is_pattern(path):
        return [(path, Place(part, part.stat().st_size)) for part in find_parts(path)]
    check_readable(path)
    return [(None, Place(path, path.stat().st_size))]


def _data_set(path: Path, streams: Sequence[Stream]) -> DataSet:
    """Return the parts that have rows; raise if one does not match the first."""
    filled = tuple(s for s in streams if s.n_rows != 0)
    if not filled:
        raise file_error(path, "holds no rows. Write at least one example.")
    first = with_class_names(filled[0].frame)
    places = []
    for stream in filled:
        frame = stream.frame
        if frame.has_names != first.has_names:
            raise file_error(frame.path, f"must have a header as {first.path.name} has, or none.")
        places.append(in_order_of(first, frame))
        for i, place in enumerate(places[-1]):
            mine, other = first.columns[i], frame.columns[place]
            is_number = mine.kind != other.kind and "empty" not in (mine.kind, other.kind)
            if is_number and other.problem is None:
                raise file_error(
                    frame.path,
                    f"column `{mine.name}` must hold {_words(mine.kind)} as in {first.path.name}, "
                    f"but holds {_words(other.kind)}.",
                )
        if len(filled) > 1 and with_class_names(frame).class_names != first.class_names:
            raise file_error(
                frame.path, f"must have the class names of {first.path.name}, in the same order."
            )
    return DataSet(path, filled, tuple(places), first)


def _words(kind: str) -> str:
    return {"number": "numbers", "matrix": "lists", "bool": "true and false"}.get(kind, kind)


def _named_arrays(path: Path, places: Sequence[Place]) -> list[Stream]:
    """Return ``logits-0.npy, labels-0.npy, logits-1.npy, ...`` as parts of several arrays.

    Files whose names differ by a number only are parts of one array.
    """
    groups: dict[str, list[Place]] = {}
    for place in places:
        stem = re.sub(r"[-_.]?\d+$", "", place.path.stem) or "scores"
        groups.setdefault(stem, []).append(place)
    counts = {len(group) for group in groups.values()}
    if len(counts) > 1:
        sizes = ", ".join(f"{len(group)} of `{stem}`" for stem, group in groups.items())
        raise file_error(path, f"must hold the same number of parts of every array, got {sizes}.")
    return [
        side_by_side({stem: group[i] for stem, group in groups.items()})
        for i in range(counts.pop())
    ]
