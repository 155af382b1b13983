"""A sketch of predictions of any size: part by part, on this or on other machines."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from focalibrate._atomic import atomic_path
from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.grouped import log_probs_by_row
from focalibrate.engines import Backend
from focalibrate.io import (
    PredictionFileError,
    Scan,
    SketchFile,
    align,
    merge_sketches,
    parse_sketch,
    scan_predictions,
    sketch_bytes,
)
from focalibrate.metrics import Sketch
from focalibrate.metrics.sketch import row_terms
from focalibrate.pipeline.examples import Examples
from focalibrate.pipeline.work import Chunk, Progress, in_order, key_of, outcomes_of, used_versions


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
    calls: list[_Call] = []
    for piece in opened.pieces:
        name = f"{key_of(opened, piece, n_bins, fitted)}.sketch"
        kept = None if folder is None else folder.absolute() / name
        calls.append((Chunk.of(opened, [piece]), n_bins, calibrator, kept))
    names: list[str] = []

    def filled() -> Iterator[SketchFile]:
        """Yield the sketches that have rows, and note the part that each is of."""
        for file in _in_turn(calls, backend, progress or (lambda done, total: None)):
            if file is not None:
                names.append(file.sources[0])
                yield file

    files = filled()
    first = next(files, None)
    if first is None:
        raise PredictionFileError(f"{opened.source}: has no rows with a weight above 0.")
    return replace(merge_sketches(chain([first], files), names), sources=(opened.describe(),))


_Call = tuple[Chunk, int, Calibrator | None, Path | None]
"""The arguments of `sketch_part`."""


def _in_turn(
    calls: Sequence[_Call], backend: Backend | None, progress: Progress
) -> Iterator[SketchFile | None]:
    """Yield the sketches in the order of the parts: kept ones, and those that are made now."""
    missing = {i: call for i, call in enumerate(calls) if _kept(call[-1]) is None}
    places = list(missing)
    done = len(calls) - len(missing)
    progress(done, len(calls))

    def made() -> Iterator[tuple[int, SketchFile | None]]:
        found = outcomes_of(backend, sketch_part, list(missing.values()))
        for n, (place, file) in enumerate(found, done + 1):
            _keep(calls[places[place]][-1], file)  # from a worker without this folder
            progress(n, len(calls))
            yield place, file

    new = in_order(made())
    for i, call in enumerate(calls):
        yield next(new) if i in missing else _kept(call[-1])
    yield from new  # which raises if some failed


def sketch_part(
    chunk: Chunk, n_bins: int, calibrator: Calibrator | None, kept: Path | None
) -> SketchFile | None:
    """Sketch one part and keep it in a file; None where it has no rows of weight above 0."""
    before = _kept(kept)
    if before is not None:
        return before
    sketch, class_names = None, chunk.data.class_names
    for batch in chunk.batches():
        aligned = align(batch, None if calibrator is None else calibrator.class_names)
        class_names = aligned.class_names
        examples = Examples.of_predictions(aligned)
        if examples.n_rows:
            more = _sketch_of(examples, calibrator, n_bins)
            sketch = more if sketch is None else sketch + more
    if sketch is None:
        return None
    file = SketchFile(
        sketch=sketch,
        class_names=class_names,
        kind=chunk.data.kind,
        calibrator="" if calibrator is None else calibrator.describe(),
        sources=(chunk.name,),
        versions={name: (text,) for name, text in used_versions().items()},
    )
    _keep(kept, file)
    return file


def _sketch_of(examples: Examples, calibrator: Calibrator | None, n_bins: int) -> Sketch:
    """Return the sketch of rows that were read, and so checked."""
    scores: Any = {examples.kind: examples.scores}
    if calibrator is not None:
        scores = {"log_probs": log_probs_by_row(calibrator, examples.groups, **scores)}
    ((given, values),) = scores.items()
    weights = examples.weights
    terms = row_terms(
        np.asarray(values), examples.labels, given=given, weights=weights, n_bins=n_bins
    )
    return Sketch.of_terms(terms, groups=examples.groups, n_bins=n_bins)


def _kept(path: Path | None) -> SketchFile | None:
    """Return the sketch of a part that was finished before; None where it was not."""
    if path is None:
        return None
    try:
        return parse_sketch(path.read_bytes(), path)
    except (PredictionFileError, OSError):  # absent, or damaged: it is made again
        return None


def _keep(path: Path | None, file: SketchFile | None) -> None:
    if path is None or file is None or path.exists():
        return
    with suppress(OSError):  # a worker elsewhere may not have the folder: its answer is enough
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path, force=True) as beside:
            beside.write_bytes(sketch_bytes(file))
