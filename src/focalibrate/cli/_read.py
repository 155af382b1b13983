"""Reading files of predictions for a command: progress, errors, logits."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from focalibrate._check import PROBS_ATOL
from focalibrate.io import Predictions, as_logits, read_predictions

LEAST_LOG_PROB = float(np.log(np.finfo(np.float32).smallest_normal))
"""What a probability of exactly 0 is read as: one that float32 rounds to 0, about 1e-38."""


class Job(click.ClickException):
    """A failure of the user's file or options: exit status 1 and one message."""

    exit_code = 1


@dataclass(frozen=True)
class Examples:
    """Logits and labels of one file, ready for the calibrators."""

    predictions: Predictions
    logits: NDArray[Any]
    labels: NDArray[np.int64]


def read_file(
    path: Path,
    *,
    labels_path: Path | None = None,
    kind: str | None = None,
    logits_key: str | None = None,
    probs_key: str | None = None,
    labels_key: str | None = None,
    label_column: str | None = None,
    probs_atol: float | None = None,
) -> Predictions:
    """Read `path`, with a progress bar on a terminal."""
    with steps() as bar, reported():
        task = bar.add_task(f"reading {path.name}", total=None)
        return read_predictions(
            path,
            labels_path=labels_path,
            input=kind,  # type: ignore[arg-type]
            logits_key=logits_key,
            probs_key=probs_key,
            labels_key=labels_key,
            label_column=label_column,
            probs_atol=PROBS_ATOL if probs_atol is None else probs_atol,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def read_examples(path: Path, labels_path: Path | None, **options: Any) -> Examples:
    """Read `path`, which must have labels."""
    found = read_file(path, labels_path=labels_path, **options)
    if found.labels is None:
        raise Job(
            f"{path}: no labels found. Put them into the file, or for a .npy pass --labels FILE."
        )
    logits = as_logits(found)
    if found.kind == "probs":
        logits = np.maximum(logits, logits.dtype.type(LEAST_LOG_PROB))
    return Examples(found, logits, found.labels)


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error of the user's making into a message and exit status 1."""
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        raise Job(str(error)) from error


@contextmanager
def steps() -> Iterator[Progress]:
    """Show progress on stderr, if that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        yield bar
