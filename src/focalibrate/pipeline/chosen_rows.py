"""Which rows of a large data set are fitted on, evaluated on and shown in diagrams."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import log_probabilities
from focalibrate.comparison import JudgedBatch
from focalibrate.comparison.row_sums import N_GROUPS
from focalibrate.engines import Backend
from focalibrate.io import Predictions, Scan
from focalibrate.pipeline.drawing import draw_rows
from focalibrate.pipeline.exact import N_FOLDS, fold_of
from focalibrate.pipeline.examples import Examples, zeros_note
from focalibrate.pipeline.sampling import Drawn, row_hash

FIT_ROWS = 200_000
FIT_ENTRIES = 40_000_000
"""Default limits on the rows, and on the scores, that methods are fitted on."""
SHOWN_ROWS = 50_000
SHOWN_ENTRIES = 10_000_000
"""Limits on the evaluated rows, and scores, that the diagrams of the page are drawn from."""


@dataclass(frozen=True, eq=False)
class ChosenRows:
    """Which rows are used for what.

    Attributes:
        fitted: rows to fit on.
        shown: rows evaluated on that the diagrams are drawn from.
        shown_hashes: of their positions.
        limit: rows of the data set with a larger hash are evaluated on; None: all rows of the
            test set are.
        n_source: rows of the data set.
        n_tested: rows to evaluate on.
        n_zero_rows: rows with a probability of exactly 0.
        least_positive: the smallest probability above 0 in all rows.
    """

    fitted: Examples
    shown: Examples
    shown_hashes: NDArray[np.uint64]
    limit: np.uint64 | None
    n_source: int
    n_tested: int
    n_zero_rows: int
    least_positive: float

    def evaluated(self, *, cross_fit: bool) -> "EvaluatedRows":
        """Return which rows are evaluated on, in words that can be sent to a worker."""
        return EvaluatedRows(
            limit=None if self.limit is None else int(self.limit),
            zero_mix=self.fitted.zero_mix,
            class_names=self.fitted.class_names,
            cross_fit=cross_fit,
        )

    def with_zeros_smoothed(self) -> "tuple[ChosenRows, tuple[str, ...]]":
        """Return the rows with probabilities of 0 made positive, and the note that says so."""
        mix, notes = zeros_note(self.n_zero_rows, self.least_positive, self.fitted.n_classes)
        fitted, shown = self.fitted.with_zero_mix(mix), self.shown.with_zero_mix(mix)
        return replace(self, fitted=fitted, shown=shown), notes


def fit_rows_of(n_classes: int, asked: int | None = None) -> int:
    """Return the most rows that methods are fitted on: fewer if there are many classes.

    Example:
        >>> fit_rows_of(10), fit_rows_of(1000), fit_rows_of(1000, asked=100_000)
        (200000, 40000, 100000)
    """
    return asked if asked is not None else max(1000, min(FIT_ROWS, FIT_ENTRIES // n_classes))


def choose_rows(
    source: Scan,
    test: Scan | None,
    fit_rows: int | None,
    *,
    backend: Backend | None = None,
) -> ChosenRows | None:
    """Return the rows to fit on and to show, or None where too few remain to evaluate on."""
    names, k = source.class_names, source.n_classes
    n_fit = fit_rows_of(k, fit_rows)
    n_shown = max(1, min(SHOWN_ROWS, SHOWN_ENTRIES // k))
    if test is not None:
        drawn = draw_rows(source, n_fit, names, backend=backend)
        tested = draw_rows(test, n_shown, names, backend=backend)
        return ChosenRows(
            fitted=_part(drawn, slice(0, n_fit)),
            shown=_part(tested, slice(None)),
            shown_hashes=tested.hashes,
            limit=None,
            n_source=drawn.n_rows,
            n_tested=tested.n_rows,
            n_zero_rows=drawn.n_zero_rows + tested.n_zero_rows,
            least_positive=min(drawn.least_positive, tested.least_positive),
        )
    drawn = draw_rows(source, n_fit + n_shown, names, backend=backend)
    if drawn.n_rows <= n_fit:
        return None
    n_fit = min(n_fit, drawn.n_rows // 2)
    return ChosenRows(
        fitted=_part(drawn, slice(0, n_fit)),
        shown=_part(drawn, slice(n_fit, None)),
        shown_hashes=drawn.hashes[n_fit:],
        limit=drawn.hashes[n_fit - 1],
        n_source=drawn.n_rows,
        n_tested=drawn.n_rows - n_fit,
        n_zero_rows=drawn.n_zero_rows,
        least_positive=drawn.least_positive,
    )


def _part(drawn: Drawn, rows: slice) -> Examples:
    given = drawn.examples
    return replace(
        given,
        scores=given.scores[rows],
        labels=given.labels[rows],
        weights=None if given.weights is None else given.weights[rows],
        groups={name: values[rows] for name, values in given.groups.items()},
    )


@dataclass(frozen=True, kw_only=True)
class EvaluatedRows:
    """Which rows of a data set are evaluated on, and how.

    Attributes:
        limit: those with a larger hash; None: all.
        zero_mix: weight of the uniform distribution that is mixed into probabilities with zeros.
        class_names: the order of the classes.
        cross_fit: all rows; each half is evaluated by calibrators fitted on the other.
    """

    limit: int | None
    zero_mix: float
    class_names: tuple[str, ...] | None
    cross_fit: bool = False

    def of(self, found: Iterable[tuple[NDArray[np.int64], Predictions]]) -> Iterator[JudgedBatch]:
        """Yield these rows of batches that come with the positions of their rows."""
        for positions, batch in found:
            hashes = row_hash(positions)
            used = np.ones(len(positions), bool)
            if self.limit is not None and not self.cross_fit:
                used = hashes > np.uint64(self.limit)
            if batch.weights is not None:
                used &= batch.weights > 0
            for fold in range(N_FOLDS) if self.cross_fit else (None,):
                kept = used if fold is None else used & (fold_of(hashes) == fold)
                if batch.labels is None or not kept.any():
                    continue
                at = None if kept.all() else np.flatnonzero(kept)
                logits = batch.scores
                if batch.kind == "probs":
                    logits = log_probabilities(logits if at is None else logits[at], self.zero_mix)
                    at = None
                groups = {name: np.asarray(column)[kept] for name, column in batch.groups.items()}
                yield JudgedBatch(
                    logits=logits,
                    labels=batch.labels[kept].astype(np.intp, copy=False),
                    group=(hashes[kept] >> np.uint64(7)).astype(np.int64) % N_GROUPS,
                    weights=None if batch.weights is None else batch.weights[kept],
                    groups=groups,
                    fold=fold,
                    rows=at,
                )
