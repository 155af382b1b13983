"""Predictions of any size: a file, a folder, a glob, several paths or a URL, read in batches."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.data_set import (
    DataSet,
    Piece,
    dtype_of,
    groups_of,
    other_length,
    parts_of,
    pieces_of,
)
from focalibrate.io.errors import (
    RowError,
    file_error,
    listing,
    printable,
    short,
)
from focalibrate.io.evidence import looks_like_probs
from focalibrate.io.formats.opened import Opened
from focalibrate.io.formats.text import with_kinds
from focalibrate.io.join import joined_predictions
from focalibrate.io.options import (
    ReadOptions,
    Request,
    check_fits,
    human,
    request_of,
)
from focalibrate.io.predictions import Predictions, contents
from focalibrate.io.roles.decide import Roles, resolve_roles
from focalibrate.io.roles.listed import check_listed, with_class_names, with_listed_names
from focalibrate.io.source import Part, Paths, check_distinct, find_parts, sha256_of
from focalibrate.io.table import (
    WORDS,
    Schema,
    Table,
    joined_tables,
    uneven,
)
from focalibrate.io.values.assemble import Settled, assemble
from focalibrate.io.values.labels import Labels, first_number, pair_of
from focalibrate.io.values.other_labels import OtherLabels, labels_in
from focalibrate.io.values.stored import all_zero

BATCH_ROWS = 65_536
BATCH_BYTES = 1 << 25
"""Most bytes of scores in one batch: with many classes a batch has fewer rows."""

MOST_SHARES = 0.5
"""Largest share of the first outcomes that may lie between 0 and 1, as ties do."""

HEAD_ROWS = 1 << 16
HEAD_CELLS = 1 << 22
"""Most rows and cells of the first part that decide which column is what."""


FEW_ROWS = 20
"""In fewer rows of one column, log-odds may all lie between 0 and 1 by chance."""


_NOTHING = Predictions(
    scores=np.empty((0, 2)),
    kind="probs",
    labels=None,
    class_names=None,
    source=Path(),
    checksum="",
)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the first rows decided for all rows; can be sent to another process.

    Attributes:
        schema: the columns of the first part.
        roles: which column is what.
        labels: labels from a file of their own, or None.
        settled: what is known of the labels of all rows.
        dtype: of the scores of all parts.
        like: predictions without rows, whose classes all rows have.
        parts: what is known of the parts.
        pieces: the same rows in the same order, with large parquet files cut between row groups.
        looks_like_probs: the first rows could be probabilities.
    """

    schema: Schema
    roles: Roles
    labels: OtherLabels | None
    settled: Settled = field(default_factory=Settled)
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float64))
    like: Predictions = _NOTHING
    parts: tuple[Part, ...] = ()
    pieces: tuple[Piece, ...] = ()
    looks_like_probs: bool = False

    @property
    def needed(self) -> list[int]:
        """Positions of the columns that are read: scores, label, weight, groups and key."""
        roles = self.roles
        named = [i for i in (roles.label, roles.weight, roles.cluster) if i is not None]
        if self.labels is not None and self.labels.key is not None:
            named.extend(self.labels.key.at)
        if self.schema.listed is not None:
            named.append(self.schema.listed[0])
        return list(dict.fromkeys([*roles.scores.positions, *named, *roles.groups]))


