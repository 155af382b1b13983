"""Input of every fit and every calibrator: any form of scores, checked once."""

from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, is_array_api_obj, to_numpy
from focalibrate._check import (
    check_labels,
    check_logits,
    check_probs,
    check_sample_weight,
    column_names,
    is_whole,
    labels_for,
)
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._scores import as_array, log_probabilities, two_columns

C = TypeVar("C", bound=Calibrator)

SMALLEST = 2.0 * float(np.finfo(np.float32).tiny)
"""Smallest positive probability in the rule for zeros; half of it is not 0 in float32."""
FLOAT32_ABOVE = 2**19
"""Entries above which single-precision logits are worked on in float32, block by block."""


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """The input of a fit: logits, labels and weights as NumPy arrays."""

    logits: NDArray[Any]
    """``[N, K]``, not copied where they were NumPy logits."""
    labels: NDArray[np.intp]
    """Class indices ``[N]``."""
    weights: Floats | None = None
    """Positive weights ``[N]``; None: every row counts 1."""
    zero_mix: float = 0.0
    """Weight of the uniform distribution that was mixed into probabilities with zeros."""
    known: dict[str, Any] = field(default_factory=dict, repr=False)
    """Results of fits to these rows that other fits need too, such as the temperature."""
    class_names: tuple[str, ...] | None = None
    """The columns of the data frame that the scores came in."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.logits.shape[1])

    @property
    def size(self) -> float:
        r"""Effective number of rows.

        Whole-number weights count copies of a row, so it is their sum. Other weights are only
        relative to each other: Kish's effective sample size :math:`(\sum w)^2 / \sum w^2`.
        """
        return sample_size(self.weights, self.n_rows)

    def take(self, index: Any, *, known: dict[str, Any] | None = None) -> "ScoredRows":
        """Return the rows of `index`: integers, booleans or a slice."""
        weights = None if self.weights is None else self.weights[index]
        logits, labels = self.logits[index], self.labels[index]
        kept = {} if known is None else known
        return ScoredRows(logits, labels, weights, self.zero_mix, kept, self.class_names)

    def stamp(self, calibrator: C) -> C:
        """Return `calibrator` with the classes and the rule for zeros of this data."""
        return replace(
            calibrator,
            n_classes=self.n_classes,
            zero_mix=self.zero_mix,
            class_names=self.class_names,
        )


def sample_size(weights: Floats | None, n_rows: int) -> float:
    """Return the effective number of rows; see `ScoredRows.size`."""
    if weights is None:
        return float(n_rows)
    total = float(weights.sum())
    if is_whole(weights):
        return total
    return total**2 / float((weights**2).sum())


def read_scores(
    logits: Any = None, labels: Any = None, *, probs: Any = None, sample_weight: Any = None
) -> ScoredRows:
    """Return scores, labels and weights as NumPy arrays.

    Exactly one of `logits` and `probs`: arrays of any library, data frames or lists,
    ``[N, K]``, or ``[N]`` and ``[N, 1]`` for the margin or probability of class 1. Rows of
    weight 0 are dropped. Shapes, dtypes and labels are checked here; the values of logits are
    checked by the first pass over them (`check_rows`), as a pass of its own would cost as much
    as the fit. `ScoredRows`, as `logits`, have been read before and come back as they are.
    """
    if isinstance(logits, ScoredRows):
        return logits
    if (logits is None) == (probs is None):
        raise ValueError(
            "Pass exactly one of `logits` and `probs`, got "
            f"{'neither' if logits is None else 'both'}."
        )
    if labels is None:
        raise ValueError("`labels` must be given: one class index per row of the scores.")
    name = "logits" if probs is None else "probs"
    given = logits if probs is None else probs
    scores = score_matrix(given, name=name)
    targets = labels_for(given, labels)
    if not is_array_api_obj(targets) or "bool" in str(targets.dtype):
        targets = np.asarray(targets).astype(np.intp)
    check_labels(targets, shape=(scores.shape[0],), n_classes=scores.shape[1])
    targets = to_numpy(targets).astype(np.intp, copy=False)
    weights = read_weights(sample_weight, n_rows=len(targets))
    if weights is not None and not weights.all():
        is_kept = weights > 0
        scores, targets, weights = scores[is_kept], targets[is_kept], weights[is_kept]
    if weights is not None and (weights == 1.0).all():
        weights = None
    names = column_names(given)
    if probs is None:
        return ScoredRows(scores, targets, weights, class_names=names)
    check_probs(scores)
    mix = zero_mix_for(scores)
    logs = log_probabilities(scores, mix)
    return ScoredRows(logs, targets, weights, mix, class_names=names)


def zero_mix_for(probs: NDArray[Any]) -> float:
    """Return the weight of the uniform distribution to mix into `probs` before the logarithm.

    0 if no probability is exactly 0. Otherwise a zero means less than the scores can resolve, and
    is read as half the smallest positive probability: half a vote of a forest or of the nearest
    neighbours, or almost nothing if an exponential underflowed. It is at least what float32 can
    hold, and at most half of the mixture. Of the rules tried on the arena's
    calibration sets, 1 / (n + 1) and float32's smallest number among them, it had the least
    log loss.
    """
    if not bool((probs == 0).any()):
        return 0.0
    return zero_mix_below(float(probs[probs > 0].min()), probs.shape[1])


def zero_mix_below(least: float, n_classes: int) -> float:
    """Return the weight by which a zero counts as half of `least`, the smallest above 0."""
    return float(min(0.5 * max(least, SMALLEST) * n_classes, 0.5))


def read_weights(sample_weight: Any, *, n_rows: int) -> Floats | None:
    """Return `sample_weight` as one finite number >= 0 per row, or None."""
    if sample_weight is None:
        return None
    weights = as_array(sample_weight, name="sample_weight")
    return check_sample_weight(weights, n_rows=n_rows)


def score_matrix(scores: Any, *, name: str) -> NDArray[Any]:
    """Return scores ``[N, K]`` in NumPy, one column of binary scores as two."""
    array = as_array(scores, name=name)
    if not is_array_api_obj(array) or 0 in array.shape or array.ndim == 0:
        check_logits(array, name=name)
    if array.ndim > 2:
        raise ValueError(
            f"`{name}` must have shape [N, K], got {tuple(array.shape)}. "
            f"Flatten leading axes with `{name}.reshape(-1, K)` and the labels alike."
        )
    rows = to_numpy(array)
    if rows.ndim == 1 or rows.shape[1] == 1:
        rows = two_columns(rows.reshape(-1), is_probs=name == "probs")
    check_logits(rows[:1], name=name)  # dtype and class count; `check_rows` checks the rest
    return rows


def read_logits(logits: Array, labels: Array) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the logits ``[N, K]`` and labels ``[N]`` of `read_scores`."""
    found = read_scores(logits, labels)
    return found.logits, found.labels


