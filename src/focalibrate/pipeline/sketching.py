"""A sketch of predictions of any size: part by part, on this or on other machines."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
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
from focalibrate.pipeline.part_tasks import (
    PartTask,
    Progress,
    digest,
    outcomes_of,
    part_tasks,
    report,
    scan_of,
    used_versions,
)


@dataclass(frozen=True, kw_only=True)
class SketchTask:
    """What a worker needs to sketch one part."""

    at: PartTask
    n_bins: int
    calibrator: str | None = None
    """as JSON"""

    @property
    def key(self) -> str:
        """Of everything that decides the sketch: the name of its file."""
        return digest([self.at.stamp, self.n_bins, self.calibrator])


def sketch_predictions(
    source: str | Path | Sequence[str | Path],
    *,
    calibrator: Calibrator | None = None,
    n_bins: int = 15,
    backend: Backend | None = None,
    folder: Path | None = None,
    scan: Scan | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> SketchFile:
    """Return the sketch of predictions of any size, read once and in batches.

    Every part is sketched by itself and the sketches are merged in order, so that the result is
    the same to the last bit for any number of workers.

    Args:
        source: a file, a folder, a glob, a list of these, or a URL; see `scan_predictions`.
        calibrator: applied to the scores first.
        n_bins: bins of the binned errors.
        backend: where parts are sketched in parallel; None: in this process, one by one.
        folder: where finished parts are kept until all are done, so that the same call
            continues after an interruption; None: nowhere.
        scan: the source, if it has been opened with the same options.
        progress: called with the numbers of parts done and of all.
        options: those of `scan_predictions`.

    Raises:
        PredictionFileError: the files cannot be read, or were sketched by mixed versions.
        EngineError: parts failed, or the workers were lost.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for i in range(3):
        ...         text = "cat,dog,y_true\\n0.25,0.75,dog\\n0.5,0.5,cat\\n"
        ...         _ = Path(folder, f"part-{i}.csv").write_text(text)
        ...     found = sketch_predictions(folder)
        >>> found.sketch.n, found.class_names
        (6, ('cat', 'dog'))
    """
    opened = scan if scan is not None else scan_predictions(source, **options)
    if not opened.has_labels:
        raise PredictionFileError(
            f"{opened.source}: no labels found. Put them into the files, or pass a file of labels "
            "(command line: --labels FILE)."
        )
    fitted = None if calibrator is None else json.dumps(calibrator.to_dict(), sort_keys=True)
    tasks = [SketchTask(at=task, n_bins=n_bins, calibrator=fitted) for task in part_tasks(opened)]
    if backend is None:
        contents = _here(opened, tasks, calibrator, folder, progress)
    else:
        contents = _elsewhere(tasks, backend, folder, progress)
    made = [(t.at.name, c) for t, c in zip(tasks, contents, strict=True) if c]
    if not made:
        raise PredictionFileError(f"{opened.source}: has no rows with a weight above 0.")
    merged = merge_sketches((parse_sketch(c, n) for n, c in made), [n for n, _ in made])
    return replace(merged, sources=(opened.describe(),))


def _here(
    scan: Scan,
    tasks: Sequence[SketchTask],
    calibrator: Calibrator | None,
    folder: Path | None,
    progress: Progress | None,
) -> list[bytes]:
    contents = []
    for done, task in enumerate(tasks):
        report(progress, done, len(tasks))
        contents.append(_kept(task, folder) or _sketched(scan, task, calibrator, folder))
    report(progress, len(tasks), len(tasks))
    return contents


def _elsewhere(
    tasks: Sequence[SketchTask], backend: Backend, folder: Path | None, progress: Progress | None
) -> list[bytes]:
    contents: dict[int, bytes] = {}
    for i, task in enumerate(tasks):
        content = _kept(task, folder)
        if content:
            contents[i] = content
    missing = [i for i in range(len(tasks)) if i not in contents]
    report(progress, len(contents), len(tasks))
    calls = [(tasks[i], None if folder is None else folder.absolute()) for i in missing]
    names = [tasks[i].at.name for i in missing]
    for place, outcome in outcomes_of(backend, sketch_part, calls, names):
        _keep(tasks[missing[place]], outcome, folder)  # from a worker without this folder
        contents[missing[place]] = outcome
        report(progress, len(contents), len(tasks))
    return [contents[i] for i in range(len(tasks))]


def sketch_part(task: SketchTask, folder: Path | None) -> bytes:
    """Sketch one part, keep it in `folder` where that can be written, and return its bytes."""
    found = _kept(task, folder)
    if found:
        return found
    scan = scan_of(task.at)
    fitted = None if task.calibrator is None else Calibrator.from_dict(json.loads(task.calibrator))
    return _sketched(scan, task, fitted, folder)


def _sketched(
    scan: Scan, task: SketchTask, calibrator: Calibrator | None, folder: Path | None
) -> bytes:
    names = None if calibrator is None else calibrator.class_names
    sketch: Sketch | None = None
    found_names = scan.class_names
    for batch in _counted(scan.batches(task.at.part, piece=task.at.piece)):
        aligned = align(batch, names)
        found_names = aligned.class_names
        more = batch_sketch(aligned, calibrator=calibrator, n_bins=task.n_bins)
        sketch = more if sketch is None else sketch + more
    if sketch is None:
        return b""
    file = SketchFile(
        sketch=sketch,
        class_names=found_names,
        kind=scan.kind,
        calibrator="" if calibrator is None else calibrator.describe(),
        sources=(task.at.name,),
        versions={name: (text,) for name, text in used_versions().items()},
    )
    content = sketch_bytes(file)
    _keep(task, content, folder)
    return content


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
    return Sketch.of_rows(
        np.asarray(scores),
        batch.labels,
        given=given,
        weights=batch.weights,
        groups=groups,
        n_bins=n_bins,
    )


def _counted(batches: Iterator[Predictions]) -> Iterator[Predictions]:
    """Yield the batches without rows of weight 0."""
    for batch in batches:
        if batch.weights is None or batch.weights.all():
            yield batch
            continue
        kept = batch.weights > 0
        if kept.any() and batch.labels is not None:
            yield replace(
                batch,
                scores=batch.scores[kept],
                labels=batch.labels[kept],
                weights=batch.weights[kept],
                groups={n: np.asarray(c)[kept] for n, c in batch.groups.items()},
            )


def _path(task: SketchTask, folder: Path) -> Path:
    return folder / f"{task.key}.sketch"


def _kept(task: SketchTask, folder: Path | None) -> bytes:
    """Return the bytes of a part that was finished before, empty where it was not."""
    if folder is None:
        return b""
    try:
        content = _path(task, folder).read_bytes()
        parse_sketch(content, task.at.name)
    except (PredictionFileError, OSError):  # absent, or damaged: it is made again
        return b""
    return content


def _keep(task: SketchTask, content: bytes, folder: Path | None) -> None:
    if folder is None or not content or _path(task, folder).exists():
        return
    with suppress(OSError):  # a worker elsewhere may not have the folder: its bytes are enough
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_path(_path(task, folder), force=True) as beside:
            beside.write_bytes(content)
