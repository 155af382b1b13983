r"""Rows as the fits of gamma and T read them: a few numbers per row, for any gamma and T.

The kernels work on gaps :math:`d_k = z_{\max} - z_k` with weights, so that one atom may represent
many classes, and share all that does not depend on gamma.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_gamma
from focalibrate.calibrate.calibrator import check_temperature
from focalibrate.calibrate.rows import Rows, in_threads, read_scores, row_blocks
from focalibrate.theory.factor import log_phi, log_phi_minor

IMPOSSIBLE = 1e30
"""The gap of a class at -inf: finite, so that 0 probability times the gap is 0, not nan."""
NEAR_LIMIT = -0.9
"""Below this gamma the factor of the top class needs the series of `theory.factor.log_phi`."""
SMALLEST_SUM = 1e-290
"""Below it a sum of exponentials is taken again, in logarithms."""
N_EXACT = 8
"""Largest logits of a row kept as they are."""
N_CELLS = 20
"""Cells of the tail; each becomes two atoms."""
FINEST_CELL = 1.0 / 200.0
"""Cells grow in proportion to the gap, which counts as at least this share of the tail's range:
otherwise near-ties with the top would use up all of them."""
N_ATOMS = N_EXACT + 2 * N_CELLS
ROW_FLOATS = N_ATOMS + 2 * N_CELLS
"""float32 numbers stored for one row: the atoms' places, and the weights of the tail's."""
MAX_SHARE = 0.2
"""Rows are compressed only if that needs at most this share of the logits' memory."""


def weighted_mean(values: NDArray[Any], weights: Floats | None) -> float:
    """Return the mean, weighted where there are weights."""
    if weights is None:
        return float(values.mean())
    return float(values @ weights / weights.sum())


@dataclass(frozen=True, eq=False)
class TemperedRows:
    r"""Rows at one temperature: what :math:`\Psi_\gamma` of them needs, for several gammas.

    .. math:: \frac{1 - \Psi_1}{\Psi_1} = \varphi_\gamma(v_1) M_\gamma, \qquad
              M_\gamma = \sum_{k\ne1} w_k \frac{e_k}{\varphi_\gamma(v_k)}, \qquad
              e_k = \frac{v_k}{v_1}, \quad v = \operatorname{softmax}(z/T)
    """

    log_rivals: Floats
    r""":math:`\log S`, :math:`S = \sum_{k\ne1} w_k e_k = (1-v_1)/v_1`, shape ``[N]``."""
    minors: Floats
    r""":math:`M_\gamma` for each of the gammas, shape ``[G, N]``."""

    def odds_against(self, index: int, gamma: float) -> Floats:
        r"""Return :math:`(1-\Psi_1)/\Psi_1` for the gamma at `index`, shape ``[N]``."""
        minors: Floats = self.minors[index]
        if gamma == 0:
            return minors
        # The cap matters for gamma < 0 where the sum underflowed: 0, not inf times 0.
        factor: Floats = np.exp(np.minimum(self.top_log_phi(gamma), 700.0))
        return factor * minors

    @cached_property
    def log_total(self) -> Floats:
        r""":math:`-\log v_1`."""
        total: Floats = np.logaddexp(0.0, self.log_rivals)
        return total

    @cached_property
    def top_r(self) -> Floats:
        r""":math:`r(v_1) = \log(1+S)/S`, which needs no series."""
        rivals = np.exp(np.maximum(self.log_rivals, -600.0))
        r: Floats = np.log1p(rivals) / rivals
        return r

    def top_log_phi(self, gamma: float) -> Floats:
        r"""Return :math:`\log\varphi_\gamma(v_1)`, shape ``[N]``."""
        log_rest = self.log_rivals - self.log_total
        if gamma < NEAR_LIMIT:  # 1 + gamma r cancels
            phi: Floats = log_phi(-self.log_total, log_rest, np.asarray(gamma))
            return phi
        return gamma * log_rest + np.log1p(gamma * self.top_r)

    def confidence(self, index: int, gamma: float) -> Floats:
        r"""Return :math:`\Psi_1`, shape ``[N]``."""
        total = 1.0 + self.odds_against(index, gamma)
        return np.divide(1.0, total, out=total)

    def log_loss(self, index: int, gamma: float, log_odds_true: Floats) -> Floats:
        r"""Return :math:`-\log\Psi_y`, shape ``[N]``, from :math:`\log(v_y/v_1)`."""
        loss: Floats = np.log1p(self.odds_against(index, gamma)) - log_odds_true
        if gamma == 0:
            return loss
        is_minor = log_odds_true < 0  # else the label is the top class, or ties with it
        log_v = log_odds_true - self.log_total
        log_v = np.where(is_minor, log_v, -1.0)
        minor = log_phi_minor(log_v, np.log1p(-np.exp(log_v)), np.asarray(gamma))
        loss += np.where(is_minor, minor - self.top_log_phi(gamma), 0.0)
        return loss


