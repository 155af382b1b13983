"""The files of a data set: each opened by its format, all with the same columns."""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import IO, Any

import pyarrow as pa

from focalibrate.io.bytes import compression_of
from focalibrate.io.errors import OfFile, PredictionFileError, file_error, listing, short
from focalibrate.io.formats.arrays import grouped_npy, open_npy, open_npz, open_safetensors
from focalibrate.io.formats.arrow import open_ipc, open_parquet
from focalibrate.io.formats.detections import open_detections
from focalibrate.io.formats.extras import open_excel, open_torch
from focalibrate.io.formats.logs import open_eval, open_json
from focalibrate.io.formats.text import open_text
from focalibrate.io.options import Request
from focalibrate.io.source import FORMATS, Part, suffix_of
from focalibrate.io.table import Column, Opened, Schema, Table, with_class_names

PICKLES = (".pkl", ".pickle", ".joblib", ".p")
_PICKLE = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
"""First bytes of pickles."""

_PANDAS = "With pandas: `pd.{}.to_csv('val.csv', index=False)`."
_ARRAYS = "Save its arrays, with names of your own for the keys: `{}`."
OTHERS: Mapping[str, str] = {
    ".rds": "In R: `write.csv(readRDS({path!r}), 'val.csv')`.",
    **dict.fromkeys(
        (".rdata", ".rda"), "In R: `load({path!r})`, then `write.csv(table, 'val.csv')`."
    ),
    ".sav": _PANDAS.format("read_spss({path!r})"),
    ".dta": _PANDAS.format("read_stata({path!r})"),
    ".sas7bdat": _PANDAS.format("read_sas({path!r}, encoding='utf-8')"),
    **dict.fromkeys((".xls", ".xlsb", ".ods"), _PANDAS.format("read_excel({path!r})")),
    ".orc": _PANDAS.format("read_orc({path!r})"),
    ".xml": _PANDAS.format("read_xml({path!r})"),
    **dict.fromkeys((".html", ".htm"), _PANDAS.format("read_html({path!r})[0]")),
    **dict.fromkeys(
        (".db", ".sqlite"),
        _PANDAS.format("read_sql('select * from my_table', 'sqlite:///{path}')"),
    ),
    ".mat": _ARRAYS.format(
        "m = scipy.io.loadmat({path!r}); "
        "np.savez('val.npz', probs=m['probs'], labels=m['labels'].ravel())"
    ),
    **dict.fromkeys(
        (".h5", ".hdf5"),
        _ARRAYS.format(
            "f = h5py.File({path!r}); np.savez('val.npz', probs=f['probs'], labels=f['labels'])"
        ),
    ),
    **dict.fromkeys((".tar", ".tgz"), "Unpack it: `tar xf {path}`."),
    ".7z": "Unpack it.",
}
"""Formats that are not read, and how to turn a file into one that is."""


READERS: Mapping[str, Callable[[Part, Request], Opened]] = {
    ".parquet": lambda part, _: open_parquet(part),
    ".arrow": lambda part, _: open_ipc(part),
    ".feather": lambda part, _: open_ipc(part),
    ".npy": lambda part, o: open_npy({part.path.stem: part}, limit=o.limit),
    ".npz": lambda part, o: open_npz(part, limit=o.limit),
    ".safetensors": lambda part, o: open_safetensors(part, limit=o.limit),
    ".jsonl": lambda part, o: open_json(part, o.limit, is_lines=True),
    ".json": lambda part, o: open_json(part, o.limit, is_lines=False),
    ".xlsx": lambda part, o: open_excel(part, limit=o.limit, sheet=o.sheet),
    ".eval": open_eval,
    ".pt": lambda part, o: open_torch(part, limit=o.limit),
}


HOW_WRITTEN = {"header", "encoding", "sheet"}
"""Options that say how a file is written."""


def open_part(part: Part, request: Request) -> Opened:
    """Open one file; if its first bytes contradict its suffix, the first bytes count.

    Where labels are in another file, `HOW_WRITTEN` is said of the one that leaves it open.
    """
    if request.labels_path is not None:
        try:
            return _opened(part, replace(request, header=None, encoding=None, sheet=None))
        except PredictionFileError as error:
            if not any(HOW_WRITTEN & set(fix) for fix in error.fixes):
                raise
    return _opened(part, request)


