"""Largest and smallest eigenvalue of a symmetric matrix."""

import math
from dataclasses import dataclass, replace

import numpy as np

from focalibrate._check import check_count, check_positive
from focalibrate.curvature._products import Matrix, Matvec, Products, check_symmetric

BASIS_SIZE = 96
"""Most vectors kept; when the limit is reached, the best third is kept (thick restart)."""
KEPT = 32
ROUNDING_ALLOWED = 0.01
"""Largest rounding error of the products, as a fraction of the value, to count as converged."""
ZERO = 1e-13
"""Residual, as a fraction of the largest eigenvalue seen, below which the value counts as 0."""


@dataclass(frozen=True)
class Eigenvalue:
    """An eigenvalue and how well it is known."""

    value: float
    """the estimate"""
    residual: float
    """norm of ``A y - value * y``, with rounding of the products: an eigenvalue lies within"""
    converged: bool
    """whether `residual` is small relative to `value` itself"""
    n_products: int
    """number of products with the matrix"""


def lambda_max(
    matvec: Matvec,
    size: int,
    *,
    seed: int | np.random.Generator = 0,
    tolerance: float = 1e-6,
    max_products: int = 500,
) -> Eigenvalue:
    r"""Largest eigenvalue by Lanczos' method with full reorthogonalisation.

    .. math:: \lambda_{\max}(A) = \max_{\|v\|=1} v^\top A v

    The largest eigenvalue, not the largest in absolute value: unlike power iteration, it is found
    even if a negative eigenvalue is further from 0.

    Args:
        matvec: symmetric matrix, ``[D] -> [D]``.
        size: D.
        seed: random seed of the first vector.
        tolerance: largest residual, as a fraction of the value found.
        max_products: most products to use.

    Returns:
        Value, residual, whether it converged, and products. Some eigenvalue lies within
        `residual` of the value; the error is about ``residual**2 / gap`` if the next eigenvalue is
        `gap` away. If rounding of the products alone exceeds 1 % of the value, as with float32
        products and an eigenvalue a million times as large at the other end, the search stops
        there and `converged` is false.

    Numerics:
        The projected matrix is formed from all inner products, twice orthogonalised, in
        float64. Rounding errors are estimated from how far the products are from symmetric.
        Memory: D x 96 float64; when that is full, it continues with the 32 best vectors.

    Example:
        >>> A = np.diag([-5.0, 1.0, 2.0])
        >>> round(lambda_max(lambda v: A @ v, 3).value, 9)
        2.0

    References:
        Wu, Simon (2000), *Thick-restart Lanczos method for large symmetric eigenvalue problems*.
    """
    check_positive(tolerance, name="tolerance")
    check_count(max_products, name="max_products")
    A, rng = Products(matvec, size), np.random.default_rng(seed)
    capacity = min(BASIS_SIZE, size)
    Q, H = np.empty((size, capacity)), np.zeros((capacity, capacity))
    q, k, scale = rng.standard_normal(size), 0, 0.0
    squares, n_squares = 0.0, 0
    q /= np.linalg.norm(q)
    while True:
        Q[:, k] = q
        product = A(q[:, None])[:, 0]
        scale = max(scale, float(np.linalg.norm(product)))
        k += 1
        overlap, rest = _split(Q[:, :k], product)
        differences = overlap[:-1] - H[: k - 1, k - 1]
        check_symmetric(overlap[:-1], H[: k - 1, k - 1], scale=scale)
        squares, n_squares = squares + float(differences @ differences), n_squares + k - 1
        # One entry of A's rounding error along each basis vector; D of them make its norm.
        rounding = math.sqrt(size * squares / max(1, n_squares))
        H[:k, k - 1] = H[k - 1, :k] = overlap
        beta = float(np.linalg.norm(rest))
        ritz, U = np.linalg.eigh(H[:k, :k])
        residual = beta * abs(float(U[-1, -1]))
        size_seen = max(abs(float(ritz[0])), abs(float(ritz[-1])))
        is_whole = beta <= 1e-14 * scale or k == size  # the basis is complete
        value = abs(float(ritz[-1]))
        is_zero = math.hypot(residual, rounding) <= ZERO * size_seen
        goal = max(tolerance * value, 0.1 * rounding)
        if is_whole or is_zero or residual <= goal or A.count >= max_products:
            residual = math.hypot(0.0 if is_whole else residual, rounding)
            found = rounding <= ROUNDING_ALLOWED * value and residual <= goal + rounding
            converged = found or is_zero or (is_whole and rounding <= tolerance * size_seen)
            return Eigenvalue(float(ritz[-1]), residual, converged, A.count)
        q = rest / beta
        if k < capacity:
            H[k - 1, k] = H[k, k - 1] = beta
        else:
            k = _restart(Q, H, ritz, U, beta)


def lambda_min(
    matvec: Matvec,
    size: int,
    *,
    seed: int | np.random.Generator = 0,
    tolerance: float = 1e-6,
    max_products: int = 500,
) -> Eigenvalue:
    """Smallest (most negative) eigenvalue: minus `lambda_max` of minus the matrix.

    Example:
        >>> A = np.diag([-5.0, 1.0, 2.0])
        >>> round(lambda_min(lambda v: A @ v, 3).value, 9)
        -5.0
    """
    largest = lambda_max(
        lambda v: -np.asarray(matvec(v)),
        size,
        seed=seed,
        tolerance=tolerance,
        max_products=max_products,
    )
    return replace(largest, value=-largest.value)


def _split(Q: Matrix, product: Matrix) -> tuple[Matrix, Matrix]:
    """Return the coordinates of `product` in the basis `Q`, and the remainder."""
    overlap = Q.T @ product
    rest = product - Q @ overlap
    again = Q.T @ rest  # once is not enough: the remainder may be relatively small
    return overlap + again, rest - Q @ again


def _restart(Q: Matrix, H: Matrix, ritz: Matrix, U: Matrix, beta: float) -> int:
    """Keep the Ritz vectors of the largest values in `Q` and `H`; return how many."""
    kept = U[:, -KEPT:]
    Q[:, :KEPT] = Q @ kept
    H[:] = 0.0
    H[range(KEPT), range(KEPT)] = ritz[-KEPT:]
    H[:KEPT, KEPT] = H[KEPT, :KEPT] = beta * kept[-1]
    return KEPT
