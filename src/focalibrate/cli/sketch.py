"""`focalibrate sketch`."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from focalibrate._atomic import check_target
from focalibrate.calibrate import Calibrator
from focalibrate.cli import _options
from focalibrate.cli._open import open_predictions, sketched
from focalibrate.cli._summary import say, say_what_was_read
from focalibrate.io import check_time, write_sketch

if TYPE_CHECKING:
    from focalibrate.engines import Backend


@click.command("sketch")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("-o", "--out", required=True, type=_options.OutPath(), help="File: x.sketch.")
@_options.force_option
@_options.calibrator_option
@click.option(
    "--bins",
    "n_bins",
    default=15,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Number of bins for the calibration errors.",
)
@click.option("--from", "start", metavar="TIME", help="Time of the first row, such as 2026-01-31.")
@click.option("--to", "end", metavar="TIME", help="Time of the last row.")
@_options.engine_options("Parts sketched at the same time, each in a process.  [default: 1]")
@_options.prediction_options
def sketch_command(
    paths: tuple[str, ...],
    options: dict[str, Any],
    out: Path,
    force: bool,
    calibrator: Path | None,
    n_bins: int,
    start: str | None,
    end: str | None,
    backend: "Backend | None",
) -> None:
    """Summarise the predictions in PATHs in one small file: a sketch.

    A PATH is a file, a folder or glob of parts, or a URL such as s3://bucket/day1. The rows are
    read once, in batches; memory does not grow with them. `focalibrate evaluate` computes from the
    sketch what it computes from the rows, and merges several sketches.

    While the command runs, finished parts are kept in OUT.parts. If it is interrupted, run it
    again: it continues where it stopped, and counts nothing twice.

    \b
    Example:
        focalibrate sketch predictions/day1 -o day1.sketch --from 2026-01-31 --to 2026-02-01
        focalibrate sketch 's3://bucket/day1/*.parquet' -o day1.sketch --workers 2
        focalibrate sketch /shared/day1 -o day1.sketch --backend dask --scheduler tcp://host:8786
        focalibrate evaluate day1.sketch day2.sketch
    """
    if out.suffix != ".sketch":
        named = out.with_name(f"{out.name.split('.')[0]}.sketch")
        raise click.BadParameter(f"`-o` must end in .sketch, got {out.name}: pass `-o {named}`.")
    folder = out.with_name(f"{out.name}.parts")
    for name, value in (("--from", start), ("--to", end)):
        if value is not None:
            check_time(value, name=name)
    check_target(out, force=force)
    if not out.absolute().parent.is_dir():
        raise FileNotFoundError(f"{out}: the folder {out.parent} does not exist.")
    chosen = None if calibrator is None else Calibrator.load(calibrator)
    scan = open_predictions(paths, options, calibrators=() if chosen is None else (chosen,))
    say_what_was_read([scan])
    advice = f"Finished parts are kept in {folder}: run the same command again."
    found = sketched(scan, chosen, n_bins=n_bins, backend=backend, folder=folder, advice=advice)
    found = replace(found, start=start, end=end)
    write_sketch(found, out, force=force)
    shutil.rmtree(folder, ignore_errors=True)
    say(f"{out}: {found.describe()}, {out.stat().st_size / 1000:,.0f} kB")
    say(f"Next: focalibrate evaluate {out}")
