"""Predictions with labels, from a file or from arrays, ready for the calibrators."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

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
from focalibrate.calibrate import Calibrator, Identity
from focalibrate.calibrate.grouped import log_probs_by_row
from focalibrate.calibrate.rows import (
    Rows,
    as_array,
    by_rank,
    log_probabilities,
    rank_of,
    read_scores,
    read_weights,
    sample_size,
    score_matrix,
    zero_mix_below,
)
from focalibrate.io import Predictions, Scan, ScoreKind, align, read_predictions
from focalibrate.metrics.rows import read_outcomes

EVENT_NAMES = ("wrong", "correct")
"""The classes of a confidence and whether it was right."""


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
    copies: bool = False
    """whether weights are numbers of identical rows, not the importance of each"""
    cluster: NDArray[Any] | None = None
    """``[N]``, equal where rows belong together and are not independent"""
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """columns to group by"""
    class_names: tuple[str, ...] | None = None
    predictions: Predictions | None = None
    """what was read, where they come from a file"""
    order: NDArray[np.intp] | None = None
    """of options: which of each row these are, from the lowest score to the highest"""
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
        scores, labels, order = found.scores, found.labels, None
        if found.layout.form == "options":  # their order means nothing
            order = by_rank(scores)
            scores = np.take_along_axis(scores, order, axis=1)
            labels = rank_of(labels, order).astype(np.int64)
        return cls(
            scores=scores,
            kind=found.kind,
            labels=labels,
            weights=found.weights,
            cluster=found.cluster,
            groups={name: np.asarray(column) for name, column in found.groups.items()},
            class_names=found.class_names,
            predictions=found,
            order=order,
        )._without_zero_weights()

    @classmethod
    def of_arrays(
        cls,
        *,
        logits: Array | None = None,
        probs: Array | None = None,
        labels: Array | None = None,
        confidence: Array | None = None,
        correct: Array | None = None,
        cluster: Array | None = None,
        sample_weight: Array | None = None,
        class_names: Sequence[str] | None = None,
        order: Sequence[str] | None = None,
        groups: Mapping[str, Array] | None = None,
    ) -> "Examples":
        """Return the examples of arrays, of which exactly one of `logits` and `probs` is given.

        Arrays of any library, data frames and lists; ``[N]`` is the margin or probability of
        class 1. The columns of a data frame name the classes, and are put in `order` if that is
        given. A `confidence` and whether it was `correct`, ``[N]`` each, are the probability of
        class 1 and its label.
        """
        if confidence is not None or correct is not None:
            if any(given is not None for given in (logits, probs, labels)):
                raise ValueError(
                    "Pass either `confidence` and `correct`, or scores and `labels`, not both."
                )
            probs, labels = _events(confidence, correct)
            class_names = class_names or EVENT_NAMES
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
            cluster=_column(cluster, len(scores), "`cluster`"),
            groups=_columns(groups, len(scores)),
            class_names=None if names is None else tuple(str(n) for n in names),
        )._without_zero_weights()

    def take(self, rows: NDArray[Any] | slice) -> "Examples":
        """Return some rows."""
        return replace(
            self,
            scores=self.scores[rows],
            labels=self.labels[rows],
            weights=None if self.weights is None else self.weights[rows],
            cluster=None if self.cluster is None else self.cluster[rows],
            order=None if self.order is None else self.order[rows],
            groups={name: column[rows] for name, column in self.groups.items()},
        )

    @classmethod
    def joined(cls, given: Sequence["Examples"], order: NDArray[np.intp]) -> "Examples":
        """Return rows of several, which follow one another; `order` says which, and in what order.

        Groups are put together as objects: their type may differ.
        """
        first = given[0]
        ends = np.cumsum([one.n_rows for one in given])
        place = np.full(ends[-1], -1)
        place[order] = np.arange(len(order))

        def joined(name: str, group: str | None = None) -> NDArray[Any]:
            columns = [getattr(one, name) for one in given]
            if group is not None:
                columns = [np.asarray(one[group]) for one in columns]
            dtype = columns[0].dtype if group is None else object
            out = np.empty((len(order), *columns[0].shape[1:]), dtype)
            for to, column in zip(np.split(place, ends[:-1]), columns, strict=True):
                out[to[to >= 0]] = column[to >= 0]  # without a second copy of all rows
            plain = np.array(out.tolist()) if group is not None else out
            return plain if plain.dtype.kind in "biuf" else out

        return replace(
            first,
            scores=joined("scores"),
            labels=joined("labels"),
            weights=None if first.weights is None else joined("weights"),
            groups={name: joined("groups", name) for name in first.groups},
        )

    def _without_zero_weights(self) -> "Examples":
        if self.weights is None or self.weights.all():
            return self
        return self.take(self.weights > 0)

    @property
    def rows(self) -> Rows:
        """The logits, labels and weights, for fits."""
        rows = read_scores(self.logits, self.labels, sample_weight=self.weights)
        return replace(rows, zero_mix=self.zero_mix, options=self.options)

    @property
    def names_in_sentences(self) -> tuple[str, ...] | None:
        """Names of the classes; of one column of scores, after the label that it names too.

        Example:
            Scores in ``p_fraud`` with labels 0 and 1 in ``fraud`` are probabilities of fraud.
        """
        read = self.predictions
        if self.are_answers:
            return ("being wrong", "being right")
        if self.options:
            ranks = range(self.n_classes, 1, -1)
            return (*(f"the option ranked {k}" for k in ranks), "the top option")
        if self.class_names is not None or read is None or self.n_classes != 2:
            return self.class_names
        name = read.positive or read.labels_name
        is_named = name is not None and any(
            name.lower() in column.lower() for column in read.scores_names
        )
        return (f"not {name}", name) if name and (read.positive or is_named) else None

    @property
    def options(self) -> bool:
        """Whether the scores are those of each row's own options, which are no classes."""
        return self.predictions is not None and self.predictions.layout.form == "options"

    @property
    def are_answers(self) -> bool:
        """Whether the rows are a confidence and whether it was right."""
        read = self.predictions
        return self.class_names == EVENT_NAMES or (read is not None and read.layout.is_right)

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

    def log_probs(self, calibrator: Calibrator | None, rows: slice) -> NDArray[Any]:
        """Return log-probabilities of some rows after `calibrator`; None: as the model gave them.

        A probability of 0 that the model gave is 0, and its logarithm -inf.
        """
        if calibrator is None and self.kind == "probs":
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(self.scores[rows]))
        applied = Identity() if calibrator is None else calibrator
        given = {self.kind: self.scores[rows]}
        found: NDArray[Any] = log_probs_by_row(applied, self.groups, rows, **given)
        return found


