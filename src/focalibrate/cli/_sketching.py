"""Sketching for commands: what is large, progress, errors."""

import glob
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from focalibrate.calibrate import Calibrator
from focalibrate.cli._errors import reported
from focalibrate.cli._progress import counted
from focalibrate.cli._summary import say_what_was_read
from focalibrate.engines import EngineError
from focalibrate.io import SketchFile, merge_sketches, read_sketch, scan_predictions

if TYPE_CHECKING:
    from focalibrate.engines import Backend

LARGE_BYTES = 100_000_000
"""Larger files are evaluated in one pass, from a sketch."""


def is_large(paths: Sequence[str]) -> bool:
    """Return whether predictions are too large to read at once: several, remote, or many bytes."""
    if len(paths) > 1 or any("://" in path for path in paths):
        return True
    return sum(map(_bytes, paths)) > LARGE_BYTES


def _bytes(path: str) -> int:
    try:
        if os.path.isdir(path):
            return sum(p.stat().st_size for p in Path(path).rglob("*") if p.is_file())
        if os.path.isfile(path):
            return os.path.getsize(path)
        return sum(map(_bytes, glob.glob(path, recursive=True)))
    except OSError:
        return 0  # reading it will tell what is wrong


def is_sketch(path: str) -> bool:
    """Return whether a path names a sketch."""
    return path.endswith(".sketch")


def merged(paths: Sequence[str]) -> SketchFile:
    """Return the sketches in `paths`, merged; all of them must be sketches."""
    with reported():
        others = [path for path in paths if not is_sketch(path)]
        if others:
            raise ValueError(
                f"{others[0]}: must be a sketch too. Make one first: "
                f"focalibrate sketch {others[0]} -o {Path(others[0]).stem}.sketch"
            )
        files = [read_sketch(path) for path in paths]
        without = [p for p, f in zip(paths, files, strict=True) if f.sketch.classes is None]
        if 0 < len(without) < len(files):
            click.echo(
                f"Note: {without[0]} has no sums by class, so that the merged sketch has none, "
                "and no classwise ECE. A monitor keeps them with "
                "CalibrationMonitor(classwise=True).",
                err=True,
            )
        return merge_sketches(files, list(paths))


def name_of(paths: Sequence[str]) -> str:
    """Return what to call several paths."""
    name = os.path.basename(paths[0].rstrip("/")) or paths[0]
    return name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"


def sketched(
    paths: Sequence[str],
    *,
    calibrator: Calibrator | None,
    bins: int,
    backend: "Backend | None",
    folder: Path | None,
    to_stderr: bool,
    advice: str,
    **options: Any,
) -> SketchFile:
    """Return the sketch of predictions, with a progress bar on a terminal."""
    from focalibrate.pipeline import sketch_predictions

    given = {name: value for name, value in options.items() if value not in (None, ())}
    with reported(), engine_errors(advice):
        scan = scan_predictions(list(paths), **given)
        say_what_was_read([scan], to_stderr=to_stderr)
        with counted("parts") as progress:
            return sketch_predictions(
                list(paths),
                calibrator=calibrator,
                n_bins=bins,
                backend=backend,
                folder=folder,
                scan=scan,
                progress=progress,
                **given,
            )


@contextmanager
def engine_errors(advice: str) -> Iterator[None]:
    """Turn the loss of workers and Ctrl-C into one message that says how to go on."""
    try:
        yield
    except EngineError as error:
        raise click.ClickException(f"{error} {advice}") from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted. {advice}") from None
