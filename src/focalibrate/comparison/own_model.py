"""The model's own probabilities, where the fits got them without zeros."""

from dataclasses import dataclass
from typing import final

from focalibrate._array import Array
from focalibrate.calibrate import Identity, own_log_probabilities
from focalibrate.comparison.fitted import Fitted


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
