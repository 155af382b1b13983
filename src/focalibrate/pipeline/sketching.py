"""A sketch of predictions of any size: part by part, on this or on other machines."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.grouped import log_probs_by_row
from focalibrate.engines import Backend
from focalibrate.io import (
    PredictionFileError,
    Predictions,
    Scan,
    SketchFile,
    align,
    atomic_path,
    merge_sketches,
    parse_sketch,
    scan_predictions,
    sketch_bytes,
)
from focalibrate.metrics import Sketch
from focalibrate.metrics.sketch import row_terms
from focalibrate.pipeline.work import (
    PartTask,
    Progress,
    digest,
    in_order,
    outcomes_of,
    part_tasks,
    used_versions,
)


@dataclass(frozen=True, kw_only=True)
class SketchTask:
    """What is needed to sketch one part."""

    at: PartTask
    n_bins: int
    calibrator: Calibrator | None
    folder: Path | None
    """where finished parts are kept"""
    key: str
    """of everything that decides the sketch: the name of its file"""


def sketch_predictions(
    source: str | Path | Sequence[str | Path] | Scan,
    *,
    calibrator: Calibrator | None = None,
    n_bins: int = 15,
    backend: Backend | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> SketchFile:
    """Return the sketch of predictions of any size, read once and in batches.

    Every part is sketched by itself and the sketches are merged in order, so that the result is
    the same to the last bit for any number of workers.

    Args:
        source: what `scan_predictions` takes, or returned.
        calibrator: applied to the scores first.
        n_bins: bins of the binned errors.
        backend: where parts are sketched in parallel; None: in this process, one by one.
        folder: where finished parts are kept until all are done, so that the same call
            continues after an interruption; None: nowhere.
        progress: called with the numbers of parts done and of all.
        options: those of `scan_predictions`.

    Raises:
        PredictionFileError: the files cannot be read, or were sketched by mixed versions.
        EngineError: parts failed, or the workers were lost.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for i in range(3):
        ...         text = f"cat,dog,y_true\\n0.{i}5,0.{9 - i}5,dog\\n0.5,0.5,cat\\n"
        ...         _ = Path(folder, f"part-{i}.csv").write_text(text)
        ...     found = sketch_predictions(folder)
        >>> found.sketch.n, found.class_names
        (6, ('cat', 'dog'))
    """
    opened = source if isinstance(source, Scan) else scan_predictions(source, **options)
    if not opened.has_labels:
        raise PredictionFileError(
            f"{opened.source}: no labels found. Put them into the files, or pass a file of labels "
            "(command line: --labels FILE)."
        )
    if opened.first.cluster is not None:
        raise PredictionFileError(
            f"{opened.source}: `cluster` needs rows in memory, which a sketch does not have."
        )
    fitted = None if calibrator is None else json.dumps(calibrator.to_dict(), sort_keys=True)
    tasks = [
        SketchTask(
            at=at,
            n_bins=n_bins,
            calibrator=calibrator,
            folder=None if folder is None else folder.absolute(),
            key=digest([at.stamp, n_bins, fitted]),
        )
        for at in part_tasks(opened)
    ]
    names: list[str] = []
    filled = _filled(_in_turn(tasks, backend, progress), names)
    first = next(filled, None)
    if first is None:
        raise PredictionFileError(f"{opened.source}: has no rows with a weight above 0.")
    merged = merge_sketches(chain([first], filled), names)
    return replace(merged, sources=(opened.describe(),))


def _in_turn(
    tasks: Sequence[SketchTask], backend: Backend | None, progress: Progress | None
) -> Iterator[SketchFile | None]:
    """Yield the sketches in the order of the parts: kept ones, and those that are made now."""
    missing = [task for task in tasks if _kept(task) is None]
    say = progress or (lambda done, total: None)
    done = len(tasks) - len(missing)
    say(done, len(tasks))

    def made() -> Iterator[tuple[int, SketchFile | None]]:
        names = [task.at.name for task in missing]
        for n, (place, file) in enumerate(outcomes_of(backend, sketch_part, missing, names), 1):
            _keep(missing[place], file)  # from a worker without this folder
            say(done + n, len(tasks))
            yield place, file

    new, keys = in_order(made()), {task.key for task in missing}
    for task in tasks:
        yield next(new) if task.key in keys else _kept(task)
    yield from new  # which raises if some failed


def _filled(files: Iterator[SketchFile | None], names: list[str]) -> Iterator[SketchFile]:
    """Yield the sketches that have rows, and note the part that each is of."""
    for file in files:
        if file is not None:
            names.append(file.sources[0])
            yield file


def sketch_part(task: SketchTask) -> SketchFile | None:
    """Sketch one part and keep it in the folder; None where it has no rows of weight above 0."""
    kept = _kept(task)
    if kept is not None:
        return kept
    scan, calibrator = task.at.scan(), task.calibrator
    names = None if calibrator is None else calibrator.class_names
    sketch: Sketch | None = None
    found_names = scan.class_names
    for batch in _counted(task.at.batches()):
        aligned = align(batch, names)
        found_names = aligned.class_names
        more = batch_sketch(aligned, calibrator=calibrator, n_bins=task.n_bins)
        sketch = more if sketch is None else sketch + more
    if sketch is None:
        return None
    file = SketchFile(
        sketch=sketch,
        class_names=found_names,
        kind=scan.kind,
        calibrator="" if calibrator is None else calibrator.describe(),
        sources=(task.at.name,),
        versions={name: (text,) for name, text in used_versions().items()},
    )
    _keep(task, file)
    return file


def batch_sketch(
    batch: Predictions, *, calibrator: Calibrator | None = None, n_bins: int = 15
) -> Sketch:
    """Return the sketch of predictions that were read, and so checked."""
    if batch.labels is None:
        raise PredictionFileError(f"{batch.source}: no labels found.")
    scores: Any = batch.scores
    given: Literal["probs", "log_probs", "logits"] = batch.kind
    groups = {name: np.asarray(column) for name, column in batch.groups.items()}
    if calibrator is not None:
        scores = log_probs_by_row(calibrator, groups, **{batch.kind: batch.scores})
        given = "log_probs"
    terms = row_terms(
        np.asarray(scores), batch.labels, given=given, weights=batch.weights, n_bins=n_bins
    )
    return Sketch.of_terms(terms, groups=groups, n_bins=n_bins)


def _counted(batches: Iterator[Predictions]) -> Iterator[Predictions]:
    """Yield the batches without rows of weight 0."""
    for batch in batches:
        if batch.weights is None or batch.weights.all():
            yield batch
            continue
        kept = np.flatnonzero(batch.weights)
        if len(kept):
            yield batch.take(kept)


def _kept(task: SketchTask) -> SketchFile | None:
    """Return the sketch of a part that was finished before; None where it was not."""
    if task.folder is None:
        return None
    try:
        return parse_sketch((task.folder / f"{task.key}.sketch").read_bytes(), task.at.name)
    except (PredictionFileError, OSError):  # absent, or damaged: it is made again
        return None


def _keep(task: SketchTask, file: SketchFile | None) -> None:
    if task.folder is None or file is None:
        return
    path = task.folder / f"{task.key}.sketch"
    if path.exists():
        return
    with suppress(OSError):  # a worker elsewhere may not have the folder: its answer is enough
        task.folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(path, force=True) as beside:
            beside.write_bytes(sketch_bytes(file))
