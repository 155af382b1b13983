"""How commands open predictions, read their rows or sketch them, with bars of progress.

`apply` leaves a mark beside what it writes, so that no file is calibrated twice.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from focalibrate._atomic import atomic_path, json_text
from focalibrate.calibrate import CalibrationWarning, Calibrator, GroupedCalibrator
from focalibrate.cli._summary import say, say_what_was_read
from focalibrate.engines import EngineError
from focalibrate.io import (
    MANIFEST,
    Predictions,
    Scan,
    SketchFile,
    align,
    is_negative,
    merge_sketches,
    printable,
    read_sketch,
    scan_predictions,
)
from focalibrate.io.options import as_names
from focalibrate.pipeline import DataWarning, WrongDataWarning, sketch_predictions
from focalibrate.pipeline.sample import rows_to_fit

if TYPE_CHECKING:
    from focalibrate.engines import Backend


def open_predictions(
    paths: Path | str | Sequence[Path | str],
    options: Mapping[str, Any],
    *,
    calibrators: Sequence[Calibrator] = (),
    need: bool = True,
) -> Scan:
    """Open predictions.

    Args:
        paths: a file, folder, glob, URL or ``-``; or several, which are parts of one table.
        options: those of `prediction_options`.
        calibrators: what is to be applied: columns of their groups are read, too, and predictions
            of other classes are refused.
        need: raise where there are no labels.
    """
    if not isinstance(paths, (str, Path)) and len(paths) == 1:
        paths = paths[0]
    columns = [c.column for c in calibrators if isinstance(c, GroupedCalibrator)]
    if columns:
        columns = [*as_names(options.get("by")), *columns]
        options = {**options, "by": tuple(dict.fromkeys(columns))}
    scan = scan_predictions(paths, need_labels=need, **options)
    texts = [_check_classes(calibrator, scan) for calibrator in calibrators]
    for text in dict.fromkeys(filter(None, texts)):
        say(printable(text), style="yellow", to_stderr=True)
    return scan


def _check_classes(calibrator: Calibrator, scan: Scan) -> str | None:
    """Raise where a calibrator was fitted for other classes; return a doubt where it may be.

    One that knows the names of its classes finds them by name, see `align`.
    """
    expected = calibrator.n_classes
    if expected is not None and expected != scan.n_classes:
        raise ValueError(
            f"{scan.source}: has {scan.n_classes} classes, but the calibrator was fitted for "
            f"{expected}. Use the calibrator of the same model."
        )
    if expected is None or calibrator.class_names is not None or scan.class_names is None:
        return None  # the order of the classes means nothing, or is known
    if len(scan.scores_names) == 1 and is_negative(scan.positive or ""):
        raise ValueError(
            f'{scan.source}: "{scan.scores_names[0]}" is the probability of {scan.positive!r}, '
            "but the calibrator was fitted to the probability of class 1. Save this one instead: "
            f"`df['prob'] = 1 - df[{scan.scores_names[0]!r}]`."
        )
    if len(scan.scores_names) < 2:
        return None
    order = ", ".join(scan.class_names[:5]) + (", ..." if scan.n_classes > 5 else "")
    return f"WARNING: the calibrator has no class names; classes are taken in the order {order}"


def read_rows(
    scan: Scan,
    *,
    classes_of: tuple[str, ...] | None = None,
    calibrators: Sequence[Path] = (),
    keep: bool = False,
) -> Predictions:
    """Read all rows into memory, with their classes in the order of `classes_of`.

    A note warns of `calibrators` that were fitted to these rows; `keep` holds other columns too.
    """
    with steps(f"reading {printable(scan.source)}"):
        found = scan.read(keep=keep)
    return _noted(found, scan, classes_of, calibrators)


def _noted(
    found: Predictions,
    scan: Scan,
    classes_of: tuple[str, ...] | None,
    calibrators: Sequence[Path],
) -> Predictions:
    found = align(found, classes_of)
    notes = []
    done = calibrated_by(scan)
    if done is not None:
        twice = "WARNING: calibrated a second time: " if calibrators else ""
        notes.append(f"{twice}written by `focalibrate apply`: calibrated already ({done})")
    fitted = [str(path) for path in calibrators if _fitted_to(path) == found.checksum]
    if fitted:
        notes.append(
            f"WARNING: {' and '.join(fitted)} was fitted to these rows and looks better on them "
            "than it is. Evaluate it on other rows; the held-out scores are in results.json and "
            "report.html beside it"
        )
    return replace(found, notes=(*found.notes, *notes))


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
    calibrator: Path | None,
    n_bins: int,
    backend: "Backend | None",
) -> tuple[Predictions | SketchFile, Calibrator | None]:
    """Return rows in memory, or the sketch of more rows than methods are fitted on.

    Sketches are merged. With a `backend` all rows are sketched. The second answer is the
    calibrator that is still to be applied to the rows.
    """
    if any(path.endswith(".sketch") for path in paths):
        if calibrator is not None:
            raise click.UsageError(
                "--calibrator needs rows, which a sketch does not have: pass it to "
                "`focalibrate sketch`."
            )
        return merged(paths), None
    files = () if calibrator is None else (calibrator,)
    calibrators = [Calibrator.load(file) for file in files]
    chosen = next(iter(calibrators), None)
    scan = open_predictions(paths, options, calibrators=calibrators)
    if backend is None or scan.first.layout.form == "options":
        with steps(f"reading {printable(scan.source)}"):
            rows = rows_to_fit(scan)
        if rows is not None:
            rows = _noted(rows, scan, None if chosen is None else chosen.class_names, files)
            say_what_was_read([rows])
            return rows, chosen
    say_what_was_read([scan])
    advice = f"`focalibrate sketch {' '.join(paths)} -o all.sketch` keeps finished parts."
    return sketched(scan, chosen, n_bins=n_bins, backend=backend, advice=advice), None


def sketched(
    scan: Scan, calibrator: Calibrator | None, *, advice: str, **settings: Any
) -> SketchFile:
    """Return the sketch of predictions, with a progress bar; settings as `sketch_predictions`."""
    with engine_errors(advice), counted("parts") as progress:
        return sketch_predictions(scan, calibrator=calibrator, progress=progress, **settings)


def merged(paths: Sequence[str]) -> SketchFile:
    """Return the sketches in `paths`, merged; all of them must be sketches."""
    others = [path for path in paths if not path.endswith(".sketch")]
    if others:
        raise ValueError(
            f"{others[0]}: must be a sketch too. Make one first: "
            f"focalibrate sketch {others[0]} -o {Path(others[0]).stem}.sketch"
        )
    files = [read_sketch(path) for path in paths]
    without = [p for p, f in zip(paths, files, strict=True) if f.sketch.classes is None]
    if 0 < len(without) < len(files):
        say(
            f"Note: {without[0]} has no sums by class, so the merged sketch has none, "
            "and no classwise ECE. A monitor keeps them with "
            "CalibrationMonitor(classwise=True).",
            to_stderr=True,
        )
    return merge_sketches(files, list(paths))


def name_of(paths: Sequence[str]) -> str:
    """Return what to call several paths."""
    name = os.path.basename(paths[0].rstrip("/")) or paths[0]
    return name if len(paths) == 1 else f"{name} and {len(paths) - 1} more"


@contextmanager
def working(what: str, *, anyway: bool) -> Iterator[Progress]:
    """Show what is being done; print what looks wrong with the data.

    Args:
        what: the first step, in words.
        anyway: continue where results would be meaningless; default: stop.
    """
    seen: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, DataWarning):
            before(message, category, *rest, **more)
        elif str(message) not in seen:
            seen.add(str(message))
            say(f"  WARNING: {printable(str(message))}", style="yellow", wrap=True)

    with warnings.catch_warnings():
        before, warnings.showwarning = warnings.showwarning, show
        warnings.simplefilter("always", DataWarning)
        warnings.simplefilter("ignore", CalibrationWarning)  # results hold what fits warned of
        if not anyway:
            warnings.simplefilter("error", WrongDataWarning)
        try:
            with steps(what) as bar:
                yield bar
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


def mark_of(path: Path) -> Path:
    """Return the name of a file's mark.

    Example:
        >>> mark_of(Path("out", "new.csv")).as_posix()
        'out/.new.csv.calibrated.json'
    """
    return path.with_name(f".{path.name}.calibrated.json")


def write_mark(path: Path, content: Path, calibrator: str) -> None:
    """Mark a file as calibrated, before it appears.

    Args:
        path: the file that is written.
        content: where its bytes are until then.
        calibrator: what was applied, in words.
    """
    with atomic_path(mark_of(path), force=True) as made:
        with content.open("rb") as file:
            checksum = hashlib.file_digest(file, "sha256").hexdigest()
        text = json_text({"sha256": checksum, "calibrator": calibrator})
        made.write_text(text, encoding="utf-8")


def calibrated_by(scan: Scan) -> str | None:
    """Return what `apply` has applied to predictions already, in words; None: nothing is known."""
    path = Path(scan.parts[0].name)
    listed = _read(path.parent / MANIFEST).get("names")
    if isinstance(listed, list) and path.name in listed:
        return "a calibrator"
    if len(scan.parts) > 1:
        return None
    marks = [mark_of(path), *path.parent.glob(mark_of(Path("*")).name)]  # it may be a copy
    for record in map(_read, marks):
        if "calibrator" in record and record.get("sha256") == scan.checksum():
            return str(record["calibrator"])
    return None


def _read(path: Path) -> dict[str, Any]:
    """Return what a mark or a list of parts holds; nothing where it is absent or damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def progress_bar(*columns: ProgressColumn) -> Iterator[Progress]:
    """Show a bar of these columns until the block ends."""
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        yield bar


@contextmanager
def steps(what: str, *, total: float | None = None) -> Iterator[Progress]:
    """Show a step, which may get another name, and the percentage that is done of it."""
    name = TextColumn("{task.description}", markup=False)  # a path may have [brackets]
    with progress_bar(name, BarColumn(), TaskProgressColumn(), TimeElapsedColumn()) as bar:
        bar.add_task(what, total=total)
        yield bar


@contextmanager
def counted(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many things are done; call what is yielded with that number and the total."""
    text = TextColumn("{task.description}")
    with progress_bar(text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
