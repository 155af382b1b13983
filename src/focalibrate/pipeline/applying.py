"""A calibrator applied to predictions: block by block, or part by part by several workers."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import Calibrator, GroupedCalibrator, PosteriorRecovery
from focalibrate.calibrate.grouped import group_names
from focalibrate.calibrate.rows import by_rank
from focalibrate.engines import Backend
from focalibrate.io import (
    PartDone,
    PartsOutput,
    PartsWritten,
    Predictions,
    Scan,
    align,
    blocks,
    parts_written,
    scan_predictions,
    write_part,
)
from focalibrate.io.first_rows import Piece
from focalibrate.pipeline.work import (
    Chunk,
    Progress,
    absolute,
    options_of,
    outcomes_of,
    used_versions,
)
from focalibrate.theory import shift_prior


@dataclass(frozen=True, eq=False)
class PriorShift:
    """From the class frequencies of training to those where the model is used."""

    old: Floats
    new: Floats

    def probs(self, calibrator: Calibrator, **scores: Any) -> Any:
        """Return the calibrated probabilities of scores under the new frequencies."""
        return np.exp(shift_prior(calibrator.log_probs(**scores), self.old, self.new))

    def describe(self) -> str:
        """Return a one-line description."""
        return "class frequencies " + ", ".join(f"{p:.3g}" for p in self.new)


@dataclass
class SpecialRows:
    """Rows that a calibrator treats in another way than the user may expect.

    Attributes:
        n_rows: rows in all.
        n_clipped: rows with a probability below what label smoothing allows.
        unknown: rows of each group that the calibrator has not seen.
    """

    n_rows: int = 0
    n_clipped: int = 0
    unknown: "Counter[str]" = field(default_factory=Counter)

    def count(self, calibrator: Calibrator, scores: Mapping[str, Any]) -> None:
        """Count the rows of a block."""
        if isinstance(calibrator, PosteriorRecovery):
            self.n_clipped += calibrator.n_clipped(**scores)
        if isinstance(calibrator, GroupedCalibrator):
            names = group_names(scores["groups"])
            self.unknown.update(map(str, names[~np.isin(names, calibrator.groups)]))
        self.n_rows += len(next(iter(scores.values())))

    def add(self, other: "SpecialRows") -> None:
        """Add the rows of another part."""
        self.n_rows += other.n_rows
        self.n_clipped += other.n_clipped
        self.unknown.update(other.unknown)


def calibrated_blocks(
    calibrator: Calibrator,
    given: Predictions,
    shift: PriorShift | None = None,
    special: SpecialRows | None = None,
) -> Iterator[NDArray[Any]]:
    """Yield the calibrated probabilities, some rows at a time."""
    start = 0
    for block in blocks(given):
        order = by_rank(block) if given.layout.form == "options" else None
        if order is not None:
            block = np.take_along_axis(block, order, axis=1)
        scores: dict[str, Any] = {given.kind: block}
        if isinstance(calibrator, GroupedCalibrator):
            scores["groups"] = given.groups[calibrator.column][start : start + len(block)]
        start += len(block)
        if special is not None:
            special.count(calibrator, scores)
        probs = np.asarray(
            calibrator.probs(**scores) if shift is None else shift.probs(calibrator, **scores)
        )
        if order is not None:
            probs = np.take_along_axis(probs, np.argsort(order, axis=1), axis=1)
        yield probs


def apply_to_parts(
    source: str | Path | Sequence[str | Path] | Scan,
    out: str | Path,
    calibrator: Calibrator,
    *,
    shift: PriorShift | None = None,
    backend: Backend | None = None,
    force: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[PartsWritten, SpecialRows]:
    """Write the calibrated probabilities of every part of a data set into a folder.

    The folder has the layout of the input: a file of the same name for each part, with all its
    other columns. Parts appear only when they are complete. After an interruption the same call
    continues, and parts whose input and calibrator have not changed are kept.

    Args:
        source: what `scan_predictions` takes, or returned.
        out: the folder, or a URL such as ``s3://bucket/day1-calibrated``.
        calibrator: what is applied.
        shift: a change of class frequencies after it.
        backend: where parts are written in parallel; None: in this process, one by one.
        force: replace what the folder holds of these names.
        progress: called with the numbers of parts done and of all.
        options: those of `scan_predictions`.

    Returns:
        How many parts were written, and the rows in them that were treated in another way.

    Raises:
        FileExistsError: the folder has files of these names that no such run wrote.
        PredictionFileError: a part cannot be read or written.
        EngineError: parts failed, or the workers were lost.
    """
    opened = source if isinstance(source, Scan) else scan_predictions(source, **options)
    fitted = json.dumps(calibrator.to_dict(), sort_keys=True)
    frequencies = None
    if shift is not None:
        frequencies = (tuple(shift.old.tolist()), tuple(shift.new.tolist()))
    version = used_versions()["focalibrate"]  # that of all workers, others are refused
    key = json.dumps([fitted, frequencies, options_of(opened), version])
    folder = absolute(out)  # workers elsewhere may run in another folder
    made_by = f"focalibrate {version}"
    output = PartsOutput(opened, folder, key=key, force=force, made_by=made_by)
    calls = [
        (
            Chunk.of(opened, [Piece(i, None, part.name, part.n_rows)]),
            (folder, output.names[i]),
            output.before(i),
            calibrator,
            shift,
        )
        for i, part in enumerate(opened.parts)
    ]
    found = outcomes_of(backend, apply_part, calls)
    special, outcomes = SpecialRows(), []
    say = progress or (lambda done, total: None)
    say(0, len(calls))
    try:
        for index, (done, rows) in found:
            output.add(index, done)
            outcomes.append(done)
            special.add(rows)
            say(len(outcomes), len(calls))
    finally:
        output.save()
    return parts_written(outcomes), special


def apply_part(
    chunk: Chunk,
    out: tuple[str, str],
    before: PartDone | None,
    calibrator: Calibrator,
    shift: PriorShift | None,
) -> tuple[PartDone, SpecialRows]:
    """Write one part into a file of a folder, unless it is there, made from the same input."""
    special = SpecialRows()

    def calibrated(batch: Predictions) -> tuple[Predictions, NDArray[Any]]:
        aligned = align(batch, calibrator.class_names)
        made = np.concatenate(list(calibrated_blocks(calibrator, aligned, shift, special)))
        return aligned, made.astype(aligned.scores.dtype, copy=False)

    return write_part(chunk.scan(), chunk.pieces[0].part, *out, calibrated, before=before), special
