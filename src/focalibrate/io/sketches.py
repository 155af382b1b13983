"""Files of sketches: two lines of JSON, a header with a checksum and the sums."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._atomic import atomic_path
from focalibrate.io.errors import PredictionFileError, file_error, listing, short
from focalibrate.metrics import Sketch
from focalibrate.metrics.sketch_file import sketch_from_arrays, sketch_to_arrays

SUFFIX = ".sketch"
FORMAT = "focalibrate-sketch"
VERSION = 4
MAX_BYTES = 1 << 30
"""Larger files are refused before they are read; 10,000 groups need a tenth of this."""

WRONG_FORM = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""What values of a wrong form raise."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SketchFile:
    """A sketch, and what it is of."""

    sketch: Sketch
    class_names: tuple[str, ...] | None = None
    kind: str = "probs"
    """what the scores were: ``"logits"`` or ``"probs"``"""
    sources: tuple[str, ...] = ()
    """what was read, one line per source"""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """of every package that took part, such as ``{"focalibrate": ("0.1.0",)}``"""
    calibrator: str = ""
    """what was applied to the scores first, in words; empty if nothing was"""
    start: str | None = None
    """time of the first row, as ISO 8601"""
    end: str | None = None
    checksum: str = ""
    """of the file it was read from, to find the same one twice"""

    def describe(self) -> str:
        """Return one line that says what it is of."""
        sketch = self.sketch
        text = f"{sketch.n:,} row{'' if sketch.n == 1 else 's'} × {sketch.n_classes:,} classes"
        if self.start or self.end:
            text += f", {self.start or '...'} to {self.end or '...'}"
        if sketch.groups:
            text += f", by {listing(list(sketch.groups))}"
        return text


def write_sketch(found: SketchFile, path: str | Path, *, force: bool = False) -> None:
    """Write a sketch, whole or not at all.

    The first line is ``{"format": "focalibrate-sketch", "version": 4, "sha256": ...}``, the
    SHA-256 of the bytes of the second line without its end; the second line holds the sums.
    """
    with atomic_path(path, force=force) as beside:
        beside.write_bytes(sketch_bytes(found))


def sketch_bytes(found: SketchFile) -> bytes:
    """Return what `write_sketch` writes."""
    text = json.dumps(
        _record(found), ensure_ascii=False, allow_nan=False, default=np.ndarray.tolist
    )
    body = text.encode()
    header = {"format": FORMAT, "version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(header).encode() + b"\n" + body + b"\n"


def read_sketch(path: str | Path) -> SketchFile:
    """Read what `write_sketch` wrote, with everything checked.

    Raises:
        PredictionFileError: the file is damaged, of another version, or something else.
    """
    place = Path(path)
    try:
        if place.stat().st_size > MAX_BYTES:
            raise file_error(place, f"is larger than {MAX_BYTES >> 20} MB, so it is not a sketch.")
        content = place.read_bytes()
    except OSError as error:
        raise file_error(place, f"could not be read: {error.strerror or error}.") from error
    return replace(parse_sketch(content, place), checksum=hashlib.sha256(content).hexdigest())


def parse_sketch(content: bytes, name: str | Path) -> SketchFile:
    """Return the sketch of a file's bytes; `name` is for errors."""
    place = Path(name)
    header, _, rest = content.partition(b"\n")
    body = rest.removesuffix(b"\n")
    _check_header(place, header, body)
    try:
        return _of_record(json.loads(body))
    except WRONG_FORM as error:
        what = short(error) or type(error).__name__
        raise file_error(place, f"is not a whole sketch ({what}). Make it again.") from error


def _check_header(path: Path, header: bytes, body: bytes) -> None:
    try:
        found = json.loads(header)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError("another format")
    except (ValueError, RecursionError) as error:
        raise file_error(
            path,
            "is not a sketch: its first line must name the format "
            f'"{FORMAT}". Make one with `focalibrate sketch PREDICTIONS -o {path.name}`.',
        ) from error
    if type(found.get("version")) is not int or found["version"] != VERSION:
        raise file_error(
            path,
            f"is a sketch of version {short(found.get('version'))}, but this program reads "
            f"version {VERSION}. Make it again, or install the program that made it.",
        )
    if found.get("sha256") != hashlib.sha256(body).hexdigest():
        raise file_error(
            path, "is damaged: its checksum does not match. Copy it again, or make it again."
        )


