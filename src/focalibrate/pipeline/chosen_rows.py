"""Which rows of a large data set are fitted on, evaluated on and shown in diagrams."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import log_probabilities
from focalibrate.comparison import JudgedBatch
from focalibrate.comparison.batches import N_GROUPS
from focalibrate.io import Scan
from focalibrate.metrics.sketch import MAX_CLASSWISE
from focalibrate.pipeline.exact import N_FOLDS, fold_of
from focalibrate.pipeline.examples import Examples, zeros_note
from focalibrate.pipeline.sampling import Drawn, draw, positioned, row_hash

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


def choose_rows(source: Scan, test: Scan | None, fit_rows: int | None) -> ChosenRows | None:
    """Return the rows to fit on and to show, or None where too few remain to evaluate on."""
    names, k = source.class_names, source.n_classes
    n_fit = fit_rows_of(k, fit_rows)
    n_shown = max(1, min(SHOWN_ROWS, SHOWN_ENTRIES // k))
    if test is not None:
        drawn, tested = draw(source, n_fit, names), draw(test, n_shown, names)
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
    drawn = draw(source, n_fit + n_shown, names)
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


def rows_to_evaluate(
    scan: Scan,
    rows: ChosenRows,
    *,
    cross_fit: bool,
) -> Iterator[JudgedBatch]:
    """Yield the rows that are not fitted on, batch by batch; or all, each with its half.

    Args:
        scan: the data set, or the test set.
        rows: which rows are fitted on.
        cross_fit: yield all rows; each half is evaluated by calibrators fitted on the other.
    """
    limit, mix, k = None if cross_fit else rows.limit, rows.fitted.zero_mix, scan.n_classes
    for positions, batch in positioned(scan, rows.fitted.class_names, half=k > MAX_CLASSWISE):
        hashes = row_hash(positions)
        used = np.ones(len(positions), bool) if limit is None else hashes > limit
        if batch.weights is not None:
            used &= batch.weights > 0
        for fold in range(N_FOLDS) if cross_fit else (None,):
            kept = used if fold is None else used & (fold_of(hashes) == fold)
            if batch.labels is None or not kept.any():
                continue
            at = None if kept.all() else np.flatnonzero(kept)
            logits = batch.scores
            if batch.kind == "probs":
                logits, at = log_probabilities(logits if at is None else logits[at], mix), None
            yield JudgedBatch(
                logits=logits,
                labels=batch.labels[kept].astype(np.intp, copy=False),
                group=(hashes[kept] >> np.uint64(7)).astype(np.int64) % N_GROUPS,
                weights=None if batch.weights is None else batch.weights[kept],
                groups={name: np.asarray(values)[kept] for name, values in batch.groups.items()},
                fold=fold,
                rows=at,
            )
