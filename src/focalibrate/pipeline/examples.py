"""Predictions with labels, from a file or from arrays, ready for the calibrators."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, to_numpy
from focalibrate._check import (
    check_labels,
    check_probs,
    check_same_order,
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
    score_matrix,
    zero_mix_below,
)
from focalibrate.io import (
    PredictionFileError,
    Predictions,
    Scan,
    ScoreKind,
    align,
    read_predictions,
)
from focalibrate.metrics import Assessment, assess, assess_groups, worst_slice
from focalibrate.metrics.groups import GroupAssessment, WorstSlice
from focalibrate.metrics.rows import check_clusters, read_outcomes

LEAST_SLICE = 100
"""Fewer rows than this are not searched for a slice."""
EVENT_NAMES = ("wrong", "correct")
"""The classes of a confidence and whether it was right."""


@dataclass(frozen=True)
class Zeros:
    """How many rows have a probability of exactly 0, and the smallest probability above 0."""

    n_rows: int = 0
    least: float = 1.0

    @classmethod
    def of(cls, examples: "Examples") -> "Zeros":
        """Return those of some rows."""
        p = examples.scores
        if examples.kind == "logits":
            return cls()
        n_rows = int((p == 0).any(axis=1).sum())
        return cls(n_rows, float(np.min(p, where=p > 0, initial=1.0)))

    def __add__(self, other: "Zeros") -> "Zeros":
        return Zeros(self.n_rows + other.n_rows, min(self.least, other.least))

    def rule(self, n_classes: int) -> tuple[float, tuple[str, ...]]:
        """Return how much of the uniform distribution is mixed in, and a note that says so."""
        if not self.n_rows:
            return 0.0, ()
        mix = zero_mix_below(self.least, n_classes)
        rule = "to the calibrators, a zero is half the smallest positive probability, "
        rule += f"{self.least:.2g}"
        if self.least == 1.0:
            rule = f"all are 0 or 1, so calibrators spread {mix:.0%} of each row over all classes"
        return mix, (
            f"{self.n_rows:,} row{'' if self.n_rows == 1 else 's'} with a probability of exactly "
            f"0: {rule}",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples(Predictions):
    """Predictions with labels, of a file or of arrays, all with a weight above 0.

    Attributes:
        labels: class positions ``[N]``.
        copies: whether weights are numbers of identical rows, not the importance of each.
        order: of options: which of each row these are, from the lowest score to the highest.
        zero_mix: weight of the uniform distribution that is mixed into probabilities before the
            logarithm.
    """

    labels: NDArray[np.int64]
    copies: bool = False
    order: NDArray[np.intp] | None = None
    zero_mix: float = 0.0

    @classmethod
    def of_predictions(cls, found: Predictions, *, copies: bool = False) -> "Examples":
        """Return the examples of a file that was read."""
        if found.labels is None:
            raise ValueError(
                f"{found.source}: no labels found. Put them into the file, or pass a file of "
                "labels (command line: --labels FILE)."
            )
        own = {field.name: getattr(found, field.name) for field in fields(Predictions)}
        own["groups"] = {name: np.asarray(column) for name, column in found.groups.items()}
        if found.cluster is not None:
            check_clusters(np.asarray(found.cluster))
        if found.layout.form == "options":  # their order means nothing
            order = by_rank(found.scores)
            own["order"] = order
            own["scores"] = np.take_along_axis(found.scores, order, axis=1)
            own["labels"] = rank_of(found.labels, order).astype(np.int64)
        return cls(**own, copies=copies)._without_zero_weights()

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
        copies: bool = False,
    ) -> "Examples":
        """Return the examples of arrays, of which exactly one of `logits` and `probs` is given.

        Arrays of any library, data frames and lists; ``[N]`` is the margin or probability of
        class 1. The columns of a data frame name the classes, and are put in `order` if that is
        given. A `confidence` and whether it was `correct`, ``[N]`` each, are the probability of
        class 1 and its label.
        """
        beside = {**(groups or {}), "cluster": cluster, "sample_weight": sample_weight}
        if confidence is not None or correct is not None:
            if any(given is not None for given in (logits, probs, labels)):
                raise ValueError(
                    "Pass either `confidence` and `correct`, or scores and `labels`, not both."
                )
            check_same_order(confidence, beside, name="confidence")
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
        check_same_order(given, beside)
        scores = score_matrix(given, name=kind)
        targets = np.asarray(to_numpy(labels_for(given, labels, class_names)))
        names = column_names(given) if class_names is None else class_names
        if targets.dtype == np.bool_:
            targets = targets.astype(np.int64)
        check_labels(targets, shape=(len(scores),), n_classes=scores.shape[1])
        if kind == "probs":
            check_probs(scores)
        columns = groups or {}

        def column(given: Array, what: str) -> NDArray[Any]:
            values = np.asarray(to_numpy(as_array(given, name=what)))
            if values.shape != (len(scores),):
                raise ValueError(
                    f"{what} must have one value per row, [{len(scores)}], got shape "
                    f"{values.shape}."
                )
            return values

        own_clusters = None if cluster is None else column(cluster, "`cluster`")
        if own_clusters is not None:
            check_clusters(own_clusters)
        return cls(
            source=Path(),
            checksum="",
            copies=copies,
            scores=scores,
            kind=kind,
            labels=targets.astype(np.int64, copy=False),
            weights=read_weights(sample_weight, n_rows=len(scores)),
            cluster=own_clusters,
            groups={str(n): column(c, f"`groups`: column {n!r}") for n, c in columns.items()},
            class_names=None if names is None else tuple(str(n) for n in names),
        )._without_zero_weights()

    def take(self, rows: NDArray[Any] | slice) -> "Examples":
        """Return some rows, without the other columns of the file."""
        found = super().take(rows)
        return found if self.order is None else replace(found, order=self.order[rows])

    @classmethod
    def joined(cls, given: Sequence["Examples"], order: NDArray[np.intp]) -> "Examples":
        """Return rows of several, which follow one another; `order` says which, and in what order.

        Groups are put together as objects: their type may differ.
        """
        first = given[0]
        ends = np.cumsum([one.n_rows for one in given])
        place = np.full(ends[-1], -1)
        place[order] = np.arange(len(order))

        def joined(columns: Sequence[NDArray[Any]], dtype: Any = None) -> NDArray[Any]:
            out = np.empty((len(order), *columns[0].shape[1:]), dtype or columns[0].dtype)
            for to, column in zip(np.split(place, ends[:-1]), columns, strict=True):
                out[to[to >= 0]] = column[to >= 0]  # without a second copy of all rows
            return out

        def plain(column: NDArray[Any]) -> NDArray[Any]:
            found = np.array(column.tolist())
            return found if found.dtype.kind in "biuf" else column

        weights = [np.ones(e.n_rows) if e.weights is None else e.weights for e in given]

        return replace(
            first,
            scores=joined([one.scores for one in given]),
            labels=joined([one.labels for one in given]),
            weights=None if all(one.weights is None for one in given) else joined(weights),
            groups={
                name: plain(joined([np.asarray(one.groups[name]) for one in given], object))
                for name in first.groups
            },
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
        if self.are_answers:
            return ("being wrong", "being right")
        if self.options:
            ranks = range(self.n_classes, 1, -1)
            return (*(f"the option ranked {k}" for k in ranks), "the top option")
        name = self.positive or self.labels_name
        if self.class_names is not None or self.n_classes != 2 or not name:
            return self.class_names
        is_named = any(name.lower() in column.lower() for column in self.scores_names)
        return (f"not {name}", name) if self.positive or is_named else None

    @property
    def options(self) -> bool:
        """Whether the scores are those of each row's own options, which are no classes."""
        return self.layout.form == "options"

    @property
    def are_answers(self) -> bool:
        """Whether the rows are a confidence and whether it was right."""
        return self.class_names == EVENT_NAMES or self.layout.is_right

    def assessed(self, probs: NDArray[Any], *, seed: int) -> Assessment:
        """Return whether these probabilities of the examples ``[N, K]`` are calibrated."""
        return assess(
            probs,
            self.labels,
            class_names=self.names_in_sentences,
            sample_weight=self.weights,
            copies=self.copies,
            cluster=self.cluster,
            seed=seed,
        )

    def by_group(
        self, probs: NDArray[Any], *, seed: int
    ) -> tuple[tuple[GroupAssessment, ...], WorstSlice | None]:
        """Return a verdict per group, corrected for their number, and the slice most clearly off.

        No slice is searched for with fewer than two columns or few rows.
        """
        if not self.groups:
            return (), None
        given: dict[str, Any] = {
            "sample_weight": self.weights,
            "copies": self.copies,
            "seed": seed,
        }
        found = assess_groups(probs, self.labels, self.groups, cluster=self.cluster, **given)
        if len(self.groups) < 2 or self.n_rows < LEAST_SLICE:
            return found, None
        return found, worst_slice(probs, self.labels, self.groups, **given)

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


