"""Opening a file: the suffix says the format, and the first bytes confirm it."""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import IO, Any

import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.bytes import compression_of
from focalibrate.io.errors import file_error, short
from focalibrate.io.formats.answers import Answers, add_calibrated, table_of_answers
from focalibrate.io.formats.arrays import open_npy, open_npz, open_safetensors
from focalibrate.io.formats.arrow import open_ipc, open_parquet
from focalibrate.io.formats.chat import chat_answers
from focalibrate.io.formats.detections import detected_boxes
from focalibrate.io.formats.excel import open_excel
from focalibrate.io.formats.helm import helm_answers, helm_stats_answers
from focalibrate.io.formats.inspect_ai import inspect_answers, read_eval, write_eval
from focalibrate.io.formats.lm_eval import lm_eval_answers, refuse_results
from focalibrate.io.formats.opened import Opened
from focalibrate.io.formats.records import (
    document_in,
    many_objects,
    records_in,
    table_of_document,
    write_json,
)
from focalibrate.io.formats.text import open_text
from focalibrate.io.formats.torch import open_torch
from focalibrate.io.options import Request
from focalibrate.io.source import FORMATS, Part, suffix_of
from focalibrate.io.table import Column, Table

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


RECORD_LOGS = (lm_eval_answers, helm_stats_answers, chat_answers, detected_boxes)
DOCUMENT_LOGS = (inspect_answers, helm_answers)
"""Evaluation logs that are records, and those that are one document."""


def answers_in(path: Path, document: Any) -> Answers | None:
    """Return the answers of an evaluation log, or None for any other JSON."""
    found: Iterator[Answers | None]
    if isinstance(document, Mapping):
        refuse_results(path, document)
        found = (read(path, document) for read in DOCUMENT_LOGS)
    elif isinstance(document, list) and document and all(isinstance(r, dict) for r in document):
        found = (read(path, document) for read in RECORD_LOGS)
    else:
        return None
    return next((log for log in found if log is not None), None)


def open_log(
    path: Path,
    document: Any,
    load: Callable[[], Any],
    dump: Callable[[Path, Any], None],
) -> Opened | None:
    """Return the answers of an evaluation log, or None for any other document.

    Args:
        path: the log.
        document: what it holds.
        load: reads the document again.
        dump: writes it to another file.
    """
    found = answers_in(path, document)
    if found is None:
        return None

    def rewrite(target: Path, blocks: Iterable[NDArray[Any]]) -> None:
        again = load()  # the first was let go: it takes many times the memory of the table
        answers = answers_in(path, again)
        assert answers is not None  # noqa: S101  it was one before
        add_calibrated(answers, blocks)
        dump(target, again)

    table = table_of_answers(path, found)
    return replace(table, layout={**table.layout, "rewrite": rewrite})


def _open_eval(part: Part, request: Request) -> Opened:
    load = partial(read_eval, part, limit=request.limit)
    log = open_log(
        part.path,
        load(),
        load,
        lambda target, document: write_eval(target, part, document["samples"]),
    )
    assert log is not None  # noqa: S101  `read_eval` has raised for other archives
    return log


def _open_json(part: Part, limit: int, *, is_lines: bool) -> Opened:
    """Return the columns of a document, or of one object per line."""
    with many_objects():
        load = partial(records_in if is_lines else document_in, part, limit)
        document = load()
        if document is None:
            return _open_json(part, limit, is_lines=not is_lines)
        log = open_log(part.path, document, load, partial(write_json, is_lines=is_lines))
        return log or table_of_document(part.path, document)


READERS: Mapping[str, Callable[[Part, Request], Opened]] = {
    ".parquet": lambda part, _: open_parquet(part),
    ".arrow": lambda part, _: open_ipc(part),
    ".feather": lambda part, _: open_ipc(part),
    ".npy": lambda part, o: open_npy({part.path.stem: part}, limit=o.limit),
    ".npz": lambda part, o: open_npz(part, limit=o.limit),
    ".safetensors": lambda part, o: open_safetensors(part, limit=o.limit),
    ".jsonl": lambda part, o: _open_json(part, o.limit, is_lines=True),
    ".json": lambda part, o: _open_json(part, o.limit, is_lines=False),
    ".xlsx": lambda part, o: open_excel(part, limit=o.limit, sheet=o.sheet),
    ".eval": _open_eval,
    ".pt": lambda part, o: open_torch(part, limit=o.limit),
}


def open_part(part: Part, request: Request) -> Opened:
    """Open one file; if its first bytes contradict its suffix, the first bytes count."""
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


def _chosen_format(part: Part, file: IO[bytes]) -> tuple[str, tuple[str, ...]]:
    """Return the suffix of the format to read a file as, and a note if its name says another."""
    path, suffix = part.path, suffix_of(part.path)
    found = _format_by_magic(file)
    if found is not None:
        is_named = found == suffix or {suffix, found} == {".feather", ".arrow"}
        note = f"is read as {found}, as its first bytes show, not as {suffix}"
        return (suffix, ()) if is_named else (found, (note,) if suffix in FORMATS else ())
    file.seek(0)
    start = file.read(4)
    if start == b"FEA1":
        raise file_error(
            path,
            "is a Feather file of version 1, which Arrow has given up. Write it again: "
            "`pd.read_feather(old).to_feather('val.feather')`.",
        )
    if suffix in PICKLES or (suffix != ".pt" and start[:2] in _PICKLE):
        raise file_error(
            path,
            "is a pickle, which can run any code when it is opened, so it is not opened. Save a "
            "data frame with `df.to_csv('val.csv')`, arrays with "
            "`np.savez('val.npz', logits=logits, labels=labels)`.",
        )
    if suffix in OTHERS:
        advice = OTHERS[suffix].format(path=str(path))
        raise file_error(path, f"{suffix} files are not read. {advice}")
    if suffix not in FORMATS and not _is_text(file):
        raise file_error(
            path, f"has an unknown suffix {short(suffix)!r}. Give one of {', '.join(FORMATS)}."
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
