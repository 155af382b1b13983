"""Products with a matrix given only as a function, counted and checked."""

from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import check_count

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


def check_symmetric_on(vectors: Matrix, products: Matrix) -> None:
    """Raise `ValueError` if `products` = A `vectors` show that A is not symmetric."""
    gram = vectors.T @ products
    norm = float(np.linalg.norm(vectors, axis=0).max() * np.linalg.norm(products, axis=0).max())
    check_symmetric(gram, gram.T, scale=norm)


def signs(rng: np.random.Generator, size: int, n_vectors: int) -> Matrix:
    """Return Rademacher vectors ``[D, B]``: every entry is +1 or -1 with probability 1/2."""
    bits = rng.integers(0, 2, size=(n_vectors, size), dtype=np.int8)
    return np.ascontiguousarray((2.0 * bits - 1.0).T)
