"""Predictions with labels, from a file or from arrays, ready for the calibrators."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, to_numpy
from focalibrate._check import (
    check_labels,
    check_probs,
    column_names,
    in_class_order,
    labels_for,
)
from focalibrate.calibrate import (
    as_array,
    log_probabilities,
    read_weights,
    sample_size,
    score_matrix,
    zero_mix_below,
)
from focalibrate.io import Predictions, ScoreKind, align, read_predictions


@dataclass(frozen=True, eq=False)
class Examples:
    """Scores and labels of the same rows."""

    scores: NDArray[Any]
    """``[N, K]``"""
    kind: ScoreKind
    """what the scores are, ``"logits"`` or ``"probs"``"""
    labels: NDArray[np.int64]
    """class positions ``[N]``"""
    weights: NDArray[np.float64] | None = None
    """``[N]``, all positive; None where every row counts 1"""
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """columns to group by"""
    class_names: tuple[str, ...] | None = None
    predictions: Predictions | None = None
    """what was read, where they come from a file"""
    zero_mix: float = 0.0
    """weight of the uniform distribution that is mixed into probabilities before the logarithm"""

    @classmethod
    def of_predictions(cls, found: Predictions) -> "Examples":
        """Return the examples of a file that was read."""
        if found.labels is None:
            raise ValueError(
                f"{found.source}: no labels found. Put them into the file, or pass a file of "
                "labels (command line: --labels FILE)."
            )
        return cls(
            scores=found.scores,
            kind=found.kind,
            labels=found.labels,
            weights=found.weights,
            groups={name: np.asarray(column) for name, column in found.groups.items()},
            class_names=found.class_names,
            predictions=found,
        )._without_zero_weights()

    @classmethod
    def of_arrays(
        cls,
        *,
        logits: Array | None = None,
        probs: Array | None = None,
        labels: Array | None = None,
        sample_weight: Array | None = None,
        class_names: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        groups: Mapping[str, Array] | None = None,
    ) -> "Examples":
        """Return the examples of arrays, of which exactly one of `logits` and `probs` is given.

        Arrays of any library, data frames and lists; ``[N]`` is the margin or probability of
        class 1. The columns of a data frame name the classes, and are put in `order` if that is
        given.
        """
        if (logits is None) == (probs is None):
            found = "neither" if logits is None else "both"
            raise ValueError(
                f"Exactly one of `logits` and `probs` must be given, got {found}. Pass `logits` "
                "for scores before the softmax and `probs` for probabilities."
            )
        if labels is None:
            raise ValueError("`labels` must be given with `logits` or `probs`, got None.")
        kind: ScoreKind = "logits" if probs is None else "probs"
        given = in_class_order(logits if probs is None else probs, order, name=kind)
        scores = score_matrix(given, name=kind)
        targets = np.asarray(to_numpy(labels_for(given, labels, class_names)))
        names = column_names(given) if class_names is None else class_names
        if targets.dtype == np.bool_:
            targets = targets.astype(np.int64)
        check_labels(targets, shape=(len(scores),), n_classes=scores.shape[1])
        if kind == "probs":
            check_probs(scores)
        return cls(
            scores=scores,
            kind=kind,
            labels=targets.astype(np.int64, copy=False),
            weights=read_weights(sample_weight, n_rows=len(scores)),
            groups=_columns(groups, len(scores)),
            class_names=None if names is None else tuple(str(n) for n in names),
        )._without_zero_weights()

    def _without_zero_weights(self) -> "Examples":
        if self.weights is None or self.weights.all():
            return self
        kept = self.weights > 0
        return replace(
            self,
            scores=self.scores[kept],
            labels=self.labels[kept],
            weights=self.weights[kept],
            groups={name: column[kept] for name, column in self.groups.items()},
        )

    @property
    def n_rows(self) -> int:
        """Number of examples, without those of weight 0."""
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.scores.shape[1])

    @property
    def size(self) -> float:
        """Number of rows that the weights amount to."""
        return sample_size(self.weights, self.n_rows)

    @cached_property
    def n_zero_rows(self) -> int:
        """How many rows have a probability of exactly 0."""
        if self.kind == "logits":
            return 0
        return int((self.scores == 0).any(axis=1).sum())

    @cached_property
    def least_positive(self) -> float:
        """The smallest probability above 0."""
        if self.kind == "logits":
            return 1.0
        return float(np.min(self.scores, where=self.scores > 0, initial=1.0))

    @cached_property
    def logits(self) -> NDArray[Any]:
        """Logits ``[N, K]``: the scores, or the logarithm of probabilities after `zero_mix`."""
        if self.kind == "logits":
            return self.scores
        logits: NDArray[Any] = log_probabilities(self.scores, self.zero_mix)
        return logits

    def with_zero_mix(self, zero_mix: float) -> "Examples":
        """Return the same examples with another rule for zeros."""
        return replace(self, zero_mix=zero_mix)


def _columns(groups: Mapping[str, Array] | None, n_rows: int) -> dict[str, NDArray[Any]]:
    found = {}
    for name, column in (groups or {}).items():
        values = np.asarray(to_numpy(as_array(column, name="groups")))
        if values.shape != (n_rows,):
            raise ValueError(
                f"`groups`: column {name!r} must have one value per row, [{n_rows}], got shape "
                f"{values.shape}."
            )
        found[str(name)] = values
    return found


PredictionSource = str | os.PathLike[str] | Predictions
"""A file of predictions, or one that was read."""


def read_source(source: PredictionSource, class_names: tuple[str, ...] | None = None) -> Examples:
    """Return the examples of a file or of predictions that were read.

    Args:
        source: the file.
        class_names: put its classes in this order, by name.
    """
    found = source if isinstance(source, Predictions) else read_predictions(Path(source))
    return Examples.of_predictions(align(found, class_names))


def zeros_smoothed(
    fitted: Examples, judged: Examples | None
) -> tuple[Examples, Examples | None, tuple[str, ...]]:
    """Return the examples with a rule for probabilities of 0, and a note that says so.

    The rule is that of the fits, `focalibrate.calibrate.zero_mix_for`: to a calibrator, a zero
    is half the smallest positive probability. The uncalibrated model is evaluated as it is.
    """
    given = [fitted] if judged is None else [fitted, judged]
    mix, notes = zeros_note(
        sum(examples.n_zero_rows for examples in given),
        min(examples.least_positive for examples in given),
        fitted.n_classes,
    )
    if not notes:
        return fitted, judged, ()
    return (
        fitted.with_zero_mix(mix),
        None if judged is None else judged.with_zero_mix(mix),
        notes,
    )


def zeros_note(n_zero_rows: int, least: float, n_classes: int) -> tuple[float, tuple[str, ...]]:
    """Return how much of the uniform distribution is mixed in, and a note that says so.

    Args:
        n_zero_rows: rows with a probability of exactly 0.
        least: the smallest positive probability.
        n_classes: number of classes.
    """
    if not n_zero_rows:
        return 0.0, ()
    rows = f"{n_zero_rows:,} row{'' if n_zero_rows == 1 else 's'}"
    return zero_mix_below(least, n_classes), (
        f"{rows} with a probability of exactly 0: to the calibrators, a zero is half the smallest "
        f"positive probability, {least:.2g}",
    )
