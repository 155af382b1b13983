"""Calibrators without a formula: one curve a class, then rows brought back to sum 1."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, device, namespace, to_numpy
from focalibrate._check import check_logits
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._settings import check_numbers
from focalibrate.calibrate.parametric import check_class_count

Floats = NDArray[np.float64]
Curves = tuple[tuple[float, ...], ...]


def class_probs(logits: NDArray[Any]) -> Floats:
    """Return the softmax of one block in float64."""
    z = logits.astype(np.float64)
    z -= z.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=-1, keepdims=True)
    return z


def recalibrated(logits: Array, curve: Callable[[int, Floats], Floats], n_classes: int) -> Array:
    """Apply ``curve(k, p)`` to each class's probabilities and bring the rows back to sum 1.

    A row whose every class is mapped to 0 keeps the model's own probabilities.
    """
    check_logits(logits)
    check_class_count(logits, n_classes)
    xp = namespace(logits)
    shape = tuple(logits.shape)
    raw = class_probs(to_numpy(logits).reshape(-1, n_classes))
    new = np.stack([curve(k, raw[:, k]) for k in range(n_classes)], axis=-1)
    new[raw == 0.0] = 0.0  # an impossible class stays so
    total = new.sum(axis=-1, keepdims=True)
    new = np.where(total > 0, new / np.where(total > 0, total, 1.0), raw)
    return xp.asarray(new.reshape(shape), dtype=logits.dtype, device=device(logits))


def _check_curves(x: Any, y: Any, names: tuple[str, str], *, longer: int) -> None:
    if not isinstance(x, tuple) or not isinstance(y, tuple) or len(x) != len(y) or len(x) < 2:
        raise ValueError(f"`{names[0]}` and `{names[1]}` must have one curve a class.")
    for k, (xs, ys) in enumerate(zip(x, y, strict=True)):
        check_numbers(xs, name=f"{names[0]}[{k}]")
        check_numbers(ys, name=f"{names[1]}[{k}]")
        if len(xs) != len(ys) + longer or not ys or any(np.diff(xs) < 0):
            raise ValueError(
                f"`{names[0]}[{k}]` must not fall and must match `{names[1]}[{k}]`, got lengths "
                f"{len(xs)} and {len(ys)}."
            )
        if min(ys) < 0 or max(ys) > 1:
            raise ValueError(f"`{names[1]}[{k}]` must lie in [0, 1].")


def _log(probs: Array) -> Array:
    xp = namespace(probs)
    is_zero = probs == 0
    log_probs = xp.log(xp.where(is_zero, xp.ones_like(probs), probs))
    return xp.where(is_zero, xp.full_like(probs, -xp.inf), log_probs)


@final
@dataclass(frozen=True)
class IsotonicCalibration(Calibrator):
    """One isotonic curve a class, linear between its knots: may change predictions.

    Computed in NumPy float64; the result has the library, dtype and device of the logits.

    References:
        Zadrozny & Elkan (2002), *Transforming Classifier Scores into Accurate Multiclass
        Probability Estimates*.
    """

    scores: Curves
    """Knots of each class: probabilities of the model, rising."""
    values: Curves
    """Calibrated probability at each knot."""
    kind: ClassVar[str] = "isotonic_calibration"
    keeps_argmax: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_curves(self.scores, self.values, ("scores", "values"), longer=0)

    def probs(self, logits: Array) -> Array:
        """Return probabilities; see `Calibrator`."""

        def curve(k: int, p: Floats) -> Floats:
            return np.interp(p, *self._knots[k])

        return recalibrated(logits, curve, len(self.scores))

    def log_probs(self, logits: Array) -> Array:
        """Return log-probabilities, -inf where the probability is 0; see `Calibrator`."""
        return _log(self.probs(logits))

    @cached_property
    def _knots(self) -> list[tuple[Floats, Floats]]:
        return [
            (np.asarray(x), np.asarray(y)) for x, y in zip(self.scores, self.values, strict=True)
        ]

    def describe(self) -> str:
        """Return one line for a person to read."""
        knots = sum(len(x) for x in self.scores)
        return f"isotonic, one against the rest: {len(self.scores)} classes, {knots} knots"


@final
@dataclass(frozen=True)
class HistogramBinning(Calibrator):
    """Each class's probability replaced by its bin's frequency: may change predictions.

    Bins are ``(edges[b], edges[b+1]]``; the first includes its lower edge. Computed in NumPy
    float64; the result has the library, dtype and device of the logits.

    References:
        Zadrozny & Elkan (2001), *Obtaining calibrated probability estimates from decision
        trees and naive Bayesian classifiers*.
    """

    edges: Curves
    """``B + 1`` edges of each class, rising."""
    values: Curves
    """Calibrated probability in each bin."""
    kind: ClassVar[str] = "histogram_binning"
    keeps_argmax: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_curves(self.edges, self.values, ("edges", "values"), longer=1)

    def probs(self, logits: Array) -> Array:
        """Return probabilities; see `Calibrator`."""

        def curve(k: int, p: Floats) -> Floats:
            inner, values = self._bins[k]
            return values[np.searchsorted(inner, p, side="left")]

        return recalibrated(logits, curve, len(self.edges))

    def log_probs(self, logits: Array) -> Array:
        """Return log-probabilities, -inf where the probability is 0; see `Calibrator`."""
        return _log(self.probs(logits))

    @cached_property
    def _bins(self) -> list[tuple[Floats, Floats]]:
        return [
            (np.asarray(x)[1:-1], np.asarray(y))
            for x, y in zip(self.edges, self.values, strict=True)
        ]

    def describe(self) -> str:
        """Return one line for a person to read."""
        return (
            f"histogram binning, one against the rest: {len(self.edges)} classes, "
            f"{len(self.values[0])} bins each"
        )
