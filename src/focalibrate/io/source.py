"""Where predictions are: a file, a folder, a glob, several of these, a URL or standard input."""

import glob
import gzip
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, Any, TypeAlias, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs

from focalibrate.io.bytes import CODECS, DAMAGE, refused, stdin_bytes, unpacked
from focalibrate.io.errors import OfFile, PredictionFileError, file_error, listing, short, shown

Paths: TypeAlias = str | Path | Sequence[str | Path]

FORMATS = (
    *(".npz", ".npy", ".csv", ".tsv", ".txt", ".parquet", ".feather", ".arrow"),
    *(".jsonl", ".json", ".xlsx", ".safetensors", ".pt", ".eval"),
)
"""Suffixes of the formats that can be read; text may be compressed (`.csv.gz`)."""

ALIASES = {
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
MAX_PARTS = 100_000
CHUNK = 1 << 22
START = 1 << 16
"""First bytes of a file, which nearly always differ between files."""

MARKS = "*?["
_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.ASCII)
_SPLITS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "holdout"}


@dataclass(frozen=True)
class Part(OfFile):
    """One file, local or remote.

    Attributes:
        path: the file; of a URL, what messages call it.
        n_bytes: its size.
        remote: the file system and the path in it, of a URL.
        changed: when a file behind a URL was last changed, in nanoseconds, if that is known.
        content: the bytes themselves, of standard input.
        compression: the suffix of the compression that its first bytes show, or "".
        partition: names and values in the names of its folders, such as ``day=2026-01-31``.
        n_rows: number of rows, or None where the format does not say.
    """

    path: Path
    n_bytes: int
    remote: tuple[Any, str] | None = None
    changed: int | None = None
    content: bytes | None = None
    compression: str = ""
    partition: tuple[tuple[str, str], ...] = ()
    n_rows: int | None = None

    @property
    def name(self) -> str:
        """Its path, or its URL."""
        return shown(self.path)

    def with_full_path(self, folder: Path) -> "Part":
        """Return the part with a path that names it from any folder, given its own."""
        is_file = self.remote is None and self.content is None
        return replace(self, path=folder / self.path) if is_file else self

    def open(self) -> IO[bytes]:
        """Return the file opened at its start; it can be seeked."""
        if self.content is not None:
            return io.BytesIO(self.content)
        if self.remote is None:
            with named_errors(self.path):
                return self.path.open("rb")
        system, inside = self.remote
        with named_errors(self.path):
            return cast(IO[bytes], system.open_input_file(inside))

    def unpacked(self) -> IO[bytes]:
        """Return the file opened at its start, decompressed."""
        return unpacked(self.open(), self.path, self.compression)

    def damage_named(self) -> AbstractContextManager[None]:
        """Turn the errors of damaged bytes into a `PredictionFileError`."""
        text = "is truncated or damaged ({}). Copy or write it again."
        return refused(self.path, text if self.compression else "could not be read: {}.", DAMAGE)


def sha256_of(parts: Sequence[Part], *, unpacked: bool = False, at_most: int | None = None) -> str:
    """Return the SHA-256 of the bytes of several files one after another, in hex."""
    digest = hashlib.sha256()
    for part in parts:
        try:
            with part.open() as raw:
                file: Any = gzip.GzipFile(fileobj=raw) if unpacked and _is_gzip(part) else raw
                if at_most is None:
                    hashlib.file_digest(file, lambda: digest)
                else:
                    digest.update(file.read(at_most))
        except DAMAGE:
            if not unpacked:
                raise
            digest.update(part.name.encode())  # whoever reads it says that it is damaged
    return digest.hexdigest()


def find_parts(source: Paths, *, limit: int) -> tuple[Path, str, list[Part]]:
    """Return what messages call the source, its name in one line, and its files in order."""
    if isinstance(source, (str, Path)):
        parts, path = _parts_of(source, limit), Path(source)
        name = str(source)
    else:
        if not isinstance(source, Sequence):
            raise TypeError(
                f"`path` must be a path or a list of paths, got {type(source).__name__}. A data "
                "frame goes to `focalibrate.calibrate_predictions(df)` as it is."
            )
        if not source:
            raise ValueError("`path` must name at least one file, got an empty list.")
        parts = [part for one in source for part in _parts_of(one, limit)]
        path = name_of(source)
        name = str(path)
        check_one_split([part.path for part in parts], path=path)
    suffixes = Counter(sorted((suffix_of(part.path) for part in parts), reverse=True))
    if len(suffixes) > 1:
        raise file_error(
            path,
            f"holds files of different formats: {listing([p.path.name for p in parts])}. "
            f"Give a pattern, such as '*{suffixes.most_common(1)[0][0]}'.",
        )
    if name == "-":
        return path, "standard input", parts
    return path, shown(path.name if url_of(path) is None and path.name else name), parts


