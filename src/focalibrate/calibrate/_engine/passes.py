r"""One pass over the logits: a loss and its derivatives in :math:`\beta = 1/T`."""

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate._engine.blocks import Workers, Workspace, row_blocks
from focalibrate.calibrate._input import check_rows, working_precision

VANISHED = 800.0
"""exp(-800) is 0: a gap of 800 / beta stands for any larger one, infinite ones included."""


class Block(NamedTuple):
    """Gaps to the top logit of some rows."""

    gaps: NDArray[Any]
    """Shape ``[n, K]``, in the working precision."""
    labels: NDArray[np.intp]
    true_gap: Floats
    """Gap of the label, shape ``[n]``."""
    weights: Floats | None = None
    """Weights of the rows, shape ``[n]``, or ``[n, P]`` for P sums; None: 1 each."""

    def total(self, values: Floats) -> Any:
        """Return the weighted sum over the rows, one for each column of weights."""
        return values.sum() if self.weights is None else values @ self.weights


Kernel = Callable[[Block, float, Workspace], Floats]
"""``(block, beta, buffers) -> sums over the block``; not finite where a gap is infinite."""


class Derivatives(NamedTuple):
    r"""Mean loss at :math:`\beta` and its derivatives there; those not computed are 0."""

    loss: float
    first: float
    second: float
    third: float = 0.0
    fourth: float = 0.0


class Passes(Protocol):
    """Logits with their labels, in memory or read anew by every pass; see `LogitPasses`."""

    @property
    def dtype(self) -> Any:
        """What is worked in."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""

    def thinned(self, rows: slice) -> "LogitPasses":
        """Return a strided subset of the rows, in memory."""

    def in_units_of(self, unit: float) -> "Passes":
        """Return the same with gaps counted in `unit`."""

    def derivatives(self, kernel: Kernel, beta: float) -> Derivatives:
        """Return the means of the kernel's sums."""

    def typical_gap(self) -> float:
        """Return the median gap between a row's two largest different logits."""

    def limits(self) -> tuple[float, bool]:
        """Return the slope at 0 and whether every label has its row's top logit."""