class Scan:
    """Predictions that are read in batches; made by `scan_predictions`.

    Attributes:
        source: what was given, in words.
        given: what was given, which opens the same data again with `options`.
        options: those of `scan_predictions`.
        reading: what was decided by the first rows; opens the same data in another process.
        parts: the files, in the order in which their rows are read.
        pieces: the same rows in the same order, with large parquet files cut between row groups.
        kind: ``"logits"`` or ``"probs"``.
        n_classes: number of classes K.
        class_names: one per class, or None.
        positive: name of the positive class, where the data have one column of scores.
        labels_name: the column or array of the labels, or None.
        scores_names: the columns or arrays of the scores.
        notes: what was decided, passed over or is to be doubted.
        first: predictions without rows, with what all rows have in common.
    """

    def __init__(
        self,
        given: Paths,
        source: str,
        data: DataSet,
        options: ReadOptions,
        batch_rows: int,
        head_rows: int,
        reading: Reading | None,
    ) -> None:
        self.source, self.given = source, given
        self.options: dict[str, Any] = {**options}
        if batch_rows != BATCH_ROWS:
            self.options["batch_rows"] = batch_rows
        self._data = data
        if reading is None:
            data.drop_empty()
            check_distinct(data.path, [list(group.values()) for group in data.groups])
        else:
            data.keep_only(reading.parts)
        schema = data.opened(0).schema if reading is None else reading.schema
        self._request = request_of(data.path, data.with_roles(options, schema))
        self._kept: tuple[Table, Iterator[Table]] | None = None
        self._checksum: str | None = None
        self._hashing = Lock()
        self.reading = reading or self._decide(head_rows)
        data.settle(self.reading.schema)
        like = self.reading.like
        self.first, self.kind, self.n_classes = like, like.kind, like.n_classes
        self.class_names, self.positive = like.class_names, like.positive
        self.labels_name, self.scores_names = like.labels_name, like.scores_names
        self.parts, self.pieces = self.reading.parts, self.reading.pieces
        self.notes = like.notes
        self._rows = max(1, min(batch_rows, BATCH_BYTES // (8 * self.n_classes)))
        roles, columns = self.reading.roles, self.reading.schema.columns
        is_half = all(columns[i].is_half for i in roles.scores.positions)
        self._half_rows = min(batch_rows, 2 * self._rows) if is_half else self._rows

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

        Every row has the values that `read_predictions` gives it, whatever the batch size. The
        first rows, which were read to decide which column is what, are not read again.

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
        done, weight, n_found = 0, 0.0, 0
        for index in range(len(self.parts)) if part is None else [part]:
            offset = self._rows_before(index)
            seen = 0
            for table in self._tables(index, at_once, piece, keep=keep):
                rows = slice(offset + table.first_row, offset + table.first_row + table.n_rows)
                found = self._batch(table, rows, half=half, keep=keep)
                done += table.n_rows
                seen = rows.stop
                self._report(done)
                if found is not None:
                    if index and not table.first_row:
                        self._check_same_kind(found, table)
                    found = self._like(found, table, keep=keep)
                    n_found += found.n_rows
                    weight += 1.0 if found.weights is None else float(found.weights.sum())
                    yield found
            is_last = piece is None or piece == max(p.number or 0 for p in self._own(index))
            if index == len(self.parts) - 1 and is_last:
                self._check_all_labels_used(seen)
        if part is None and not n_found:
            raise file_error(self._data.path, "has missing values in every row.")
        if part is None and not weight > 0:
            raise all_zero(self._data.path, self._request.weight_column or "")

    def _own(self, index: int) -> list[Piece]:
        return [piece for piece in self.pieces if piece.part == index]

    def _tables(self, index: int, rows: int, piece: int | None, *, keep: bool) -> Iterator[Table]:
        """Yield the rows of a part; those of the first are there already, once."""
        if index == 0 and piece is None and self._kept is not None:
            (head, rest), self._kept = self._kept, None
            places = list(range(len(head.columns)))
            others = (table.in_order(head.schema, places) for table in rest)
            found: Iterator[Table] = chain([head], others)
        else:
            wanted = None if keep else self.reading.needed
            found = self._data.read(index, wanted, rows, piece)
        schema = self._data.opened(index).schema
        scores = self._data.places(index)[self.reading.roles.scores.positions[0]]
        n_rows = schema.columns[scores].n_rows
        with _memory_named(self.source):
            for table in found:
                if n_rows is not None:  # another array may be longer
                    table.n_rows = min(table.n_rows, n_rows - table.first_row)
                for start in range(0, table.n_rows, rows):
                    yield table.slice(start, rows)

    def _batch(
        self,
        table: Table,
        rows: slice | NDArray[np.intp],
        *,
        is_first: bool = False,
        half: bool = False,
        keep: bool = False,
    ) -> Predictions | None:
        """Return a batch of predictions, every row checked; None if no row is complete.

        Args:
            table: the rows.
            rows: their positions in the data set.
            is_first: they are the first rows, whose notes are shown for all.
            half: leave logits in float16 as they are.
            keep: keep the other columns.
        """
        reading, other = self.reading, self.reading.labels
        try:
            check_listed(table)
            found = assemble(
                table,
                reading.roles,
                self._request,
                labels=None if other is None else other.of_rows(table, rows),
                settled=replace(reading.settled, is_first=is_first, keeps_half=half),
                keep=keep,
            )
        except RowError as error:
            raise error.from_row(table.first_row) from error
        return found

    def _constants(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the first part that do not have one entry per row."""
        read, schema = self._data.opened(0).constants, self.reading.schema
        if read is None or schema.is_table:
            return {}
        n_rows = schema.columns[self.reading.roles.scores.positions[0]].n_rows
        wanted = [
            i
            for i, c in enumerate(schema.columns)
            if c.problem is None and c.n_rows != n_rows and i != schema.class_names_at
        ]
        return dict(zip([schema.names[i] for i in wanted], read(wanted), strict=True))

    def _like(self, found: Predictions, table: Table, *, keep: bool = False) -> Predictions:
        """Return the predictions in the precision of all parts; raise if classes differ."""
        like = self.first
        if found.layout.form == "options" and found.n_classes < like.n_classes:
            more = [(0, 0), (0, like.n_classes - found.n_classes)]
            found = replace(found, scores=np.pad(found.scores, more, constant_values=-np.inf))
        if found.n_classes != like.n_classes:
            if table.first_row:
                raise uneven(table.path, table.first_row, found.n_classes, like.n_classes)
            raise file_error(
                table.path,
                f"has {found.n_classes} classes, but {self.parts[0].name} has {like.n_classes}. "
                "Every part must have the same classes.",
            )
        ways = [(p.class_names, p.positive, p.layout.labels_as) for p in (found, like)]
        if ways[0] != ways[1]:
            raise file_error(
                table.path,
                "its labels are matched to the classes in another way than those of the first "
                f"rows: {found.class_names} ({found.layout.labels_as}) and {like.class_names} "
                f"({like.layout.labels_as}). Write the names of the classes in one way.",
            )
        if keep:
            found = replace(found, layout=replace(found.layout, constants=self._constants))
        if found.scores.dtype in (self.reading.dtype, np.float16):
            return found
        return replace(found, scores=found.scores.astype(self.reading.dtype))

    def _check_same_kind(self, found: Predictions, table: Table) -> None:
        """Raise where a part's logits look like probabilities, and those of the first do not."""
        if self.kind != "logits" or self.reading.looks_like_probs:
            return
        if _could_be_probs(found):
            raise file_error(
                table.path,
                f"every row of it is as probabilities are, but {self.parts[0].path.name} "
                "holds logits. Write all parts in one way.",
            )

    @property
    def can_take(self) -> bool:
        """Whether `take` gives any rows without reading the others.

        So it is for wide rows in `.npy` and `.safetensors` files, none of which is left out.
        """
        labels = self.reading.labels
        counts = self.reading.roles.weight is None and not self._request.drop_missing
        by_order = labels is None or labels.key is None
        can = all(self._data.opened(i).take is not None for i in range(len(self.parts)))
        return self.n_rows is not None and counts and by_order and can

    def take(self, positions: NDArray[np.intp]) -> Iterator[Predictions]:
        """Yield the predictions of the rows at these positions, some at a time.

        Args:
            positions: in ascending order.

        Raises:
            PredictionFileError: where a row breaks a rule; only `batches` says which.
        """
        offset = 0
        self._check_all_labels_used(self.n_rows or 0)
        for index, part in enumerate(self.parts):
            n_rows, look_up = part.n_rows or 0, self._data.opened(index).take
            if look_up is None:
                raise ValueError("`take` must not be called where `can_take` is False.")
            own = positions[(positions >= offset) & (positions < offset + n_rows)] - offset
            places = self._data.places(index)
            for start in range(0, len(own), self._rows):
                some = own[start : start + self._rows]
                table = look_up([places[i] for i in self.reading.needed], some)
                table = table.in_order(self.reading.schema, places)
                found = self._batch(table, offset + some)
                if found is not None:
                    yield self._like(found, table)
            offset += n_rows

    def checksum(self, part: int | None = None) -> str:
        """Return the SHA-256 of the bytes of one part, or of all one after another, in hex."""
        if part is not None:
            return sha256_of(list(self._data.groups[part].values()))
        with self._hashing:  # two threads that ask at once read the bytes once
            if self._checksum is None:
                digest = self._data.opened(0).digest
                found = None if digest is None or len(self.parts) > 1 else digest()
                files = [file for group in self._data.groups for file in group.values()]
                self._checksum = found or sha256_of(files)
            return self._checksum

    def read(self, part: int | None = None, *, keep: bool = False) -> Predictions:
        """Return all predictions, or those of one part, in memory.

        Args:
            part: position of the part in `parts`.
            keep: hold the other columns too; else they are read again when they are needed.

        Raises:
            PredictionFileError: where a row breaks a rule, or they do not fit into memory.
        """
        return cast(Predictions, self.read_up_to(None, part, keep=keep))

    def read_up_to(
        self, most: int | None, part: int | None = None, *, keep: bool = False
    ) -> Predictions | None:
        """Return all predictions in memory, or None as soon as there are more than `most` rows."""
        limit = self._request.limit
        path = self._data.path if part is None else self._data.main(part).path
        n_rows = self.n_rows if part is None else self.parts[part].n_rows
        if most is not None and (n_rows or 0) > most:
            return None
        check_fits(path, (n_rows or 0) * self.n_classes * self.reading.dtype.itemsize, limit)
        found, taken, n_found = list[Predictions](), 0, 0
        with _memory_named(self.source):
            for batch in self.batches(part, keep=keep):
                taken += batch.scores.nbytes
                n_found += batch.n_rows
                if most is not None and n_found > most:
                    return None
                check_fits(path, taken, limit)
                found.append(batch)
            if not found:
                raise file_error(path, "has missing values in every row.")
            labels = self.reading.labels
            whole = joined_predictions(
                found,
                kept=lambda: iter(found) if keep else self.batches(part, keep=True),
                notes=self.notes,
                n_labels=None if labels is None or labels.is_by_order else len(labels.all.values),
            )
        own = None if labels is None else labels.all.path
        is_file = own is not None and own.is_file()
        known = self._data.opened(part or 0).layout
        if (part is None and len(self.parts) > 1) or whole.n_dropped:
            known = {"letters": known.get("letters", False)}
        return replace(
            whole,
            layout=replace(whole.layout, **known),
            source=path,
            checksum=self.checksum(part),
            labels_checksum=sha256_of([Part(own, 0)]) if own and is_file else None,
        )

    def in_path(self, part: int) -> tuple[str, ...]:
        """Return the columns that are in the names of a part's folders, not in the file."""
        names = [name for name, _ in self.parts[part].partition]
        added = self._data.opened(part).schema.names[-len(names) :] if names else []
        return tuple(name for name in names if name in added)

    def rewrite(self, part: int) -> Any:
        """Return what writes a part again with probabilities in it, where its format can."""
        return self._data.opened(part).layout.get("rewrite")

    def check_one_file(self, part: int) -> None:
        """Raise where a part has its labels in another file, and so cannot be written whole."""
        if self.reading.labels is not None or len(self._data.groups[part]) > 1:
            raise file_error(
                self._data.main(part).path,
                "cannot be written part by part with its labels in other files. Write all parts "
                "to one file: -o calibrated.npz.",
            )

    def _rows_before(self, index: int) -> int:
        """Return how many rows the parts before one have, if labels are counted over all."""
        labels = self.reading.labels
        if labels is None or not labels.is_by_order:
            return 0
        total = 0
        scores = self.reading.roles.scores.positions[0]
        for i in range(index):
            n = self.parts[i].n_rows
            if n is None:
                n = sum(t.n_rows for t in self._data.read(i, [scores], self._rows))
            total += n
        return total

    def _check_all_labels_used(self, n_rows: int) -> None:
        """Raise if a file of labels has more of them than there are rows."""
        labels = self.reading.labels
        n_labels = n_rows if labels is None else len(labels.all.values)
        if labels is not None and labels.is_by_order and n_labels != n_rows:
            raise labels.all.error(
                "must hold one label per row, but there are more labels than rows: "
                f"{n_labels} labels, {n_rows} rows. Check that both come from the same split."
            )

    def _report(self, done: int) -> None:
        if self._request.progress is not None:
            self._request.progress(done, self.n_rows)

    def _decide(self, head_rows: int) -> Reading:
        """Decide by the first rows which column is what; they are kept for the first pass."""
        data, request = self._data, self._request
        opened = data.opened(0)
        schema = with_class_names(opened)
        head, rest = _head(opened, head_rows)
        is_all = rest is None and len(data.groups) == 1
        everything = list(range(len(schema.columns)))
        schema = with_kinds(schema, head) if head.has_cells else schema
        schema = with_listed_names(head.in_order(schema, everything))
        head = head.in_order(schema, everything)
        try:
            roles = resolve_roles(head, request)
            labels = _labels_of_their_own(request, head, roles)
        except RowError as error:
            raise error.from_row(head.first_row) from error
        n_rows = schema.columns[roles.scores.positions[0]].n_rows
        if n_rows is not None:
            head.n_rows = min(head.n_rows, n_rows)
        data.settle(schema)
        self.reading = Reading(schema=schema, roles=roles, labels=labels)
        self._check_parts()
        settled = Settled(self._pair(head, is_all=is_all), self._first(head, is_all=is_all))
        self.reading = replace(self.reading, settled=settled)
        parts = parts_of(data, roles.scores.positions[0])
        first = self._first_batch(head)
        self._kept = (head, iter(()) if rest is None else rest)
        notes = list(first.notes)
        if len(parts) > 1:
            ends = f"{parts[0].path.name} to {parts[-1].path.name}"
            notes.insert(0, f"{len(parts)} parts, {ends}")
        notes += data.notes
        if labels is not None:
            notes.append(labels.note)
        if labels is not None and labels.is_by_order and len(parts) > 1:
            notes.append(f"order of the parts: {listing([p.path.name for p in parts])}")
        dtype = dtype_of(data, roles.scores.positions, percent=roles.scores.percent)
        n_classes = first.n_classes
        if first.layout.form == "options":  # as many as the part with the most has
            at = roles.scores.positions[0]
            widths = [opened.schema.columns[p[at]].shape[-1] for opened, p in data.each()]
            n_classes = max(n_classes, *widths)
        like = replace(
            first,
            scores=np.empty((0, n_classes), dtype),
            labels=None if first.labels is None else first.labels[:0],
            weights=None if first.weights is None else first.weights[:0],
            groups={name: values[:0] for name, values in first.groups.items()},
            cluster=None if first.cluster is None else first.cluster[:0],
            notes=tuple(dict.fromkeys(notes)),
            layout=replace(first.layout, rest=None),
            n_rounded=0,
            n_dropped=0,
        )
        pieces = pieces_of(data, parts, drop=request.drop_missing)
        settled = replace(settled, known=first.layout.known, names=first.class_names)
        return replace(
            self.reading,
            settled=settled,
            dtype=dtype,
            like=like,
            parts=parts,
            pieces=pieces,
            looks_like_probs=_could_be_probs(first),
        )

    def _first_batch(self, head: Table) -> Predictions:
        """Return the first predictions with a complete row, and what is to be said of them."""
        tables = chain(
            [head],
            *(self._data.read(i, None, head.n_rows) for i in range(len(self._data.groups))),
        )
        start = -head.n_rows
        for table in tables:
            rows = slice(max(0, start), max(0, start) + table.n_rows)
            found = self._batch(table, rows, is_first=True)
            if found is not None:
                return found
            start += table.n_rows
        raise file_error(self._data.path, "has missing values in every row.")

    def _check_parts(self) -> None:
        """Raise where a part has other columns, kinds, class names or lengths than the first."""
        reading, first = self.reading, self.reading.schema
        stored = self._data.opened(0).schema
        for opened, places in self._data.each():
            own = with_class_names(opened)
            columns = [own.columns[i] for i in places]
            if own.class_names != first.class_names and first.listed is None:
                raise file_error(
                    own.path, f"must have the class names of {first.path.name}, in the same order."
                )
            scores = columns[reading.roles.scores.positions[0]]
            for i in reading.needed:
                mine, other = first.columns[i], columns[i]
                # numbers in text are numbers, and stay text in the file
                alike = (mine.kind, stored.columns[i].kind, "empty")
                differs = other.kind not in alike and mine.kind != "empty"
                if differs and not opened.is_text and other.problem is None:
                    raise file_error(
                        own.path,
                        f"column `{mine.name}` must hold {WORDS.get(mine.kind, mine.kind)} as in "
                        f"{first.path.name}, but holds {WORDS.get(other.kind, other.kind)}.",
                    )
            for other in (columns[i] for i in reading.needed):
                if other.n_rows not in (None, scores.n_rows):
                    raise other_length(own.path, scores, other)

    def _label_values(self, head: Table, *, is_all: bool) -> Iterator[Labels]:
        """Yield the labels of the first rows, then of all: the first may not show every class."""
        label = self.reading.roles.label
        if self.reading.labels is not None:
            yield self.reading.labels.all
        elif label is not None:
            yield Labels(head.values(label), head.name(label), head.path)
            for index in range(0 if is_all else len(self._data.groups)):
                for table in self._data.read(index, [label], HEAD_ROWS):
                    yield Labels(table.values(label), head.name(label), head.path)

    def _pair(self, head: Table, *, is_all: bool) -> tuple[str, str] | None:
        """Return the negative and the positive label of all rows, where one column has scores."""
        values: set[str] = set()
        if self.reading.roles.scores.form != "single":
            return None
        for labels in self._label_values(head, is_all=is_all):
            missing = labels.missing(None)
            if missing.any() and not self._request.drop_missing:
                return None  # the batch with the first of them is refused by its row
            known = labels[~missing]
            shares = known.shares()
            if shares.mean() <= MOST_SHARES:  # else they are no outcomes, which is refused
                known = known[~shares]
            values |= set(known.distinct(len(known.values))[0])
            if len(values) > 1:
                break
        if not values:
            return None
        return pair_of(
            labels,
            sorted(values),
            positive=self.reading.roles.scores.positive,
            requested=self._request.positive is not None,
        )

    def _first(self, head: Table, *, is_all: bool) -> int | None:
        """Return whether the labels of all rows are numbers from 0 or from 1, or None."""
        scores = self.reading.roles.scores
        n_classes = scores.n_classes or head.values(scores.positions[0]).shape[-1]
        for labels in self._label_values(head, is_all=is_all):
            known = labels.values[~labels.missing(None)]
            if known.dtype.kind not in "iuf":
                return None
            first = first_number(known, n_classes=n_classes)
            if first is not None:
                return first
        return None


def scan_predictions(
    source: Paths,
    *,
    batch_rows: int = BATCH_ROWS,
    head_rows: int = HEAD_ROWS,
    piece_bytes: int | None = None,
    reading: Reading | None = None,
    **options: Unpack[ReadOptions],
) -> Scan:
    """Open predictions of any size, to be read in batches; memory is that of a few batches.

    Which column is what is decided by the first part and its first 65,536 rows (fewer with many
    columns), and then holds for all rows. A later row or part that contradicts it is refused with
    its name and row; nothing is decided anew.

    Parquet, Arrow, text tables, ``.npy``, ``.npz`` and ``.safetensors`` are read piece by piece,
    of tables only the columns that are needed. Other formats are read whole, one part at a time.
    Labels in a file of their own (`labels_path`) are read whole.

    Args:
        source: a file, a folder, a glob, a list of these, or a URL that pyarrow or fsspec opens
            (``s3://bucket/preds``, also a folder or a glob). A folder is read in natural order,
            a list in the order given.
        batch_rows: most rows of a batch; with many classes it has fewer, about 32 MB.
        head_rows: rows that decide which column is what.
        piece_bytes: large parquet files are cut into pieces of whole row groups of about so many
            bytes, which workers read one by one.
        reading: `Scan.reading` of the same data: nothing is decided, and a part is opened only
            when it is read.
        options: those of `read_predictions`.

    Returns:
        `Scan`: `parts`, `kind`, `class_names`, `describe()` and `batches()`.

    Raises:
        PredictionFileError: with the file's name, the rule broken, where, and the next step.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for i in range(3):
        ...         text = f"cat,dog,y_true\\n0.25,0.75,dog\\n{i / 4},{1 - i / 4},cat\\n"
        ...         _ = Path(folder, f"part-{i}.csv").write_text(text)
        ...     scan = scan_predictions(folder)
        ...     n = sum(batch.n_rows for batch in scan.batches())
        >>> len(scan.parts), scan.class_names, n
        (3, ('cat', 'dog'), 6)
    """
    if batch_rows < 1:
        raise ValueError(f"`batch_rows` must be >= 1, got {batch_rows!r}.")
    request = replace(request_of(Path(str(source)), options), piece_bytes=piece_bytes)
    with _memory_named(str(source)):
        path, name, parts = find_parts(source, limit=request.limit)
        groups = groups_of(path, parts)
        if request.truth is not None:
            groups = [{str(part.path): part for part in parts}]
        data = DataSet(path, groups, request)
        return Scan(source, name, data, options, batch_rows, head_rows, reading)


def _could_be_probs(found: Predictions) -> bool:
    """Return whether scores could hardly be anything but probabilities."""
    if found.layout.form != "single":
        return looks_like_probs(found.scores)
    values = found.scores.sum(axis=1)  # the other class has logit 0
    is_inside = 0 <= values.min() < 0.1 and 0.9 < values.max() <= 1
    return bool(is_inside and len(values) >= FEW_ROWS)


def _head(opened: Opened, head_rows: int) -> tuple[Table, Iterator[Table] | None]:
    """Return the first rows, and what yields the others, or None where there are none."""
    width = sum(max(1, *c.shape) if c.shape else 1 for c in opened.schema.columns)
    wanted = max(min(256, head_rows), min(head_rows, HEAD_CELLS // max(1, width)))
    tables = opened.read(None, wanted, None)
    found: list[Table] = []
    n_rows = 0
    for table in tables:
        if n_rows >= wanted:
            return joined_tables(found), chain([table], tables)
        found.append(table)
        n_rows += table.n_rows
    if not found:
        raise file_error(opened.schema.path, "holds no rows. Write at least one example.")
    return joined_tables(found), None


def _labels_of_their_own(request: Request, head: Table, roles: Roles) -> OtherLabels | None:
    if request.labels_path is None:
        return None
    path, _, parts = find_parts(request.labels_path, limit=request.limit)
    own = Request(path=path, max_memory=request.max_memory)
    data = DataSet(path, groups_of(path, parts), own)
    data.drop_empty()
    opened = data.opened(0)
    schema = replace(with_class_names(opened), path=path)
    tables = list(opened.read(None, HEAD_ROWS, None))
    if not tables:
        raise file_error(path, "holds no rows. Write at least one example.")
    if opened.is_text:
        schema = with_kinds(schema, joined_tables(tables))
    data.settle(schema)
    for index in range(1, len(data.groups)):
        tables += data.read(index, None, HEAD_ROWS)
    whole = joined_tables(tables).in_order(schema, list(range(len(schema.columns))))
    return labels_in(whole, request, head, roles.scores.positions)


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
