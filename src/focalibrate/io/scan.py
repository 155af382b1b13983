"""Predictions of any size: a file, a folder, a glob, several paths or a URL, read in batches."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import file_error, printable, short, shown
from focalibrate.io._find_streams import DataSet, find_streams
from focalibrate.io._formats import Opening
from focalibrate.io._kept_columns import without_columns
from focalibrate.io._limit import human, parse_size
from focalibrate.io._request import ReadOptions
from focalibrate.io._scan_head import decide, first_batch
from focalibrate.io._stored import all_zero
from focalibrate.io._stream import Stream
from focalibrate.io.checksum import CHUNK
from focalibrate.io.predictions import Predictions, ScoreKind, contents
from focalibrate.io.read import Paths, read_predictions

BATCH_ROWS = 65_536
BATCH_BYTES = 1 << 25
"""Most bytes of scores in one batch: with many classes a batch has fewer rows."""

_Batch = tuple[int, Predictions | None]


@dataclass(frozen=True)
class Part:
    """One file of a data set.

    Attributes:
        name: its path, or its URL.
        n_bytes: its size.
        n_rows: number of rows, or None where the format does not say.
        partition: names and values in the names of its folders, such as ``day=2026-01-31``.
        changed: when a file behind a URL was last changed, in nanoseconds, if that is known.
    """

    name: str
    n_bytes: int
    n_rows: int | None
    partition: tuple[tuple[str, str], ...] = ()
    changed: int | None = None


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


class Scan:
    """Predictions that are read in batches; made by `scan_predictions`.

    Attributes:
        source: what was given, in words.
        given: what was given, which opens the same data again with `options`.
        options: those of `scan_predictions`.
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

    def __init__(
        self, given: Paths, source: str, data: DataSet, options: ReadOptions, batch_rows: int
    ) -> None:
        self.source, self.given = source, given
        self.options: dict[str, Any] = {**options}
        if batch_rows != BATCH_ROWS:
            self.options["batch_rows"] = batch_rows
        self._data, self._options = data, options
        self._reader = decide(data, options)
        self._checksum: str | None = None
        self._hashing = Lock()
        self.first = found = first_batch(self._reader)
        self.kind: ScoreKind = found.kind
        self.n_classes = found.n_classes
        self.class_names = found.class_names
        self.positive = found.positive
        self.labels_name = found.labels_name
        self.scores_names = found.scores_names
        self._rows = max(1, min(batch_rows, BATCH_BYTES // (8 * self.n_classes)))
        is_half = all(data.first.columns[i].is_half for i in self._reader.roles.scores.positions)
        self._half_rows = min(batch_rows, 2 * self._rows) if is_half else self._rows
        self.parts = _parts(data, self._reader.roles.scores.positions[0])
        self.pieces = _pieces(data, self.parts, drop=bool(options.get("drop_missing")))
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
        parts = f"{len(self.parts)} parts, " if len(self.parts) > 1 else ""
        length = f"{size}, " if rows is None else "1 row × " if rows == 1 else f"{rows:,} rows × "
        return printable(f"{self.source}: {parts}{length}{contents(self.first)}")

    def batches(
        self,
        part: int | None = None,
        *,
        piece: int | None = None,
        keep: bool = False,
        half: bool = False,
    ) -> Iterator[Predictions]:
        """Yield the predictions in the order of the rows, a few thousand at a time.

        Every row has the values that `read_predictions` gives it, whatever the batch size.

        Args:
            part: position in `parts` of the one to read. Default: all, one after another.
            piece: which of the part's pieces to read (`Piece.number`). Default: all.
            keep: also read the file's columns that are neither scores nor labels, so that
                `write_probs` can write them again.
            half: leave logits in float16 as they are, for whoever can use them so.

        Raises:
            PredictionFileError: where a batch breaks a rule, with the part and its row.
        """
        at_once = self._half_rows if half else self._rows
        reader, done, weight, n_found = self._reader, 0, 0.0, 0
        for index in range(len(self.parts)) if part is None else [part]:
            start = 0
            if reader.labels is not None:  # which are counted over all parts
                start = reader.rows_before(index, batch_rows=self._rows)
            pieces, in_path = self._data.streams[index].pieces, self._data.streams[index].in_path
            is_last = piece is None or piece == len(pieces) - 1
            rows = reader.read(
                index,
                start,
                batch_rows=at_once,
                like=self.first,
                piece=piece,
                keep=keep,
                half=half,
            )
            start += sum(before.n_rows or 0 for before in pieces[: piece or 0])
            for n_read, found in _guarded(rows, self.source):
                start += n_read
                done += n_read
                self._report(done)
                if found is not None:
                    n_found += found.n_rows
                    weight += 1.0 if found.weights is None else float(found.weights.sum())
                    if keep and in_path:  # written again as the names of folders
                        found = replace(found, layout=without_columns(found.layout, in_path))
                    yield found
            if index == len(self.parts) - 1 and is_last:
                reader.check_all_labels_used(start)
        if part is None and not n_found:
            raise file_error(self._data.path, "has missing values in every row.")
        if part is None and not weight > 0:
            raise all_zero(self._data.path, reader.request.weight_column or "")

    @property
    def can_take(self) -> bool:
        """Whether `take` gives any rows without reading the others.

        So it is for wide rows in `.npy` and `.safetensors` files, none of which is left out.
        """
        return self.n_rows is not None and self._reader.can_take

    def take(self, positions: NDArray[np.intp]) -> Iterator[Predictions]:
        """Yield the predictions of the rows at these positions, some at a time.

        Args:
            positions: in ascending order.

        Raises:
            PredictionFileError: where a row breaks a rule; only `batches` says which.
        """
        reader, offset = self._reader, 0
        reader.check_all_labels_used(self.n_rows or 0)
        for index, part in enumerate(self.parts):
            n_rows = part.n_rows or 0
            own = positions[(positions >= offset) & (positions < offset + n_rows)] - offset
            for start in range(0, len(own), self._rows):
                some = own[start : start + self._rows]
                yield reader.take(index, offset, some, like=self.first)
            offset += n_rows

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
        self.check_one_file(part)
        stream = self._data.streams[part]
        path = stream.place.path
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

    def check_one_file(self, part: int) -> None:
        """Raise where a part has its labels in another file, and so cannot be written whole."""
        stream = self._data.streams[part]
        if self._reader.labels is not None or not stream.is_one_file:
            raise file_error(
                stream.place.path,
                "cannot be written part by part with its labels in other files. Write all parts "
                "to one file: -o calibrated.npz.",
            )

    def _report(self, done: int) -> None:
        progress = self._options.get("progress")
        if progress is not None:
            progress(done, self.n_rows)


def scan_predictions(
    source: Paths, *, batch_rows: int = BATCH_ROWS, **options: Unpack[ReadOptions]
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
        return Scan(source, name, data, options, batch_rows)


def _parts(data: DataSet, scores: int) -> tuple[Part, ...]:
    return tuple(
        Part(
            shown(stream.place.path),
            stream.place.size,
            data.rows_of(index, scores),
            stream.partition,
            stream.place.changed,
        )
        for index, stream in enumerate(data.streams)
    )


def _pieces(data: DataSet, parts: Sequence[Part], *, drop: bool) -> tuple[Piece, ...]:
    found = []
    for index, (stream, part) in enumerate(zip(data.streams, parts, strict=True)):
        rows: list[tuple[int | None, int | None]] = [(None, part.n_rows)]
        if stream.pieces:
            rows = [(number, piece.n_rows) for number, piece in enumerate(stream.pieces)]
        found += [Piece(index, i, part.name, None if drop else n_rows) for i, n_rows in rows]
    return tuple(found)


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
