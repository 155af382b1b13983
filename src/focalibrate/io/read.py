"""Reading a file of predictions, whatever its format."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import PROBS_ATOL
from focalibrate.io._csv import read_csv
from focalibrate.io._error import fault
from focalibrate.io._keys import KINDS
from focalibrate.io._labels import check_names, checked_labels, labels_are_names
from focalibrate.io._npy import read_npy, read_npy_array
from focalibrate.io._npz import read_npz
from focalibrate.io._parquet import read_parquet
from focalibrate.io._safetensors import read_safetensors
from focalibrate.io._scores import checked_scores
from focalibrate.io._table import Progress, Request, Table
from focalibrate.io.checksum import sha256_of
from focalibrate.io.predictions import Kind, Predictions

Reader: TypeAlias = Callable[[Request, Progress], Table]

READERS: Mapping[str, Reader] = {
    ".npz": read_npz,
    ".npy": read_npy,
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".safetensors": read_safetensors,
}
FORMATS = tuple(READERS)
"""Suffixes of the formats that can be read and written."""

STEPS = 3
"""Read, check, checksum: each counts as one pass over the file's bytes."""


def read_predictions(
    path: str | Path,
    *,
    labels_path: str | Path | None = None,
    input: Kind | None = None,  # noqa: A002 the command line's own word
    logits_key: str | None = None,
    probs_key: str | None = None,
    labels_key: str | None = None,
    label_column: str | int | None = None,
    need_labels: bool = False,
    probs_atol: float = PROBS_ATOL,
    progress: Callable[[int, int | None], None] | None = None,
) -> Predictions:
    """Read scores, labels and class names from one file, with every row checked.

    Whether scores are logits or probabilities is said by the array's key, the column's
    prefix, the `.npy` file's name or `input`; it is never guessed from values. Where a file
    holds both, logits are read unless `input` says otherwise.

    ``.npz``
        arrays ``logits`` or ``probs``, ``labels``, ``class_names`` (text); other names by
        the `*_key` arguments.
    ``.npy``
        scores, memory-mapped; labels in the file `labels_path`.
    ``.csv``
        comma-separated UTF-8, scores as float64. The first row is a header if and only if
        its cells are not all numbers; where it mixes both and no column is known to be the
        label it is refused. The label is the column named ``label``, ``labels``, ``y`` or
        ``target``, or `label_column`: a name, a position from 0, or -1 for the last. Columns
        ``logit_cat`` or ``prob_cat`` are classes, and other columns are passed over; without
        prefixes all columns but the label are classes and `input` must be given. Without a
        header `label_column` must be given too. ``label_column="none"``: no labels.
    ``.parquet``
        the same by column names, or one list column ``logits`` or ``probs``; needs pyarrow.
    ``.safetensors``
        tensors named as in ``.npz``, memory-mapped; ``class_names`` in the metadata.

    Labels are class positions from 0, or class names. Where a table's columns name classes
    by numbers, labels are those names: the label 7 belongs to ``prob_7``. Names 0, 1, 2, ...
    in order count as none. Object arrays and pickles are refused. Only ``.npy`` and
    ``.safetensors`` files may be larger than memory.

    Args:
        path: the file; its suffix says the format.
        labels_path: an ``.npy`` file of labels, used in place of labels in `path`.
        input: ``"logits"`` or ``"probs"``.
        logits_key: name of the array of logits.
        probs_key: name of the array of probabilities.
        labels_key: name of the array of labels.
        label_column: column of the labels.
        need_labels: raise where there are no labels.
        probs_atol: how far a row of probabilities may be from summing to 1; rows off by more
            than 1e-5 are then divided by their sum. Half-precision floats: at least 1e-2.
        progress: called with work done and work in all, three times the file's bytes.

    Returns:
        The predictions: float32 scores stay float32, float16 and bfloat16 become float32,
        integers float64; labels become int64 positions.

    Raises:
        PredictionFileError: with the file's name, the rule broken, where, and the next step.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "val.csv")
        ...     _ = file.write_text("label,prob_cat,prob_dog\\ndog,0.25,0.75\\ncat,0.5,0.5\\n")
        ...     found = read_predictions(file)
        >>> found.kind, found.class_names, found.labels.tolist()
        ('probs', ('cat', 'dog'), [1, 0])
    """
    path = Path(path)
    other = None if labels_path is None else Path(labels_path)
    if input is not None and input not in KINDS:
        raise ValueError(f"`input` must be 'logits' or 'probs', got {input!r}.")
    reader = _reader_of(path)
    steps = _steps(progress, _readable(path))
    request = Request(
        path=path,
        input=input,
        logits_key=logits_key,
        probs_key=probs_key,
        labels_key=labels_key,
        label_column=labels_key if label_column is None else label_column,
        need_labels=need_labels,
        other_labels=other is not None,
    )
    if path.suffix.lower() == ".npy" and need_labels and other is None:
        raise fault(
            path,
            "an .npy file holds one array, so the labels stand in another. "
            "Pass `labels_path='labels.npy'` (command line: --labels labels.npy).",
        )
    try:
        table = reader(request, steps[0])
        if other is not None:
            table = replace(table, labels=_labels_of(other), labels_name="labels")
        scores = checked_scores(table, path=path, probs_atol=probs_atol, progress=steps[1])
        check_names(table.class_names, n_classes=scores.shape[1], path=path)
        labels, table = _labels_and_layout(table, scores, path=other or path)
        return Predictions(
            scores=scores,
            kind=table.kind,
            labels=labels,
            class_names=table.class_names,
            source=path,
            checksum=sha256_of(path, progress=steps[2]),
            labels_source=other,
            labels_checksum=None if other is None else sha256_of(other),
            layout=table.layout,
        )
    except MemoryError as error:
        raise fault(
            path,
            "does not fit into memory. Save the scores as .npy or .safetensors, which are read "
            "as a memory map.",
        ) from error