def check_rows(
    top: NDArray[Any], true: NDArray[Any], logits: NDArray[Any], labels: NDArray[np.intp]
) -> None:
    """Raise unless some rows' largest logits `top` and labels' logits `true` are finite.

    nan and +inf show in the largest logit of their row; -inf only if the whole row is -inf.
    `logits` and `labels` are all there are, to name the first bad row by its own number.
    """
    if not (np.isfinite(top).all() and np.isfinite(true).all()):
        _explain(logits, labels)


def _explain(logits: NDArray[Any], labels: NDArray[np.intp]) -> NoReturn:
    for start in range(0, len(logits), 4096):
        block = logits[start : start + 4096]
        true = block[np.arange(len(block)), labels[start : start + 4096]]
        is_bad = ~np.isfinite(block.max(axis=-1)) | ~np.isfinite(true)
        if is_bad.any():
            row = start + int(is_bad.argmax())
            break
    try:
        check_logits(logits[row : row + 1])
    except ValueError as error:
        raise ValueError(str(error).replace("row 0 ", f"row {row} ")) from None
    raise ValueError(
        f"`logits` must not rule out the true class, but the logit of row {row}'s label is "
        "-inf. Unmask it, correct the label or drop the row."
    )


def working_precision(logits: NDArray[Any]) -> Any:
    """Return float64, or float32 for large single- and half-precision logits."""
    is_large = logits.size > FLOAT32_ABOVE and logits.dtype.itemsize <= 4
    return np.float32 if is_large else np.float64
