"""Trace of a symmetric matrix, with its standard error."""

import math
from dataclasses import dataclass

import numpy as np

from focalibrate._check import check_count, check_positive
from focalibrate.curvature._products import (
    BLOCK_SIZE,
    Matvec,
    Products,
    check_symmetric_on,
    signs,
)

FEWEST_VECTORS = 10
"""Least number of vectors before `tolerance` may stop: with fewer, the spread is often too small
by chance."""


@dataclass(frozen=True)
class TraceEstimate:
    """A trace and how well it is known."""

    value: float
    """the estimate"""
    standard_error: float
    """estimated standard deviation of `value`"""
    n_products: int
    """number of products with the matrix"""
    method: str = "Hutchinson"
    """how it was found"""


def hutchinson_trace(
    matvec: Matvec,
    size: int,
    *,
    n_vectors: int = 100,
    seed: int | np.random.Generator = 0,
    tolerance: float | None = None,
    block_matvec: Matvec | None = None,
) -> TraceEstimate:
    r"""Hutchinson's estimate of the trace.

    .. math:: \widehat{\operatorname{Tr}} A = \frac1M\sum_{i=1}^M v_i^\top A v_i,
              \qquad v_i \in \{-1, 1\}^D

    Unbiased. One term has the variance :math:`2\sum_{i\ne j} A_{ij}^2`, so the diagonal of the
    matrix adds no variance and the standard error falls as :math:`1/\sqrt M`.

    Args:
        matvec: symmetric matrix, ``[D] -> [D]``.
        size: D.
        n_vectors: M, ``>= 2``; with `tolerance`, the most that are used.
        seed: seed of the random vectors.
        tolerance: stop when the standard error, over 10 vectors or more, is at most this. Two
            running means that are close are no reason to stop, as that happens by chance.
        block_matvec: the same matrix on ``[D, B]``.

    Returns:
        The mean of the terms; its standard error is their sample standard deviation over
        :math:`\sqrt M` (its square is unbiased if M is fixed, slightly too low if `tolerance`
        determined M); the number of products used.

    Numerics:
        Sums in float64 for products of any dtype. Memory: 2 D x 16 float64.

    Example:
        >>> A = np.array([[2.0, 1.0], [1.0, 3.0]])
        >>> estimate = hutchinson_trace(lambda v: A @ v, 2, n_vectors=400)
        >>> abs(estimate.value - 5.0) < 3 * estimate.standard_error
        True

    References:
        Hutchinson (1990), *A stochastic estimator of the trace of the influence matrix*.
    """
    check_count(n_vectors, name="n_vectors", minimum=2)
    goal = -math.inf if tolerance is None else tolerance
    if tolerance is not None:
        check_positive(tolerance, name="tolerance")
    A, rng = Products(matvec, size, block_matvec), np.random.default_rng(seed)
    terms = np.empty(0)
    while len(terms) < n_vectors:
        V = signs(rng, size, min(BLOCK_SIZE, n_vectors - len(terms)))
        AV = A(V)
        check_symmetric_on(V, AV)
        terms = np.append(terms, np.sum(V * AV, axis=0))
        if len(terms) >= FEWEST_VECTORS and standard_error(terms) <= goal:
            break
    return TraceEstimate(float(terms.mean()), standard_error(terms), A.count)


def standard_error(terms: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Return the standard error of the mean of independent `terms`, at least 2 of them."""
    return float(np.std(terms, ddof=1)) / math.sqrt(len(terms))