@dataclass(frozen=True, eq=False)
class CompressedLogits:
    r"""Rows of logits with their labels, ready for any :math:`\Psi_\gamma(\mathrm{softmax}(z/T))`.

    Either a view of the logits themselves (`weights` is None), or compressed into 48 atoms per
    row, see `focal_rows`. Only gaps to the top logit matter: adding a
    constant to a row changes nothing.

    Example:
        >>> import numpy as np
        >>> logits = np.log([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])
        >>> rows = focal_rows(logits, np.array([0, 2]))
        >>> rows.confidence(gamma=0.0, temperature=1.0).round(4)
        array([0.7, 0.6])
        >>> rows.correct
        array([ True, False])
        >>> rows.log_loss(gamma=2.0, temperature=1.0).round(4)
        array([0.0837, 1.8222])
    """

    atoms: NDArray[Any]
    """Logits of each row's atoms up to a constant, shape ``[N, A]``."""
    top: NDArray[np.int32]
    """Column of the (first) largest logit among the atoms, shape ``[N]``."""
    weights: NDArray[np.float32] | None
    """Classes that each of the last atoms represents, shape ``[N, W]``; None: one each."""
    true_gap: NDArray[Any]
    """Top logit minus the label's, 0 where the prediction is right, shape ``[N]``."""
    correct: NDArray[np.bool_]
    """Whether the (first) top class is the label, shape ``[N]``."""
    n_classes: int
    counts: Floats | None = None
    """Weight of each row, shape ``[N]``; None: 1 each."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.correct)

    def take(self, index: Any) -> Self:
        """Return the rows of `index`: integers (repeats allowed), booleans or a slice."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        per_row = ((k, v) for k, v in given.items() if v is not None and k != "n_classes")
        taken: dict[str, Any] = {k: v[index] for k, v in per_row}
        return replace(self, **taken)

    def confidence(self, *, gamma: float, temperature: float) -> Floats:
        r"""Return :math:`\max_k \Psi_\gamma(\mathrm{softmax}(z/T))_k` of each row, float64."""
        return self.at(temperature, [gamma]).confidence(0, gamma)

    def log_loss(self, *, gamma: float, temperature: float) -> Floats:
        r"""Return :math:`-\log\Psi_\gamma(\mathrm{softmax}(z/T))_y` of each row, float64."""
        return self.at(temperature, [gamma]).log_loss(0, gamma, self.log_odds_true(temperature))

    def nll(self, *, gamma: float, temperature: float) -> float:
        """Return the mean of `log_loss`, weighted where the rows are."""
        return weighted_mean(self.log_loss(gamma=gamma, temperature=temperature), self.counts)

    def log_odds_true(self, temperature: float) -> Floats:
        r"""Return :math:`\log(v_y/v_1)`, the true class against the top one, shape ``[N]``."""
        return self.true_gap.astype(np.float64) / -temperature

    def at(self, temperature: float, gammas: Sequence[float]) -> TemperedRows:
        """Return the rows at one temperature, ready for each of `gammas`."""
        for gamma in gammas:
            check_gamma(gamma, minimum=-1.0)
        check_temperature(temperature)
        log_rivals, minors = np.empty(self.n_rows), np.empty((len(gammas), self.n_rows))
        for part in row_blocks(self.n_rows, row_bytes=8 * self.atoms.shape[1]):
            weights = None if self.weights is None else self.weights[part]
            log_rivals[part], minors[:, part] = _temper(
                self.atoms[part], self.top[part], weights, temperature, gammas
            )
        return TemperedRows(log_rivals, minors)