def _opened(part: Part, request: Request) -> Opened:
    with part.open() as file:
        suffix, notes = _chosen_format(part, file)
        file.seek(0)
        part = replace(part, compression=compression_of(file.read(8)))
        file.seek(0)
        if suffix not in READERS:
            found = open_text(part, file, request)
    if suffix in READERS:
        found = READERS[suffix](part, request)
    schema = found.schema
    found = replace(found, schema=replace(schema, notes=(*schema.notes, *notes)))
    return _with_partition(found, part) if part.partition and schema.is_table else found


def _with_partition(opened: Opened, part: Part) -> Opened:
    """Add columns that have one value in the whole part, as Hive keeps in names of folders."""
    schema, width = opened.schema, len(opened.schema.columns)
    pairs = {
        width + i: pair
        for i, pair in enumerate(pair for pair in part.partition if pair[0] not in schema.names)
    }
    added = tuple(Column(name=name, kind="text") for name, _ in pairs.values())
    more = replace(schema, columns=(*schema.columns, *added))

    def read(wanted: Sequence[int] | None, rows: int, piece: int | None) -> Iterator[Table]:
        own = None if wanted is None else [i for i in wanted if i < width]
        for table in opened.read(own, rows, piece):
            cells = {i: pa.repeat(value, table.n_rows) for i, (_, value) in pairs.items()}
            yield Table(more, {**table.data, **cells}, table.n_rows, table.first_row)

    return replace(opened, schema=more, read=read)


_PAGE = (
    "is a web page, such as a form to log in, or a table saved as HTML. Download the file itself, "
    "or, with pandas: `pd.read_html({path!r})[0].to_csv('val.csv', index=False)`."
)
NO_TABLES: Mapping[bytes, str] = {
    **dict.fromkeys((b"<!doctype html", b"<html", b"<table", b"<head", b"<body"), _PAGE),
    b"version https://git-lfs": "is a pointer of Git LFS, not the file. Fetch it: `git lfs pull`.",
}
"""First bytes, in lower case, of text that is no table, and what to do."""


def _chosen_format(part: Part, file: IO[bytes]) -> tuple[str, tuple[str, ...]]:
    """Return the suffix of the format to read a file as, and a note if its name says another."""
    path, suffix = part.path, suffix_of(part.path)
    found = _format_by_magic(file)
    if found is not None:
        is_named = found == suffix or {suffix, found} == {".feather", ".arrow"}
        note = f"is read as {found}, as its first bytes show, not as {suffix}"
        return (suffix, ()) if is_named else (found, (note,) if suffix in FORMATS else ())
    file.seek(0)
    start = file.read(64)
    for beginning, text in NO_TABLES.items():
        if start.lstrip().lower().startswith(beginning):
            raise part.error(text.format(path=str(path)))
    if start[:4] == b"FEA1":
        raise part.error(
            "is a Feather file of version 1, which Arrow has given up. Write it again: "
            "`pd.read_feather(old).to_feather('val.feather')`."
        )
    if suffix in PICKLES or (suffix != ".pt" and start[:2] in _PICKLE):
        raise part.error(
            "is a pickle, which can run any code when it is opened, so it is not opened. Save a "
            "data frame with `df.to_csv('val.csv')`, arrays with "
            "`np.savez('val.npz', logits=logits, labels=labels)`."
        )
    if suffix == ".xls" and _is_text(file):
        return ".csv", ()  # as SAP and others write it
    if suffix in OTHERS:
        advice = OTHERS[suffix].format(path=str(path))
        raise part.error(f"{suffix} files are not read. {advice}")
    if start[:4] == b"PK\3\4" and suffix not in FORMATS:
        raise part.error("is an archive of several files. Unpack it, and pass its folder or one.")
    if suffix not in FORMATS and not _is_text(file):
        raise part.error(
            f"has an unknown suffix {short(suffix)!r}. Give one of {', '.join(FORMATS)}."
        )
    return (suffix if suffix in FORMATS else ".csv"), ()


MAGIC = {b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"ARROW1": ".arrow"}
"""First bytes of files."""


def _format_by_magic(file: IO[bytes]) -> str | None:
    """Return the format that the first bytes show, or None if they show none."""
    start = file.read(8)
    found = next((suffix for magic, suffix in MAGIC.items() if start.startswith(magic)), None)
    return _format_in_zip(file) if start.startswith(b"PK\x03\x04") else found


def _format_in_zip(file: IO[bytes]) -> str | None:
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except Exception:  # damaged: the reader for the suffix will report it
        return None
    if any(name.startswith("xl/") for name in names):
        return ".xlsx"
    if any(name.endswith("/data.pkl") or name == "data.pkl" for name in names):
        return ".pt"
    if "header.json" in names and any(name.startswith("samples/") for name in names):
        return ".eval"
    if any(name.endswith(".npy") for name in names):
        return ".npz"
    files = [name for name in names if not name.endswith("/") and "__MACOSX" not in name]
    inside = suffix_of(PurePath(files[0])) if len(files) == 1 else ""
    return inside if inside in (".csv", ".tsv", ".txt", ".json", ".jsonl") else None


