"""Validation rows as the fits read them: a few numbers per row, for any gamma and T."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_gamma
from focalibrate.calibrate._engine.atoms import N_ATOMS, ROW_FLOATS, row_atoms
from focalibrate.calibrate._engine.binned import weighted_mean
from focalibrate.calibrate._engine.blocks import Workers, Workspace, row_blocks
from focalibrate.calibrate._engine.recovery import IMPOSSIBLE, TemperedRows, temper
from focalibrate.calibrate._input import ScoredRows, check_rows, read_logits
from focalibrate.calibrate._settings import check_temperature

__all__ = [
    "IMPOSSIBLE",
    "ROW_FLOATS",
    "CompressedLogits",
    "compress_logits",
    "exact_logits",
    "read_rows",
]


KNOWN = "compressed"
"""Key under which rows keep their compressed form."""
MAX_SHARE = 0.2
"""Rows are compressed only if that needs at most this share of the logits' memory."""


@dataclass(frozen=True, eq=False)
class CompressedLogits:
    r"""Rows of logits with their labels, ready for any :math:`\Psi_\gamma(\mathrm{softmax}(z/T))`.

    Either *exact*, a view of the logits themselves (`weights` is None), or *compressed* into
    about 48 atoms per row (see `compress_logits`). Only gaps to the top logit matter: adding a
    constant to a row changes nothing. Pieces of a stream are compressed one by one and put
    together with `concatenate`; `take` picks rows for folds and bootstraps.

    Example:
        >>> import numpy as np
        >>> logits = np.log([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]])
        >>> rows = exact_logits(logits, np.array([0, 2]))
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

    @property
    def nbytes(self) -> int:
        """Bytes held; the atoms of exact rows are the caller's logits and count nothing."""
        own = 0 if self.weights is None else self.atoms.nbytes + self.weights.nbytes
        return own + self.top.nbytes + self.true_gap.nbytes + self.correct.nbytes

    @classmethod
    def concatenate(cls, pieces: Sequence[Self]) -> Self:
        """Put the rows of several pieces of one stream together."""
        if not pieces:
            raise ValueError("`pieces` must not be empty. Compress at least one block of rows.")
        kinds = {(p.n_classes, p.weights is None) for p in pieces}
        if len(kinds) > 1:
            raise ValueError(
                f"`pieces` must share one class count and one form, found {sorted(kinds)}. "
                "Compress every block with the same function."
            )
        weights = [p.weights for p in pieces if p.weights is not None]
        return cls(
            np.concatenate([p.atoms for p in pieces]),
            np.concatenate([p.top for p in pieces]),
            np.concatenate(weights) if weights else None,
            np.concatenate([p.true_gap for p in pieces]),
            np.concatenate([p.correct for p in pieces]),
            pieces[0].n_classes,
            _joined_counts([(p.counts, p.n_rows) for p in pieces]),
        )

    def take(self, index: Any) -> Self:
        """Return the rows of `index`: integers (repeats allowed), booleans or a slice."""
        return type(self)(
            self.atoms[index],
            self.top[index],
            None if self.weights is None else self.weights[index],
            self.true_gap[index],
            self.correct[index],
            self.n_classes,
            None if self.counts is None else self.counts[index],
        )

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

    def at(
        self,
        temperature: float,
        gammas: Sequence[float],
        space: Workspace | None = None,
        *,
        dtype: Any = np.float64,
    ) -> TemperedRows:
        """Return the rows at one temperature, ready for each of `gammas`.

        In float32 confidences are off by up to about 1e-6, for gammas of at least -0.5.
        """
        for gamma in gammas:
            check_gamma(gamma, minimum=-1.0)
        check_temperature(temperature)
        space = space or Workspace()
        log_rivals, minors = np.empty(self.n_rows), np.empty((len(gammas), self.n_rows))
        row_bytes = np.dtype(dtype).itemsize * self.atoms.shape[1]
        for part in row_blocks(self.n_rows, row_bytes=row_bytes):
            log_rivals[part], minors[:, part] = temper(
                self.atoms[part],
                self.top[part],
                None if self.weights is None else self.weights[part],
                temperature=temperature,
                gammas=gammas,
                space=space,
                dtype=dtype,
            )
        return TemperedRows(log_rivals, minors)