def focal_rows(
    logits: Array | Rows, labels: Array | None = None, *, compressed: bool | None = None
) -> CompressedLogits:
    r"""Return rows for any gamma and T, compressed or as they are.

    Compressed, a row is its 8 largest logits and 40 weighted atoms of the rest (`row_atoms`): with
    1000 classes it takes 352 bytes instead of 4000, and confidences stay within about 1e-5 for
    every temperature and gamma on rows like those of trained networks (1e-4 on adversarial ones,
    such as all logits uniform). As they are, nothing is copied but one number per row.

    Args:
        logits: real array ``[N, K]``, read once, block by block; -inf marks an impossible class.
        labels: class indices ``[N]``, never of an impossible class.
        compressed: by default where that saves most of the memory, above about 440 classes.
    """
    given = read_scores(logits, labels)
    rows, labels, n = given.logits, given.labels, given.n_rows
    if compressed is None:
        compressed = MAX_SHARE * given.n_classes * rows.itemsize >= 4 * ROW_FLOATS
    is_wide = not compressed and rows.dtype == np.float64
    top, correct = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.bool_)
    highest, true = (values.astype(np.float64) for values in given.ends)
    true_gap = (highest - true).astype(np.float64 if is_wide else np.float32, copy=False)
    atoms, weights = rows, None
    if compressed:
        atoms = np.empty((n, N_ATOMS), dtype=np.float32)
        weights = np.empty((n, ROW_FLOATS - N_ATOMS), dtype=np.float32)

    def fill(part: slice) -> None:
        block = rows[part]
        top[part] = block.argmax(axis=-1)
        correct[part] = top[part] == labels[part]
        if weights is not None:
            gaps, weights[part] = row_atoms(block)
            np.negative(gaps, out=atoms[part], casting="same_kind")
            top[part] = 0  # the atoms are in order

    for _ in in_threads(fill, row_blocks(n, row_bytes=rows.itemsize * given.n_classes)):
        pass
    return CompressedLogits(atoms, top, weights, true_gap, correct, given.n_classes, given.weights)


def _temper(
    atoms: NDArray[Any],
    top: NDArray[np.int32],
    weights: NDArray[np.float32] | None,
    temperature: float,
    gammas: Sequence[float],
) -> tuple[Floats, Floats]:
    r"""Return one block's :math:`\log S`, shape ``[n]``, and :math:`M_\gamma`, ``[G, n]``."""
    n, width = atoms.shape
    at_top = (np.arange(n), top)
    log_e = np.subtract(atoms, atoms[at_top][:, None], dtype=np.float64)
    np.maximum(log_e, -IMPOSSIBLE, out=log_e)
    log_e /= temperature
    e = np.exp(log_e)
    e[at_top] = 0.0
    weighted = e
    if weights is not None:
        weighted = e.copy()
        weighted[:, width - weights.shape[1] :] *= weights
    # Not a matrix product: BLAS would start threads of its own for it, inside ours.
    rivals = np.vecdot(weighted, np.ones(width))
    minors = np.empty((len(gammas), n))
    if any(gammas):
        _minor_sums(minors, rivals, gammas, log_e, e, weighted)
    for row, gamma in zip(minors, gammas, strict=True):
        if gamma == 0:
            row[:] = rivals
    return _log_sum(rivals, log_e, at_top, weights), minors