class LogitPasses:
    """The logits with their labels, passed over in blocks of the working precision.

    Args:
        logits: ``[N, K]``, any floating dtype; never copied whole.
        labels: class indices ``[N]``.
        workers: threads.
        weights: weights of the rows ``[N]``; None: 1 each.
        unit: what gaps are counted in; beta counts in its inverse.
        whole: logits and labels these rows were taken from, if they are a part.
        dtype: to work in. Default: `working_precision` of all logits.
    """

    def __init__(
        self,
        logits: NDArray[Any],
        labels: NDArray[np.intp],
        workers: Workers,
        *,
        weights: Floats | None = None,
        unit: float = 1.0,
        whole: tuple[NDArray[Any], NDArray[np.intp]] | None = None,
        dtype: Any = None,
    ) -> None:
        self.whole = whole or (logits, labels)  # a bad row is named by its number there
        self.logits = logits
        self.labels = labels
        self.workers = workers
        self.weights = weights
        self.total_weight = float(len(labels) if weights is None else weights.sum())
        self.unit = unit
        self.dtype = working_precision(self.whole[0]) if dtype is None else dtype

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.logits.shape[1])

    def thinned(self, rows: slice) -> "LogitPasses":
        """Return the same for a strided subset of the rows, a view."""
        return LogitPasses(
            self.logits[rows],
            self.labels[rows],
            self.workers,
            weights=None if self.weights is None else self.weights[rows],
            unit=self.unit,
            whole=self.whole,
            dtype=self.dtype,
        )

    def in_units_of(self, unit: float) -> "LogitPasses":
        """Return the same with gaps counted in `unit`: fourth powers of large ones overflow."""
        return LogitPasses(
            self.logits,
            self.labels,
            self.workers,
            weights=self.weights,
            unit=unit,
            whole=self.whole,
            dtype=self.dtype,
        )

    def derivatives(self, kernel: Kernel, beta: float) -> Derivatives:
        """Return the means of the kernel's sums, added up in the order of the rows."""
        return Derivatives(*(self.kernel_sums(kernel, beta) / self.total_weight).tolist())

    def derivatives_of_parts(
        self, kernel: Kernel, beta: float, weights: Floats
    ) -> list[Derivatives]:
        """Return the same for each column of `weights` ``[N, P]``, from one pass."""
        shared = LogitPasses(
            self.logits,
            self.labels,
            self.workers,
            weights=weights,
            unit=self.unit,
            whole=self.whole,
            dtype=self.dtype,
        )
        means = shared.kernel_sums(kernel, beta) / weights.sum(axis=0)
        return [Derivatives(*part) for part in means.T.tolist()]

    def kernel_sums(self, kernel: Kernel, beta: float) -> Floats:
        """Return the kernel's sums over all rows."""

        def sums(block: Block, space: Workspace) -> Floats:
            with np.errstate(invalid="ignore", over="ignore"):
                total = kernel(block, beta, space)
            if not np.isfinite(total).all():
                np.minimum(block.gaps, VANISHED / beta, out=block.gaps)
                total = kernel(block, beta, space)
            return total

        return self._sum(sums)

    def typical_gap(self) -> float:
        """Return the median gap between a row's two largest different logits, 0 if all are equal.

        A median over rows, as a finite mask (-1e9 for a class ruled out) or a single row of
        another scale would decide any mean.
        """
        every = self.gaps_to_next()
        return float(np.median(every)) if len(every) else 0.0

    def gaps_to_next(self) -> Floats:
        """Return the gap between the two largest different logits, of rows where they differ."""
        found: list[NDArray[Any]] = []
        for part in row_blocks(len(self.logits), row_bytes=8 * self.logits.shape[1]):
            block = self.logits[part].astype(np.float64)
            top = block.max(axis=-1)
            true = block[np.arange(len(block)), self.labels[part]]
            check_rows(top, true, *self.whole)
            gaps = top[:, None] - block
            gaps[gaps <= 0] = np.inf
            least = gaps.min(axis=-1)
            found.append(least[np.isfinite(least)])
        return np.concatenate(found)

    def limits(self) -> tuple[float, bool]:
        r"""Return the slope at :math:`\beta = 0` and whether every label has its row's top logit.

        A slope of at least 0 there means that no temperature improves on the uniform
        distribution; where every label is on top, a lower temperature is always better.
        """
        slope, n_wrong = (self.limit_sums() / self.total_weight).tolist()
        return slope, n_wrong == 0

    def limit_sums(self) -> Floats:
        """Return the sums behind `limits`: slopes, and the weight of labels not on top."""

        def sums(block: Block, space: Workspace) -> Floats:
            is_possible = np.isfinite(block.gaps)
            gaps = np.where(is_possible, block.gaps, 0.0)
            mean = gaps.sum(axis=-1, dtype=np.float64) / is_possible.sum(axis=-1)
            wrong = (block.true_gap > 0).astype(np.float64)
            return np.array([block.total(block.true_gap - mean), block.total(wrong)])

        return self._sum(sums)

    def _sum(self, sums: Callable[[Block, Workspace], Floats]) -> Floats:
        def work(part: slice, space: Workspace) -> Floats:
            return sums(self._block(part, space), space)

        blocks = row_blocks(len(self.logits), row_bytes=4 * self.logits.shape[1])
        return reduce(np.add, self.workers.map(work, blocks))

    def _block(self, part: slice, space: Workspace) -> Block:
        block, labels = self.logits[part], self.labels[part]
        top = block.max(axis=-1)
        true = block[np.arange(len(block)), labels]
        check_rows(top, true, *self.whole)
        gaps = space.array("gaps", block.shape, self.dtype)
        np.subtract(top[:, None], block, out=gaps, dtype=self.dtype)
        true_gap = top.astype(np.float64) - true
        if self.unit != 1.0:
            gaps /= self.unit
            true_gap /= self.unit
        weights = None if self.weights is None else self.weights[part]
        return Block(gaps, labels, true_gap, weights)


