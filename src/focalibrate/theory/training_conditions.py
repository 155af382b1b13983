r"""Class weights, smoothed labels and class frequencies: their effects, and how to undo them."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import (
    Array,
    Floats,
    is_array_api_obj,
    is_concrete,
    like,
    namespace,
    to_numpy,
)
from focalibrate._check import check_probs
from focalibrate._stable import log_softmax


def trained_on(posterior: Array, *, class_weight: Any, label_smoothing: float) -> Array:
    r"""Return the posterior :math:`\eta'_i \propto w_i((1-\varepsilon)\eta_i + \varepsilon/K)`.

    It is the target of a loss with these weights and smoothed labels, shape ``[..., K]``.
    """
    _check_smoothing(label_smoothing)
    xp = namespace(posterior)
    found = (1.0 - label_smoothing) * posterior + label_smoothing / posterior.shape[-1]
    if class_weight is not None:
        found = found * per_class(class_weight, found, name="class_weight")
        found = found / xp.sum(found, axis=-1, keepdims=True)
    return found


def undo_label_smoothing(log_probs: Array, label_smoothing: float) -> Array:
    r"""Return :math:`\log\eta`, :math:`\eta = \frac{\eta' - \varepsilon/K}{1-\varepsilon}`.

    Entries below :math:`\varepsilon/K`, which no smoothed target can reach, become 0, and the row
    is renormalised.
    """
    _check_smoothing(label_smoothing)
    if label_smoothing == 0:
        return log_probs
    xp = namespace(log_probs)
    excess = xp.exp(log_probs) - label_smoothing / log_probs.shape[-1]
    is_kept = excess > 0
    log_excess = xp.log(xp.where(is_kept, excess, xp.ones_like(excess)))
    return log_softmax(xp.where(is_kept, log_excess, xp.full_like(excess, -xp.inf)))


def is_outside_smoothing(log_probs: Array, label_smoothing: float) -> Array:
    r"""Return which rows have an entry below :math:`\varepsilon/K`, boolean ``[...]``."""
    xp = namespace(log_probs)
    low = xp.min(xp.exp(log_probs), axis=-1)
    # Rounding puts an entry of exactly eps / K on either side of it.
    rounding = 4 * float(xp.finfo(log_probs.dtype).eps)
    return low < label_smoothing / log_probs.shape[-1] - rounding


def shift_prior(log_probs: Array, prior: Any, target_prior: Any) -> Array:
    r"""Move a posterior from one set of class frequencies to another.

    .. math:: \eta'_i \propto \eta_i \, \pi'_i / \pi_i

    Valid if only the class frequencies differ (label shift) and the distribution of inputs within
    each class is the same.

    Args:
        log_probs: log-probabilities under the frequencies `prior`, shape ``[..., K]``.
        prior: class frequencies of training, one positive number per class.
        target_prior: class frequencies where the model is used.

    Returns:
        Log-probabilities, same shape, dtype and device.
    """
    xp = namespace(log_probs)
    old = per_class(prior, log_probs, name="prior")
    new = per_class(target_prior, log_probs, name="target_prior")
    return log_softmax(log_probs + xp.log(new) - xp.log(old))


def estimate_prior(probs: NDArray[Any], prior: Any) -> Floats:
    r"""Class frequencies of unlabelled data, by expectation-maximisation.

    .. math:: \pi'_i \leftarrow \frac1N\sum_n
              \frac{p_{ni}\,\pi'_i/\pi_i}{\sum_l p_{nl}\,\pi'_l/\pi_l}

    Each step raises the likelihood; it is concave, so the start does not matter. The
    probabilities must be calibrated under `prior`: errors of calibration become errors of the
    frequencies.

    Args:
        probs: calibrated probabilities ``[N, K]`` of examples from where the model is used.
        prior: class frequencies under which they are calibrated, ``[K]``.

    Returns:
        Frequencies ``[K]``, float64, that sum to 1; steps end where none moves by over 1e-10.

    Example:
        >>> probs = np.array([[0.9, 0.1]] * 3 + [[0.1, 0.9]])
        >>> estimate_prior(probs, [0.5, 0.5]).round(4)
        array([0.8125, 0.1875])

    References:
        Saerens, Latinne & Decaestecker (2002), *Adjusting the Outputs of a Classifier to New a
        Priori Probabilities*.
    """
    p = np.asarray(probs, dtype=np.float64)
    if p.ndim != 2 or not len(p):
        raise ValueError(f"`probs` must have shape [N, K] with N >= 1, got {p.shape}.")
    check_probs(p)
    old = np.asarray(per_class(prior, p, name="prior"))
    old = old / old.sum()
    new = old
    for _ in range(1000):
        joint = p * (new / old)
        last, new = new, (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(new - last).max() <= 1e-10:
            break
    return np.asarray(new)


def _check_smoothing(label_smoothing: Any) -> None:
    is_number = isinstance(label_smoothing, (int, float)) and not isinstance(label_smoothing, bool)
    if not is_number or not 0.0 <= label_smoothing < 1.0:
        raise ValueError(
            f"`label_smoothing` must be a number in [0, 1), got {label_smoothing!r}. With 1 the "
            "targets are uniform and nothing can be recovered."
        )


def per_class(values: Any, rows: Array, *, name: str) -> Array:
    """Return `values` as an array ``[K]`` of the library, dtype and device of `rows`."""
    xp = namespace(rows)
    if is_array_api_obj(values) and namespace(values) is xp:
        found = like(values, rows, dtype=rows.dtype)
        least = float(xp.min(found)) if is_concrete(found) else 1.0
        is_good = not is_concrete(found) or bool(xp.all(xp.isfinite(found) & (found > 0)))
    else:  # plain numbers, checked outside the compiled graph
        listed = values if isinstance(values, (list, tuple)) else to_numpy(values).tolist()
        numbers = [float(value) for value in listed]
        found = like(numbers, rows, dtype=rows.dtype)
        least = min(numbers, default=1.0)
        is_good = all(math.isfinite(value) and value > 0 for value in numbers)
    if tuple(found.shape) != (rows.shape[-1],):
        raise ValueError(
            f"`{name}` must have one number per class, shape ({rows.shape[-1]},), got "
            f"{tuple(found.shape)}."
        )
    if not is_good:
        raise ValueError(
            f"`{name}` must hold finite numbers > 0, but its smallest entry is "
            f"{least:.3g}. A class of weight 0 cannot be recovered: leave it out."
        )
    return found
