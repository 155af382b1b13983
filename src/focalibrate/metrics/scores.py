"""Scores that are means over examples: NLL, Brier, error, entropy, KL, confident fraction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._check import check_unit_interval
from focalibrate.metrics._binning import Floats
from focalibrate.metrics._rows import read, read_probs, row_chunks, top_label, true_class


def nll(probs: Array, labels: Array, *, binary: bool = False) -> float:
    r"""Negative log likelihood :math:`-\frac1N\sum_i \log v_{i,y_i}`, in nats.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        A float ``>= 0``; ``inf`` if a label has probability 0. Nothing is clipped.

    Numerics:
        Float64. A softmax that has underflowed to 0 gives ``inf``: take the loss from the
        logits (`focalibrate.losses.cross_entropy`) if they are at hand.

    Example:
        >>> import numpy as np
        >>> round(nll(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0, 1])), 4)
        0.4581
    """
    return _mean(nll_rows(probs, labels, binary=binary))


def brier_score(probs: Array, labels: Array, *, binary: bool = False) -> float:
    r"""Brier score :math:`\frac1N\sum_i\sum_k (v_{ik} - [k = y_i])^2`, summed over classes.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``, which
            makes the score twice the one-sided :math:`(p - y)^2`.

    Returns:
        A float in ``[0, 2]``.

    Numerics:
        Float64, in row chunks; accurate also for saturated rows, as ``1 - v_y`` is formed
        before it is squared.

    Example:
        >>> import numpy as np
        >>> round(brier_score(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0, 1])), 4)
        0.29

    References:
        Brier (1950), *Verification of forecasts expressed in terms of probability*.
    """
    return _mean(brier_rows(probs, labels, binary=binary))


def error_rate(probs: Array, labels: Array, *, binary: bool = False) -> float:
    r"""Fraction of rows whose largest probability is not the label's.

    Of several classes that share the largest probability the first is predicted.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        A float in ``[0, 1]``.

    Example:
        >>> import numpy as np
        >>> error_rate(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]))
        0.5
    """
    return _mean(error_rows(probs, labels, binary=binary))


def entropy(probs: Array, *, binary: bool = False) -> float:
    r"""Mean entropy :math:`-\frac1N\sum_i\sum_k v_{ik}\log v_{ik}`, in nats; 0 log 0 = 0.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        A float in ``[0, log K]``.

    Example:
        >>> import numpy as np
        >>> round(entropy(np.array([[0.5, 0.5], [1.0, 0.0]])), 4)
        0.3466
    """
    return _mean(entropy_rows(probs, binary=binary))


def kl_divergence(posterior: Array, probs: Array, *, binary: bool = False) -> float:
    r"""Mean divergence :math:`\frac1N\sum_i\sum_k \eta_{ik}\log(\eta_{ik}/v_{ik})`, in nats.

    How far the probabilities are from the true posterior, where that is known.

    Args:
        posterior: true class probabilities :math:`\eta`, shape ``[..., K]``.
        probs: probabilities :math:`v` of the same shape.
        binary: both are probabilities of class 1, shape ``[N]``.

    Returns:
        A float ``>= 0`` (to rounding). Entries with :math:`\eta = 0` add 0; ``inf`` if
        :math:`v = 0 < \eta` anywhere.

    Example:
        >>> import numpy as np
        >>> round(kl_divergence(np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])), 4)
        0.5108

    References:
        Charoenphakdee et al. (2021), *On Focal Loss for Class-Posterior Probability
        Estimation*, the KLD of the synthetic experiment.
    """
    return _mean(kl_rows(posterior, probs, binary=binary))


@dataclass(frozen=True)
class ConfidentFraction:
    """How many rows are confident, and how often those are right (nan if there are none)."""

    fraction: float
    accuracy: float


def confident_fraction(
    probs: Array, labels: Array, *, threshold: float = 0.99, binary: bool = False
) -> ConfidentFraction:
    r"""Fraction of rows with confidence ``>= threshold``, and their accuracy (S99 for 0.99).

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        threshold: least confidence that counts, in ``[0, 1]``.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        `ConfidentFraction` with ``fraction`` and ``accuracy``.

    Example:
        >>> import numpy as np
        >>> confident_fraction(np.array([[1.0, 0.0], [0.2, 0.8]]), np.array([0, 1]))
        ConfidentFraction(fraction=0.5, accuracy=1.0)
    """
    check_unit_interval(threshold, name="threshold")
    confidence, correct = top_label(*read(probs, labels, binary=binary))
    sure = confidence >= threshold
    accuracy = float(correct[sure].mean()) if sure.any() else float("nan")
    return ConfidentFraction(float(sure.mean()), accuracy)


def nll_rows(probs: Array, labels: Array, *, binary: bool = False) -> Floats:
    """Return each row's term of `nll`."""
    with np.errstate(divide="ignore"):
        return -np.log(true_class(*read(probs, labels, binary=binary)))


def brier_rows(probs: Array, labels: Array, *, binary: bool = False) -> Floats:
    """Return each row's term of `brier_score`."""
    rows, y = read(probs, labels, binary=binary)

    def term(part: slice) -> Floats:
        off = rows[part].astype(np.float64)
        off[np.arange(len(off)), y[part]] -= 1.0
        return _row_dot(off, off)

    return _by_chunk(rows, term)


def error_rows(probs: Array, labels: Array, *, binary: bool = False) -> Floats:
    """Return 1 for each row that is wrong, else 0."""
    _, correct = top_label(*read(probs, labels, binary=binary))
    return (~correct).astype(np.float64)


def entropy_rows(probs: Array, *, binary: bool = False) -> Floats:
    """Return each row's entropy."""
    rows = read_probs(probs, binary=binary)

    def term(part: slice) -> Floats:
        v = rows[part].astype(np.float64)
        return -_row_dot(v, np.log(v, out=np.zeros_like(v), where=v > 0))

    return _by_chunk(rows, term)


def kl_rows(posterior: Array, probs: Array, *, binary: bool = False) -> Floats:
    """Return each row's divergence."""
    truth = read_probs(posterior, binary=binary, name="posterior")
    rows = read_probs(probs, binary=binary)
    if tuple(posterior.shape) != tuple(probs.shape):
        raise ValueError(
            f"`posterior` must have the shape of `probs`, {tuple(probs.shape)}, got "
            f"{tuple(posterior.shape)}. Pass one true distribution per row."
        )

    def term(part: slice) -> Floats:
        eta, v = truth[part].astype(np.float64), rows[part].astype(np.float64)
        log_ratio = np.zeros_like(eta)
        with np.errstate(divide="ignore"):
            # a difference of logs: the ratio itself overflows for a subnormal `v`
            np.subtract(np.log(eta), np.log(v), out=log_ratio, where=eta > 0)
        return _row_dot(eta, log_ratio)

    return _by_chunk(rows, term)


def _by_chunk(rows: NDArray[Any], term: Callable[[slice], Floats]) -> Floats:
    return np.concatenate([term(part) for part in row_chunks(*rows.shape)])


def _row_dot(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("nk,nk->n", a, b))


def _mean(values: Floats) -> float:
    return float(values.mean())
