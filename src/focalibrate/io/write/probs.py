"""Writing calibrated probabilities, block by block, in the format of the input."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate._atomic import atomic_path
from focalibrate.io.errors import file_error
from focalibrate.io.predictions import Predictions
from focalibrate.io.source import suffix_of
from focalibrate.io.write.arrays import write_npy, write_npz, write_safetensors, write_torch
from focalibrate.io.write.rows import Output
from focalibrate.io.write.tables import (
    write_excel,
    write_ipc,
    write_json,
    write_parquet,
    write_text,
)

STREAMED = (".csv", ".tsv", ".txt", ".parquet", ".feather", ".arrow", ".jsonl")
"""Formats that are written some rows at a time."""

WRITERS: Mapping[str, Callable[[Path, Iterator[Any], Output], None]] = {
    ".npz": write_npz,
    ".npy": write_npy,
    ".safetensors": write_safetensors,
    ".pt": write_torch,
    **dict.fromkeys((".csv", ".tsv", ".txt"), write_text),
    ".parquet": write_parquet,
    **dict.fromkeys((".feather", ".arrow"), write_ipc),
    **dict.fromkeys((".jsonl", ".json"), write_json),
    ".xlsx": write_excel,
}

Pairs: TypeAlias = Iterator[tuple[Predictions, Iterable[NDArray[Any]]]]
"""Predictions with their other columns, and blocks of their probabilities."""

Rewrite: TypeAlias = Callable[[Path, Iterable[NDArray[Any]]], None] | None
"""Writes a file again with probabilities in it, where its format has a place for them."""


def write_pairs(
    path: Path, pairs: Pairs, *, suffix: str, rewrite: Rewrite, without: Sequence[str] = ()
) -> None:
    """Write the probabilities of predictions one after another, in the layout of the first.

    Args:
        path: the file to make.
        pairs: the predictions, and their probabilities.
        suffix: of the format.
        rewrite: used in its place.
        without: columns that are left out.
    """
    if rewrite is not None:
        rewrite(path, (block for _, blocks in pairs for block in blocks))
        return
    first = next(pairs)
    output = Output.of(first[0], suffix, without=without)
    rows = (some for like, blocks in chain([first], pairs) for some in output.rows(like, blocks))
    WRITERS[suffix](path, rows, output)


def write_probs(
    path: str | Path,
    blocks: Iterable[NDArray[Any]],
    *,
    like: Predictions,
    force: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Write probabilities in place of the scores of `like`; everything else is kept.

    Ids, labels and other columns, the index of a data frame and other arrays are written as they
    were, so that the result can be joined back. Tables get one column ``prob_cat`` per class, or
    one column where the input had one; files of arrays get ``probs`` and ``class_names``. Where
    the file had a column of the same name, it is kept as ``uncalibrated_prob_cat``. An ``.npy``
    file holds the probabilities only. An evaluation log in its own format is written as it was,
    with ``calibrated_probs`` or ``calibrated_confidence`` in each answer; detections get a new
    ``score``. Blocks are written as they come. The file appears only when
    the last one is written; after an error or Ctrl-C there is none.

    Args:
        path: the file to make; its suffix says the format, usually that of `like.source`.
        blocks: arrays ``[n, K]`` that make up the N rows of `like`, in order.
        like: the predictions that were calibrated; float32 stays float32.
        force: overwrite `path` if it exists.
        progress: called with the rows written and the total.
        finish: called with the path of the complete file, before it gets its name.

    Raises:
        FileExistsError: where `path` exists and `force` is not given.
        PredictionFileError: where the blocks do not fit `like`, or the disk is full.

    Example:
        >>> import tempfile
        >>> from focalibrate.io import read_predictions
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "val.npz")
        ...     np.savez(file, logits=np.zeros((3, 2)), labels=np.array([0, 1, 1]))
        ...     val = read_predictions(file)
        ...     write_probs(Path(folder, "out.csv"), [np.full((3, 2), 0.5)], like=val)
        ...     print(Path(folder, "out.csv").read_text())
        prob_0,prob_1,labels
        0.5,0.5,0
        0.5,0.5,1
        0.5,0.5,1
    """
    path = Path(path)
    suffix = suffix_of(path)
    rewrite = like.layout.rewrite if suffix == suffix_of(like.source) else None
    if suffix not in WRITERS and rewrite is None:
        raise file_error(
            path, f"has an unknown suffix {suffix!r}. Give one of {', '.join(WRITERS)}."
        )
    checked = _checked(blocks, like, path, progress)
    with writing_named(path), atomic_path(path, force=force) as temporary:
        write_pairs(temporary, iter([(like, checked)]), suffix=suffix, rewrite=rewrite)
        if finish is not None:
            finish(temporary)


@contextmanager
def writing_named(path: Path) -> Iterator[None]:
    """Turn the errors of a disk into ours; those that already are, without a number, stay."""
    try:
        yield
    except OSError as error:
        if error.strerror is None:
            raise
        raise file_error(
            path,
            f"could not be written: {error.strerror}. Nothing is left behind; free some room or "
            "write elsewhere.",
        ) from error


def _checked(
    blocks: Iterable[NDArray[Any]],
    like: Predictions,
    path: Path,
    progress: Callable[[int, int | None], None] | None,
) -> Iterator[NDArray[Any]]:
    """Yield the blocks in the dtype of `like`; raise where they are not its N rows of K."""
    done = 0
    for block in blocks:
        block = np.asarray(block)
        if block.ndim != 2 or block.shape[1] != like.n_classes or not len(block):
            raise file_error(
                path,
                f"each of `blocks` must have shape [n, {like.n_classes}], got {block.shape}.",
            )
        done += len(block)
        if done > like.n_rows:
            break
        yield np.ascontiguousarray(block, dtype=like.scores.dtype)
        if progress is not None:
            progress(done, like.n_rows)
    if done != like.n_rows:
        more = "more than " if done > like.n_rows else f"{done} of "
        raise file_error(path, f"`blocks` must make up {like.n_rows} rows, got {more}these.")