def log_loss_sums(block: Block, beta: float, space: Workspace) -> Floats:
    r"""Sums of the log loss and its first four derivatives.

    With :math:`\ell(\beta) = \log\sum_k e^{-\beta d_k} + \beta d_y`, the derivatives are
    :math:`d_y - \kappa_1, \kappa_2, -\kappa_3, \kappa_4` with the cumulants of :math:`d` under
    the softmax.
    """
    gaps, true_gap = block.gaps, block.true_gap
    e, square = (space.array(x, gaps.shape, gaps.dtype) for x in ("e", "square"))
    np.multiply(gaps, -beta, out=e)
    np.exp(e, out=e)
    np.multiply(gaps, gaps, out=square)
    total = (e @ np.ones(e.shape[1], dtype=e.dtype)).astype(np.float64)
    m1 = np.vecdot(e, gaps) / total
    m2 = np.vecdot(e, square) / total
    e *= square
    m3 = np.vecdot(e, gaps) / total
    m4 = np.vecdot(e, square) / total
    variance = m2 - m1 * m1
    third = m3 - 3.0 * m1 * m2 + 2.0 * m1**3
    fourth = m4 - 4.0 * m1 * m3 + 6.0 * m1**2 * m2 - 3.0 * m1**4 - 3.0 * variance**2
    loss = np.log(total) + beta * true_gap
    return np.array([block.total(x) for x in (loss, true_gap - m1, variance, -third, fourth)])


def focal_loss_sums(gamma: float) -> Kernel:
    r"""Return the kernel of the focal loss and its first two derivatives.

    Through the margin :math:`m = \log\frac{p}{1-p}` of the true class, with :math:`f' =
    -(1-p)^{\gamma+1}(1+\gamma r)` and :math:`f'' = p(1-p)^{\gamma+1}(1 + 2\gamma + \gamma\log p
    + \gamma^2 r)`; :math:`m' = \kappa_1 - d_y` and :math:`m'' = -\kappa_2` over the other
    classes.
    """

    def kernel(block: Block, beta: float, space: Workspace) -> Floats:
        minus_log_sum, mean, variance = _other_classes(block, beta, space)
        margin = minus_log_sum - beta * block.true_gap
        log_p, log_rest = -np.logaddexp(0.0, -margin), -np.logaddexp(0.0, margin)
        p, rest = np.exp(log_p), np.exp(log_rest)
        r = np.where(rest > 0, -p * log_p / np.where(rest > 0, rest, 1.0), 1.0)
        slope = mean - block.true_gap
        loss = np.exp(gamma * log_rest) * -log_p
        power = np.exp((gamma + 1.0) * log_rest)
        first = -power * (1.0 + gamma * r)
        second = p * power * (1.0 + 2.0 * gamma + gamma * log_p + gamma**2 * r)
        curvature = second * slope**2 - first * variance
        return np.array([block.total(x) for x in (loss, first * slope, curvature)])

    return kernel


def _other_classes(block: Block, beta: float, space: Workspace) -> tuple[Floats, Floats, Floats]:
    r"""Return :math:`-\log\sum_{k\ne y} e^{-\beta d_k}` and mean and variance of d over them."""
    shape, dtype = block.gaps.shape, block.gaps.dtype
    e, others = (space.array(x, shape, dtype) for x in ("e", "square"))
    at_true = (np.arange(len(block.gaps)), block.labels)
    others[...] = block.gaps
    others[at_true] = np.inf
    least = others.min(axis=-1)
    others -= least[:, None]
    others[at_true] = VANISHED / beta
    np.multiply(others, -beta, out=e)
    np.exp(e, out=e)
    e[at_true] = 0.0
    total = (e @ np.ones(e.shape[1], dtype=e.dtype)).astype(np.float64)
    m1 = np.vecdot(e, others) / total
    e *= others
    m2 = np.vecdot(e, others) / total
    least = least.astype(np.float64)
    return beta * least - np.log(total), least + m1, np.maximum(m2 - m1 * m1, 0.0)
