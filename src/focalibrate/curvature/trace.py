"""Trace of a symmetric matrix given only by its products, which are counted and checked."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import check_count, check_positive

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Matvec = Callable[[NDArray[np.float64]], NDArray[np.floating]]

BLOCK_SIZE = 16
"""Most vectors passed to `block_matvec` at once: limits memory, and more are hardly faster."""
SYMMETRY_TOLERANCE = 1e-4
"""Largest ``|<u, Av> - <v, Au>|`` allowed, as a fraction of the norms.

Rounding of float32 products stays below 1e-5; a random matrix without symmetry shows about
``1 / sqrt(D)``.
"""


@final
class Products:
    """The matrix :math:`A` of `matvec`, as a function ``[D, B] -> [D, B]`` in float64.

    Args:
        matvec: ``[D] -> [D]``.
        size: D.
        block_matvec: ``[D, B] -> [D, B]``, the same matrix; without it, columns are
            passed one by one.
    """

    def __init__(self, matvec: Matvec, size: int, block_matvec: Matvec | None = None) -> None:
        check_count(size, name="size")
        self.size = size
        self.count = 0
        self._matvec = matvec
        self._block_matvec = block_matvec

    def __call__(self, vectors: Matrix) -> Matrix:
        """Return :math:`AV`, each column finite; raise `ValueError` otherwise."""
        if self._block_matvec is None:
            columns = [self._one(v) for v in vectors.T]
        else:
            columns = [
                self._checked(self._block_matvec(part), part.shape, "block_matvec")
                for part in np.split(vectors, range(BLOCK_SIZE, vectors.shape[1], BLOCK_SIZE), 1)
            ]
        return np.concatenate(columns, axis=1)

    def _one(self, vector: Vector) -> Matrix:
        vector = np.ascontiguousarray(vector)
        return self._checked(self._matvec(vector), vector.shape, "matvec")[:, None]

    def _checked(
        self, product: NDArray[np.floating], shape: tuple[int, ...], name: str
    ) -> NDArray[np.float64]:
        answer = np.asarray(product, dtype=np.float64)
        if answer.shape != shape:
            raise ValueError(
                f"`{name}` must return an array of the shape it is given, {list(shape)}, got "
                f"{list(answer.shape)}. Is `size` the number of rows of the matrix?"
            )
        if not np.isfinite(answer).all():
            raise ValueError(
                f"`{name}` must return finite numbers, but product {self.count + 1} has nan or "
                "inf. Are the parameters and the loss finite?"
            )
        self.count += 1 if len(shape) == 1 else shape[1]
        return answer


def check_symmetric(left: Matrix, right: Matrix, *, scale: float) -> None:
    r"""Raise `ValueError` if :math:`\langle u, Av\rangle \ne \langle v, Au\rangle`.

    Args:
        left: the numbers :math:`\langle u, Av\rangle`.
        right: the numbers :math:`\langle v, Au\rangle`.
        scale: their largest possible size: the norm of a vector times that of a product.
    """
    if left.size == 0:
        return
    worst = float(np.max(np.abs(left - right)))
    if worst > SYMMETRY_TOLERANCE * scale:
        raise ValueError(
            "`matvec` must be a symmetric matrix, but <u, Av> and <v, Au> differ by "
            f"{worst:.3g}, {worst / scale:.1g} of their scale. A model in training mode "
            "(dropout, batch statistics) gives a different matrix at each product: use eval mode."
        )


def signs(rng: np.random.Generator, size: int, n_vectors: int) -> Matrix:
    """Return Rademacher vectors ``[D, B]``: every entry is +1 or -1 with probability 1/2."""
    bits = rng.integers(0, 2, size=(n_vectors, size), dtype=np.int8)
    return np.ascontiguousarray((2.0 * bits - 1.0).T)


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
        gram, sizes = V.T @ AV, [np.linalg.norm(x, axis=0).max() for x in (V, AV)]
        check_symmetric(gram, gram.T, scale=float(sizes[0] * sizes[1]))
        terms = np.append(terms, np.sum(V * AV, axis=0))
        if len(terms) >= FEWEST_VECTORS and standard_error(terms) <= goal:
            break
    return TraceEstimate(float(terms.mean()), standard_error(terms), A.count)


def standard_error(terms: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Return the standard error of the mean of independent `terms`, at least 2 of them."""
    return float(np.std(terms, ddof=1)) / math.sqrt(len(terms))
