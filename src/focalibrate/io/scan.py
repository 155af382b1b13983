"""Predictions of any size: a file, a folder, a glob, several paths or a URL, read in batches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, Unpack, cast

from numpy.typing import NDArray

from focalibrate.io.data_set import DataSet
from focalibrate.io.errors import file_error, printable, short
from focalibrate.io.first_rows import HEAD_ROWS, Reading, could_be_probs, decide
from focalibrate.io.join import joined_predictions
from focalibrate.io.options import ReadOptions, check_fits, human, request_of
from focalibrate.io.predictions import Predictions, contents
from focalibrate.io.source import Part, Paths, check_distinct, find_parts, sha256_of
from focalibrate.io.table import Table
from focalibrate.io.values.assemble import assemble

BATCH_ROWS = 65_536
BATCH_BYTES = 1 << 25
"""Most bytes of scores in one batch: with many classes a batch has fewer rows."""


class Scan:
    """Predictions that are read in batches; made by `scan_predictions`.

    A copy that was sent to another process reads the same rows there: nothing is decided anew,
    and a part is opened only when it is read.

    Attributes:
        source: what was given, in words.
        reading: what was decided by the first rows.
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
        is_copy: it was sent from another process.
    """

    def __init__(
        self,
        source: str,
        data: DataSet,
        reading: Reading,
        batch_rows: int,
        progress: Callable[[int, int | None], None] | None,
        kept: tuple[Table, Iterator[Table]] | None,
    ) -> None:
        self.source, self.reading, self._data, self._progress = source, reading, data, progress
        self.first = like = reading.like
        self.kind, self.n_classes, self.notes = like.kind, like.n_classes, like.notes
        self.class_names, self.positive = like.class_names, like.positive
        self.labels_name, self.scores_names = like.labels_name, like.scores_names
        self.parts, self.pieces = reading.parts, reading.pieces
        self.is_copy = False
        self._rows = max(1, min(batch_rows, BATCH_BYTES // (8 * self.n_classes)))
        self._kept = kept
        self._checksum: str | None = None
        self._hashing = Lock()

    def __getstate__(self) -> dict[str, Any]:
        here = {"_kept": None, "_progress": None, "_hashing": None, "is_copy": True}
        return {**self.__dict__, **here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _hashing=Lock())

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
        done, weight, n_found = 0, 0.0, 0
        before = 0 if part is None else self._rows_before(part)
        for index in range(len(self.parts)) if part is None else [part]:
            end = before
            for table in self._tables(index, piece, keep=keep):
                start = before + table.first_row
                end = start + table.n_rows
                if index and not table.first_row:
                    self._check_not_numbered_again(table)
                found = assemble(table, self.reading, slice(start, end), half=half, keep=keep)
                done += table.n_rows
                if self._progress is not None:
                    self._progress(done, self.n_rows)
                if found is not None:
                    if index and not table.first_row:
                        self._check_same_kind(found, table)
                    if keep:
                        layout = replace(found.layout, constants=self._constants)
                        found = replace(found, layout=layout)
                    n_found += found.n_rows
                    weight += 1.0 if found.weights is None else float(found.weights.sum())
                    yield found
            before = end
        if index == len(self.parts) - 1 and piece in (None, self.pieces[-1].number):
            self._check_all_labels_used(before)
        if part is None and not n_found:
            raise self._data.error("has missing values in every row.")
        if part is None and not weight > 0:
            name = short(self.reading.request.weight_column)
            raise self._data.error(f"weights in `{name}` must not all be 0.")

    def _tables(self, index: int, piece: int | None, *, keep: bool) -> Iterator[Table]:
        """Yield the rows of a part; those of the first are there already, once."""
        opened, scores = self._data.opened(index), self.reading.roles.scores.positions[0]
        if index == 0 and piece is None and self._kept is not None:
            (head, rest), self._kept = self._kept, None
            found: Iterator[Table] = chain([head], rest)
        else:
            found = opened.read(None if keep else self.reading.needed, self._rows, piece)
        n_rows = opened.schema.columns[scores].n_rows
        with _memory_named(self.source):
            for table in found:
                if n_rows is not None:  # another array may be longer
                    table.n_rows = min(table.n_rows, n_rows - table.first_row)
                for start in range(0, table.n_rows, self._rows):
                    yield table.slice(start, self._rows)

    def _constants(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the first part that do not have one entry per row."""
        read, schema = self._data.opened(0).constants, self.reading.schema
        if read is None or schema.is_table:
            return {}
        n_rows = schema.columns[self.reading.roles.scores.positions[0]].n_rows
        names = {schema.class_names_at}
        wanted = schema.where(lambda c: c.problem is None and c.n_rows != n_rows, names)
        return dict(zip([schema.names[i] for i in wanted], read(wanted), strict=True))

    def _check_same_kind(self, found: Predictions, table: Table) -> None:
        """Raise where a part's logits look like probabilities, and those of the first do not."""
        if self.kind != "logits" or self.reading.looks_like_probs:
            return
        if could_be_probs(found):
            raise table.error(
                f"every row of it is as probabilities are, but {self.parts[0].path.name} "
                "holds logits. Write all parts in one way."
            )

    def _check_not_numbered_again(self, table: Table) -> None:
        """Raise where labels are found by row numbers that begin anew in a part."""
        labels = self.reading.labels
        n_first = self.parts[0].n_rows or self.first.n_rows
        if labels is None or labels.key is None or len(labels.all.values) <= n_first:
            return
        first = next(self._data.opened(0).read(self.reading.needed, 5, None))
        if labels.are_numbered_again(table, first):
            name = labels.key.name
            raise table.error(
                f'"{short(name)}" numbers its rows as those of {self.parts[0].path.name}, so it '
                f"does not say which of the labels in {labels.all.path.name} are theirs. Number "
                "the rows on from part to part, or write the parts without this column: their "
                "labels are then taken in the order of the rows."
            )

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
        limit = self.reading.request.limit
        path = self._data.path if part is None else self._data.main(part).path
        n_rows = self.n_rows if part is None else self.parts[part].n_rows
        if most is not None and (n_rows or 0) > most:
            return None
        check_fits(path, (n_rows or 0) * self.n_classes * self.first.scores.itemsize, limit)
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
        scores, total = self.reading.roles.scores.positions[0], 0
        for part, opened in zip(self.parts[:index], self._data.each(), strict=False):
            n_rows = part.n_rows
            if n_rows is None:
                n_rows = sum(table.n_rows for table in opened.read([scores], self._rows, None))
            total += n_rows
        return total

    def _check_all_labels_used(self, n_rows: int) -> None:
        """Raise if a file of labels has more of them than there are rows."""
        labels = self.reading.labels
        n_labels = n_rows if labels is None else len(labels.all.values)
        if labels is not None and labels.is_by_order and n_labels != n_rows:
            raise labels.all.error(
                "must hold one label per row, but there are more labels than rows: "
                f"{n_labels} labels, {n_rows} rows. Check that both come from the same split"
                f"{', and that its first line is a label' * (n_labels == n_rows + 1)}."
            )


