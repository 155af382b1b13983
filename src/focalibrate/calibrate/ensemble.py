"""Ensemble temperature scaling: a mixture of tempered, own and uniform probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from focalibrate._array import Array, Floats, namespace, working_dtype
from focalibrate.calibrate.calibrator import Calibrator, check_numbers, check_temperature
from focalibrate.calibrate.fit_temperature import lowest_temperature
from focalibrate.calibrate.one_vs_rest import log_of
from focalibrate.calibrate.optimise import ConvexMinimum, minimise_convex
from focalibrate.calibrate.rows import Rows, check_rows, in_threads, read_scores, row_blocks
from focalibrate.calibrate.temperature import recovered


@final
@dataclass(frozen=True)
class EnsembleTemperatureScaling(Calibrator):
    r"""Mixture :math:`w_1\operatorname{softmax}(z/T) + w_2\operatorname{softmax}(z) + w_3/K`.

    An impossible class (-inf) has no share of the uniform part.

    References:
        Zhang, Kailkhura & Han (2020), *Mix-n-Match*.
    """

    temperature: float
    weights: tuple[float, ...]
    """Weights of the tempered, the model's own and the uniform probabilities; sum 1."""
    kind: ClassVar[str] = "ensemble_temperature"
    keeps_argmax: ClassVar[bool] = True

    def _check(self) -> None:
        check_temperature(self.temperature)
        check_numbers(self.weights, name="weights")
        if len(self.weights) != 3 or min(self.weights) < 0 or abs(sum(self.weights) - 1) > 1e-9:
            raise ValueError(
                f"`weights` must be three numbers >= 0 that sum to 1, got {self.weights!r}."
            )

    def _probs(self, x: Array) -> Array:
        xp = namespace(x)
        z = xp.astype(x, working_dtype(x))
        parts = _parts(z, self.temperature)
        mixed = sum(w * part for w, part in zip(self.weights, parts, strict=True))
        return xp.astype(mixed, x.dtype)

    def _log_probs(self, x: Array) -> Array:
        return log_of(self._probs(x))

    def describe(self) -> str:
        """Return a one-line description."""
        shares = ", ".join(f"{w:.3g}" for w in self.weights)
        return f"ensemble temperature scaling: T={self.temperature:.4g}, weights {shares}"


def _parts(z: Array, temperature: float) -> list[Array]:
    """Return the three distributions that are mixed."""
    xp = namespace(z)
    tempered = xp.exp(recovered(z, gamma=0.0, temperature=temperature))
    own = xp.exp(recovered(z, gamma=0.0, temperature=1.0))
    possible = xp.astype(xp.isfinite(z), z.dtype)
    return [tempered, own, possible / xp.sum(possible, axis=-1, keepdims=True)]


def fit_ensemble_temperature(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    start: Calibrator | None = None,
) -> EnsembleTemperatureScaling:
    r"""Fit a temperature by log loss, then the three weights of the mixture, by log loss.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        start: an ensemble fitted to similar rows, such as all but another fold.

    Returns:
        `EnsembleTemperatureScaling`.

    Numerics:
        The log loss is convex in the weights. Minimising
        :math:`-\frac1n\sum\log(q_i w) + \sum w` over ``w >= 0`` gives weights that sum to 1.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = 2.0 * rng.standard_normal((4000, 5))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> fit_ensemble_temperature(3.0 * truth, labels).describe()[:37]
        'ensemble temperature scaling: T=2.957'

    References:
        Zhang, Kailkhura & Han (2020), Sec. 3.2.
    """
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    temperature = lowest_temperature(rows, start=start).temperature
    true = _true_probs(rows, [temperature, 1.0])
    weights, result = _weights(true, rows.weights)
    return rows.finish(
        EnsembleTemperatureScaling(temperature, tuple(weights.tolist())),
        value=-float(np.average(np.log(true @ weights), weights=rows.weights)),
        n_evaluations=result.n_evaluations,
        converged=result.converged,
    )


def _true_probs(rows: Rows, temperatures: Sequence[float]) -> Floats:
    """Return each label's probability at every temperature, and its uniform one ``[N, M + 1]``."""
    found = np.empty((rows.n_rows, len(temperatures) + 1))

    def fill(part: slice) -> None:
        block, labels = rows.logits[part], rows.labels[part]
        top = block.max(axis=-1, keepdims=True)
        at = (np.arange(len(block)), labels)
        check_rows(top, block[at], rows.logits, rows.labels)
        gaps = np.subtract(block, top, dtype=np.float64)
        for column, temperature in enumerate(temperatures):
            scaled = np.exp(gaps / temperature)
            found[part, column] = scaled[at] / scaled.sum(axis=-1)
        found[part, -1] = 1.0 / np.isfinite(gaps).sum(axis=-1)

    for _ in in_threads(fill, row_blocks(rows.n_rows, row_bytes=8 * rows.n_classes)):
        pass
    return found


def _weights(true: Floats, row_weights: Floats | None) -> tuple[Floats, ConvexMinimum]:
    """Return the weights of the three distributions, given those of each row's label."""
    share = np.ones(len(true)) if row_weights is None else row_weights
    share = share / share.sum()

    def objective(w: Floats) -> tuple[float, Floats, Floats]:
        mixed = true @ w
        if not (mixed > 0).all():
            return np.inf, np.zeros(3), np.eye(3)
        ratio = true / mixed[:, None]
        value = -float(share @ np.log(mixed)) + float(w.sum())
        return value, 1.0 - ratio.T @ share, (ratio * share[:, None]).T @ ratio

    result = minimise_convex(objective, np.array([0.8, 0.1, 0.1]), lower=np.zeros(3))
    weights = result.x / result.x.sum()
    return np.append(weights[:2], max(0.0, 1.0 - weights[:2].sum())), result
