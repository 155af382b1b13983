"""One method fitted on all rows, and without each fold; the uncalibrated model as such."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate.calibrate import Calibrator, Identity, own_log_probabilities
from focalibrate.comparison.row_scores import BLOCK_ENTRIES


@dataclass(frozen=True)
class Fitted:
    """One method fitted on all rows, and without each fold."""

    whole: Calibrator
    without_fold: tuple[Calibrator, ...]
    notes: tuple[str, ...]
    """what the fit on all rows warned of"""

    def parts(
        self, logits: NDArray[Any], folds: Sequence[NDArray[np.intp]]
    ) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield held-out log-probabilities of some rows at a time, and which rows those are."""
        n, k = logits.shape
        step = max(1, BLOCK_ENTRIES // k)
        if not folds:
            for start in range(0, n, step):
                block = slice(start, start + step)
                yield block, self.whole.log_probs(logits[block])
        for fold, calibrator in zip(folds, self.without_fold, strict=True):
            for start in range(0, len(fold), step):
                block_rows = fold[start : start + step]
                yield block_rows, calibrator.log_probs(logits[block_rows])

    def held_out_log_probs(
        self, logits: NDArray[Any], folds: Sequence[NDArray[np.intp]]
    ) -> NDArray[np.float64]:
        """Return the held-out log-probabilities of every row ``[N, K]``."""
        found = np.empty(logits.shape)
        for index, log_probs in self.parts(logits, folds):
            found[index] = log_probs
        return found


@final
@dataclass(frozen=True)
class OwnProbabilities(Identity):
    """The model's own probabilities, from logits that have `zero_mix` mixed in."""

    def _log_probs(self, x: Array) -> Array:
        return own_log_probabilities(Identity().probs(x), self.zero_mix)


def own_model(zero_mix: float, n_folds: int) -> Fitted:
    """Return the uncalibrated model as a method, to evaluate every row by."""
    model = OwnProbabilities(zero_mix=zero_mix)
    return Fitted(model, (model,) * n_folds, ())
