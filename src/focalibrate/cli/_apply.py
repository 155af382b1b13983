"""Applying a calibrator part by part to a data set, and what commands say about it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator, GroupedCalibrator
from focalibrate.cli._errors import reported
from focalibrate.cli._progress import counted
from focalibrate.cli._recovery import Training
from focalibrate.cli._sketching import engine_errors
from focalibrate.cli._summary import say_what_was_read
from focalibrate.io import FORMATS, is_data_set, printable, scan_predictions, url_of
from focalibrate.pipeline import PriorShift, SpecialRows
from focalibrate.pipeline import apply_to_parts as write_all_parts

if TYPE_CHECKING:
    from focalibrate.engines import Backend

SHOWN_GROUPS = 5
"""At most this many unknown groups are named."""


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
    backend: "Backend | None",
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
        scan = scan_predictions(source, **given)
        names = scan.class_names if loaded is None else loaded.class_names
        chosen = training.recovery(scan.n_classes, names) if loaded is None else loaded
        check_classes(chosen, scan.n_classes, scan.source)
        shift = training.shift(scan.n_classes, names, _no_rows)
    say_what_was_read([scan])
    advice = f"Finished parts are in {printable(url_of(out) or str(out))}: run the command again."
    with reported(), engine_errors(advice), counted("parts") as progress:
        done, special = write_all_parts(
            source,
            url_of(out) or out,
            chosen,
            shift=shift,
            backend=backend,
            force=force,
            scan=scan,
            progress=progress,
            **given,
        )
    say_special_rows(chosen, special)
    kept = f", {done.n_kept} were done before" if done.n_kept else ""
    say_calibrated(
        f"{done.n_rows:,} rows of {done.n_written} parts{kept}", chosen, shift, url_of(out) or out
    )


def _no_rows() -> NDArray[Any]:
    raise ValueError("--prior em needs all rows at once.")


def say_calibrated(
    what: str, chosen: Calibrator, shift: PriorShift | None, out: Path | str
) -> None:
    """Print what was calibrated, how, and where it is."""
    words = chosen.describe() if shift is None else f"{chosen.describe()}; {shift.describe()}"
    click.echo(f"Calibrated {what} ({words}) → {printable(str(out))}")


def say_special_rows(chosen: Calibrator, special: SpecialRows) -> None:
    """Print how many rows were clipped, and how many belong to groups that are not known."""
    if special.unknown and isinstance(chosen, GroupedCalibrator):
        unknown = sorted(special.unknown)
        shown = ", ".join(unknown[:SHOWN_GROUPS]) + (", ..." * (len(unknown) > SHOWN_GROUPS))
        click.echo(
            printable(
                f"{special.unknown.total()} rows have a {chosen.column} that the calibrator does "
                f"not know ({shown}): they use the shared calibrator."
            )
        )
    if special.n_clipped:
        n, n_rows = special.n_clipped, special.n_rows
        rows = "1 row has" if n == 1 else f"{n:,} of {n_rows:,} rows have"
        click.echo(
            f"{rows} a probability below what label smoothing allows: clipped to 0 and "
            "renormalised. Many such rows mean that the model was not trained in this way."
        )


def check_classes(chosen: Calibrator, n_classes: int, source: str) -> None:
    """Raise where the calibrator was fitted for another number of classes."""
    expected = chosen.n_classes
    if expected is not None and expected != n_classes:
        raise ValueError(
            f"{source}: has {n_classes} classes, but the calibrator was fitted for "
            f"{expected}. Use the calibrator of the same model."
        )
