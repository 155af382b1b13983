"""Applying a calibrator: block by block to one file, or part by part to a data set."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator, GroupedCalibrator, PosteriorRecovery
from focalibrate.cli._errors import reported
from focalibrate.cli._progress import steps
from focalibrate.cli._recovery import PriorShift, Training
from focalibrate.cli._summary import say_what_was_read
from focalibrate.io import (
    FORMATS,
    Predictions,
    align,
    blocks,
    is_data_set,
    printable,
    scan_predictions,
    write_parts,
)


@dataclass
class Clipped:
    """Counts the rows with a probability below what label smoothing allows."""

    n: int = 0
    n_rows: int = 0

    def count(self, chosen: Calibrator, scores: Mapping[str, Any]) -> None:
        """Count the rows of a block that undoing label smoothing clips."""
        if isinstance(chosen, PosteriorRecovery):
            self.n += chosen.n_clipped(**scores)
        self.n_rows += len(next(iter(scores.values())))

    def say(self) -> None:
        """Print the number if there are any."""
        if self.n:
            rows = "1 row has" if self.n == 1 else f"{self.n:,} of {self.n_rows:,} rows have"
            click.echo(
                f"{rows} a probability below what label smoothing allows: clipped to 0 and "
                "renormalised. Many such rows mean that the model was not trained in this way."
            )


def is_parts_folder(source: Path, out: Path) -> bool:
    """Return whether the parts of `source` are written as parts: `out` then names a folder."""
    suffixes = {suffix.lower() for suffix in out.suffixes}
    return is_data_set(source) and not suffixes & {*FORMATS, ".gz", ".bz2", ".xz"}


def apply_to_parts(
    source: Path,
    out: Path,
    loaded: Calibrator | None,
    training: Training,
    *,
    labels_path: Path | None,
    force: bool,
    options: Mapping[str, Any],
) -> None:
    """Write the calibrated probabilities of every part of `source` into the folder `out`."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if training.prior == "em":
        raise click.ClickException(
            "--prior em needs all rows at once, so it cannot work on parts. Estimate the "
            "frequencies on one file first (`focalibrate apply ... --prior em -o one.csv` prints "
            "them) and pass them as --prior."
        )
    with reported():
        scan = scan_predictions(source, labels_path=labels_path, **given)
        names = scan.class_names if loaded is None else loaded.class_names
        classes = (scan.n_classes, names)
        chosen = training.recovery(*classes) if loaded is None else loaded
        check_classes(chosen, scan.n_classes, scan.source)
        shift = training.shift(*classes, _no_rows)
    say_what_was_read([scan])
    clipped = Clipped()

    def calibrated(batch: Predictions) -> tuple[Predictions, NDArray[Any]]:
        aligned = align(batch, chosen.class_names)
        found = np.concatenate(list(calibrated_blocks(chosen, aligned, shift, clipped)))
        return aligned, found.astype(aligned.scores.dtype, copy=False)

    key = json.dumps(
        [chosen.to_dict(), None if shift is None else shift.new.tolist(), _plain(given)],
        sort_keys=True,
    )
    with steps() as bar, reported():
        task = bar.add_task(f"writing {printable(out.name)}", total=scan.n_rows)
        done = write_parts(
            scan,
            out,
            calibrated,
            key=key,
            force=force,
            progress=lambda rows, total: bar.update(task, completed=rows, total=total),
        )
    clipped.say()
    words = chosen.describe() if shift is None else f"{chosen.describe()}; {shift.describe()}"
    kept = f", {done.n_kept} were done before" if done.n_kept else ""
    click.echo(
        f"Calibrated {done.n_rows} rows of {done.n_written} parts{kept} ({words}) → "
        f"{printable(str(out))}"
    )


def _plain(options: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items()}


def _no_rows() -> NDArray[Any]:
    raise ValueError("--prior em needs all rows at once.")


def check_classes(chosen: Calibrator, n_classes: int, source: str) -> None:
    """Raise where the calibrator was fitted for another number of classes."""
    expected = chosen.n_classes
    if expected is not None and expected != n_classes:
        raise ValueError(
            f"{source}: has {n_classes} classes, but the calibrator was fitted for "
            f"{expected}. Use the calibrator of the same model."
        )


def calibrated_blocks(
    chosen: Calibrator,
    given: Predictions,
    shift: PriorShift | None = None,
    clipped: Clipped | None = None,
) -> Iterator[NDArray[Any]]:
    """Yield the calibrated probabilities, some rows at a time."""
    start = 0
    for block in blocks(given):
        scores: dict[str, Any] = {given.kind: block}
        if isinstance(chosen, GroupedCalibrator):
            scores["groups"] = given.groups[chosen.column][start : start + len(block)]
        start += len(block)
        if clipped is not None:
            clipped.count(chosen, scores)
        yield np.asarray(
            chosen.probs(**scores) if shift is None else shift.probs(chosen, **scores)
        )
