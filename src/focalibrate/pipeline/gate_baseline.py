"""The baseline of a check: the log loss of earlier results or predictions."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io import Predictions, SketchFile, read_sketch
from focalibrate.io.sketches import SUFFIX
from focalibrate.metrics.interval import Moments
from focalibrate.pipeline.examples import Examples, PredictionSource, read_source
from focalibrate.pipeline.gate_source import Judged, row_nll
from focalibrate.pipeline.loss_mean import LossMean

NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, eq=False)
class Baseline:
    """What the log loss is compared with."""

    mean: LossMean
    description: str
    row_nll: NDArray[np.float64] | None = None
    """log loss of each row ``[N]``, where the rows are the same"""


def read_baseline(source: PredictionSource | SketchFile, judged: Judged) -> Baseline:
    """Return the baseline in a results.json, a sketch or a file of predictions.

    Args:
        source: the file, or predictions or a sketch that were read.
        judged: what will be compared with it, to find out whether the rows are the same.
    """
    if not isinstance(source, (Predictions, SketchFile)):
        path = Path(source)
        record = _json_record(path)
        if record is not None:
            return _from_record(path, record)
        if path.suffix == SUFFIX:
            return _from_sketch(read_sketch(path), path.name, judged)
    if isinstance(source, SketchFile):
        return _from_sketch(source, "sketch", judged)
    former = read_source(source, judged.class_names)
    return _from_examples(former, _name(source), judged)


def _name(source: PredictionSource) -> str:
    return source.source.name if isinstance(source, Predictions) else Path(source).name


def _json_record(path: Path) -> dict[str, Any] | None:
    """Return the content of a file of results, None where it is something else."""
    if path.suffix.lower() != ".json" or not os.path.isfile(path):
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None  # reading it as predictions will tell what is wrong
    known = ("held_out", "focalibrate_check", "assessment")
    is_results = isinstance(record, dict) and any(key in record for key in known)
    return record if is_results else None


def _from_record(path: Path, record: dict[str, Any]) -> Baseline:
    if "focalibrate_check" in record:
        found, rows = record.get("log_loss"), record.get("rows")
    elif "held_out" in record:
        found = (record.get("held_out") or {}).get("nll")
        rows = (record.get("comparison") or {}).get("n_judged")
    else:
        found, rows = (record.get("scores") or {}).get("nll"), record.get("rows")
    if not isinstance(found, dict) or "estimate" not in found:
        raise ValueError(
            f"{path}: no log loss found. Give a results.json of `focalibrate calibrate`, the "
            "output of `focalibrate evaluate --json`, or a file of predictions."
        )
    text = f"{path.name}, other rows"
    if found["estimate"] is None:
        return Baseline(LossMean(math.inf, math.inf, rows), text)
    third = None
    if found.get("standard_error") is not None:
        error, third = float(found["standard_error"]), found.get("third")
    elif found.get("low") is not None and found.get("high") is not None:
        error = (float(found["high"]) - float(found["low"])) / (2.0 * NORMAL_95)
    else:
        raise ValueError(
            f"{path}: its log loss has no interval, so that no difference can be judged. Give "
            "the predictions instead."
        )
    return Baseline(LossMean(float(found["estimate"]), error, rows, third), text)


def _from_sketch(former: SketchFile, name: str, judged: Judged) -> Baseline:
    _check_classes(former.sketch.n_classes, name, judged)
    return Baseline(LossMean.of(former.sketch.scores["nll"]), f"{name}, other rows")


def _from_examples(former: Examples, name: str, judged: Judged) -> Baseline:
    _check_classes(former.n_classes, name, judged)
    nll = row_nll(former)
    same = judged.labels is not None and np.array_equal(former.labels, judged.labels)
    how = "row by row" if same else "other rows"
    mean = LossMean.of(Moments.of(nll, former.weights))
    return Baseline(mean, f"{name}, {how}", nll if same else None)


def _check_classes(n_classes: int, name: str, judged: Judged) -> None:
    if n_classes != judged.n_classes:
        raise ValueError(
            f"{name}: the baseline must have the same classes, but has {n_classes}, while the "
            f"predictions have {judged.n_classes}."
        )
