"""Opening a file: the suffix says the format, and the first bytes confirm it."""

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import IO, TypeAlias

from focalibrate.io._arrow import open_ipc, open_parquet
from focalibrate.io._bytes import COMPRESSED, StoredBytes, source_of
from focalibrate.io._error import file_error, short
from focalibrate.io._excel import open_excel
from focalibrate.io._frame import Frame, Progress, silent
from focalibrate.io._json import open_json, open_json_lines
from focalibrate.io._npy import open_npy
from focalibrate.io._npz import open_npz
from focalibrate.io._safetensors import open_safetensors
from focalibrate.io._text import open_text
from focalibrate.io._torch import open_torch


@dataclass(frozen=True)
class Opening:
    """How to open files.

    Attributes:
        limit: most bytes of memory to use.
        header: whether a text table has a header; None to detect it.
        encoding: of text; None for UTF-8 or what a byte order mark says.
        progress: called with the work done and the total.
        sheet: of a workbook; None for the only one that is not empty.
    """

    limit: int
    header: bool | None = None
    encoding: str | None = None
    progress: Progress = silent
    sheet: str | None = None


Opener: TypeAlias = Callable[[Path, Opening], Frame]


def _text(path: Path, opening: Opening) -> Frame:
    return open_text_source(source_of(path, limit=opening.limit), opening)


def open_text_source(source: StoredBytes, opening: Opening) -> Frame:
    """Open text: JSON if the suffix says so, else a table."""
    suffixes = [s.lower() for s in source.path.suffixes if s.lower() not in COMPRESSED]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in (".jsonl", ".ndjson"):
        return open_json_lines(source)
    if suffix == ".json":
        return open_json(source)
    return open_text(
        source,
        suffix=suffix,
        header=opening.header,
        encoding=opening.encoding,
        progress=opening.progress,
    )


READERS: Mapping[str, Opener] = {
    ".npz": lambda path, o: open_npz(path, limit=o.limit),
    ".npy": lambda path, o: open_npy(path),
    ".csv": _text,
    ".tsv": _text,
    ".txt": _text,
    ".parquet": lambda path, o: open_parquet(path, limit=o.limit),
    ".feather": lambda path, o: open_ipc(path, limit=o.limit),
    ".arrow": lambda path, o: open_ipc(path, limit=o.limit),
    ".jsonl": _text,
    ".json": _text,
    ".xlsx": lambda path, o: open_excel(path, limit=o.limit, sheet=o.sheet),
    ".safetensors": lambda path, o: open_safetensors(path),
    ".pt": lambda path, o: open_torch(path, limit=o.limit),
}
FORMATS = tuple(READERS)
"""Suffixes of the formats that can be read; text may be compressed (`.csv.gz`)."""

ALIASES: Mapping[str, str] = {
    ".pth": ".pt",
    ".ndjson": ".jsonl",
    ".tab": ".tsv",
    ".dat": ".txt",
    ".data": ".txt",
    ".pq": ".parquet",
    ".parq": ".parquet",
    ".ipc": ".arrow",
    ".arrows": ".arrow",
    ".ftr": ".feather",
    ".xlsm": ".xlsx",
}
PICKLES = (".pkl", ".pickle", ".joblib", ".p")
_PICKLE = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
"""First bytes of pickles."""