def _events(confidence: Array | None, correct: Array | None) -> tuple[Array, Array]:
    if confidence is None or correct is None:
        missing = "confidence" if confidence is None else "correct"
        raise ValueError(f"`{missing}` must be given: `confidence` and `correct` go together.")
    c, y = read_outcomes(confidence, correct)
    if not ((y == 0.0) | (y == 1.0)).all():
        raise ValueError(
            "`correct` must be 0 or 1 (or booleans) here, got values between. `assess` takes ties."
        )
    return c, y.astype(np.int64)


def _columns(groups: Mapping[str, Array] | None, n_rows: int) -> dict[str, NDArray[Any]]:
    found = {}
    for name, column in (groups or {}).items():
        values = _column(column, n_rows, f"`groups`: column {name!r}")
        if values is not None:
            found[str(name)] = values
    return found


def _column(column: Array | None, n_rows: int, what: str) -> NDArray[Any] | None:
    if column is None:
        return None
    values = np.asarray(to_numpy(as_array(column, name=what)))
    if values.shape != (n_rows,):
        raise ValueError(
            f"{what} must have one value per row, [{n_rows}], got shape {values.shape}."
        )
    return values


PredictionSource = str | os.PathLike[str] | Predictions
"""A file of predictions, or one that was read; a data frame with labels counts as a file."""