def _minor_sums(
    minors: Floats,
    rivals: Floats,
    gammas: Sequence[float],
    log_e: Floats,
    e: Floats,
    weighted: Floats,
) -> None:
    r"""Fill in :math:`M_\gamma`, with :math:`1/\varphi(v) = (1-v)^{-\gamma}/(1+\gamma r(v))`.

    No rival exceeds one half, so :math:`1-v` loses no digits.
    """
    v = e * (1.0 / (1.0 + rivals))[:, None]
    r = log_e - np.log1p(rivals)[:, None]
    r *= v
    r /= v - 1.0
    log_rest = np.log1p(np.negative(v, out=v), out=v)
    for row, gamma in zip(minors, gammas, strict=True):
        if gamma != 0:
            share = np.multiply(log_rest, -gamma)
            np.exp(share, out=share)
            share /= 1.0 + gamma * r
            np.vecdot(share, weighted, out=row)


def _log_sum(
    rivals: Floats,
    log_e: Floats,
    at_top: tuple[NDArray[Any], NDArray[Any]],
    weights: NDArray[np.float32] | None,
) -> Floats:
    """Return the logarithm of `rivals`, also where it underflowed."""
    is_lost = rivals < SMALLEST_SUM
    log_rivals = np.log(np.where(is_lost, 1.0, rivals))
    if not is_lost.any():
        return log_rivals
    exponents = log_e[is_lost]
    if weights is not None:
        share = np.maximum(weights[is_lost].astype(np.float64), 1e-300)
        exponents[:, -weights.shape[1] :] += np.log(share)
    exponents[np.arange(len(exponents)), at_top[1][is_lost]] = -IMPOSSIBLE * 1e30
    most = exponents.max(axis=-1)
    log_rivals[is_lost] = most + np.log(np.exp(exponents - most[:, None]).sum(axis=-1))
    return log_rivals


