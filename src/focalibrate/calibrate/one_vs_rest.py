"""Calibrators of one curve per class; rows are then brought back to sum 1."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import (
    Array,
    device,
    is_numpy_array,
    is_torch_array,
    namespace,
    working_dtype,
)
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._settings import check_numbers

Floats = NDArray[np.float64]
Curves = tuple[tuple[float, ...], ...]


def class_probs(logits: NDArray[Any]) -> Floats:
    """Return the softmax of one block in float64."""
    z = logits.astype(np.float64)
    z -= z.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=-1, keepdims=True)
    return z


def recalibrated(logits: Array, curve: Callable[[int, Array], Array], n_classes: int) -> Array:
    """Apply ``curve(k, p)`` to each class's probabilities and bring the rows back to sum 1.

    An impossible class stays so. A row whose every class is mapped to 0 keeps the model's own
    probabilities. Computed in float64 where the device has it.
    """
    xp = namespace(logits)
    x = xp.astype(logits, _precise(logits))
    raw = xp.exp(log_softmax(x))
    columns = [curve(k, raw[..., k]) for k in range(n_classes)]
    new = xp.stack(columns, axis=-1)
    new = xp.where(raw == 0.0, xp.zeros_like(new), new)
    total = xp.sum(new, axis=-1, keepdims=True)
    is_lost = total <= 0
    new = xp.where(is_lost, raw, new / xp.where(is_lost, xp.ones_like(total), total))
    return xp.astype(new, logits.dtype)


def _precise(logits: Array) -> Any:
    """Return float64, or the working precision on a device without it."""
    is_wide = is_numpy_array(logits) or (is_torch_array(logits) and logits.device.type != "mps")
    return namespace(logits).float64 if is_wide else working_dtype(logits)


def flattened(p: Array) -> Array:
    """Return `p` with one axis, in one piece of memory, as torch's `searchsorted` asks for."""
    flat = namespace(p).reshape(p, (-1,))
    return flat.contiguous() if is_torch_array(flat) else flat


def between_knots(p: Array, x: Floats, y: Floats) -> Array:
    """Return the piecewise linear curve through ``(x, y)`` at `p`, flat outside."""
    xp = namespace(p)
    knots, values = (xp.asarray(v, dtype=p.dtype, device=device(p)) for v in (x, y))
    flat = flattened(p)
    last = x.shape[0] - 1
    at = xp.clip(xp.searchsorted(knots, flat, side="right") - 1, 0, max(last - 1, 0))
    after = xp.clip(at + 1, 0, last)
    low, high = xp.take(knots, at), xp.take(knots, after)
    width = xp.where(high > low, high - low, xp.ones_like(low))
    share = xp.clip((flat - low) / width, 0.0, 1.0)
    start, end = xp.take(values, at), xp.take(values, after)
    # Not start + share * (end - start): an exact end must stay exact.
    out = xp.where(share >= 1.0, end, start + share * (end - start))
    return xp.reshape(out, p.shape)


def check_curves(x: Any, y: Any, names: tuple[str, str], *, longer: int) -> None:
    """Raise `ValueError` unless `x` and `y` hold one rising curve per class, values in [0, 1]."""
    if not isinstance(x, tuple) or not isinstance(y, tuple) or len(x) != len(y) or len(x) < 2:
        raise ValueError(f"`{names[0]}` and `{names[1]}` must have one curve per class.")
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


def log_of(probs: Array) -> Array:
    """Return the logarithm, -inf where the probability is 0."""
    xp = namespace(probs)
    is_zero = probs == 0
    log_probs = xp.log(xp.where(is_zero, xp.ones_like(probs), probs))
    return xp.where(is_zero, xp.full_like(probs, -xp.inf), log_probs)


def pairs_of(x: Curves, y: Curves) -> list[tuple[Floats, Floats]]:
    """Return the two halves of each class's curve as arrays."""
    return [(np.asarray(a), np.asarray(b)) for a, b in zip(x, y, strict=True)]


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
        return recalibrated(x, lambda k, p: between_knots(p, *self._knots[k]), len(self.scores))

    def _log_probs(self, x: Array) -> Array:
        return log_of(self._probs(x))

    @cached_property
    def _knots(self) -> list[tuple[Floats, Floats]]:
        return pairs_of(self.scores, self.values)

    def describe(self) -> str:
        """Return one line for a person to read."""
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
        def curve(k: int, p: Array) -> Array:
            xp = namespace(p)
            inner, values = (xp.asarray(v, dtype=p.dtype, device=device(p)) for v in self._bins[k])
            at = xp.searchsorted(inner, flattened(p), side="left")
            return xp.reshape(xp.take(values, at), p.shape)

        return recalibrated(x, curve, len(self.edges))

    def _log_probs(self, x: Array) -> Array:
        return log_of(self._probs(x))

    @cached_property
    def _bins(self) -> list[tuple[Floats, Floats]]:
        return [(x[1:-1], y) for x, y in pairs_of(self.edges, self.values)]

    def describe(self) -> str:
        """Return one line for a person to read."""
        return (
            f"histogram binning, one against the rest: {len(self.edges)} classes, "
            f"{len(self.values[0])} bins each"
        )