def _parts_of(source: str | Path, limit: int) -> list[Part]:
    if str(source) == "-":
        content = stdin_bytes(limit=limit)
        return [Part(Path("-"), len(content), content=content)]
    url, root = url_of(source), Path(source)
    if url is None and not (root.is_dir() or is_pattern(root)):
        check_readable(root)
        return [Part(root, root.stat().st_size)]
    found = _local_parts(root) if url is None else _remote_parts(url)
    return [replace(part, partition=partition_of(root, part.path)) for part in found]


def check_distinct(path: Path, groups: Sequence[Sequence[Part]]) -> None:
    """Raise where two parts have the same content, or differ in compression only."""
    plain: dict[PurePath, Part] = {}
    seen: dict[Any, Sequence[Part]] = {}
    sizes = [tuple(map(_unpacked_size, group)) for group in groups]
    counts = Counter(sizes)
    for size, group in zip(sizes, groups, strict=True):
        own = group[0].path
        while own.suffix.lower() in CODECS:
            own = own.with_suffix("")
        other = plain.setdefault(own, group[0])
        is_same = other is not group[0]
        if not is_same and counts[size] > 1:
            found = seen.setdefault((size, sha256_of(group, unpacked=True, at_most=START)), group)
            other = found[0]
            if found is not group:
                is_same = len({sha256_of(g, unpacked=True) for g in (found, group)}) == 1
        if is_same:
            pair = other.path, group[0].path
            names = [p.name for p in pair] if pair[0].name != pair[1].name else [*map(str, pair)]
            raise file_error(
                path,
                f"{names[0]} and {names[1]} are the same table, whose rows would count twice. "
                "Remove or leave out one of them.",
            )


def _is_gzip(part: Part) -> bool:
    return part.path.suffix.lower() == ".gz"


def _unpacked_size(part: Part) -> int:
    """Return the bytes of a file; of one of gzip those that its end promises."""
    if not _is_gzip(part) or part.n_bytes < 4:
        return part.n_bytes
    with part.open() as file:
        file.seek(part.n_bytes - 4)
        return int.from_bytes(file.read(4), "little")


def is_data_set(source: str | Path) -> bool:
    """Return whether `source` is a folder, a glob or a URL that has no suffix of a file."""
    path = Path(source)
    if url_of(path) is not None:
        has_marks = any(mark in str(path) for mark in "*[")
        return has_marks or suffix_of(path) not in FORMATS
    return path.is_dir() or is_pattern(path)


def check_readable(path: Path) -> None:
    """Raise where `path` cannot be opened or is empty."""
    with named_errors(path):
        size = path.stat().st_size
        regular = path.is_file()
    if not regular:  # opening a pipe would wait for its writer
        raise file_error(path, "is not a regular file. Save it to disk first.")
    if size == 0:
        raise file_error(path, "is empty (0 bytes). Write or copy it again.")


def suffix_of(path: PurePath) -> str:
    """Return the suffix that says the format, without that of a compression.

    Example:
        >>> suffix_of(Path("a/Val.CSV.gz")), suffix_of(Path("x.pq"))
        ('.csv', '.parquet')
    """
    suffixes = [s.lower() for s in path.suffixes]
    while suffixes and suffixes[-1] in CODECS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    return ALIASES.get(suffix, suffix)


def natural(path: Path | str) -> list[tuple[int, int, str]]:
    """Return a key that sorts ``part-2`` before ``part-10``.

    Example:
        >>> sorted(["part-10", "part-2"], key=natural)
        ['part-2', 'part-10']
    """
    return [
        (0, int(piece), "") if piece.isdigit() and len(piece) < 400 else (1, 0, piece)
        for piece in re.split(r"([0-9]+)", str(path))
        if piece
    ]


