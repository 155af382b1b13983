"""`focalibrate apply`."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator, GroupedCalibrator, group_names
from focalibrate.cli._apply import (
    Clipped,
    apply_to_parts,
    calibrated_blocks,
    check_classes,
    is_parts_folder,
)
from focalibrate.cli._errors import reported
from focalibrate.cli._options import prediction_options
from focalibrate.cli._progress import steps
from focalibrate.cli._read import read_file
from focalibrate.cli._recovery import PriorShift, Training, recovery_options
from focalibrate.cli._summary import say_what_was_read
from focalibrate.io import Predictions, printable, write_probs

SHOWN_GROUPS = 5
"""At most this many unknown groups are named."""


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
@prediction_options
def apply_command(
    paths: tuple[Path, ...], labels: Path | None, out: Path, force: bool, **options: Any
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
    a part of the same name for each, read and written in batches. After an interruption the same
    command continues where it stopped.

    \b
    Examples:
        focalibrate apply report/calibrator.json new.npz -o calibrated.npz
        focalibrate apply --focal 2 --alpha .25 scores.csv -o probabilities.csv
        focalibrate apply report/calibrator.json s3://bucket/day1 -o day1-calibrated
    """
    training = Training(**{field.name: options.pop(field.name) for field in fields(Training)})
    with reported():
        loaded = _loaded(paths, training)
    names = None if loaded is None else loaded.class_names
    if isinstance(loaded, GroupedCalibrator):
        options["by"] = loaded.column
    if is_parts_folder(paths[-1], out):
        apply_to_parts(
            paths[-1], out, loaded, training, labels_path=labels, force=force, options=options
        )
        return
    given = read_file(paths[-1], labels_path=labels, classes_of=names, **options)
    say_what_was_read([given])
    with reported():
        classes = (given.n_classes, given.class_names)
        chosen = training.recovery(*classes) if loaded is None else loaded
        check_classes(chosen, given.n_classes, str(given.source))
        shift = training.shift(
            *classes, lambda: np.concatenate(list(calibrated_blocks(chosen, given)))
        )
        clipped = Clipped()
        write_probs(out, _calibrated(chosen, given, out, shift, clipped), like=given, force=force)
    _say_unknown_groups(chosen, given)
    clipped.say()
    words = chosen.describe() if shift is None else f"{chosen.describe()}; {shift.describe()}"
    click.echo(f"Calibrated {given.n_rows} rows ({words}) → {printable(str(out))}")


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
        f"Give one file, and either a calibrator or how the model was trained, got {found}."
    )


def _say_unknown_groups(chosen: Calibrator, given: Predictions) -> None:
    """Print how many rows belong to groups that the calibrator has not seen."""
    if not isinstance(chosen, GroupedCalibrator):
        return
    names = group_names(given.groups[chosen.column])
    is_unknown = ~np.isin(names, chosen.groups)
    if is_unknown.any():
        unknown = np.unique(names[is_unknown])
        shown = ", ".join(unknown[:SHOWN_GROUPS]) + (", ..." * (len(unknown) > SHOWN_GROUPS))
        click.echo(
            printable(
                f"{int(is_unknown.sum())} rows have a {chosen.column} that the calibrator does "
                f"not know ({shown}): they use the shared calibrator."
            )
        )


def _calibrated(
    chosen: Calibrator,
    given: Predictions,
    out: Path,
    shift: PriorShift | None,
    clipped: Clipped,
) -> Iterator[NDArray[Any]]:
    with steps() as bar:
        task = bar.add_task(f"writing {printable(out.name)}", total=given.n_rows)
        for block in calibrated_blocks(chosen, given, shift, clipped):
            yield block
            bar.advance(task, len(block))
