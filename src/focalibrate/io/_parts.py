"""Folders and globs of parts, read as one table in natural order."""

import glob
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._arrow import import_arrow
from focalibrate.io._error import file_error, listing
from focalibrate.io._formats import READERS, Opening, open_file, suffix_of
from focalibrate.io._frame import Column, ColumnKind, Frame, Progress
from focalibrate.io._limit import check_fits

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".feather", ".arrow", ".jsonl", ".json", ".xlsx")
MAX_PARTS = 100_000


def natural(path: Path | str) -> list[tuple[int, int, str]]:
    """Return a key that sorts ``part-2`` before ``part-10``.

    Example:
        >>> sorted(["part-10", "part-2"], key=natural)
        ['part-2', 'part-10']
    """
    return [
        (0, int(piece), "") if piece.isdigit() and len(piece) < 400 else (1, 0, piece)
        for piece in re.split(r"([0-9]+)", str(path))
        if piece
    ]


def is_pattern(path: Path) -> bool:
    """Return whether `path` is a glob rather than the name of a file."""
    return any(mark in str(path) for mark in "*?[") and not path.exists()


def find_parts(path: Path) -> list[Path]:
    """Return the files of a folder or glob in natural order, without markers like ``_SUCCESS``.

    Names that begin with ``_`` or ``.`` are left out, as Spark and Hadoop do.
    """
    roots = [path] if path.is_dir() else [Path(p) for p in glob.glob(str(path), recursive=True)]
    found = []
    for root in roots:
        if root.is_dir():
            found += [(p, p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
        else:
            found.append((root, Path(root.name)))
    kept = [p for p, inside in found if not any(x.startswith(("_", ".")) for x in inside.parts)]
    known = [p for p in kept if suffix_of(p) in READERS]
    if len(known) > MAX_PARTS:
        raise file_error(path, f"has more than {MAX_PARTS:,} parts.")
    if not known and kept:  # Hadoop's part-00000 has no suffix
        known = [p for p in kept if not p.suffix]
    if not known:
        inside = f"; it holds {listing([p.name for p in kept])}" if kept else ""
        raise file_error(path, f"has no files of predictions ({', '.join(READERS)}){inside}.")
    check_one_split(known, path=path)
    return sorted(known, key=natural)


_SPLITS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "holdout"}


def check_one_split(parts: Sequence[Path], *, path: Path | None = None) -> None:
    """Raise where the files are a training, a validation and a test set, not parts of one.

    Args:
        parts: the files.
        path: what the message calls them; default: after the first.
    """
    stems = {p.name.partition(".")[0].lower() for p in parts}
    if len(stems) > 1 and stems <= _SPLITS and len({p.parent for p in parts}) == 1:
        raise file_error(
            path or name_of(parts),
            f"holds different splits, not parts of one table: {listing([p.name for p in parts])}. "
            f"Name one, such as {parts[0]}, or both as `calibrate VAL --test TEST`.",
        )


def name_of(paths: Sequence[str | Path]) -> Path:
    """Return what messages call one or several paths.

    Example:
        >>> str(name_of(["a.csv", "b.csv", "c.csv"]))
        'a.csv and 2 more'
    """
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return Path(f"{paths[0]}{more}")


def open_parts(path: Path, parts: list[Path], opening: Opening) -> Frame:
    """Return files with the same columns as one frame, called `path` in messages."""
    check_one_split(parts, path=path)
    suffixes = {suffix_of(p) for p in parts}
    if suffixes == {".npy"} and len(parts) > 1:
        return _named_arrays(path, parts, opening)
    if len(suffixes) > 1:
        raise file_error(
            path,
            f"holds files of different formats: {listing([p.name for p in parts])}. Give a "
            f"pattern, such as '{parts[0].parent / '*'}{sorted(suffixes)[0]}'.",
        )
    frames = [_with_partition(open_file(p, opening), path, p) for p in parts]
    return joined(path, frames, opening)


def _named_arrays(path: Path, parts: list[Path], opening: Opening) -> Frame:
    """Return ``logits.npy`` and ``labels.npy`` of one folder as arrays of one file.

    Files whose names differ only by a number are parts of one array.
    """
    groups: dict[str, list[Frame]] = {}
    for p in parts:
        stem = re.sub(r"[-_.]?\d+$", "", p.stem) or "scores"
        frame = open_file(p, opening)
        column = replace(frame.columns[0], name=stem)
        groups.setdefault(stem, []).append(replace(frame, columns=(column,)))
    arrays = [joined(path, frames, opening) for frames in groups.values()]

    def load(wanted: Sequence[int], progress: Progress) -> list[NDArray[Any]]:
        return [arrays[i].load([0], progress)[0] for i in wanted]

    columns = tuple(frame.columns[0] for frame in arrays)
    return Frame(path=path, columns=columns, load=load, is_table=False)


def _with_partition(frame: Frame, root: Path, part: Path) -> Frame:
    """Add the columns that Hive keeps in the names of folders: ``label=cat/part-0.parquet``."""
    return with_columns(frame, partition_of(root, part))


def partition_of(root: Path, part: Path) -> list[tuple[str, str]]:
    """Return the names and values in the names of folders.

    Example:
        >>> partition_of(Path("preds"), Path("preds/day=1/label=cat/part-0.parquet"))
        [('day', '1'), ('label', 'cat')]
    """
    inside = part.relative_to(root).parts if part.is_relative_to(root) else part.parts
    cut = [piece.partition("=") for piece in inside[:-1] if "=" in piece]
    return [(unquote(k), unquote(v)) for k, _, v in cut if k]


def with_columns(frame: Frame, constants: Sequence[tuple[str, str]]) -> Frame:
    """Return a table with constant columns added, unless it has columns of these names."""
    pairs = [(k, v) for k, v in constants if k not in frame.names]
    if not pairs or not frame.is_table:
        return frame
    n_rows = frame.columns[0].shape[0] if frame.columns else 0
    kind: ColumnKind = "text"
    added = tuple(Column(name=k, kind=kind, shape=(n_rows,)) for k, _ in pairs)
    width = len(frame.columns)

    def load(wanted: Sequence[int], progress: Progress) -> list[NDArray[Any]]:
        stored = frame.load([i for i in wanted if i < width], progress)
        rest = iter(stored)
        return [
            next(rest) if i < width else np.full(n_rows, pairs[i - width][1], dtype=object)
            for i in wanted
        ]

    extra = dict(frame.extra)
    if "cells" in extra:
        extra["cells"] = lambda wanted: [
            frame.extra["cells"]([i])[0] if i < width else [pairs[i - width][1]] * n_rows
            for i in wanted
        ]
    if "arrow" in extra:
        extra["arrow"] = lambda wanted: _with_arrow(frame, pairs, wanted, n_rows)
    return replace(frame, columns=(*frame.columns, *added), load=load, extra=extra)


def _with_arrow(
    frame: Frame, pairs: Sequence[tuple[str, str]], wanted: Sequence[int], n_rows: int
) -> Any:
    pa = import_arrow("pyarrow", path=frame.path)
    width = len(frame.columns)
    stored = iter(frame.extra["arrow"]([i for i in wanted if i < width]).itercolumns())
    arrays = [
        next(stored) if i < width else pa.array([pairs[i - width][1]] * n_rows) for i in wanted
    ]
    names = [frame.names[i] if i < width else pairs[i - width][0] for i in wanted]
    return pa.table(arrays, names=names)


def joined(path: Path, frames: list[Frame], opening: Opening) -> Frame:
    """Return frames with the same columns one below another."""
    first = frames[0]
    if len(frames) == 1:
        return replace(first, path=path)
    names = first.names
    places = []
    for frame in frames:
        if sorted(frame.names) != sorted(names) or len(set(names)) < len(names):
            missing = [n for n in names if n not in frame.names]
            more = [n for n in frame.names if n not in names]
            raise file_error(
                frame.path,
                f"must have the columns of {first.path.name} ({listing(names)}), but lacks "
                f"{listing(missing) or 'none'} and has besides {listing(more) or 'none'}.",
            )
        places.append([frame.names.index(n) for n in names])
    columns = tuple(_joined_column(frames, places, i) for i in range(len(names)))
    total = sum(f.columns[0].shape[0] for f in frames if f.columns and f.columns[0].shape)
    check_fits(path, 8 * total, opening.limit)

    def load(wanted: Sequence[int], progress: Progress) -> list[NDArray[Any]]:
        found: list[list[NDArray[Any]]] = [[] for _ in wanted]
        for done, (frame, place) in enumerate(zip(frames, places, strict=True), start=1):
            for part, array in zip(
                found, frame.load([place[i] for i in wanted], progress), strict=True
            ):
                part.append(array)
            progress(done, len(frames))
        return [_stacked(part, columns[i], path) for part, i in zip(found, wanted, strict=True)]

    notes = dict.fromkeys(note for frame in frames for note in frame.notes)
    return replace(
        first,
        path=path,
        columns=columns,
        load=load,
        extra=_joined_extra(frames, places),
        notes=(f"{len(frames)} parts, {first.path.name} to {frames[-1].path.name}", *notes),
    )


def _joined_extra(frames: list[Frame], places: list[list[int]]) -> dict[str, Any]:
    """Return a reader of the cells of all parts, if all have the same dialect."""
    first = frames[0].extra
    if any("cells" not in f.extra for f in frames) or (
        len({f.extra["decimal_comma"] for f in frames}) > 1
    ):
        return {}

    def cells(wanted: Sequence[int]) -> list[list[str]]:
        found: list[list[str]] = [[] for _ in wanted]
        for frame, place in zip(frames, places, strict=True):
            read = frame.extra["cells"]([place[i] for i in wanted])
            for column, part in zip(found, read, strict=True):
                column += part
        return found

    return {
        "cells": cells,
        "separator": first["separator"],
        "decimal_comma": first["decimal_comma"],
    }


def _joined_column(frames: list[Frame], places: list[list[int]], at: int) -> Column:
    columns = [frame.columns[place[at]] for frame, place in zip(frames, places, strict=True)]
    kinds = {c.kind for c in columns} - {"empty"}
    kind: ColumnKind = columns[0].kind if not kinds else kinds.pop() if len(kinds) == 1 else "text"
    if "matrix" in {c.kind for c in columns} and kind != "matrix":
        kind = "other"
    shape = (sum(c.shape[0] for c in columns if c.shape), *columns[0].shape[1:])
    problem = next((c.problem for c in columns if c.problem is not None), None)
    return replace(columns[0], kind=kind, shape=shape, problem=problem)


def _stacked(parts: list[NDArray[Any]], column: Column, path: Path) -> NDArray[Any]:
    if column.kind == "number" and any(p.dtype.kind not in "fiu" for p in parts):
        parts = [np.full(len(p), np.nan) if p.dtype.kind not in "fiu" else p for p in parts]
    if column.kind == "text":
        parts = [p.astype(str).astype(object) if p.dtype != object else p for p in parts]
    if len({p.shape[1:] for p in parts}) > 1:
        raise file_error(
            path,
            f"every part must have the same number of scores in `{column.name}`, got "
            f"{sorted({p.shape[1:] for p in parts})}.",
        )
    return np.concatenate(parts)