def is_pattern(path: Path) -> bool:
    """Return whether `path` is a glob rather than the name of a file."""
    return any(mark in str(path) for mark in MARKS) and not path.exists()


def _local_parts(path: Path) -> list[Part]:
    """Return the files of a folder or glob, without markers like ``_SUCCESS``.

    Names that begin with ``_`` or ``.`` are left out, as Spark and Hadoop do, and with ``~$``,
    which mark a workbook as opened in Excel.
    """
    roots = [path] if path.is_dir() else [Path(p) for p in glob.glob(str(path), recursive=True)]
    found = list[Path]()
    for root in roots:
        inside = [p for p in root.rglob("*") if p.is_file()] if root.is_dir() else [root]
        found += [p for p in inside if not _is_hidden(p.relative_to(root).parts or (p.name,))]
    return _known(path, [Part(p, p.stat().st_size) for p in found])


def _is_hidden(parts: Sequence[str]) -> bool:
    return any(part.startswith(("_", ".", "~$")) for part in parts)


def _known(path: Path, found: Sequence[Part]) -> list[Part]:
    """Return the files of predictions in natural order; those of Hadoop have no suffix."""
    known = [p for p in found if suffix_of(p.path) in FORMATS]
    known = known or [p for p in found if not p.path.suffix]
    if not known:
        inside = f"; it holds {listing([p.path.name for p in found])}" if found else ""
        raise file_error(path, f"has no files of predictions ({', '.join(FORMATS)}){inside}.")
    if len(known) > MAX_PARTS:
        raise file_error(path, f"has more than {MAX_PARTS:,} parts.")
    check_one_split([part.path for part in known], path=path)
    return sorted(known, key=lambda part: natural(part.path))


def check_one_split(parts: Sequence[Path], *, path: Path) -> None:
    """Raise where the files are a training, a validation and a test set, not parts of one.

    Args:
        parts: the files.
        path: what the message calls them; default: after the first.
    """
    folders = [p.parent.parts for p in parts]
    levels = enumerate(zip(*folders, strict=False))
    inside = next((i for i, names in levels if len(set(names)) > 1), min(map(len, folders)))
    if len(set(folders)) > 1:
        words = {tuple(word.lower() for word in some[inside:]) for some in folders}
    else:
        words = {tuple(re.split(r"[-_. ]+", p.name.partition(".")[0].lower())) for p in parts}
    splits = {tuple(word for word in some if word in _SPLITS) for some in words}
    others = {tuple(word for word in some if word not in _SPLITS) for some in words}
    if () not in splits and len(splits) > 1 and len(others) == 1:
        names = [str(PurePath(*p.parts[inside:])) for p in parts]
        raise file_error(
            path,
            f"holds different splits, not parts of one table: {listing(names)}. "
            f"Name one, such as {parts[0]}, or both as `calibrate VAL --test TEST`.",
        )


def name_of(paths: Sequence[str | Path]) -> Path:
    """Return what messages call one or several paths.

    Example:
        >>> str(name_of(["a.csv", "b.csv", "c.csv"]))
        'a.csv and 2 more'
    """
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return Path(f"{paths[0]}{more}")


def partition_of(root: Path, part: Path) -> tuple[tuple[str, str], ...]:
    """Return the names and values in the names of folders.

    Example:
        >>> partition_of(Path("preds"), Path("preds/day=1/label=cat/part-0.parquet"))
        (('day', '1'), ('label', 'cat'))
    """
    inside = part.relative_to(root).parts if part.is_relative_to(root) else part.parts
    cut = [piece.partition("=") for piece in inside[:-1] if "=" in piece]
    return tuple((unquote(k), unquote(v)) for k, _, v in cut if k)


def url_of(path: Path | str) -> str | None:
    """Return the URL in `path`, even if `Path` turned ``s3://`` into ``s3:/``; or None.

    Example:
        >>> url_of(Path("s3://bucket/a.parquet")), url_of("C:/a.csv"), url_of("file:///a.npz")
        ('s3://bucket/a.parquet', None, 'file:///a.npz')
    """
    text = str(path)
    found = _URL.match(text)
    if found is None or Path(text).exists():
        return None
    scheme = found[1]
    return f"{scheme}://{'/' if scheme == 'file' else ''}{text[found.end() :]}"