def given_examples(
    source: PredictionSource | Array | None,
    labels: Array | None,
    *,
    logits: Array | None = None,
    probs: Array | None = None,
    class_names: Sequence[str] | None = None,
    order: tuple[str, ...] | None = None,
    copies: bool = False,
    **columns: Any,
) -> Examples:
    """Return the examples of the one place where they were given.

    Args:
        source: a file, predictions that were read, or a data frame that holds the labels too;
            with `labels`, probabilities.
        labels: of arrays; None where the source has them.
        logits: scores before the softmax, in place of a source.
        probs: probabilities, in place of a source.
        class_names: one per class, in the order of the columns.
        order: put the classes of a file in this order, by name.
        copies: whether weights are numbers of identical rows.
        columns: `confidence` and `correct` in place of scores and labels; `sample_weight`,
            `cluster` and `groups` of arrays.
    """
    if source is None:
        found = Examples.of_arrays(
            logits=logits, probs=probs, labels=labels, class_names=class_names, **columns
        )
        return replace(found, copies=copies)
    is_file = isinstance(source, (str, os.PathLike, Predictions, Scan))
    if is_file or labels is None:
        arrays = (logits, probs, labels, *columns.values())
        if any(given is not None for given in arrays):
            raise ValueError(
                "Pass either a file or the arrays `logits` (or `probs`) and `labels`, not both."
            )
        return replace(read_source(source, order), copies=copies)
    if logits is not None or probs is not None:
        raise ValueError("Pass the scores once: first, or as `logits` or `probs`.")
    found = Examples.of_arrays(probs=source, labels=labels, class_names=class_names, **columns)
    return replace(found, copies=copies)


def read_source(source: Any, class_names: tuple[str, ...] | None = None) -> Examples:
    """Return the examples of a file, a data frame, or predictions that were read.

    Args:
        source: the file.
        class_names: put its classes in this order, by name.
    """
    found = source
    if isinstance(source, Scan):
        found = source.read()
    elif isinstance(source, (str, os.PathLike)):
        found = read_predictions(Path(source))
    elif not isinstance(source, Predictions):
        found = _of_frame(source)
    return Examples.of_predictions(align(found, class_names))


def _of_frame(source: Any) -> Predictions:
    """Return the predictions of a data frame: its columns are read as those of a file are."""
    if not hasattr(source, "columns"):
        raise ValueError(
            f"`labels` must be given with an array, got only {type(source).__name__}. Pass "
            "`(probs, labels)`, or `logits=` and `labels=`; a data frame may hold both."
        )
    arrow, feather = import_module("pyarrow"), import_module("pyarrow.feather")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder, "data frame.feather")
        feather.write_feather(arrow.table(source), path)
        return replace(read_predictions(path, need_labels=True), source=Path(path.stem))


class CountsZeros(Protocol):
    """Rows whose probabilities of 0 were counted."""

    @property
    def n_zero_rows(self) -> int:
        """How many rows have a probability of exactly 0."""

    @property
    def least_positive(self) -> float:
        """The smallest probability above 0."""


def zero_rule(rows: Sequence[CountsZeros], n_classes: int) -> tuple[float, tuple[str, ...]]:
    """Return how much of the uniform distribution is mixed in, and a note that says so.

    To a calibrator, a probability of 0 is half the smallest positive one: see `zero_mix_below`.
    The uncalibrated model is evaluated as it is.
    """
    n = sum(one.n_zero_rows for one in rows)
    if not n:
        return 0.0, ()
    least = min(one.least_positive for one in rows)
    return zero_mix_below(least, n_classes), (
        f"{n:,} row{'' if n == 1 else 's'} with a probability of exactly 0: to the calibrators, a "
        f"zero is half the smallest positive probability, {least:.2g}",
    )