def _labels_and_layout(
    table: Table, scores: NDArray[Any], *, path: Path
) -> tuple[NDArray[np.int64] | None, Table]:
    """Return labels as positions, and the table with how they stood."""
    n_rows, n_classes = scores.shape
    if table.labels is None:
        return None, table
    names = table.class_names
    by_name = labels_are_names(table.labels, names, names_are_labels=table.names_are_labels)
    form: Literal["index", "name"] = "name" if by_name else "index"
    labels = checked_labels(
        table.labels,
        n_rows=n_rows,
        n_classes=n_classes,
        class_names=names,
        form=form,
        path=path,
        name=table.labels_name,
    )
    return labels, replace(table, layout=replace(table.layout, labels_as=form))


def _labels_of(path: Path) -> NDArray[Any]:
    if path.suffix.lower() != ".npy":
        raise fault(path, "labels in a file of their own must be .npy. Write it with np.save.")
    _readable(path)
    return np.array(read_npy_array(path, name="labels"))


def _reader_of(path: Path) -> Reader:
    if path.is_dir():
        inside = sorted(p.name for p in path.iterdir() if p.suffix.lower() in READERS)
        example = f", such as {path / inside[0]}" if inside else ""
        raise fault(path, f"is a directory. Give a file of predictions{example}.")
    suffix = path.suffix.lower()
    if suffix in (".pkl", ".pickle", ".pt", ".pth", ".joblib"):
        raise fault(
            path,
            "is a pickle, and a pickle can run any code: it is not opened. Save the arrays with "
            "`np.savez('val.npz', logits=logits, labels=labels)`.",
        )
    if suffix not in READERS:
        raise fault(
            path,
            f"has an unknown suffix {suffix!r}. Give one of {', '.join(READERS)}.",
        )
    return READERS[suffix]


def _readable(path: Path) -> int:
    """Return the size of `path` in bytes; raise where it cannot be opened or is empty."""
    try:
        size = path.stat().st_size
        regular = path.is_file()
        if regular:  # opening a pipe would wait for its writer
            path.open("rb").close()
    except FileNotFoundError as error:
        raise fault(path, "does not exist. Check the name and the directory.") from error
    except PermissionError as error:
        raise fault(path, "may not be read: permission denied. Check who owns it.") from error
    except OSError as error:
        raise fault(path, f"could not be opened: {error.strerror}.") from error
    if not regular:
        raise fault(path, "is not a regular file. Save it to disk first.")
    if size == 0:
        raise fault(path, "is empty (0 bytes). Write or copy it again.")
    return size


def _steps(progress: Callable[[int, int | None], None] | None, size: int) -> list[Progress]:
    """Return one callback a step, that together count from 0 to ``STEPS * size``."""

    def step(index: int) -> Progress:
        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(index * size + size * done // max(1, total), STEPS * size)

        return report

    return [step(index) for index in range(STEPS)]
