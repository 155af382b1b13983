"""Reading a file of predictions, whatever its format."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from focalibrate._check import PROBS_ATOL
from focalibrate.io._assemble import assemble
from focalibrate.io._error import file_error
from focalibrate.io._formats import FORMATS, Opening
from focalibrate.io._frame import Frame, Progress, silent
from focalibrate.io._limit import parse_size
from focalibrate.io._listed_classes import with_class_names, with_listed_names
from focalibrate.io._open_any import open_any
from focalibrate.io._other_labels import OtherLabels, labels_in
from focalibrate.io._parts import name_of
from focalibrate.io._request import Input, Request, request_of
from focalibrate.io._roles import resolve_roles
from focalibrate.io._view import View
from focalibrate.io.checksum import sha256_of_all
from focalibrate.io.predictions import Predictions

__all__ = ["FORMATS", "read_predictions"]

Paths = str | Path | Sequence[str | Path]
STEPS = 3
"""Read, check, checksum: each counts as one pass over the file's bytes."""


def read_predictions(
    path: Paths,
    *,
    labels_path: str | Path | None = None,
    input: Input | None = None,  # noqa: A002 the command line's own word
    logits_key: str | None = None,
    probs_key: str | None = None,
    labels_key: str | None = None,
    label_column: str | int | None = None,
    score_columns: str | Sequence[str] | None = None,
    id_column: str | Sequence[str] | None = None,
    ignore: str | Sequence[str] | None = None,
    weight_column: str | None = None,
    by: str | Sequence[str] | None = None,
    positive: str | None = None,
    class_names: str | Sequence[str] | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    drop_missing: bool = False,
    need_labels: bool = False,
    probs_atol: float = PROBS_ATOL,
    max_memory: str | int | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> Predictions:
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
        progress: called with the work done and the total.

    Returns:
        The predictions: float32 scores stay float32, float16 and bfloat16 become float32,
        integers float64; labels become int64 positions.

    Raises:
        PredictionFileError: with the file's name, the rule broken, where, and the next step.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "val.csv")
        ...     _ = file.write_text("id,cat,dog,y_true\\n7,0.25,0.75,dog\\n8,0.5,0.5,cat\\n")
        ...     found = read_predictions(file)
        >>> found.describe()
        'val.csv: 2 rows × 2 classes (cat, dog), probabilities, labels in "y_true"'
    """
    paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(part) for part in path]
    if not paths:
        raise ValueError("`path` must name at least one file, got an empty list.")
    path = name_of(paths)
    steps = _Steps(progress)
    opening = Opening(parse_size(max_memory), header, encoding, steps.part(0), sheet)
    request = request_of(
        path,
        {
            "labels_path": labels_path,
            "input": input,
            "logits_key": logits_key,
            "probs_key": probs_key,
            "labels_key": labels_key,
            "label_column": label_column,
            "score_columns": score_columns,
            "id_column": id_column,
            "ignore": ignore,
            "weight_column": weight_column,
            "by": by,
            "positive": positive,
            "class_names": class_names,
            "need_labels": need_labels,
        },
    )
    try:
        return _read(
            paths,
            request,
            opening,
            labels_path=None if labels_path is None else Path(labels_path),
            probs_atol=probs_atol,
            drop_missing=drop_missing,
            steps=steps,
        )
    except MemoryError as error:
        raise file_error(
            path,
            "does not fit into memory. Save the scores as .npy or .safetensors, which are read "
            "as a memory map.",
        ) from error


def _read(
    paths: Sequence[Path],
    request: Request,
    opening: Opening,
    *,
    labels_path: Path | None,
    probs_atol: float,
    drop_missing: bool,
    steps: "_Steps",
) -> Predictions:
    """Open the file, decide which column is what, then check every row."""
    opened = open_any(paths, opening)
    frame = with_listed_names(with_class_names(opened.frame))
    view = View(frame, steps.part(0))
    roles = resolve_roles(view, request)
    labels, matched = None, tuple[str, ...]()
    if labels_path is not None:
        read = read_labels(labels_path, request, opening, frame)
        values, matched = read.of_rows(view, slice(None))
        labels = (values, read.name)
    found = assemble(
        view,
        roles,
        request,
        labels=labels,
        labels_path=labels_path,
        probs_atol=probs_atol,
        drop_missing=drop_missing,
        progress=steps.part(1),
    )
    if found is None:  # only a batch may be empty
        raise file_error(frame.path, "has missing values in every row.")
    labels_checksum = None
    if labels_path is not None and labels_path.is_file():
        labels_checksum = sha256_of_all([labels_path])
    return replace(
        found,
        notes=(*found.notes, *matched),
        checksum=opened.checksum(steps.part(2)),
        labels_source=labels_path,
        labels_checksum=labels_checksum,
    )


def read_labels(path: Path, request: Request, opening: Opening, scores: Frame) -> OtherLabels:
    """Return the labels of a file of their own."""
    frame = open_any(path, replace(opening, progress=silent)).frame
    return labels_in(replace(frame, path=path), request, scores)


class _Steps:
    """Progress of several passes, reported as one count of thousandths."""

    def __init__(self, progress: Callable[[int, int | None], None] | None) -> None:
        self._progress = progress
        self._reached = 0

    def part(self, index: int) -> Progress:
        def report(done: int, total: int) -> None:
            if self._progress is None:
                return
            reached = 1000 * index + 1000 * min(done, total) // max(1, total)
            self._reached = max(self._reached, reached)
            self._progress(self._reached, 1000 * STEPS)

        return report
