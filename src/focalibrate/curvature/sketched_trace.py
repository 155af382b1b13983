"""Trace of a matrix with few large eigenvalues: exact on these, sampled on the rest."""

import numpy as np

from focalibrate._check import check_count
from focalibrate.curvature._products import (
    Matrix,
    Matvec,
    Products,
    Vector,
    check_symmetric_on,
    signs,
)
from focalibrate.curvature.trace import TraceEstimate, standard_error

SHARED_VECTORS = 1.25
"""Factor on the standard error of XTrace, whose terms share vectors; measured, see `xtrace`."""


def hutchpp_trace(
    matvec: Matvec,
    size: int,
    *,
    n_products: int = 99,
    seed: int | np.random.Generator = 0,
    block_matvec: Matvec | None = None,
) -> TraceEstimate:
    r"""Hutch++: exact trace on a subspace, Hutchinson's estimate on the rest.

    .. math:: \operatorname{Tr} Q^\top A Q
              + \frac1m\sum_{i=1}^m g_i^\top (I-QQ^\top) A (I-QQ^\top) g_i

    with :math:`Q` an orthonormal basis of :math:`AS`, both :math:`S` and :math:`g_i` random
    signs. Unbiased, because the :math:`g_i` are independent of :math:`Q`; for the same reason the
    standard error is valid: that of the mean of the m terms, given :math:`Q`.

    Args:
        matvec: symmetric matrix, ``[D] -> [D]``.
        size: D.
        n_products: products to use, ``>= 6``; a third each for :math:`AS`, :math:`AQ` and the
            terms.
        seed: seed of the random vectors.
        block_matvec: the same matrix on ``[D, B]``.

    Returns:
        Estimate, standard error and products used. Exact, with standard error 0 to rounding,
        if a third of the products is at least the rank of the matrix.

    Numerics:
        Memory: about 3 D x `n_products` / 3 float64.

    Example:
        >>> A = np.diag([100.0, 50.0, *np.zeros(98)])
        >>> estimate = hutchpp_trace(lambda v: A @ v, 100, n_products=12)
        >>> round(estimate.value, 9), estimate.n_products
        (150.0, 12)

    References:
        Meyer, Musco, Musco, Woodruff (2021), *Hutch++*, Algorithm 1.
    """
    check_count(n_products, name="n_products", minimum=6)
    A, rng = Products(matvec, size, block_matvec), np.random.default_rng(seed)
    m = n_products // 3
    S = signs(rng, size, min(m, size))
    AS = A(S)
    check_symmetric_on(S, AS)
    Q, _ = np.linalg.qr(AS)
    exact = float(np.sum(Q * A(Q)))
    G = signs(rng, size, m)
    G -= Q @ (Q.T @ G)
    terms = np.sum(G * A(G), axis=0)
    value = exact + float(terms.mean())
    return TraceEstimate(value, standard_error(terms), A.count, "Hutch++")


def xtrace(
    matvec: Matvec,
    size: int,
    *,
    n_products: int = 100,
    seed: int | np.random.Generator = 0,
    block_matvec: Matvec | None = None,
) -> TraceEstimate:
    r"""XTrace: Hutch++ with each vector in turn left out of the subspace, as the sample.

    .. math:: \frac1m\sum_{i=1}^m \Bigl[\operatorname{Tr} Q_i^\top A Q_i
              + \frac{D-m+1}{\|\omega_i'\|^2}\,\omega_i'^\top A\,\omega_i'\Bigr],
              \qquad \omega_i' = (I-Q_iQ_i^\top)\,\omega_i

    with :math:`\omega_i` normal and :math:`Q_i` an orthonormal basis of :math:`A\omega_j`,
    :math:`j\ne i`. Unbiased, because :math:`\omega_i` is independent of :math:`Q_i` and the
    direction of :math:`\omega_i'` is uniform on the complement of :math:`Q_i`. The m estimates
    share vectors and are not independent, so the authors' estimate of the standard error, their
    standard deviation over :math:`\sqrt m`, is too low: 0.66 to 0.97 of the true one over seven
    spectra and four numbers of products, with a median of 0.8. It is multiplied by 1.25; the
    reported standard error is then within 25 % of the true one. `hutchpp_trace` needs no such
    factor.

    Args:
        matvec: symmetric matrix, ``[D] -> [D]``.
        size: D.
        n_products: products to use, ``>= 4``; half for :math:`A\omega_i`, half for :math:`AQ`.
        seed: seed of the random vectors.
        block_matvec: the same matrix on ``[D, B]``.

    Returns:
        Estimate, standard error and products used. If `n_products` is at least ``2 D``, the trace
        over a full basis: exact, with standard error 0.

    Numerics:
        :math:`Q_iQ_i^\top = Q(I-s_is_i^\top)Q^\top` with :math:`Y = QR` and :math:`s_i` the
        normalised columns of :math:`R^{-\top}`: one factorisation serves all i. If the products do
        not have full rank, the diagonal of :math:`R` is kept at 1e-14 of its largest entry; the
        additional direction has a product of 0. Memory: 4 D x `n_products` / 2 float64.

    Example:
        >>> A = np.diag([100.0, 50.0, *np.zeros(98)])
        >>> estimate = xtrace(lambda v: A @ v, 100, n_products=12)
        >>> round(estimate.value, 9), estimate.n_products
        (150.0, 12)

    References:
        Epperly, Tropp, Webber (2024), *XTrace: making the most of every sample in stochastic
        trace estimation*, with its normalisation of the test vectors.
    """
    check_count(n_products, name="n_products", minimum=4)
    A, rng = Products(matvec, size, block_matvec), np.random.default_rng(seed)
    m = n_products // 2
    if m >= size:
        basis = np.eye(size)
        return TraceEstimate(float(np.trace(A(basis))), 0.0, A.count, "XTrace")
    omega = rng.standard_normal((size, m))  # not signs: two such vectors may be equal
    Y = A(omega)
    check_symmetric_on(omega, Y)
    Q, R = np.linalg.qr(Y)
    terms = _left_out(omega, np.sum(omega * Y, axis=0), R, H=Q.T @ A(Q), W=Q.T @ omega)
    error = SHARED_VECTORS * standard_error(terms)
    return TraceEstimate(float(terms.mean()), error, A.count, "XTrace")


def _left_out(omega: Matrix, quadratic: Vector, R: Matrix, *, H: Matrix, W: Matrix) -> Vector:
    r"""Return the m estimates.

    Args:
        omega: :math:`\Omega`, ``[D, m]``.
        quadratic: :math:`\omega_i^\top A\omega_i`, ``[m]``.
        R: of :math:`A\Omega = QR`, ``[m, m]``.
        H: :math:`Q^\top AQ`, ``[m, m]``.
        W: :math:`Q^\top\Omega`, ``[m, m]``.
    """
    size, m = omega.shape
    diagonal = np.diag(R)
    floor = 1e-14 * (float(np.abs(R).max()) or 1.0)
    lifted = np.where(np.abs(diagonal) < floor, np.copysign(floor, diagonal), diagonal)
    S = np.linalg.inv(R + np.diag(lifted - diagonal)).T
    S /= np.linalg.norm(S, axis=0)
    C = W - S * np.sum(S * W, axis=0)  # coordinates of the part of omega_i in the span of Q_i
    inside = np.trace(H) - np.sum(S * (H @ S), axis=0)
    outside = quadratic - 2.0 * np.sum(C * R, axis=0) + np.sum(C * (H @ C), axis=0)
    left = np.sum(omega**2, axis=0) - np.sum(C**2, axis=0)
    terms: Vector = inside + (size - m + 1) / left * outside
    return terms