def merge_sketches(files: Iterable[SketchFile], names: Sequence[str] | None = None) -> SketchFile:
    """Return the sketches of several files, merged in the order given.

    Args:
        files: at least one, of the same classes, options and version. Three sketches are held at a
            time: of a generator, memory does not grow with their number.
        names: what to call each in an error; their positions when None.

    Raises:
        PredictionFileError: where classes, bins, groups or versions differ, or two files are
            the same.
    """

    def called(position: int) -> str:
        return f"sketch {position + 1}" if names is None else names[position]

    parts = iter(files)
    merged = next(parts, None)
    if merged is None:
        raise ValueError("`files` must be at least one sketch, got none.")
    none = merged.sketch  # what the files say is kept, their sums are not
    seen, places = [merged], {merged.checksum: 0}
    for i, other in enumerate(parts, start=1):
        same = places.setdefault(other.checksum, i)
        if other.checksum and same != i:
            raise PredictionFileError(
                f"{called(i)}: is the same sketch as {called(same)}, whose rows would count "
                "twice. Leave out one of them."
            )
        _check_alike(merged, other, called(0), called(i))
        try:
            merged = replace(merged, sketch=merged.sketch + other.sketch)
        except ValueError as error:
            raise PredictionFileError(f"{called(i)}: {error}") from error
        seen.append(replace(other, sketch=none))
    packages = sorted({package for said in seen for package in said.versions})
    starts = [said.start for said in seen if said.start is not None]
    ends = [said.end for said in seen if said.end is not None]
    return replace(
        merged,
        kind=merged.kind if len({said.kind for said in seen}) == 1 else "logits and probs",
        sources=tuple(dict.fromkeys(source for said in seen for source in said.sources)),
        versions={
            package: tuple(sorted({v for said in seen for v in said.versions.get(package, ())}))
            for package in packages
        },
        start=min(starts, key=_moment) if len(starts) == len(seen) else None,
        end=max(ends, key=_moment) if len(ends) == len(seen) else None,
        checksum="" if len(seen) > 1 else merged.checksum,
    )


def _check_alike(first: SketchFile, other: SketchFile, first_name: str, name: str) -> None:
    """Raise where a file must not be merged with the first."""
    mine, theirs = (dict(f.versions).get("focalibrate", ()) for f in (first, other))
    if mine != theirs:
        raise PredictionFileError(
            f"{name}: was made by focalibrate {listing(theirs) or 'of unknown version'}, but "
            f"{first_name} by {listing(mine) or 'an unknown version'}. Sketches of different "
            "versions are not merged: make them again with one version."
        )
    if first.class_names != other.class_names:
        raise PredictionFileError(
            f"{name}: its classes must be those of {first_name}, in the same order: "
            f"{_names(first)}, but they are {_names(other)}."
        )
    if first.calibrator != other.calibrator:
        raise PredictionFileError(
            f"{name}: must have the calibrator of {first_name}, "
            f"{first.calibrator or 'none'}, but it has {other.calibrator or 'none'}."
        )


def check_time(value: str, *, name: str) -> str:
    """Return an ISO 8601 date or time as it is; raise `ValueError` where it is none."""
    try:
        datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must be a date or time as in 2026-01-31 or 2026-01-31T08:00+00:00, got "
            f"{short(repr(value))}."
        ) from error
    return value


def _moment(value: str) -> float:
    return datetime.fromisoformat(value).timestamp()


def _names(found: SketchFile) -> str:
    return "unnamed" if found.class_names is None else listing(found.class_names)


def _record(found: SketchFile) -> dict[str, Any]:
    return {
        "class_names": None if found.class_names is None else list(found.class_names),
        "kind": found.kind,
        "calibrator": found.calibrator,
        "sources": list(found.sources),
        "versions": {name: list(v) for name, v in found.versions.items()},
        "from": found.start,
        "to": found.end,
        "sums": sketch_to_arrays(found.sketch),
    }


def _of_record(record: dict[str, Any]) -> SketchFile:
    sketch = sketch_from_arrays(_arrays(record["sums"]))
    names = record["class_names"]
    if names is not None:
        if len(names) != sketch.n_classes or not all(isinstance(n, str) for n in names):
            raise ValueError(f"it names {len(names)} classes but has {sketch.n_classes}")
        names = tuple(names)
    for key in ("from", "to"):
        if record[key] is not None:
            check_time(record[key], name=key)
    return SketchFile(
        sketch=sketch,
        class_names=names,
        kind=str(record["kind"]),
        calibrator=str(record["calibrator"]),
        sources=tuple(str(source) for source in record["sources"]),
        versions={str(k): tuple(str(x) for x in v) for k, v in record["versions"].items()},
        start=record["from"],
        end=record["to"],
    )


def _arrays(value: Any) -> Any:
    """Return lists of numbers as arrays; lists of names as they are."""
    if isinstance(value, Mapping):
        return {name: _arrays(item) for name, item in value.items()}
    if isinstance(value, list) and not (value and isinstance(value[0], str)):
        array: NDArray[np.float64] = np.asarray(value, dtype=np.float64)
        if not np.isfinite(array).all():
            raise ValueError("a sum is not finite")
        return array
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a sum is not finite")
    return value
