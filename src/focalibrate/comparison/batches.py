"""Evaluate fitted methods on any number of rows, in one pass for all of them."""

from collections.abc import Iterable
from dataclasses import replace

from focalibrate.comparison.result import Comparison, scores_of_methods
from focalibrate.comparison.row_sums import FittedMethods, JudgedBatch, JudgedSums, judged_sums


def judge_batches(comparison: Comparison, batches: Iterable[JudgedBatch]) -> Comparison:
    """Return the comparison with every method evaluated on the rows of `batches` instead.

    One pass over the rows for all methods; memory does not depend on their number.

    Args:
        comparison: methods fitted on other rows, with a test set: nothing is refitted.
        batches: the rows.

    Returns:
        See `judged_by`.
    """
    sums = judged_sums(
        fitted_methods(comparison),
        batches,
        n_classes=comparison.n_classes,
        n_bins=comparison.n_bins,
    )
    return judged_by(comparison, sums)


def fitted_methods(comparison: Comparison) -> FittedMethods:
    """Return the calibrators of each method, that of all rows first."""
    if comparison.folds:
        raise ValueError("`comparison` must have a test set, but is cross-validated.")
    return {row.method: (row.calibrator, *row.fold_calibrators) for row in comparison.rows}


def judged_by(comparison: Comparison, sums: JudgedSums) -> Comparison:
    """Return the comparison with every method evaluated by sums over other rows.

    Returns:
        The comparison with `GroupedScores` in place of scores per row. Binned errors are exact,
        adaptive and smooth ECE within the bounds of `focalibrate.metrics.Sketch`. With more than
        20,000 classes, temperature and focal temperature are evaluated by a `TopScorer`.
    """
    mass = sums.mass
    scores = {m: found.scores(mass, comparison.seed) for m, found in sums.methods.items()}
    # Relative to their mean: whole numbers would be read as copies of one row, and the standard
    # errors of group means would be too small by the root of the rows in a group.
    weights = mass[mass > 0] / mass[mass > 0].mean()
    found = scores_of_methods(
        scores, weights, n_resamples=comparison.n_resamples, seed=comparison.seed
    )
    changed = {method: found.n_changed for method, found in sums.methods.items()}
    return replace(
        comparison,
        model_nll=None,
        pool_scores=None,
        rows=tuple(
            replace(row, n_predictions_changed=changed[row.method], **found[row.method])
            for row in comparison.rows
        ),
        n_judged=sums.n_rows,
        weights=weights,
    )