def _remote_parts(url: str) -> list[Part]:
    path = Path(url)
    system, inside = file_system(url, path)
    with named_errors(path):
        info = system.get_file_info([inside])[0]
        if info.type == pa_fs.FileType.File:
            return [_place(system, info, url, inside)]
        pieces = inside.split("/")
        fixed = list(takewhile(lambda piece: not any(mark in piece for mark in MARKS), pieces))
        root = "/".join(fixed)
        pattern = None
        if len(fixed) < len(pieces):
            from fsspec.utils import glob_translate  # slow to import

            pattern = re.compile(glob_translate(inside.strip("/")))
        selector = pa_fs.FileSelector(root, recursive=True, allow_not_found=True)
        infos = [e for e in system.get_file_info(selector) if e.type == pa_fs.FileType.File]
    if pattern is None:
        below = len(PurePosixPath(root).parts)
        kept = [e for e in infos if not _is_hidden(PurePosixPath(e.path).parts[below:])]
    else:
        kept = [e for e in infos if pattern.match(e.path.strip("/"))]
    if not kept:
        raise file_error(path, "does not exist, or holds no files. Check the name.")
    return _known(path, [_place(system, e, url, inside) for e in kept])


def _place(system: Any, info: Any, url: str, inside: str) -> Part:
    """Return one file; messages call it by the URL with its own path in it."""
    base = url.partition("?")[0] if "?" in url and "?" not in inside else url
    head = base[: -len(inside)] if inside and base.endswith(inside) else base.partition("://")[0]
    name = f"{head}{info.path}" if head.endswith("/") else f"{head}://{info.path}"
    return Part(Path(shown(name)), int(info.size or 0), (system, info.path), info.mtime_ns)


def file_system(url: str, path: Path) -> tuple[Any, str]:
    """Return the file system for `url`: pyarrow's, or fsspec's if pyarrow has none."""
    text, query = _split_query(url)
    plain = re.sub(r"[?\[\] ]", lambda mark: f"%{ord(mark[0]):02X}", text)
    try:
        system, inside = pa_fs.FileSystem.from_uri(plain + query)
        return system, inside
    except (OSError, pa.ArrowException, ValueError) as error:
        if "nrecognized filesystem type" not in str(error):
            raise file_error(path, f"could not be opened: {_first_line(error)}.") from error
    try:
        from fsspec.core import url_to_fs

        system, inside = url_to_fs(text + query)
        return pa_fs.PyFileSystem(pa_fs.FSSpecHandler(system)), inside
    except (ImportError, ValueError, OSError) as error:
        scheme = url.partition("://")[0]
        raise file_error(
            path,
            f"{scheme}:// is opened neither by pyarrow nor by fsspec ({_first_line(error)}). "
            "Download the file, or install the package of fsspec that opens it.",
        ) from error


def _split_query(url: str) -> tuple[str, str]:
    """Return the URL without its options, and the options such as ``?region=eu-west-1``.

    Example:
        >>> _split_query("s3://b/part-?.csv"), _split_query("s3://b/x?region=eu")
        (('s3://b/part-?.csv', ''), ('s3://b/x', '?region=eu'))
    """
    text, mark, query = url.rpartition("?")
    if mark and re.fullmatch(r"[A-Za-z_]+=[^&]*(&[A-Za-z_]+=[^&]*)*", query):
        return text, f"?{query}"
    return url, ""


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return short(shown(lines[0].rstrip(".")))


@contextmanager
def named_errors(path: Path, *, what: str = "read") -> Iterator[None]:
    """Turn the errors of a file system into one message with the path or URL."""
    try:
        yield
    except PredictionFileError:
        raise
    except FileNotFoundError as error:
        raise file_error(path, "does not exist. Check the name and the folder.") from error
    except PermissionError as error:
        text = f"may not be {what}: permission denied. Check who owns it."
        raise file_error(path, text) from error
    except (OSError, ValueError) as error:  # Arrow's errors are one or the other
        reason = getattr(error, "strerror", None) or _first_line(error)
        raise file_error(path, f"could not be {what}: {reason}.") from error
