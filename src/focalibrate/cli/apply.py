"""`focalibrate apply`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator
from focalibrate.cli._options import prediction_options
from focalibrate.cli._read import LEAST_LOG_PROB, read_file, reported, steps
from focalibrate.cli._summary import say_what_was_read
from focalibrate.io import Predictions, logit_blocks, printable, write_probs


@click.command("apply")
@click.argument("calibrator", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--labels", type=click.Path(path_type=Path), help="File of the labels, if another.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@prediction_options
def apply_command(
    calibrator: Path, file: Path, labels: Path | None, out: Path, force: bool, **options: Any
) -> None:
    """Write the calibrated probabilities of FILE, in the format of the suffix of -o.

    CALIBRATOR is a calibrator.json that `focalibrate calibrate` wrote. Ids, labels and all other
    columns of FILE are kept, so that the result joins back. Columns are matched to the
    calibrator's classes by name. Works block by block, so that a .npy or .safetensors may be
    larger than memory; an interrupted run leaves nothing behind.

    \b
    Example:
        focalibrate apply report/calibrator.json new.npz -o calibrated.npz
    """
    with reported():
        chosen = Calibrator.load(calibrator)
    given = read_file(
        file, labels_path=labels, classes_of=getattr(chosen, "class_names", None), **options
    )
    say_what_was_read([given])
    with reported():
        _check_classes(chosen, given)
        write_probs(out, _calibrated(chosen, given, out), like=given, force=force)
    name = printable(str(out))
    click.echo(f"Calibrated {given.n_rows} rows ({chosen.describe()}) → {name}")


def _check_classes(chosen: Calibrator, given: Predictions) -> None:
    """Raise where the calibrator was fitted for another number of classes."""
    expected = getattr(chosen, "n_classes", None)
    if expected is not None and expected != given.n_classes:
        raise ValueError(
            f"{given.source}: has {given.n_classes} classes, but the calibrator was fitted for "
            f"{expected}. Use the calibrator of the same model."
        )


def _calibrated(chosen: Calibrator, given: Predictions, out: Path) -> Iterator[NDArray[Any]]:
    with steps() as bar:
        task = bar.add_task(f"writing {printable(out.name)}", total=given.n_rows)
        for block in logit_blocks(given):
            if given.kind == "probs":
                block = np.maximum(block, block.dtype.type(LEAST_LOG_PROB))
            yield np.asarray(chosen.probs(block))
            bar.advance(task, len(block))
