"""The log loss that a gate compares with: that of former results, or of former predictions."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Identity
from focalibrate.comparison.paired import standard_error, weighted_mean
from focalibrate.comparison.row_scores import BLOCK_ENTRIES
from focalibrate.io import Predictions
from focalibrate.pipeline.examples import Examples, Source, read_source

NORMAL_95 = 1.959963984540054
LARGE = 1_000_000
"""Rows of a mean whose number of rows is not known."""


@dataclass(frozen=True)
class LossMean:
    """A mean log loss, or a mean difference of two, and how exactly it is known."""

    mean: float
    standard_error: float
    rows: int | None = None
    """how many rows; None where the source does not say"""
    third: float | None = None
    """third central moment of the mean, which log losses of a few bad rows make large"""

    @classmethod
    def of(cls, values: NDArray[np.float64], weights: NDArray[np.float64] | None) -> "LossMean":
        """Return the mean of one value per row ``[N]``."""
        n = len(values)
        if not np.isfinite(values).all():
            return cls(math.inf, math.inf, n)
        mean = float(weighted_mean(values, weights))
        w = np.ones(n) if weights is None else weights
        third = float((w**3 @ (values - mean) ** 3) / w.sum() ** 3)
        return cls(mean, float(standard_error(values, weights)), n, third)

    def minus(self, other: "LossMean") -> "LossMean":
        """Return the difference to the mean of other rows."""
        rows = self.rows if other.rows is None else min(self.rows or other.rows, other.rows)
        third = other.third
        if third is None and self.third is not None:  # as skewed as this one
            ratio = other.standard_error / self.standard_error if self.standard_error else 0.0
            third = self.third * ratio**3
        return LossMean(
            self.mean - other.mean,
            math.hypot(self.standard_error, other.standard_error),
            rows,
            None if third is None or self.third is None else self.third - third,
        )

    def lower(self, alpha: float) -> float:
        """Return what the true mean is at least, with probability ``1 - alpha``."""
        return self.mean - self._margin(alpha, -1.0)

    def upper(self, alpha: float) -> float:
        """Return what the true mean is at most, with probability ``1 - alpha``."""
        return self.mean + self._margin(alpha, 1.0)

    def _margin(self, alpha: float, side: float) -> float:
        r"""Return the distance of a one-sided bound from the mean.

        :math:`s\,(t_{1-\alpha} + \hat\gamma (2t^2 + 1) / 3)` with the skewness
        :math:`\hat\gamma` of the mean where that widens the bound. It is twice the term of
        Hall (1983), as the skewness of a sample is too small on average: with one of the term,
        models at the limit failed in up to 7 % of 1,500 runs, with two in 5 %.
        """
        from scipy.special import stdtrit

        if self.standard_error == 0.0:
            return 0.0
        z = float(stdtrit(max((self.rows or LARGE) - 1, 1), 1.0 - alpha))
        skew = 0.0 if self.third is None else self.third / self.standard_error**3
        return self.standard_error * (z + max(0.0, side * skew) * (2.0 * z * z + 1.0) / 3.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers by name, for JSON; an infinite number is None."""
        is_finite = math.isfinite(self.mean)
        return {
            "estimate": self.mean if is_finite else None,
            "standard_error": self.standard_error if is_finite else None,
            "third": self.third,
            "rows": self.rows,
        }


@dataclass(frozen=True, eq=False)
class Baseline:
    """What the log loss is compared with."""

    mean: LossMean
    description: str
    row_nll: NDArray[np.float64] | None = None
    """log loss of each row ``[N]``, where the rows are the same"""


def read_baseline(source: Source, examples: Examples) -> Baseline:
    """Return the baseline in a results.json or a file of predictions.

    Args:
        source: the file, or predictions that were read.
        examples: what will be compared with it, to find out whether the rows are the same.
    """
    if not isinstance(source, Predictions):
        record = _json_record(Path(source))
        if record is not None:
            return _from_record(Path(source), record)
    former = read_source(source, examples.class_names)
    return _from_examples(former, _name(source), examples)


def _name(source: Source) -> str:
    return source.source.name if isinstance(source, Predictions) else Path(source).name


def _json_record(path: Path) -> dict[str, Any] | None:
    """Return the content of a file of results, None where it is something else."""
    if path.suffix.lower() != ".json" or not os.path.isfile(path):
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None  # the reader of predictions says what is wrong with it
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
    if "standard_error" in found:
        error, third = float(found["standard_error"]), found.get("third")
    elif found.get("low") is not None and found.get("high") is not None:
        error = (float(found["high"]) - float(found["low"])) / (2.0 * NORMAL_95)
    else:
        raise ValueError(
            f"{path}: its log loss has no interval, so that no difference can be judged. Give "
            "the predictions instead."
        )
    return Baseline(LossMean(float(found["estimate"]), error, rows, third), text)


def _from_examples(former: Examples, name: str, examples: Examples) -> Baseline:
    if former.n_classes != examples.n_classes:
        raise ValueError(
            f"{name}: the baseline must have the same classes, but has {former.n_classes} where "
            f"the predictions have {examples.n_classes}."
        )
    nll = np.empty(former.n_rows)
    step = max(1, BLOCK_ENTRIES // former.n_classes)
    for start in range(0, former.n_rows, step):
        rows = slice(start, start + step)
        log_probs = Identity().log_probs(**{former.kind: former.scores[rows]})
        labels = former.labels[rows]
        nll[rows] = -log_probs[np.arange(len(labels)), labels]
    same = former.n_rows == examples.n_rows and np.array_equal(former.labels, examples.labels)
    how = "row by row" if same else "other rows"
    mean = LossMean.of(nll, former.weights)
    return Baseline(mean, f"{name}, {how}", nll if same else None)