_PANDAS = "With pandas: `pd.{}.to_csv('val.csv', index=False)`."
_ARRAYS = "Save its arrays, with names of your own for the keys: `{}`."
OTHERS: Mapping[str, str] = {
    ".rds": "In R: `write.csv(readRDS({path!r}), 'val.csv')`.",
    ".rdata": "In R: `load({path!r})`, then `write.csv(table, 'val.csv')`.",
    ".rda": "In R: `load({path!r})`, then `write.csv(table, 'val.csv')`.",
    ".sav": _PANDAS.format("read_spss({path!r})"),
    ".dta": _PANDAS.format("read_stata({path!r})"),
    ".sas7bdat": _PANDAS.format("read_sas({path!r}, encoding='utf-8')"),
    ".xls": _PANDAS.format("read_excel({path!r})"),
    ".xlsb": _PANDAS.format("read_excel({path!r})"),
    ".ods": _PANDAS.format("read_excel({path!r})"),
    ".orc": _PANDAS.format("read_orc({path!r})"),
    ".xml": _PANDAS.format("read_xml({path!r})"),
    ".html": _PANDAS.format("read_html({path!r})[0]"),
    ".htm": _PANDAS.format("read_html({path!r})[0]"),
    ".db": _PANDAS.format("read_sql('select * from my_table', 'sqlite:///{path}')"),
    ".sqlite": _PANDAS.format("read_sql('select * from my_table', 'sqlite:///{path}')"),
    ".mat": _ARRAYS.format(
        "m = scipy.io.loadmat({path!r}); "
        "np.savez('val.npz', probs=m['probs'], labels=m['labels'].ravel())"
    ),
    ".h5": _ARRAYS.format(
        "f = h5py.File({path!r}); np.savez('val.npz', probs=f['probs'], labels=f['labels'])"
    ),
    ".hdf5": _ARRAYS.format(
        "f = h5py.File({path!r}); np.savez('val.npz', probs=f['probs'], labels=f['labels'])"
    ),
    ".tar": "Unpack it: `tar xf {path}`.",
    ".tgz": "Unpack it: `tar xf {path}`.",
    ".7z": "Unpack it.",
}
"""Formats that are not read, and how to turn a file into one that is."""


def suffix_of(path: PurePath) -> str:
    """Return the suffix that says the format, without that of a compression.

    Example:
        >>> suffix_of(Path("a/Val.CSV.gz")), suffix_of(Path("x.pq"))
        ('.csv', '.parquet')
    """
    suffixes = [s.lower() for s in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    return ALIASES.get(suffix, suffix)


def chosen_format(
    path: Path, opener: Callable[[], IO[bytes]] | None = None
) -> tuple[str, tuple[str, ...]]:
    """Return the suffix of the format to read a file as, and a note if its name says another.

    Args:
        path: the file.
        opener: opens it, if it is not a local file.
    """
    suffix = suffix_of(path)
    with path.open("rb") if opener is None else opener() as file:
        found = _format_by_magic(file)
        is_text = found is None and suffix not in READERS and _is_text(file)
        file.seek(0)
        is_pickle = suffix != ".pt" and file.read(2) in _PICKLE
    if found is None and (suffix in PICKLES or is_pickle):
        raise file_error(
            path,
            "is a pickle, which can run any code when it is opened, so it is not opened. Save a "
            "data frame with `df.to_csv('val.csv')`, arrays with "
            "`np.savez('val.npz', logits=logits, labels=labels)`.",
        )
    if found is None and suffix in OTHERS:
        advice = OTHERS[suffix].format(path=str(path))
        raise file_error(path, f"{suffix} files are not read. {advice}")
    if suffix not in READERS and found is None:
        if not is_text:
            raise file_error(
                path, f"has an unknown suffix {short(suffix)!r}. Give one of {', '.join(READERS)}."
            )
        found = ".csv"
    if found is None or found == suffix or (suffix, found) in _COMPATIBLE:
        return suffix, ()
    if suffix not in READERS:
        return found, ()
    return found, (f"is read as {found}, as its first bytes show, not as {suffix}",)


def open_file(path: Path, opening: Opening) -> Frame:
    """Open one file; if its first bytes contradict its suffix, the first bytes count."""
    chosen, notes = chosen_format(path)
    frame = READERS[chosen](path, opening)
    return replace(frame, notes=(*frame.notes, *notes)) if notes else frame


_COMPATIBLE = {(".feather", ".arrow"), (".arrow", ".feather")}


def _format_by_magic(file: IO[bytes]) -> str | None:
    """Return the format that the first bytes show, or None if they show none."""
    start = file.read(8)
    if start.startswith(b"PAR1"):
        return ".parquet"
    if start.startswith(b"\x93NUMPY"):
        return ".npy"
    if start.startswith(b"ARROW1"):
        return ".arrow"
    if start.startswith(b"FEA1"):
        return ".feather"
    if start.startswith(b"PK\x03\x04"):
        return _format_in_zip(file)
    return None


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
