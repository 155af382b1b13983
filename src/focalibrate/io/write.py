"""Writing calibrated probabilities: one file, or one per part, in the format of the input."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow.fs as pa_fs
from numpy.typing import NDArray

from focalibrate._atomic import atomic_path
from focalibrate.io.errors import file_error, shown
from focalibrate.io.formats.write import (
    Output,
    write_arrow,
    write_excel,
    write_json,
    write_npy,
    write_npz,
    write_safetensors,
    write_text,
    write_torch,
)
from focalibrate.io.predictions import Predictions
from focalibrate.io.scan import Scan
from focalibrate.io.source import file_system, named_errors, suffix_of, url_of

STREAMED = (".csv", ".tsv", ".txt", ".parquet", ".feather", ".arrow", ".jsonl")
"""Formats that are written some rows at a time."""

WRITERS: Mapping[str, Callable[[Path, Iterator[Any], Output], None]] = {
    ".npz": write_npz,
    ".npy": write_npy,
    ".safetensors": write_safetensors,
    ".pt": write_torch,
    **dict.fromkeys((".csv", ".tsv", ".txt"), write_text),
    **dict.fromkeys((".parquet", ".feather", ".arrow"), write_arrow),
    **dict.fromkeys((".jsonl", ".json"), write_json),
    ".xlsx": write_excel,
}


def write_pairs(
    path: Path,
    pairs: Iterator[tuple[Predictions, Iterable[NDArray[Any]]]],
    *,
    suffix: str,
    rewrite: Callable[[Path, Iterable[NDArray[Any]]], None] | None,
    without: Sequence[str] = (),
) -> None:
    """Write the probabilities of predictions one after another, in the layout of the first."""
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
                path, f"each of `blocks` must have shape [n, {like.n_classes}], got {block.shape}."
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


MANIFEST = "_focalibrate-apply.json"
"""Lists the finished parts, their input and calibrator; readers ignore names with ``_``."""

MANY = 1000
"""With more parts than this, fewer than one in a thousand are made again after a kill."""

Calibrated = Callable[[Predictions], tuple[Predictions, NDArray[Any]]]
"""Return a batch with its classes in order, and its calibrated probabilities ``[n, K]``."""


@dataclass(frozen=True)
class PartsWritten:
    """How many rows and parts were written now, and how many parts an earlier run had finished."""

    n_rows: int
    n_written: int
    n_kept: int


@dataclass(frozen=True)
class PartDone:
    """A part that is written: checksum of its input, size, and rows; None from an earlier run."""

    checksum: str
    n_bytes: int
    n_rows: int | None = None


class PartsOutput:
    """A folder with one file per part of a data set, written in any order.

    Attributes:
        names: of the parts, in their order.
    """

    def __init__(
        self, scan: Scan, out: str | Path, *, key: str, force: bool = False, made_by: str = ""
    ) -> None:
        """Find out what is done, and claim the names of the parts.

        Args:
            scan: the predictions that are calibrated.
            out: the folder, or a URL.
            key: identifies how the parts are computed.
            force: replace what the folder holds of these names.
            made_by: the program and its version, for whoever reads the list of parts.

        Raises:
            FileExistsError: where the folder has files of these names that no such run wrote, or
                parts with another key.
        """
        self.names = part_names(scan)
        self._out, self._made_by = OutFolder.of(out), made_by
        if self._out.info().is_file:
            raise file_error(self._out.path, "exists and is not a folder. Name another with -o.")
        for index, name in enumerate(self.names):
            _check_writable(scan, index, self._out.path / name)
        self._key = hashlib.sha256(key.encode()).hexdigest()
        self._parts, claimed = ({}, set()) if force else self._earlier()
        taken = [n for n in self.names if n not in claimed and self._out.info(n).is_file]
        if taken and not force:
            raise FileExistsError(
                f"{self._out.path}: already holds {taken[0]}, which is not overwritten. Choose "
                "another folder, or pass `force=True` (command line: --force)."
            )
        self._claimed = sorted(claimed | set(self.names))
        self.save()  # a part that is finished just before a kill is then known to be ours

    def before(self, index: int) -> PartDone | None:
        """Return how an earlier run left a part, or None if it did not finish it."""
        return self._parts.get(self.names[index])

    def add(self, index: int, done: PartDone) -> None:
        """Record a part as done; of very many parts, the last few are recorded by `save`."""
        if done.n_rows is not None:
            self._parts[self.names[index]] = done
            n = len(self._parts)
            if n % (1 + n // MANY) == 0:  # the list is written whole, so not for every one
                self.save()

    def _earlier(self) -> tuple[dict[str, PartDone], set[str]]:
        """Return what an earlier run finished, and the names that it was to write."""
        content = self._out.read(MANIFEST)
        if content is None:
            return {}, set()
        try:
            stored = json.loads(content)
            parts = {
                str(name): PartDone(str(part["input"]), int(part["size"]))
                for name, part in stored["parts"].items()
            }
            claimed = {str(name) for name in stored["names"]}
            is_same = stored["key"] == self._key
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            path = self._out.path / MANIFEST
            raise file_error(path, "is damaged. Remove it, or pass --force.") from error
        if not is_same:
            raise FileExistsError(
                f"{self._out.path}: holds parts made by another calibrator, with other options or "
                "by another version of focalibrate. Choose another folder, or pass `force=True` "
                "(command line: --force)."
            )
        return parts, claimed

    def save(self) -> None:
        """Write the list of the parts that are done, the same whichever was done first."""
        parts = sorted(self._parts.items())
        stored = {
            "made_by": self._made_by,
            "key": self._key,
            "names": self._claimed,
            "parts": {n: {"input": d.checksum, "size": d.n_bytes} for n, d in parts},
        }
        with self._out.writing(MANIFEST) as temporary:
            temporary.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def parts_written(outcomes: list[PartDone]) -> PartsWritten:
    """Return the outcomes of parts, counted."""
    rows = [done.n_rows for done in outcomes if done.n_rows is not None]
    return PartsWritten(sum(rows), len(rows), len(outcomes) - len(rows))


def part_names(scan: Scan) -> list[str]:
    """Return the paths of the parts below the folder that holds them all.

    Folders such as ``day=2026-01-31``, which hold a column, are part of these paths.
    """
    paths = [part.name for part in scan.parts]
    root = Path(os.path.commonpath([os.path.dirname(path) for path in paths]))
    keys = {name for name, _ in scan.parts[0].partition}
    first = next((i for i, p in enumerate(root.parts) if p.partition("=")[0] in keys), None)
    if first is not None:
        root = Path(*root.parts[:first])
    return [os.path.relpath(path, root) for path in paths]


def write_part(
    scan: Scan,
    index: int,
    out: str | Path,
    name: str,
    calibrated: Calibrated,
    *,
    before: PartDone | None = None,
) -> PartDone:
    """Write one part into a folder, unless it is there, made from the same input.

    Args:
        scan: the predictions that are calibrated.
        index: position of the part.
        out: the folder, or a URL.
        name: of the file in it.
        calibrated: computes the probabilities of a batch.
        before: how an earlier run left it.
    """
    folder, checksum = OutFolder.of(out), scan.checksum(index)
    if before is not None and checksum == before.checksum:
        there = folder.info(name)
        if there.is_file and there.size == before.n_bytes:
            return before
    suffix, rewrite, counts = suffix_of(Path(name)), scan.rewrite(index), list[int]()

    def pair(given: Predictions) -> tuple[Predictions, list[NDArray[Any]]]:
        like, probs = calibrated(given)
        counts.append(like.n_rows)
        return like, [np.ascontiguousarray(probs, dtype=like.scores.dtype)]

    with writing_named(folder.path / name), folder.writing(name) as temporary:
        is_whole = rewrite is not None or suffix not in STREAMED
        found = [scan.read(index, keep=True)] if is_whole else scan.batches(index, keep=True)
        in_path = scan.in_path(index)  # written again as the names of folders
        write_pairs(temporary, map(pair, found), suffix=suffix, rewrite=rewrite, without=in_path)
        n_bytes = temporary.stat().st_size
    return PartDone(checksum, n_bytes, sum(counts))


def _check_writable(scan: Scan, index: int, target: Path) -> None:
    """Raise where a part cannot be written in the format of its input."""
    suffix, is_rewritten = suffix_of(target), scan.rewrite(index) is not None
    if suffix not in WRITERS and not is_rewritten:
        raise file_error(
            target,
            f"cannot be written in the format {suffix!r} of its input. Write all parts to one "
            f"file, such as -o calibrated.npz: {', '.join(WRITERS)}.",
        )
    if suffix not in STREAMED and not is_rewritten:
        scan.check_one_file(index)


WITHOUT_FOLDERS = ("s3", "gcs")
"""Stores of objects: a folder is only a prefix of names, and need not be made."""


@dataclass(frozen=True)
class OutFolder:
    """A folder for files that appear only when they are complete.

    Attributes:
        path: the folder; of a URL, what messages call it.
        system: the file system, and `inside` the folder's path in it.
    """

    path: Path
    system: Any
    inside: str

    @classmethod
    def of(cls, out: str | Path) -> "OutFolder":
        """Return the folder that a path or URL names; it need not exist."""
        url = url_of(out)
        if url is None:
            return cls(Path(out), pa_fs.LocalFileSystem(), str(out))
        system, inside = file_system(url, Path(out))
        path = Path(inside) if system.type_name == "local" else Path(shown(url))
        return cls(path, system, inside.rstrip("/"))

    def info(self, *name: str) -> Any:
        """Return what is known of a file in the folder, or of the folder itself."""
        with named_errors(self.path):
            return self.system.get_file_info(["/".join([self.inside, *name])])[0]

    def read(self, name: str) -> bytes | None:
        """Return the content of a file in the folder, or None if there is none."""
        if not self.info(name).is_file:
            return None
        with (
            named_errors(self.path / name),
            self.system.open_input_stream(f"{self.inside}/{name}") as file,
        ):
            content: bytes = file.read()
            return content

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Give a temporary local path that becomes the file `name` when the block succeeds."""
        if self.system.type_name == "local":
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(target, force=True) as temporary:
                yield temporary
            return
        inside = PurePosixPath(self.inside, name)
        with tempfile.TemporaryDirectory(prefix="focalibrate-") as folder:
            local = Path(folder, inside.name)
            yield local
            with named_errors(self.path / name, what="written"):
                if self.system.type_name not in WITHOUT_FOLDERS:
                    self.system.create_dir(str(inside.parent), recursive=True)
                with (
                    local.open("rb") as source,
                    self.system.open_output_stream(str(inside)) as target_file,
                ):
                    shutil.copyfileobj(source, target_file, 1 << 22)