def exact_logits(logits: Array, labels: Array) -> CompressedLogits:
    """Return the rows as they are: nothing is copied but one number per row.

    Args:
        logits: real array ``[N, K]``; -inf marks an impossible class.
        labels: class indices ``[N]``, never of an impossible class.
    """
    rows, targets = read_logits(logits, labels)
    dtype = np.float64 if rows.dtype == np.float64 else np.float32
    out = _Columns(len(rows), dtype)
    with Workers() as workers:
        blocks = row_blocks(len(rows), row_bytes=rows.itemsize * rows.shape[1])
        for _ in workers.map(lambda part, _: out.look(rows, targets, part), blocks):
            pass
    return CompressedLogits(rows, out.top, None, out.true_gap, out.correct, rows.shape[1])


def compress_logits(logits: Array, labels: Array) -> CompressedLogits:
    r"""Compress every row into its 8 largest logits and 40 weighted atoms of the rest.

    The tail's atoms are two-point Gauss rules over cells that widen with the gap; each keeps
    its cell's mass, mean, variance and skewness. With 1000 classes a row takes 352 bytes
    instead of 4000, and confidences stay within about 1e-5 for every temperature and gamma on
    rows like those of trained networks (1e-4 on adversarial ones, such as all logits uniform).

    Args:
        logits: real array ``[N, K]``, ``K > 48``; a memory map is read once, block by block.
        labels: class indices ``[N]``.
    """
    rows, targets = read_logits(logits, labels)
    if rows.dtype.itemsize * rows.shape[1] <= 4 * ROW_FLOATS:
        raise ValueError(
            f"`logits` must have more classes than a row has atoms, got {rows.shape[1]} of "
            f"{rows.dtype}, which would grow. Use `exact_logits`."
        )

    out = _Columns(len(rows), np.float32)
    atoms = np.empty((len(rows), N_ATOMS), dtype=np.float32)
    weights = np.empty((len(rows), ROW_FLOATS - N_ATOMS), dtype=np.float32)

    def compress(part: slice, space: Workspace) -> None:
        out.look(rows, targets, part)
        gaps, weights[part] = row_atoms(rows[part], space)
        np.negative(gaps, out=atoms[part], casting="same_kind")

    with Workers() as workers:
        for _ in workers.map(compress, row_blocks(len(rows), row_bytes=4 * rows.shape[1])):
            pass
    out.top[:] = 0  # the atoms are in order
    return CompressedLogits(atoms, out.top, weights, out.true_gap, out.correct, rows.shape[1])


def read_rows(given: ScoredRows) -> CompressedLogits:
    """Return the rows compressed where that saves most of the memory, else exact."""
    if KNOWN in given.known:
        known: CompressedLogits = given.known[KNOWN]
        return known
    saves = MAX_SHARE * given.n_classes * given.logits.itemsize >= 4 * ROW_FLOATS
    found = (compress_logits if saves else exact_logits)(given.logits, given.labels)
    given.known[KNOWN] = found = replace(found, counts=given.weights)
    return found


def _joined_counts(pieces: list[tuple[Floats | None, int]]) -> Floats | None:
    if all(counts is None for counts, _ in pieces):
        return None
    return np.concatenate([np.ones(n) if counts is None else counts for counts, n in pieces])


class _Columns:
    """The parts of one number per row, filled block by block."""

    def __init__(self, n_rows: int, dtype: Any) -> None:
        self.top = np.empty(n_rows, dtype=np.int32)
        self.true_gap = np.empty(n_rows, dtype=dtype)
        self.correct = np.empty(n_rows, dtype=np.bool_)

    def look(self, rows: NDArray[Any], labels: NDArray[np.intp], part: slice) -> None:
        block, target = rows[part], labels[part]
        at = np.arange(len(block))
        predicted = block.argmax(axis=-1)
        top, true = (block[at, k].astype(np.float64) for k in (predicted, target))
        check_rows(top, true, rows, labels)
        self.top[part], self.correct[part] = predicted, predicted == target
        self.true_gap[part] = top - true
