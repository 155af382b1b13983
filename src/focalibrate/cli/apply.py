"""`focalibrate apply`."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator, GroupedCalibrator
from focalibrate.cli._apply import (
    apply_to_parts,
    check_classes,
    is_parts_folder,
    say_calibrated,
    say_special_rows,
)
from focalibrate.cli._engine import backend_of, engine_options
from focalibrate.cli._errors import reported
from focalibrate.cli._options import prediction_options
from focalibrate.cli._progress import steps
from focalibrate.cli._read import read_file
from focalibrate.cli._recovery import Training, recovery_options
from focalibrate.cli._summary import say_what_was_read
from focalibrate.io import Predictions, printable, url_of, write_probs
from focalibrate.pipeline import PriorShift, SpecialRows, calibrated_blocks


@click.command("apply")
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="[CALIBRATOR] FILE"
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    help="File of the labels, if they are not in the predictions file.",
)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@recovery_options
@engine_options("Parts written at the same time, each by a process.  [default: 1]")
@prediction_options
def apply_command(
    paths: tuple[Path, ...],
    labels: Path | None,
    out: Path,
    force: bool,
    workers: int | None,
    backend: str,
    scheduler: str | None,
    **options: Any,
) -> None:
    """Write the calibrated probabilities of FILE, in the format of the suffix of -o.

    CALIBRATOR is a calibrator.json that `focalibrate calibrate` wrote. A model trained with
    focal loss needs none: describe how it was trained (--focal, --alpha, --class-weight,
    --sampling-rate, --label-smoothing), and the effect on its scores is undone. --prior moves
    the result to other class frequencies.

    Ids, labels and all other columns of FILE are kept, so that the result can be joined back.
    Columns are matched to the calibrator's classes by name. A calibrator with groups needs the
    column of the groups; rows of unknown groups use its shared calibrator. FILE is processed in
    blocks, so that a .npy or .safetensors file may be larger than memory. An interrupted run
    leaves no partial file behind.

    Where FILE is a folder, a glob or a URL of parts and -o has no suffix, -o becomes a folder with
    a part of the same name for each, read and written in batches; it may be a URL, too. Parts are
    the unit of work of --workers and --backend dask. After an interruption the same command
    continues where it stopped.

    \b
    Examples:
        focalibrate apply report/calibrator.json new.npz -o calibrated.npz
        focalibrate apply --focal 2 --alpha .25 scores.csv -o probabilities.csv
        focalibrate apply report/calibrator.json s3://bucket/day1 -o s3://bucket/calibrated/day1
        focalibrate apply report/calibrator.json day1 -o day1-calibrated --workers 2
    """
    where = backend_of(backend, scheduler, workers, default=1)
    training = Training(**{field.name: options.pop(field.name) for field in fields(Training)})
    with reported():
        loaded = _loaded(paths, training)
    names = None if loaded is None else loaded.class_names
    if isinstance(loaded, GroupedCalibrator):
        options["by"] = loaded.column
    if is_parts_folder(paths[-1], out):
        apply_to_parts(
            paths[-1],
            out,
            loaded,
            training,
            backend=where,
            force=force,
            options=options | {"labels_path": labels},
        )
        return
    if where is not None or url_of(out) is not None:
        raise click.UsageError(
            "--workers, --backend and a URL in -o are for a folder of parts: FILE must be a "
            "folder, a glob or a URL of parts, and -o must have no suffix."
        )
    given = read_file(paths[-1], labels_path=labels, classes_of=names, **options)
    say_what_was_read([given])
    with reported():
        classes = (given.n_classes, given.class_names)
        chosen = training.recovery(*classes) if loaded is None else loaded
        check_classes(chosen, given.n_classes, str(given.source))
        shift = training.shift(
            *classes, lambda: np.concatenate(list(calibrated_blocks(chosen, given)))
        )
        special = SpecialRows()
        write_probs(out, _calibrated(chosen, given, out, shift, special), like=given, force=force)
    say_special_rows(chosen, special)
    say_calibrated(f"{given.n_rows:,} rows", chosen, shift, out)


def _loaded(paths: tuple[Path, ...], training: Training) -> Calibrator | None:
    """Return the calibrator of the command line, or None if the training is described instead."""
    if len(paths) == 2 and not training.says_how:
        return Calibrator.load(paths[0])
    if len(paths) == 1 and training.says_how:
        return None
    if len(paths) == 1:
        raise ValueError(
            "Give a calibrator and a file: `focalibrate apply calibrator.json new.csv -o out.csv` "
            "or say how the model was trained: `focalibrate apply --focal 2 new.csv -o out.csv`."
        )
    found = " ".join(str(path) for path in paths)
    raise ValueError(
        f"Give one file, and either a calibrator or how the model was trained, got {found}. For "
        "several files give their folder, or a pattern in quotes such as 'parts/*.csv'."
    )


def _calibrated(
    chosen: Calibrator,
    given: Predictions,
    out: Path,
    shift: PriorShift | None,
    special: SpecialRows,
) -> Iterator[NDArray[Any]]:
    with steps() as bar:
        task = bar.add_task(f"writing {printable(out.name)}", total=given.n_rows)
        for block in calibrated_blocks(chosen, given, shift, special):
            yield block
            bar.advance(task, len(block))
