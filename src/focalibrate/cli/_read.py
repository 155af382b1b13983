"""How a command reads files of predictions: whole or in batches, with progress and errors."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from focalibrate.cli._errors import reported
from focalibrate.cli._progress import steps
from focalibrate.io import (
    Predictions,
    Scan,
    align,
    printable,
    read_predictions,
    scan_predictions,
)
from focalibrate.pipeline import fit_rows_of

FitRows = int | Literal["all"]
"""Most rows to fit on."""
SMALL = 8 << 20
"""Files up to this size, in bytes, are read whole without counting their rows first."""
IN_MEMORY = 1 << 30
"""Bytes of scores up to which all rows are read into memory with ``--fit-rows all``."""


def read_file(
    path: Path | Sequence[Path],
    *,
    labels_path: Path | None = None,
    need_labels: bool = False,
    classes_of: tuple[str, ...] | None = None,
    calibrators: Sequence[Path] = (),
    **options: Any,
) -> Predictions:
    """Read `path`, with a progress bar on a terminal.

    Args:
        path: the file, folder, glob, or ``-``; or several, which are parts of one table.
        labels_path: another file with the labels.
        need_labels: raise where there are none.
        classes_of: names of a calibrator's classes, into whose order the columns are put.
        calibrators: files of calibrators that are evaluated on these rows; a note warns of those
            that were fitted to them.
        options: those of `prediction_options`, as `read_predictions` takes them.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    with steps() as bar, reported():
        name = (path if isinstance(path, Path) else path[0]).name
        task = bar.add_task(f"reading {printable(name)}", total=None)
        found = read_predictions(
            path,
            labels_path=labels_path,
            need_labels=need_labels,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
            **given,
        )
        found = align(found, classes_of)
    fitted = [str(path) for path in calibrators if _fitted_to(path) == found.checksum]
    if not fitted:
        return found
    note = (
        f"WARNING: {' and '.join(fitted)} was fitted to these rows, which flatters it. Evaluate "
        "it on other rows; the held-out scores are in results.json and report.html beside it"
    )
    return replace(found, notes=(*found.notes, note))


def _fitted_to(calibrator: Path) -> str | None:
    """Return the checksum of the file that a calibrator was fitted to, if results.json says it."""
    try:
        results = json.loads((calibrator.parent / "results.json").read_text(encoding="utf-8"))
        return str(results["made_with"]["files"][0]["sha256"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def scan_large(
    paths: Sequence[tuple[Sequence[Path], Path | None]],
    fit_rows: FitRows | None,
    options: Mapping[str, Any],
) -> list[Scan]:
    """Return the data sets opened for reading in batches, or none if they are read whole.

    They are read whole if they have no more rows than the methods are fitted on; where all rows
    are to be fitted on, if their scores take at most 1 GB.

    Args:
        paths: pairs of the predictions files and their labels file; those to fit on come first.
        fit_rows: most rows to fit on, ``"all"``, or None.
        options: those of `prediction_options`.
    """
    every = [path for some, _ in paths for path in some]
    if any(str(path) == "-" for path in every):
        return []
    is_small = all(p.is_file() for p in every) and sum(p.stat().st_size for p in every) < SMALL
    if fit_rows in (None, "all") and is_small:
        return []
    given = {name: value for name, value in options.items() if value not in (None, ())}
    with reported():
        scans = [
            scan_predictions(_one_or_all(some), labels_path=labels, need_labels=True, **given)
            for some, labels in paths
        ]
    if fit_rows == "all":
        return scans if any(_bytes_of(scan) > IN_MEMORY for scan in scans) else []
    limit = fit_rows_of(scans[0].n_classes, fit_rows)
    is_large = any(scan.n_rows is None or scan.n_rows > limit for scan in scans)
    return scans if is_large else []


def _one_or_all(paths: Sequence[Path]) -> Path | Sequence[Path]:
    return paths if len(paths) > 1 else paths[0]


def _bytes_of(scan: Scan) -> int:
    if scan.n_rows is None:
        return sum(part.n_bytes for part in scan.parts)
    return scan.n_rows * scan.n_classes * scan.first.scores.itemsize