PredictionSource = str | os.PathLike[str] | Predictions
"""A file of predictions, or one that was read; a data frame with labels counts as a file."""


def given_examples(
    source: PredictionSource | Array | None,
    labels: Array | None,
    *,
    order: tuple[str, ...] | None = None,
    copies: bool = False,
    class_names: Sequence[str] | None = None,
    **arrays: Any,
) -> Examples:
    """Return the examples of the one place where they were given, with their classes in `order`.

    With `labels`, the source is probabilities; `arrays` is all else that `of_arrays` takes.
    """
    is_file = isinstance(source, (str, os.PathLike, Predictions, Scan))
    if source is not None and (is_file or labels is None):
        if labels is not None or any(given is not None for given in arrays.values()):
            raise ValueError(
                "Pass either a file or the arrays `logits` (or `probs`) and `labels`, not both."
            )
        return Examples.of_predictions(align(read_source(source), order), copies=copies)
    if source is not None:
        if arrays.get("logits") is not None or arrays.get("probs") is not None:
            raise ValueError("Pass the scores once: first, or as `logits` or `probs`.")
        arrays["probs"] = source
    return Examples.of_arrays(
        labels=labels, class_names=class_names, order=order, copies=copies, **arrays
    )


def read_source(source: Any) -> Predictions:
    """Return the predictions of a file or a data frame; those that were read as they are."""
    if isinstance(source, Scan):
        return source.read()
    if isinstance(source, (str, os.PathLike)):
        return read_predictions(Path(source))
    return source if isinstance(source, Predictions) else _of_frame(source)


def _of_frame(source: Any) -> Predictions:
    """Return the predictions of a data frame: its columns are read as those of a file are."""
    if not hasattr(source, "columns"):
        raise ValueError(
            f"`labels` must be given with an array, got only {type(source).__name__}. Pass "
            "`(probs, labels)`, or `logits=` and `labels=`; a data frame may hold both."
        )
    arrow, feather = import_module("pyarrow"), import_module("pyarrow.feather")
    if {str} < {type(name) for name in source.columns}:  # pandas: numbers beside "label"
        source = source.rename(columns=str)
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder, "data frame.feather")
        feather.write_feather(arrow.table(source), path)
        try:
            return replace(read_predictions(path, need_labels=True), source=Path(path.stem))
        except PredictionFileError as error:
            text = str(error).replace(str(path), path.stem)
            raise PredictionFileError(text, fixes=error.fixes) from error
