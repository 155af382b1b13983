"""Parts of a data set as the tasks of workers, here or on other machines."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from focalibrate.engines import Backend, EngineError, reason_of, versions
from focalibrate.io import PredictionFileError, Scan, scan_predictions, url_of

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class PartTask:
    """Which part of which data set a worker reads."""

    source: tuple[str, ...]
    options: str
    """of `scan_predictions`, as JSON"""
    part: int
    piece: int | None
    """which piece of a large part; None: all of it"""
    name: str
    """of the part"""
    n_bytes: int
    stamp: str
    """of the options, versions and the part's size and time: another one means other results"""
    token: str
    """of the whole data set, so that one that has changed is opened again"""
    version: str
    """of this package where the command runs"""


def part_tasks(scan: Scan, *, whole_parts: bool = False) -> list[PartTask]:
    """Return one task per piece of a data set, or per part.

    Args:
        scan: the data set.
        whole_parts: one task per part, also where a part has pieces.
    """
    places = [scan.given] if isinstance(scan.given, (str, Path)) else list(scan.given)
    sources = tuple(absolute(place) for place in places)
    kept = {k: v for k, v in scan.options.items() if k != "progress" and v is not None}
    if "labels_path" in kept:
        kept["labels_path"] = absolute(kept["labels_path"])
    text = json.dumps(kept, sort_keys=True, default=str)
    found = used_versions()
    stamps = [
        (absolute(part.name), part.n_bytes, part.changed or _changed(part.name))
        for part in scan.parts
    ]
    common = [sources, text, found, _changed(str(kept.get("labels_path")))]
    token = digest([*common, stamps])
    pieces = [(p.part, p.number, p.name) for p in scan.pieces]
    if whole_parts:
        pieces = [(i, None, part.name) for i, part in enumerate(scan.parts)]
    return [
        PartTask(
            source=sources,
            options=text,
            part=part,
            piece=number,
            name=absolute(name),
            n_bytes=scan.parts[part].n_bytes,
            stamp=digest([*common, part, number, stamps[part]]),
            token=token,
            version=found["focalibrate"],
        )
        for part, number, name in pieces
    ]


def scan_of(task: PartTask) -> Scan:
    """Return the data set of a task, opened once per process.

    Raises:
        EngineError: the worker has another version of this package.
        PredictionFileError: the part is not the same file as where the command runs.
    """
    own = used_versions()["focalibrate"]
    if own != task.version:
        raise EngineError(
            f"a worker has focalibrate {own}, but the command {task.version}. Install the same "
            "version for all workers."
        )
    scan = _opened(task.source, task.options, task.token)
    part = scan.parts[task.part] if task.part < len(scan.parts) else None
    if part is None or (absolute(part.name), part.n_bytes) != (task.name, task.n_bytes):
        raise PredictionFileError(
            f"{task.name}: is not the same file here as where the command runs, or has changed "
            "since. Every worker needs the files under the same names."
        )
    return scan


@lru_cache(maxsize=2)
def _opened(source: tuple[str, ...], options: str, token: str) -> Scan:
    """Open a data set once per process; another `token` means that the data have changed."""
    return scan_predictions(list(source), **json.loads(options))


def outcomes_of(
    backend: Backend,
    function: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    names: Sequence[str],
) -> Iterator[tuple[int, Any]]:
    """Yield the place and outcome of each call as it comes; raise in the end if some failed.

    Args:
        backend: where the calls are made.
        function: what is called; workers must be able to import it.
        calls: its arguments.
        names: of the part of each call.

    Raises:
        EngineError: parts failed, after all others are done.
    """
    failed: list[str] = []
    with closing(backend.map(function, calls)) as outcomes:
        for place, outcome in outcomes:
            if isinstance(outcome, BaseException):
                lost = isinstance(outcome, EngineError)  # which does not know the part
                failed.append(f"{f'{names[place]}: ' if lost else ''}{reason_of(outcome)}")
                continue
            yield place, outcome
    if failed:
        raise EngineError(
            f"{len(failed)} of {len(names)} parts failed; the first: {failed[0].rstrip('.')}."
        )


def used_versions() -> dict[str, str]:
    """Return the versions that decide the numbers."""
    return versions(["numpy", *(["pyarrow"] if find_spec("pyarrow") else [])])


def digest(value: Any) -> str:
    """Return a short name for something that can be written as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def report(progress: Progress | None, done: int, total: int) -> None:
    """Call `progress`, if there is one."""
    if progress is not None:
        progress(done, total)


def absolute(place: str | Path) -> str:
    """Return what names a file from any folder: `Path` has turned ``s3://b`` into ``s3:/b``."""
    return url_of(place) or ("-" if str(place) == "-" else os.path.abspath(place))


def _changed(name: str) -> int | None:
    try:
        return os.stat(name).st_mtime_ns
    except OSError:
        return None
