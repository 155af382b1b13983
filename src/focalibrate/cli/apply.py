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
from focalibrate.io import logit_blocks, write_probs


@click.command("apply")
@click.argument("calibrator", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--labels", type=click.Path(path_type=Path), help="Labels of a .npy file.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="File to write.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@prediction_options
def apply_command(
    calibrator: Path, file: Path, labels: Path | None, out: Path, force: bool, **options: Any
) -> None:
    """Write the calibrated probabilities of FILE, in the format of FILE.

    CALIBRATOR is a calibrator.json that `focalibrate calibrate` wrote. Labels and class names
    come along where FILE has them. Works block by block, so that a .npy or .safetensors may be
    larger than memory; an interrupted run leaves nothing behind.

    \b
    Example:
        focalibrate apply report/calibrator.json new.npz -o calibrated.npz
    """
    with reported():
        chosen = Calibrator.load(calibrator)
    given = read_file(file, labels_path=labels, **options)

    def calibrated() -> Iterator[NDArray[Any]]:
        with steps() as bar:
            task = bar.add_task(f"writing {out.name}", total=given.n_rows)
            for block in logit_blocks(given):
                if given.kind == "probs":
                    block = np.maximum(block, block.dtype.type(LEAST_LOG_PROB))
                yield np.asarray(chosen.probs(block))
                bar.advance(task, len(block))

    with reported():
        write_probs(out, calibrated(), like=given, force=force)
    click.echo(f"{given.n_rows} rows of {chosen.describe()} written to {out}")
