"""Calibrators with one curve per class; rows are then normalised to sum 1."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from focalibrate._array import (
    Array,
    Floats,
    is_numpy_array,
    is_torch_array,
    namespace,
    working_dtype,
)
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.tables import count_below, entries, interpolated, padded
from focalibrate.calibrate._settings import check_numbers

Curves = tuple[tuple[float, ...], ...]


def recalibrated(logits: Array, curves: Callable[[Array], Array]) -> Array:
    """Apply `curves` to the probabilities ``[..., K]`` and normalise the rows to sum 1.

    An impossible class stays impossible. A row in which every class is mapped to 0 keeps the
    model's own probabilities. Computed in float64 if the device has it.
    """
    xp = namespace(logits)
    x = xp.astype(logits, _precise(logits))
    raw = xp.exp(log_softmax(x))
    new = curves(raw)
    new = xp.where(raw == 0.0, xp.zeros_like(new), new)
    total = xp.sum(new, axis=-1, keepdims=True)
    is_lost = total <= 0
    new = xp.where(is_lost, raw, new / xp.where(is_lost, xp.ones_like(total), total))
    return xp.astype(new, logits.dtype)


def _precise(logits: Array) -> Any:
    """Return float64, or the working precision on a device without it."""
    is_wide = is_numpy_array(logits) or (is_torch_array(logits) and logits.device.type != "mps")
    return namespace(logits).float64 if is_wide else working_dtype(logits)


def check_curves(x: Any, y: Any, names: tuple[str, str], *, longer: int) -> None:
    """Raise `ValueError` unless `x` and `y` are one increasing curve per class, in [0, 1]."""
    if not isinstance(x, tuple) or not isinstance(y, tuple) or len(x) != len(y) or len(x) < 2:
        raise ValueError(f"`{names[0]}` and `{names[1]}` must have one curve per class.")
    for k, (xs, ys) in enumerate(zip(x, y, strict=True)):
        check_numbers(xs, name=f"{names[0]}[{k}]")
        check_numbers(ys, name=f"{names[1]}[{k}]")
        if len(xs) != len(ys) + longer or not ys or any(np.diff(xs) < 0):
            raise ValueError(
                f"`{names[0]}[{k}]` must not decrease and must match `{names[1]}[{k}]`, got "
                f"lengths {len(xs)} and {len(ys)}."
            )
        if min(ys) < 0 or max(ys) > 1:
            raise ValueError(f"`{names[1]}[{k}]` must lie in [0, 1].")


def log_of(probs: Array) -> Array:
    """Return the logarithm, -inf where the probability is 0."""
    xp = namespace(probs)
    is_zero = probs == 0
    log_probs = xp.log(xp.where(is_zero, xp.ones_like(probs), probs))
    return xp.where(is_zero, xp.full_like(probs, -xp.inf), log_probs)


@final
@dataclass(frozen=True)
class IsotonicCalibration(Calibrator):
    """One isotonic curve per class, linear between its knots: may change predictions.

    Computed in float64; the result has the library, dtype and device of the logits.

    References:
        Zadrozny & Elkan (2002), *Transforming Classifier Scores into Accurate Multiclass
        Probability Estimates*.
    """

    scores: Curves
    """Knots of each class: probabilities of the model, rising."""
    values: Curves
    """Calibrated probability at each knot."""
    kind: ClassVar[str] = "isotonic"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_curves(self.scores, self.values, ("scores", "values"), longer=0)

    def _own_classes(self) -> int:
        return len(self.scores)

    def _probs(self, x: Array) -> Array:
        def curves(p: Array) -> Array:
            if is_numpy_array(p):
                return interpolated(p, self._curves)
            knots, values = self._tables
            after = count_below(p, knots, side="right")
            x0, x1 = entries(knots, after - 1, p), entries(knots, after, p)
            y0, y1 = entries(values, after - 1, p), entries(values, after, p)
            return y0 + (y1 - y0) * ((p - x0) / (x1 - x0))

        return recalibrated(x, curves)

    def _log_probs(self, x: Array) -> Array:
        return log_of(self._probs(x))

    @cached_property
    def _curves(self) -> list[tuple[Floats, Floats]]:
        pairs = zip(self.scores, self.values, strict=True)
        return [(np.array(x, np.float64), np.array(y, np.float64)) for x, y in pairs]

    @cached_property
    def _tables(self) -> tuple[Floats, Floats]:
        # Flat from a knot below every probability to one at infinity: each lies between two.
        knots = [(-1.0, *row, np.inf) for row in self.scores]
        values = [(row[0], *row, row[-1]) for row in self.values]
        return padded(knots, np.inf), padded(values)

    def describe(self) -> str:
        """Return a one-line description."""
        knots = sum(len(x) for x in self.scores)
        return f"isotonic, one against the rest: {len(self.scores)} classes, {knots} knots"


@final
@dataclass(frozen=True)
class HistogramBinning(Calibrator):
    """Each class's probability replaced by its bin's frequency: may change predictions.

    Bins are ``(edges[b], edges[b+1]]``; the first includes its lower edge. Computed in float64;
    the result has the library, dtype and device of the logits.

    References:
        Zadrozny & Elkan (2001), *Obtaining calibrated probability estimates from decision
        trees and naive Bayesian classifiers*.
    """

    edges: Curves
    """``B + 1`` edges of each class, rising."""
    values: Curves
    """Calibrated probability in each bin."""
    kind: ClassVar[str] = "histogram"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_curves(self.edges, self.values, ("edges", "values"), longer=1)

    def _own_classes(self) -> int:
        return len(self.edges)

    def _probs(self, x: Array) -> Array:
        inner, values = self._tables
        return recalibrated(x, lambda p: entries(values, count_below(p, inner, side="left"), p))

    def _log_probs(self, x: Array) -> Array:
        return log_of(self._probs(x))

    @cached_property
    def _tables(self) -> tuple[Floats, Floats]:
        return padded([row[1:-1] for row in self.edges], np.inf), padded(self.values)

    def describe(self) -> str:
        """Return a one-line description."""
        return (
            f"histogram binning, one against the rest: {len(self.edges)} classes, "
            f"{len(self.values[0])} bins each"
        )