def row_atoms(logits: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    r"""Compress each row into `N_ATOMS` atoms.

    With gaps :math:`d_k = z_{\max} - z_k` in ascending order, the first `N_EXACT` are kept. The
    tail is cut into cells that widen with the gap, and a cell of :math:`n` gaps with mean
    :math:`\mu`, standard deviation :math:`\sigma` and skewness :math:`s` becomes the two-point
    Gauss rule

    .. math:: \mu + \sigma\left(\tfrac s2 \mp q\right) \text{ with weights }
              \tfrac n2\left(1 \pm \tfrac{s}{2q}\right), \qquad q = \sqrt{1 + s^2/4}

    which sums every cubic over the cell exactly. For :math:`e^{-d/T}` the relative error of a
    cell of width :math:`w` is about :math:`(w/T)^4/4320`: small where the cell carries mass at
    all, for the width grows in proportion to the gap.

    Args:
        logits: one block, shape ``[n, K]``, ``K > N_ATOMS``; -inf allowed.

    Returns:
        Gaps ``[n, N_ATOMS]``, the first 0, `IMPOSSIBLE` for classes at -inf, and the weights
        of the last ``2 * N_CELLS`` of them. Empty cells have weight 0. Computed in the
        precision of the logits, at least float32.
    """
    n, k = logits.shape
    dtype = np.promote_types(logits.dtype, np.float32)
    ordered = np.negative(logits, dtype=dtype)
    ordered.sort(axis=-1)
    # The pad gives an empty last cell a place to start inside the array.
    flat = np.empty(n * k + 1, dtype=dtype)
    gaps = flat[:-1].reshape(n, k)
    np.subtract(ordered, ordered[:, :1], out=gaps)
    flat[-1] = np.inf
    n_possible = np.full(n, k)
    if not np.isfinite(gaps[:, -1]).all():
        n_possible = np.isfinite(gaps).sum(axis=-1)
    starts = _cell_starts(gaps, n_possible)
    places, weights = _two_point_rule(flat, starts, n_possible)
    exact = np.minimum(gaps[:, :N_EXACT], IMPOSSIBLE)
    return np.concatenate([exact, places], axis=-1), weights


def _cell_starts(gaps: NDArray[Any], n_possible: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return where each cell starts in the flattened gaps, ``[n, N_CELLS]``."""
    n, k = gaps.shape
    rows = np.arange(n)
    first = np.minimum(gaps[:, N_EXACT], IMPOSSIBLE)
    last = gaps[rows, np.maximum(n_possible, N_EXACT + 1) - 1]
    reach = np.minimum(last, IMPOSSIBLE) - first
    reach = np.where(reach > 0, reach, 1.0)
    offset = np.maximum(first, FINEST_CELL * reach) / reach
    log_ratio = np.log1p(1.0 / offset)
    power = np.arange(1, N_CELLS) / N_CELLS
    edges = offset[:, None] * np.expm1(log_ratio[:, None] * power)  # in (0, 1), of the reach
    # One search for all rows: row i's keys lie in [3i - 1, 3i + 1.5], so the whole is sorted.
    # Rounding is monotone: it may move a cell's edge a little, never break the order.
    keys = gaps - first[:, None]
    keys *= (1.0 / reach)[:, None].astype(gaps.dtype)
    np.clip(keys, -1.0, 1.5, out=keys)
    shift = 3.0 * rows[:, None]
    keys += shift.astype(gaps.dtype)
    targets = (edges + shift).astype(gaps.dtype)
    starts = np.searchsorted(keys.ravel(), targets.ravel()).reshape(n, N_CELLS - 1)
    low = k * rows[:, None] + N_EXACT
    starts = np.clip(starts, low, np.maximum(low, k * rows[:, None] + n_possible[:, None]))
    return np.concatenate([low, starts], axis=-1)


def _two_point_rule(
    flat: NDArray[Any], starts: NDArray[np.intp], n_possible: NDArray[np.intp]
) -> tuple[NDArray[Any], NDArray[Any]]:
    n, k = len(starts), (flat.size - 1) // len(starts)
    row_start = k * np.arange(n)[:, None]
    stops = np.maximum(row_start + n_possible[:, None], starts[:, :1])
    count = np.diff(starts, append=stops)
    # Segments as `reduceat` wants them: the exact part (dropped), the cells, the impossible.
    at = np.concatenate([row_start, starts, stops], axis=-1)
    shape, at = at.shape, at.ravel()

    def cell_sums(x: NDArray[Any]) -> NDArray[Any]:
        sums: NDArray[Any] = np.add.reduceat(x, at).reshape(shape)[:, 1:-1]
        return sums

    size = np.maximum(count, 1).astype(flat.dtype)
    mean = cell_sums(flat) / size
    padded = np.zeros(shape, dtype=flat.dtype)
    padded[:, 1:-1] = mean
    centred = flat - np.repeat(padded.ravel(), np.diff(at, append=flat.size))
    power = centred * centred
    variance = cell_sums(power) / size
    power *= centred
    third = cell_sums(power) / size
    is_empty = count == 0  # there `reduceat` returns an element, which means nothing
    sigma = np.sqrt(np.where(is_empty, 0.0, variance)).astype(np.float64)
    is_spread = sigma > 1e-6 * np.abs(np.where(is_empty, 0.0, mean))
    skew = np.divide(third, sigma**3, out=np.zeros_like(sigma), where=is_spread)
    q = np.sqrt(1.0 + 0.25 * skew * skew)
    lean = 0.5 * skew / q
    low, high = (np.maximum(mean + sigma * (0.5 * skew + x * q), 0.0) for x in (-1, 1))
    places = np.concatenate([low, high], axis=-1)
    places[np.tile(is_empty, 2)] = IMPOSSIBLE
    weights = np.concatenate([0.5 * count * (1.0 + lean), 0.5 * count * (1.0 - lean)], axis=-1)
    return places, weights