def scan_predictions(
    source: Paths,
    *,
    batch_rows: int = BATCH_ROWS,
    head_rows: int = HEAD_ROWS,
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
    progress = options.pop("progress", None)
    request = request_of(Path(str(source)), options)
    with _memory_named(str(source)):
        path, name, parts = find_parts(source, limit=request.limit)
        data = DataSet(path, parts, request)
        check_distinct(path, [list(group.values()) for group in data.groups])
        reading, kept = decide(data, options, head_rows)
        return Scan(name, data, reading, batch_rows, progress, kept)


def read_predictions(path: Paths, **options: Unpack[ReadOptions]) -> Predictions:
    """Read scores, labels and class names from a file, with every row checked.

    Formats: ``.csv``, ``.tsv``, ``.txt`` (also ``.gz``, ``.bz2``, ``.xz``), ``.parquet``,
    ``.feather``, ``.arrow``, ``.jsonl``, ``.json``, ``.xlsx``, ``.npz``, ``.npy``,
    ``.safetensors``, ``.pt`` with tensors only; a folder or glob of parts, read as one table
    in natural order; a list of these; ``-`` for a text table on standard input.

    Which column is what is decided in one way for all formats. The label is the column called
    ``label``, ``y``, ``y_true``, ``target``, ``class``, ``truth`` or the like. Scores are columns
    with a prefix (``prob_cat``, ``logit_cat``), an array or list column (``probs``, ``logits``),
    or the columns whose rows all lie in [0, 1] and sum to 1. One column of probabilities or
    log-odds is that of the positive class of two. Ids, an index, predicted classes and all other
    columns are ignored. Whether scores are logits or probabilities follows from their name, from
    `input`, or from every row summing to 1; it is never guessed. `Predictions.describe` and
    `Predictions.notes` say what was decided.

    Labels are class positions from 0, or class names. Where a table's columns name classes by
    numbers, labels are those names: the label 7 belongs to ``prob_7``. Columns called 0, 1, 2,
    ... are put in that order and count as unnamed. Object arrays and pickles are refused.

    Args:
        path: the file, folder or glob, or a list of these, which are parts of one table; the
            suffix says the format.
        labels_path: a file of labels in any of the formats, used in place of labels in `path`.
        truth: objects that detections are matched to: a COCO file or a folder of YOLO labels.
        iou: least overlap of a detection that is right.
        input: ``"logits"``, ``"probs"`` or ``"percent"``.
        logits_key: name of the array or column of logits.
        probs_key: name of the array or column of probabilities.
        labels_key: name of the array of labels.
        label_column: column of the labels, a name or a position from 0 (-1: the last); or
            ``"none"``.
        score_columns: names, positions or a pattern of the score columns, in order.
        id_column: columns that name the rows, never classes.
        ignore: columns to ignore.
        weight_column: column of weights of the examples.
        by: columns to group by.
        cluster: column whose equal values mark rows that belong together, such as the tries at
            one question.
        positive: name of the positive class, where one column holds its score.
        class_names: names of the classes in the order of the scores, where the file has none.
        header: whether a text table has a header. Default: detected.
        encoding: of a text table. Default: UTF-8.
        sheet: of a workbook. Default: the only one that is not empty.
        drop_missing: leave out rows without a label or with a missing score.
        need_labels: raise where there are no labels.
        probs_atol: how far a row of probabilities may be from summing to 1; rows off by more
            than 1e-5 are then divided by their sum. Half-precision floats: at least 1e-2.
        max_memory: most memory to use, such as ``"4GB"``; default 80 % of the machine's.
        progress: called with the rows done and, where it is known, the total.

    Returns:
        The predictions: float32 scores stay float32, float16 and bfloat16 become float32,
        integers float64; labels become int64 positions.

    Raises:
        PredictionFileError: with the file's name, the rule broken, where, and the next step.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "val.csv")
        ...     _ = file.write_text("id,cat,dog,y_true\\n7,0.25,0.75,dog\\n8,0.5,0.5,cat\\n")
        ...     found = read_predictions(file)
        >>> found.describe()
        'val.csv: 2 rows × 2 classes (cat, dog), probabilities, labels in "y_true"'
    """
    return scan_predictions(path, **options).read()


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
