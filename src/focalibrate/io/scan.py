"""Predictions of any size: a file, a folder, a glob, several paths or a URL, read in batches."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Unpack

import numpy as np

from focalibrate._check import PROBS_ATOL
from focalibrate.io._assemble import Settled, assemble
from focalibrate.io._binary_labels import distinct_labels, pair_of
from focalibrate.io._error import PredictionFileError, file_error, printable, short, shown
from focalibrate.io._find_streams import DataSet, find_streams
from focalibrate.io._formats import Opening
from focalibrate.io._frame import Frame, silent
from focalibrate.io._limit import human, parse_size
from focalibrate.io._other_labels import OtherLabels
from focalibrate.io._request import ReadOptions, Request, request_of
from focalibrate.io._roles import Roles, resolve_roles
from focalibrate.io._stored import all_zero
from focalibrate.io._stream import Stream, reordered
from focalibrate.io._view import View
from focalibrate.io.checksum import CHUNK
from focalibrate.io.predictions import SHOWN_CLASSES, Kind, Predictions
from focalibrate.io.read import read_labels, read_predictions

BATCH_ROWS = 65_536
BATCH_BYTES = 1 << 25
"""Most bytes of scores in one batch: with many classes a batch has fewer rows."""

HEAD_ROWS = 65_536
HEAD_CELLS = 1 << 22
"""Rows, and cells, by which it is decided which column is what."""

_Batch = tuple[int, Predictions | None]
Source = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Part:
    """One file of a data set.

    Attributes:
        name: its path, or its URL.
        n_bytes: its size.
        n_rows: number of rows, or None where the format does not say.
    """

    name: str
    n_bytes: int
    n_rows: int | None


@dataclass(frozen=True)
class Piece:
    """What one worker reads at a time: a part, or some row groups of a large parquet file.

    Attributes:
        part: position of the part.
        number: which piece of the part it is; None: all of it.
        name: the part's path or URL.
    """

    part: int
    number: int | None
    name: str


class Scan:
    """Predictions that are read in batches; made by `scan_predictions`.

    Attributes:
        source: what was given, in words.
        parts: the files, in the order in which their rows are read.
        pieces: the same rows in the same order, with large parquet files cut between row groups.
        kind: ``"logits"`` or ``"probs"``.
        n_classes: number of classes K.
        class_names: one per class, or None.
        positive: name of the positive class, where the data have one column of scores.
        labels_name: the column or array of the labels, or None.
        scores_names: the columns or arrays of the scores.
        notes: what was decided, passed over or is to be doubted.
        first: the predictions of the first rows, by which everything was decided.
    """

    def __init__(self, source: str, data: DataSet, options: ReadOptions, batch_rows: int) -> None:
        self._data, self._options = data, options
        self.source = source
        self._request: Request = request_of(data.path, options)
        labels_path = options.get("labels_path")
        self._labels_path = None if labels_path is None else Path(labels_path)
        self._labels: OtherLabels | None = None
        if self._labels_path is not None:
            opening = Opening(parse_size(options.get("max_memory")))
            first = data.streams[0].frame
            self._labels = read_labels(self._labels_path, self._request, opening, first)
        head, is_all = _head(data)
        view = View(data.completed(head))
        self._roles: Roles = resolve_roles(view, self._request)
        data.check_same_length(self._needed())
        self._settled = Settled(self._pair(view, is_all=is_all))
        self._checksum: str | None = None
        self._hashing = Lock()
        self.first = self._first_batch()
        found = self.first
        self.kind: Kind = found.kind
        self.n_classes = found.n_classes
        self.class_names = found.class_names
        self.positive = found.positive
        self.labels_name = found.labels_name
        self.scores_names = found.scores_names
        self._rows = max(1, min(batch_rows, BATCH_BYTES // (8 * self.n_classes)))
        self.parts = tuple(
            Part(
                shown(s.place.path), s.place.size, data.rows_of(i, self._roles.scores.positions[0])
            )
            for i, s in enumerate(data.streams)
        )
        self.pieces = tuple(
            Piece(i, number, self.parts[i].name)
            for i, stream in enumerate(data.streams)
            for number in (range(len(stream.pieces)) if stream.pieces else (None,))
        )
        many = (
            f"{len(self.parts)} parts, {Path(self.parts[0].name).name} to "
            f"{Path(self.parts[-1].name).name}"
        )
        self.notes = (*((many,) if len(self.parts) > 1 else ()), *found.notes)

    @property
    def has_labels(self) -> bool:
        """Whether the rows have labels."""
        return self.first.labels is not None

    @property
    def n_rows(self) -> int | None:
        """Number of rows, or None where a part does not say; rows left out are counted too."""
        rows = [part.n_rows for part in self.parts]
        return None if None in rows else sum(n for n in rows if n is not None)

    def describe(self) -> str:
        """Return one line that says what will be read: parts, rows, classes, kind, labels."""
        rows = self.n_rows
        size = human(sum(part.n_bytes for part in self.parts))
        text = f"{self.source}: "
        if len(self.parts) > 1:
            text += f"{len(self.parts)} parts, "
        text += f"{size}" if rows is None else "1 row" if rows == 1 else f"{rows} rows"
        text += f" × {self.n_classes} classes"
        if self.class_names is not None:
            names = [short(n) or '""' for n in self.class_names[:SHOWN_CLASSES]]
            more = self.n_classes - len(names)
            text += f" ({', '.join(names)}{f', ... {more} more' if more > 0 else ''})"
        text += ", probabilities" if self.kind == "probs" else ", logits"
        if self.first.layout.form == "single":
            of = "class 1" if self.positive is None else f'"{short(self.positive)}"'
            text += f' of {of} in "{short(self.scores_names[0])}"'
        if not self.has_labels:
            text += ", no labels"
        elif self._labels_path is not None:
            text += f", labels in {self._labels_path.name}"
        elif self.labels_name is not None:
            text += f', labels in "{short(self.labels_name)}"'
        return printable(text)

    def batches(
        self, part: int | None = None, *, piece: int | None = None, keep: bool = False
    ) -> Iterator[Predictions]:
        """Yield the predictions in the order of the rows, a few thousand at a time.

        Every row has the values that `read_predictions` gives it, whatever the batch size.

        Args:
            part: position in `parts` of the one to read. Default: all, one after another.
            piece: which of the part's pieces to read (`Piece.number`). Default: all.
            keep: also read the columns that are neither scores nor labels, so that
                `write_probs` can write them again.

        Raises:
            PredictionFileError: where a batch breaks a rule, with the part and its row.
        """
        chosen = range(len(self.parts)) if part is None else [part]
        done = 0
        weight = 0.0
        n_found = 0
        for index in chosen:
            start = self._rows_before(index) if self._labels is not None else 0
            pieces = self._data.streams[index].pieces
            is_last = piece is None or piece == len(pieces) - 1
            rows = self._part(index, start, piece=piece, keep=keep)
            start += sum(before.n_rows or 0 for before in pieces[: piece or 0])
            for n_read, found in _guarded(rows, self.source):
                start += n_read
                done += n_read
                self._report(done)
                if found is not None:
                    n_found += found.n_rows
                    weight += 1.0 if found.weights is None else float(found.weights.sum())
                    yield found
            if self._labels is not None and index == len(self.parts) - 1 and is_last:
                self._check_all_labels_used(start)
        if part is None and not n_found:
            raise file_error(self._data.path, "has missing values in every row.")
        if part is None and not weight > 0:
            raise all_zero(self._data.path, self._request.weight_column or "")

    def checksum(self, part: int | None = None) -> str:
        """Return the SHA-256 of the bytes of one part, or of all one after another, in hex."""
        if part is not None:
            return _sha256([self._data.streams[part]])
        with self._hashing:  # two threads that ask at once read the bytes once
            if self._checksum is None:
                self._checksum = _sha256(self._data.streams)
            return self._checksum

    def read_part(self, part: int) -> Predictions:
        """Return one part read whole by `read_predictions`, with its layout.

        Raises:
            PredictionFileError: where the part alone would be read in another way.
        """
        stream = self._data.streams[part]
        path = stream.place.path
        if self._labels is not None or not stream.is_one_file:
            raise file_error(
                path,
                "cannot be written part by part with its labels in other files. Write all parts "
                "to one file: -o calibrated.npz.",
            )
        options = {k: v for k, v in self._options.items() if k != "progress"}
        found = read_predictions(stream.place.local(), **options)  # type: ignore[arg-type]
        if (found.kind, found.class_names) != (self.kind, self.class_names):
            raise file_error(
                path,
                f"alone is read as {found.kind} of {found.class_names}, all parts together as "
                f"{self.kind} of {self.class_names}. Say what it holds with --input and "
                "--class-names.",
            )
        return found

    def _part(
        self, index: int, offset: int, *, piece: int | None = None, keep: bool
    ) -> Iterator[tuple[int, Predictions | None]]:
        """Yield how many rows were read of one part, and those that are complete."""
        stream, places = self._data.streams[index], self._data.places[index]
        wanted = None if keep else [places[i] for i in self._needed()]
        start = 0
        if piece is not None:
            start = sum(before.n_rows or 0 for before in stream.pieces[:piece])
            stream = stream.pieces[piece]
        for frame in stream.read(wanted, self._rows):
            block = self._data.completed(reordered(frame, places))
            n_rows = _n_rows(block, self._roles)
            try:
                found = self._assembled(block, offset + start, n_rows, self._settled)
            except PredictionFileError as error:
                raise _located(error, start) from error
            if found is not None:
                self._check_same(found, stream.frame.path)
                if found.scores.dtype != self.first.scores.dtype:
                    scores = found.scores.astype(self.first.scores.dtype)
                    found = replace(found, scores=scores)
            yield n_rows, found
            start += n_rows

    def _assembled(
        self, block: Frame, start: int, n_rows: int, settled: Settled
    ) -> Predictions | None:
        view = View(block)
        labels, matched = None, tuple[str, ...]()
        if self._labels is not None:
            rows = slice(start, start + n_rows)
            values, matched = self._labels.of_rows(view, rows)
            labels = (values, self._labels.name)
        found = assemble(
            view,
            self._roles,
            self._request,
            labels=labels,
            labels_path=self._labels_path,
            probs_atol=self._options.get("probs_atol", PROBS_ATOL),
            drop_missing=self._options.get("drop_missing", False),
            progress=silent,
            settled=settled,
        )
        if found is None:
            return None
        notes = (*found.notes, *matched)
        return replace(found, labels_source=self._labels_path, notes=notes)

    def _first_batch(self) -> Predictions:
        """Return the first rows of which at least one is complete."""
        first = replace(self._settled, is_first=True)
        for index, stream in enumerate(self._data.streams):
            places = self._data.places[index]
            start = 0
            for frame in stream.read(None, head_rows(stream.frame)):
                block = self._data.completed(reordered(frame, places))
                n_rows = _n_rows(block, self._roles)
                found = self._assembled(block, start, n_rows, first)
                if found is not None:
                    return found
                start += n_rows
        raise file_error(self._data.path, "has missing values in every row.")

    def _needed(self) -> list[int]:
        roles = self._roles
        ids = () if self._labels is None else tuple(at for at, _ in self._labels.ids)
        told = [i for i in (roles.label, roles.weight) if i is not None]
        return list(dict.fromkeys([*roles.scores.positions, *told, *roles.groups, *ids]))

    def _pair(self, head: View, *, is_all: bool) -> tuple[str, str] | None:
        """Return the negative and the positive label of all rows, where one column has scores."""
        roles = self._roles
        if roles.scores.form != "single" or (roles.label is None and self._labels is None):
            return None
        name = self._labels.name if self._labels is not None else head.name(roles.label or 0)
        path = self._labels_path or head.path
        values: set[str] = set()
        for labels in self._label_batches(head, is_all=is_all):
            if self._options.get("drop_missing", False):
                labels = labels[~_is_missing(labels)]
            values |= set(distinct_labels(labels, n_rows=len(labels), path=path, name=name)[0])
            if len(values) > 1:
                break
        if not values:
            return None
        return pair_of(
            sorted(values),
            positive=roles.scores.positive,
            requested=self._request.positive is not None,
            path=path,
            name=short(name),
        )

    def _label_batches(self, head: View, *, is_all: bool) -> Iterator[Any]:
        """Yield labels until two different ones are seen: the first rows may have only one."""
        label = self._roles.label
        if self._labels is not None:
            yield self._labels.values
            return
        if label is None:
            return
        yield head.values(label)[0]
        if is_all:
            return
        for index, stream in enumerate(self._data.streams):
            places = self._data.places[index]
            for frame in stream.read([places[label]], HEAD_ROWS):
                yield reordered(frame, places).load([label], silent)[0]

    def _check_same(self, found: Predictions, path: Path) -> None:
        first = self.first
        ways = [(p.class_names, p.positive, p.layout.labels_as) for p in (found, first)]
        if ways[0] != ways[1]:
            raise file_error(
                path,
                "its labels are matched to the classes in another way than those of the first "
                f"rows: {found.class_names} ({found.layout.labels_as}) and {first.class_names} "
                f"({first.layout.labels_as}). Write the names of the classes in one way.",
            )
        if found.n_classes != first.n_classes:
            raise file_error(
                path,
                f"has {found.n_classes} classes, but {self.parts[0].name} has "
                f"{first.n_classes}. Every part must have the same classes.",
            )

    def _rows_before(self, index: int) -> int:
        """Return how many rows the parts before one have; counted where they do not say."""
        total = 0
        for i in range(index):
            n = self.parts[i].n_rows
            if n is None:
                stream, places = self._data.streams[i], self._data.places[i]
                at = places[self._roles.scores.positions[0]]
                n = sum(_n_rows_at(f, at) for f in stream.read([at], self._rows))
            total += n
        return total

    def _check_all_labels_used(self, n_rows: int) -> None:
        labels = self._labels
        if labels is not None and not labels.ids and len(labels.values) != n_rows:
            raise file_error(
                self._labels_path or "",
                "must hold one label per row, but there are more labels than rows: "
                f"{len(labels.values)} labels, {n_rows} rows. Check that both come from "
                "the same split.",
            )

    def _report(self, done: int) -> None:
        progress = self._options.get("progress")
        if progress is not None:
            progress(done, self.n_rows)


def scan_predictions(
    source: Source, *, batch_rows: int = BATCH_ROWS, **options: Unpack[ReadOptions]
) -> Scan:
    """Open predictions of any size, to be read in batches; memory is that of a few batches.

    Which column is what is decided as `read_predictions` does, by the first part and its first
    65,536 rows (fewer with many columns), and then holds for all rows. A later row or part that
    contradicts it is refused with its name; nothing is decided anew.

    Parquet, Arrow, text tables, ``.npy``, ``.npz`` and ``.safetensors`` are read piece by piece,
    of tables only the columns that are needed. Other formats are read whole, one part at a time.
    Labels in a file of their own (`labels_path`) are read whole.

    Args:
        source: a file, a folder, a glob, a list of these, or a URL that pyarrow or fsspec opens
            (``s3://bucket/preds``, also a folder or a glob). A folder is read in natural order,
            a list in the order given.
        batch_rows: most rows of a batch; with many classes it has fewer, about 32 MB.
        options: those of `read_predictions`.

    Returns:
        `Scan`: `parts`, `kind`, `class_names`, `describe()` and `batches()`.

    Raises:
        PredictionFileError: with the file's name, the rule broken, where, and the next step.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for i in range(3):
        ...         text = "cat,dog,y_true\\n0.25,0.75,dog\\n0.5,0.5,cat\\n"
        ...         _ = Path(folder, f"part-{i}.csv").write_text(text)
        ...     scan = scan_predictions(folder)
        ...     n = sum(batch.n_rows for batch in scan.batches())
        >>> len(scan.parts), scan.class_names, n
        (3, ('cat', 'dog'), 6)
    """
    if batch_rows < 1:
        raise ValueError(f"`batch_rows` must be >= 1, got {batch_rows!r}.")
    limit = parse_size(options.get("max_memory"))
    opening = Opening(
        limit, options.get("header"), options.get("encoding"), sheet=options.get("sheet")
    )
    with _memory_named(str(source)):
        name, data = find_streams(source, opening)
        return Scan(name, data, options, batch_rows)


@contextmanager
def _memory_named(source: str) -> Iterator[None]:
    """Turn a lack of memory, also one due to a damaged file, into a `PredictionFileError`."""
    try:
        yield
    except MemoryError as error:
        raise file_error(
            source,
            f"a batch of it does not fit into memory ({short(error)}). Pass fewer rows "
            "per batch, or write the file again.",
        ) from error


def _guarded(batches: Iterator[_Batch], source: str) -> Iterator[_Batch]:
    while True:
        with _memory_named(source):
            found = next(batches, None)
        if found is None:
            return
        yield found


def _sha256(streams: Sequence[Stream]) -> str:
    digest = hashlib.sha256()
    for stream in streams:
        with stream.place.open() as file:
            while piece := file.read(CHUNK):
                digest.update(piece)
    return digest.hexdigest()


def head_rows(frame: Frame) -> int:
    """Return how many of the first rows decide which column is what."""
    width = sum(max(1, *c.shape[1:]) if len(c.shape) > 1 else 1 for c in frame.columns)
    return max(256, min(HEAD_ROWS, HEAD_CELLS // max(1, width)))


def _head(data: DataSet) -> tuple[Frame, bool]:
    """Return the first rows, and whether there are no others."""
    stream = data.streams[0]
    found: Frame | None = None
    for frame in stream.read(None, head_rows(stream.frame)):
        if found is not None:
            return found, False
        found = frame
    if found is None:
        raise file_error(data.path, "holds no rows. Write at least one example.")
    return found, len(data.streams) == 1


def _is_missing(labels: Any) -> Any:
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    return labels == "" if labels.dtype.kind in "OU" else np.zeros(len(labels), bool)


def _n_rows(frame: Frame, roles: Roles) -> int:
    return _n_rows_at(frame, roles.scores.positions[0])


def _n_rows_at(frame: Frame, position: int) -> int:
    if frame.is_table:
        return frame.columns[position].shape[0]
    return len(frame.load([position], silent)[0])


def _located(error: PredictionFileError, start: int) -> PredictionFileError:
    """Return the error with the row from which its batch counts."""
    if not start or "row" not in str(error):
        return error
    return PredictionFileError(
        f"{error} (Rows are counted from row {start} of this file.)", fixes=error.fixes
    )
