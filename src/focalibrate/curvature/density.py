"""Spectral density of a symmetric matrix."""

import math
from dataclasses import dataclass

import numpy as np

from focalibrate._array import Floats
from focalibrate._check import check_count, check_positive
from focalibrate.curvature._products import (
    BLOCK_SIZE,
    Matrix,
    Matvec,
    Products,
    check_symmetric,
    signs,
)


@dataclass(frozen=True)
class SpectralDensity:
    """Where the eigenvalues lie."""

    nodes: Floats
    """``[n_vectors, n_steps]``: quadrature nodes of each vector"""
    weights: Floats
    """``[n_vectors, n_steps]``: their weights; each row sums to 1"""
    grid: Floats
    """``[n_points]``: points of the curve"""
    density: Floats
    """``[n_points]``: values of the curve, whose area is 1"""
    standard_error: Floats
    """``[n_points]``: of `density`, from the spread between vectors"""
    width: float
    """standard deviation of the Gaussian that smooths the nodes"""
    n_products: int
    """number of products with the matrix"""


def spectral_density(
    matvec: Matvec,
    size: int,
    *,
    n_vectors: int = 10,
    n_steps: int = 80,
    seed: int | np.random.Generator = 0,
    n_points: int = 1000,
    relative_width: float = 0.01,
    block_matvec: Matvec | None = None,
) -> SpectralDensity:
    r"""Spectral density by stochastic Lanczos quadrature.

    .. math:: \rho(t) = \frac1D\sum_{i=1}^D \mathcal N(t;\lambda_i,\sigma^2)
              \approx \frac1M\sum_{v=1}^M\sum_{k} w_{vk}\,\mathcal N(t;\theta_{vk},\sigma^2)

    For each random vector, :math:`\theta` are the eigenvalues of Lanczos' tridiagonal matrix
    and :math:`w` the squared first entries of its eigenvectors: Gauss' quadrature of the
    spectral measure of that vector, whose mean over vectors is :math:`\rho`. Moments of the
    spectrum up to degree ``2 n_steps - 1`` are unbiased.

    Args:
        matvec: symmetric matrix, ``[D] -> [D]``.
        size: D.
        n_vectors: M, ``>= 2``.
        n_steps: products per vector; at most D are used.
        seed: seed of the random vectors.
        n_points: points of the curve.
        relative_width: :math:`\sigma` as a fraction of the range of the nodes.
        block_matvec: the same matrix on ``[D, B]``; all vectors are then processed together.

    Returns:
        Nodes and weights, and the curve with its standard error on a grid that reaches
        :math:`4\sigma` beyond the nodes. If there is a single node, :math:`\sigma` is
        `relative_width` itself.

    Numerics:
        Full reorthogonalisation, without which Lanczos finds eigenvalues twice. Memory:
        D x `n_steps` float64, 16 times that with `block_matvec`. A vector whose Krylov space
        ends early has nodes of weight 0.

    Example:
        >>> A = np.diag([0.0, 0.0, 0.0, 4.0])
        >>> rho = spectral_density(lambda v: A @ v, 4, n_steps=2)
        >>> round(float(rho.weights[rho.nodes > 2.0].sum()) / 10, 9)  # one in four
        0.25

    References:
        Ghorbani, Krishnan, Xiao (2019), *An investigation into neural net optimization via
        Hessian eigenvalue density*, Algorithm 1.
    """
    check_count(n_vectors, name="n_vectors", minimum=2)
    check_count(n_steps, name="n_steps")
    check_count(n_points, name="n_points", minimum=2)
    check_positive(relative_width, name="relative_width")
    A, rng = Products(matvec, size, block_matvec), np.random.default_rng(seed)
    V = signs(rng, size, n_vectors)
    in_step = 1 if block_matvec is None else BLOCK_SIZE
    parts = [
        _quadrature(A, V[:, i : i + in_step], min(n_steps, size))
        for i in range(0, n_vectors, in_step)
    ]
    nodes = np.concatenate([nodes for nodes, _ in parts])
    weights = np.concatenate([weights for _, weights in parts])
    low, high = (float(f(nodes[weights > 0.0])) for f in (np.min, np.max))
    width = relative_width * ((high - low) or 1.0)
    grid = np.linspace(low - 4 * width, high + 4 * width, n_points)
    curves = np.stack([_smooth(x, w, grid, width) for x, w in zip(nodes, weights, strict=True)])
    error = np.std(curves, axis=0, ddof=1) / math.sqrt(n_vectors)
    return SpectralDensity(nodes, weights, grid, curves.mean(axis=0), error, width, A.count)


def _smooth(nodes: Floats, weights: Floats, grid: Floats, width: float) -> Floats:
    """Return the weighted sum of Gaussians around `nodes`, on `grid`."""
    bells = np.exp(-0.5 * ((grid[:, None] - nodes) / width) ** 2)
    curve: Floats = bells @ weights / (width * math.sqrt(2 * math.pi))
    return curve


def _quadrature(A: Products, V: Matrix, n_steps: int) -> tuple[Floats, Floats]:
    """Return nodes and weights ``[B, n_steps]`` of the columns of `V`, processed together."""
    size, n = V.shape
    Q = np.zeros((n, n_steps, size))
    T = np.zeros((n, n_steps, n_steps))
    q = V.T / np.linalg.norm(V.T, axis=1, keepdims=True)
    scale = 0.0
    for k in range(n_steps):
        Q[:, k] = q
        rest = A(np.ascontiguousarray(q.T)).T.copy()
        scale = max(scale, float(np.linalg.norm(rest, axis=1).max()))
        overlap = np.zeros((n, k + 1))
        for _ in range(2):
            step = np.einsum("bkd,bd->bk", Q[:, : k + 1], rest)
            rest -= np.einsum("bkd,bk->bd", Q[:, : k + 1], step)
            overlap += step
        check_symmetric(overlap[:, :-1], T[:, k, :k], scale=scale)
        T[:, k, k] = overlap[:, k]
        beta = np.linalg.norm(rest, axis=1)
        beta[beta <= 1e-12 * scale] = 0.0  # the space of this vector is exhausted: q stays 0
        if k + 1 < n_steps:
            T[:, k, k + 1] = T[:, k + 1, k] = beta
        q = np.divide(rest, beta[:, None], out=np.zeros_like(rest), where=beta[:, None] > 0.0)
    nodes, vectors = np.linalg.eigh(T)
    return nodes, vectors[:, 0, :] ** 2