def _is_text(file: IO[bytes]) -> bool:
    """Return whether a file without a known suffix begins as text does."""
    file.seek(0)
    start = file.read(4096)
    if not start or b"\0" in start:
        return False
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(start) - 4
    return True


class DataSet(OfFile):
    """Files with the same columns, opened when they are needed; in each process anew.

    Attributes:
        path: what messages call them.
        request: what the caller says about them.
        groups: the files of each part: one, or several of arrays.
        schema: the columns of the first part, once its first rows have described them.
        notes: what was left out.
    """

    def __init__(self, path: Path, parts: Sequence[Part], request: Request) -> None:
        self.path, self.request = path, request
        self._folder = Path.cwd()  # of relative names, wherever this is sent from
        self.groups = [{"": part} for part in parts]
        if request.truth is not None:
            self.groups = [{str(part.path): part for part in parts}]
        elif len(parts) > 1 and suffix_of(parts[0].path) == ".npy":
            self.groups = grouped_npy(path, parts)
        self.schema: Schema | None = None
        self.notes: tuple[str, ...] = ()
        self._opened: dict[int, Opened] = {}
        self._drop_empty()

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process opens the same files by, whatever its folder is."""
        groups = [
            {key: part.with_full_path(self._folder) for key, part in group.items()}
            for group in self.groups
        ]
        truth = self.request.truth
        request = replace(self.request, truth=truth and self._folder / truth)
        return {**self.__dict__, "groups": groups, "request": request, "_opened": {}}

    def main(self, index: int) -> Part:
        """Return the file of a part, or the first of several."""
        return next(iter(self.groups[index].values()))

    def size(self, index: int) -> int:
        """Return the bytes of a part."""
        return sum(part.n_bytes for part in self.groups[index].values())

    def opened(self, index: int) -> Opened:
        """Return a part, opened, with its columns in the order of the first one."""
        if index not in self._opened:
            group, truth = self.groups[index], self.request.truth
            if truth is not None:
                found = open_detections(self.path, Path(truth), iou=self.request.iou)
            elif "" in group:
                found = open_part(group[""], self.request)
            else:
                found = open_npy(group, limit=self.request.limit)
            found = replace(found, schema=with_class_names(found))
            self._opened[index] = found if self.schema is None else _as_in(self.schema, found)
        return self._opened[index]

    def each(self) -> Iterator[Opened]:
        """Yield every part, opened."""
        return map(self.opened, range(len(self.groups)))

    def settle(self, schema: Schema) -> None:
        """Set the columns that all parts must have; raise where one has others."""
        self.schema = schema
        self._opened = {index: _as_in(schema, found) for index, found in self._opened.items()}

    def _drop_empty(self) -> None:
        n, sizes = len(self.groups), [self.size(i) for i in range(len(self.groups))]
        may_be = [bool(sizes[i]) or n == 1 or not any(sizes) for i in range(n)]
        kept = [i for i in range(n) if may_be[i] and self.opened(i).n_rows != 0]
        gone = [self.main(i).path.name for i in range(n) if i not in kept]
        if gone:
            self.notes = (f"parts without rows are left out: {listing(gone)}",)
        self.groups = [self.groups[i] for i in kept]
        self._opened = {new: self._opened[old] for new, old in enumerate(kept)}
        if not self.groups:
            raise no_rows(self.path)


def _as_in(first: Schema, opened: Opened) -> Opened:
    """Return a part with the columns of the first one; raise if it has others."""
    other = opened.schema
    names, given = first.names, other.names
    if other.has_names != first.has_names:
        raise file_error(other.path, f"must have a header as {first.path.name} has, or none.")
    if given == names:
        return opened.as_in(first, range(len(names)))
    if sorted(given) != sorted(names) or len(set(names)) < len(names):
        missing = [n for n in names if n not in given]
        more = [n for n in given if n not in names]
        raise file_error(
            other.path,
            f"must have the columns of {first.path.name} ({listing(names)}), but lacks "
            f"{listing(missing) or 'none'} and has in addition {listing(more) or 'none'}.",
        )
    return opened.as_in(first, [given.index(name) for name in names])


def no_rows(path: Path) -> PredictionFileError:
    """Return the error for a data set without rows."""
    return file_error(path, "holds no rows. Write at least one example.")
