"""Reading files of predictions for a command: progress, errors."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from focalibrate.cli._errors import one_line
from focalibrate.io import Predictions, align, printable, read_predictions


def read_file(
    path: Path,
    *,
    labels_path: Path | None = None,
    need_labels: bool = False,
    classes_of: tuple[str, ...] | None = None,
    **options: Any,
) -> Predictions:
    """Read `path`, with a progress bar on a terminal.

    Args:
        path: the file, folder, glob, or ``-``.
        labels_path: another file with the labels.
        need_labels: raise where there are none.
        classes_of: names of a calibrator's classes, into whose order the columns are put.
        options: those of `prediction_options`, as `read_predictions` takes them.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    with steps() as bar, reported():
        task = bar.add_task(f"reading {printable(path.name)}", total=None)
        found = read_predictions(
            path,
            labels_path=labels_path,
            need_labels=need_labels,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
            **given,
        )
        return align(found, classes_of)


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error of the user's making into one message and exit status 1."""
    try:
        yield
    except (ValueError, OSError, ImportError, MemoryError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise click.ClickException(one_line(error, sys.argv[1:])) from error


@contextmanager
def steps() -> Iterator[Progress]:
    """Show progress on stderr, if that is a terminal."""
    console = Console(stderr=True)
    text = TextColumn("{task.description}", markup=False)  # a path may have [brackets]
    with Progress(
        text,
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        yield bar
