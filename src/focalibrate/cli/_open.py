"""How commands open predictions, read their rows or sketch them, and say what was read."""

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from focalibrate.calibrate import CalibrationWarning, Calibrator, GroupedCalibrator
from focalibrate.cli._errors import reported
from focalibrate.cli._marks import calibrated_by
from focalibrate.cli._progress import counted, steps
from focalibrate.cli._summary import say_what_was_read
from focalibrate.engines import EngineError
from focalibrate.io import (
    Predictions,
    Scan,
    SketchFile,
    align,
    merge_sketches,
    printable,
    read_sketch,
    scan_predictions,
)
from focalibrate.pipeline import DataWarning, WrongDataWarning, fit_rows_of

if TYPE_CHECKING:
    from focalibrate.engines import Backend

Paths = Path | str | Sequence[Path | str]


def open_predictions(
    paths: Paths, options: Mapping[str, Any], *, labels: Path | None = None, need: bool = True
) -> Scan:
    """Open predictions; `need` says that they must have labels.

    Args:
        paths: a file, folder, glob, URL or ``-``; or several, which are parts of one table.
        options: those of `prediction_options`.
        labels: another file with the labels.
        need: raise where there are no labels.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if not isinstance(paths, (str, Path)) and len(paths) == 1:
        paths = paths[0]
    with reported():
        return scan_predictions(paths, labels_path=labels, need_labels=need, **given)


def read_rows(
    scan: Scan,
    *,
    most: int | None = None,
    classes_of: tuple[str, ...] | None = None,
    calibrators: Sequence[Path] = (),
    keep: bool = False,
) -> Predictions | None:
    """Read all rows into memory, with a progress bar on a terminal; None where there are more.

    Args:
        scan: the predictions.
        most: most rows to read.
        classes_of: names of a calibrator's classes, into whose order the columns are put.
        calibrators: files of calibrators that are evaluated on these rows; a note warns of those
            that were fitted to them.
        keep: hold the other columns too, to write them again.
    """
    with steps() as bar, reported():
        bar.add_task(f"reading {printable(scan.source)}", total=None)
        found = scan.read_up_to(most, keep=keep)
        if found is None:
            return None
        found = align(found, classes_of)
    done = calibrated_by(scan)
    if done is not None:
        note = f"written by `focalibrate apply`: calibrated already ({done})"
        found = replace(found, notes=(*found.notes, note))
    fitted = [str(path) for path in calibrators if _fitted_to(path) == found.checksum]
    if not fitted:
        return found
    note = (
        f"WARNING: {' and '.join(fitted)} was fitted to these rows and looks better on them "
        "than it is. Evaluate it on other rows; the held-out scores are in results.json and "
        "report.html beside it"
    )
    return replace(found, notes=(*found.notes, note))


def read_file(
    path: Path,
    options: Mapping[str, Any],
    *,
    labels: Path | None = None,
    need: bool = True,
    classes_of: tuple[str, ...] | None = None,
    calibrators: Sequence[Path] = (),
) -> Predictions:
    """Open predictions and read all their rows, see `open_predictions` and `read_rows`."""
    scan = open_predictions(path, options, labels=labels, need=need)
    found = read_rows(scan, classes_of=classes_of, calibrators=calibrators)
    assert found is not None  # noqa: S101  there is no limit
    return found


def _fitted_to(calibrator: Path) -> str | None:
    """Return the checksum of the file that a calibrator was fitted to, if results.json says it."""
    try:
        results = json.loads((calibrator.parent / "results.json").read_text(encoding="utf-8"))
        return str(results["made_with"]["files"][0]["sha256"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def rows_or_sketch(
    paths: Sequence[str],
    options: Mapping[str, Any],
    *,
    labels: Path | None,
    calibrator: Path | None,
    bins: int,
    backend: "Backend | None",
    to_stderr: bool,
) -> tuple[Predictions | SketchFile, Calibrator | None]:
    """Return rows in memory, or the sketch of more rows than methods are fitted on.

    Args:
        paths: predictions, or sketches, which are merged.
        options: those of `prediction_options`.
        labels: another file with the labels.
        calibrator: what is to be applied first.
        bins: of the sketch.
        backend: where parts are sketched in parallel; None: here, and only if there are many.
        to_stderr: where to say what was read.

    Returns:
        The predictions, and the calibrator that is still to be applied to them.
    """
    if any(path.endswith(".sketch") for path in paths):
        if calibrator is not None:
            raise click.UsageError(
                "--calibrator needs rows, which a sketch does not have: pass it to "
                "`focalibrate sketch`."
            )
        return merged(paths), None
    chosen = loaded(calibrator)
    scan = open_predictions(paths, by_column(options, chosen), labels=labels)
    is_options = scan.first.layout.form == "options"  # read whole, and ranked row by row
    if backend is None or is_options:
        rows = read_rows(
            scan,
            most=None if is_options else fit_rows_of(scan.n_classes),
            classes_of=None if chosen is None else chosen.class_names,
            calibrators=() if calibrator is None else (calibrator,),
        )
        if rows is not None:
            say_what_was_read([rows], to_stderr=to_stderr)
            return rows, chosen
    say_what_was_read([scan], to_stderr=to_stderr)
    advice = f"`focalibrate sketch {' '.join(paths)} -o all.sketch` keeps finished parts."
    return sketched(scan, chosen, bins=bins, backend=backend, advice=advice), None


def loaded(calibrator: Path | None) -> Calibrator | None:
    """Return the calibrator of a file, if one is named."""
    with reported():
        return None if calibrator is None else Calibrator.load(calibrator)


def by_column(options: Mapping[str, Any], chosen: Calibrator | None) -> Mapping[str, Any]:
    """Return the options with the column that a calibrator of groups needs."""
    if isinstance(chosen, GroupedCalibrator) and not options.get("by"):
        return {**options, "by": chosen.column}
    return options


def sketched(
    scan: Scan,
    calibrator: Calibrator | None,
    *,
    bins: int,
    backend: "Backend | None",
    advice: str,
    folder: Path | None = None,
) -> SketchFile:
    """Return the sketch of predictions, with a progress bar on a terminal."""
    from focalibrate.pipeline import sketch_predictions

    with reported(), engine_errors(advice), counted("parts") as progress:
        return sketch_predictions(
            scan,
            calibrator=calibrator,
            n_bins=bins,
            backend=backend,
            folder=folder,
            progress=progress,
        )


def merged(paths: Sequence[str]) -> SketchFile:
    """Return the sketches in `paths`, merged; all of them must be sketches."""
    with reported():
        others = [path for path in paths if not path.endswith(".sketch")]
        if others:
            raise ValueError(
                f"{others[0]}: must be a sketch too. Make one first: "
                f"focalibrate sketch {others[0]} -o {Path(others[0]).stem}.sketch"
            )
        files = [read_sketch(path) for path in paths]
        without = [p for p, f in zip(paths, files, strict=True) if f.sketch.classes is None]
        if 0 < len(without) < len(files):
            click.echo(
                f"Note: {without[0]} has no sums by class, so the merged sketch has none, "
                "and no classwise ECE. A monitor keeps them with "
                "CalibrationMonitor(classwise=True).",
                err=True,
            )
        return merge_sketches(files, list(paths))


def name_of(paths: Sequence[str]) -> str:
    """Return what to call several paths."""
    name = os.path.basename(paths[0].rstrip("/")) or paths[0]
    return name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"


@contextmanager
def doubts_said(*, anyway: bool, to_stderr: bool = False) -> Iterator[None]:
    """Print what looks wrong with the data; stop where results would be meaningless.

    Args:
        anyway: print only.
        to_stderr: where standard output is for JSON.
    """
    console = Console(highlight=False, stderr=to_stderr)
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, DataWarning):
            if str(message) in seen:
                return
            seen.add(str(message))
            console.print(f"  WARNING: {printable(str(message))}", markup=False, style="yellow")
        else:
            before(message, category, *rest, **more)

    with warnings.catch_warnings():
        before, warnings.showwarning = warnings.showwarning, show
        warnings.simplefilter("always", DataWarning)
        warnings.simplefilter("ignore", CalibrationWarning)  # results hold what fits warned of
        if not anyway:
            warnings.simplefilter("error", WrongDataWarning)
        try:
            yield
        except WrongDataWarning as wrong:
            raise click.ClickException(
                f"{printable(str(wrong))} If the data are right, pass --anyway."
            ) from wrong


@contextmanager
def engine_errors(advice: str) -> Iterator[None]:
    """Turn the loss of workers and Ctrl-C into one message that says how to go on."""
    try:
        yield
    except EngineError as error:
        raise click.ClickException(f"{error} {advice}") from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted. {advice}") from None
