r"""Scores of rows with very many classes, by temperature and Ψ, without their probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.blocks import Workers, Workspace
from focalibrate.calibrate._engine.codes import CodeSums, Sums
from focalibrate.calibrate._engine.recovery import TemperedRows
from focalibrate.calibrate._engine.series import (
    FocalMap,
    LargeClasses,
    powers,
    reach_of_large,
    with_series,
)
from focalibrate.calibrate.parametric import (
    FocalLossTemperature,
    FocalTemperatureScaling,
    Identity,
    TemperatureScaling,
)

BLOCK_ROWS = 16
"""Rows worked on at once by one thread."""
CELLS_PER_T = 256
"""Cells of a histogram of gaps, counted in the least temperature."""
REACH = 32.0
"""Gaps over the largest temperature that a histogram tells apart: exp(-32) is next to nothing."""
MAX_CELLS = 1 << 17
PIECE = 4096
"""Cells are summed in pieces of so many: from 10,000 on BLAS would start threads within ours."""
CERTAIN = 1e-12
"""Rows whose rivals together have less than this, relative to the top class, are worked on in
logarithms: there it is raised to the power of gamma."""


@dataclass(frozen=True, eq=False)
class TopTerms:
    """Of each row, all of shape ``[N]``."""

    top: NDArray[np.intp]
    """the class predicted"""
    confidence: Floats
    nll: Floats
    squares: Floats
    """sum of the squared probabilities"""

    @property
    def brier(self) -> Floats:
        """Brier score of each row."""
        return np.maximum(self.squares - 2.0 * np.exp(-self.nll) + 1.0, 0.0)


def form_of(calibrator: Calibrator) -> FocalMap | None:
    r"""Return gamma and T of a calibrator :math:`\Psi_\gamma(\operatorname{softmax}(z/T))`.

    None for any other.

    Example:
        >>> form_of(TemperatureScaling(2.0)), form_of(FocalTemperatureScaling(1.0, 0.5))
        ((0.0, 2.0), (1.0, 0.5))
    """
    if type(calibrator) is Identity:
        return 0.0, 1.0
    if isinstance(calibrator, TemperatureScaling):
        return 0.0, calibrator.temperature
    if isinstance(calibrator, (FocalTemperatureScaling, FocalLossTemperature)):
        return calibrator.gamma, calibrator.temperature
    return None


class TopScorer:
    r"""Scores rows by several calibrators at once, from one histogram of each row's logits.

    Use it as a context manager: its threads live as long.

    In half precision every number is counted by itself. Else the gaps to the row's top logit are
    counted in cells of 1/256 of the least temperature. The sums over classes are those over
    cells; classes of more than 4e-4 are counted one by one.

    Numerics:
        A log loss or log-confidence is within about 2e-5 of that of `Calibrator.log_probs`, with
        random sign from row to row; means over many rows are within 1e-6. Half precision: within
        1e-7.

    Args:
        calibrators: such that `form_of` finds a form of each.
    """

    def __init__(self, calibrators: Sequence[Calibrator]) -> None:
        self.calibrators = tuple(calibrators)
        forms = [form_of(calibrator) for calibrator in calibrators]
        known = [form for form in forms if form is not None]
        self._cells, self._codes = _Cells.of(known), CodeSums(known)
        self.can_score = None not in forms and self._cells.n_cells <= MAX_CELLS
        """Whether all have a form, and temperatures that are not too far apart."""
        self._workers = Workers()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._workers.__exit__(kind, error, trace)

    def terms(
        self,
        logits: NDArray[Any],
        labels: NDArray[np.intp],
        rows: NDArray[np.intp] | None = None,
    ) -> list[TopTerms]:
        """Return what each calibrator gives rows that were checked.

        Args:
            logits: ``[N, K]``.
            labels: class indices ``[N]``, or ``[n]`` of `rows`.
            rows: positions of the rows to score ``[n]``. Default: all.
        """
        at = np.arange(len(labels)) if rows is None else rows
        source = self._codes if logits.dtype == np.float16 else self._cells

        def work(start: int, space: Workspace) -> tuple[NDArray[np.intp], list[Sums]]:
            part = at[start : start + BLOCK_ROWS].tolist()
            return source.sums([logits[i] for i in part], space)

        blocks = list(self._workers.map(work, range(0, len(at), BLOCK_ROWS)))
        top = np.concatenate([block[0] for block in blocks])
        sums = [
            tuple(np.concatenate(parts) for parts in zip(*of_form, strict=True))
            for of_form in zip(*(block[1] for block in blocks), strict=True)
        ]
        high = logits[at, top].astype(np.float64)
        gap = np.minimum(logits[at, labels].astype(np.float64) - high, 0.0)
        found = []
        for calibrator, form, some in zip(self.calibrators, source.forms, sums, strict=True):
            terms = _terms(form, top, gap, *some)
            for i in np.flatnonzero(some[0] < source.certain).tolist():
                _in_logarithms(terms, i, calibrator, logits[at[i]], int(labels[i]))
            found.append(terms)
        return found


def _terms(
    form: FocalMap,
    top: NDArray[np.intp],
    gap: Floats,
    rivals: Floats,
    minors: Floats,
    squares: Floats,
) -> TopTerms:
    """Return the terms of rows from the three sums over their classes.

    Args:
        form: gamma and T.
        top: the top class.
        gap: logit of the label minus that of the top class.
        rivals: the first sum.
        minors: the second.
        squares: the third.
    """
    gamma, temperature = form
    tempered = TemperedRows(np.log(np.maximum(rivals, 1e-300)), minors[None])
    confidence = tempered.confidence(0, gamma)
    factor = tempered.odds_against(0, gamma) / np.maximum(minors, 1e-300)
    return TopTerms(
        top,
        np.minimum(confidence, 1.0),
        tempered.log_loss(0, gamma, gap / temperature),
        confidence**2 * (1.0 + factor**2 * squares),
    )


def _in_logarithms(
    terms: TopTerms, i: int, calibrator: Calibrator, row: NDArray[Any], label: int
) -> None:
    """Replace the terms of one row, whose sums are too small, by those of its probabilities."""
    log_probs = np.asarray(calibrator.log_probs(row[None].astype(np.float64)))[0]
    terms.nll[i] = -log_probs[label]
    terms.confidence[i] = min(np.exp(log_probs[terms.top[i]]), 1.0)
    terms.squares[i] = np.exp(2.0 * log_probs).sum()


@dataclass(frozen=True, eq=False)
class _Cells:
    r"""Cells of gaps, with what a class in each adds to the sums of each form.

    For gamma = 0: :math:`\sum e` and :math:`\sum e^2`, with :math:`e = e^t` and
    :math:`t = -\text{gap}/T`. Else also what the series needs.
    """

    forms: tuple[FocalMap, ...]
    width: float
    tables: tuple[Floats, ...]
    """``[2, P, C / P]`` or ``[6, P, C / P]`` for each form, of which the first is e itself"""

    certain = CERTAIN

    @property
    def n_cells(self) -> int:
        return self.tables[0][0].size if self.tables else MAX_CELLS + 1

    @classmethod
    def of(cls, forms: Sequence[FocalMap]) -> Self:
        temperatures = [temperature for _, temperature in forms] or [1.0]
        width = min(temperatures) / CELLS_PER_T
        n_cells = int(REACH * max(temperatures) / width) + 2
        if n_cells > MAX_CELLS:
            return cls(tuple(forms), width, ())
        gap = (np.arange(-(-n_cells // PIECE) * PIECE).reshape(-1, PIECE) + 0.5) * width
        tables = [powers(-gap / temperature, gamma) for gamma, temperature in forms]
        for table in tables:
            table[:, -1, -1] = 0.0  # all that is beyond
        return cls(tuple(forms), width, tuple(tables))

    def sums(
        self, rows: Sequence[NDArray[Any]], space: Workspace
    ) -> tuple[NDArray[np.intp], list[Sums]]:
        r"""Return the top class ``[n]`` and three sums over the others for each form, ``[n]``.

        :math:`\sum e_k`, :math:`\sum e_k/\varphi(v_k)` and :math:`\sum (e_k/\varphi(v_k))^2`, as
        in `TemperedRows`.
        """
        n = len(rows)
        top = np.empty(n, dtype=np.intp)
        sums = [np.empty((n, len(table))) for table in self.tables]
        rest = np.empty((len(self.forms), n))
        gaps: list[Floats] = []
        for i, row in enumerate(rows):
            top[i], counts, near, rest[:, i] = self._count(row, space)
            gaps.append(near)
            for some, table in zip(sums, self.tables, strict=True):
                some[i] = np.vecdot(table, counts).sum(axis=-1)
        at = np.repeat(np.arange(n), [len(near) for near in gaps])
        gap = np.concatenate(gaps)
        large = LargeClasses(at, gap, np.ones(len(gap)), n)
        forms = zip(self.forms, sums, rest, strict=True)
        return top, [with_series(some, large.sums(r, form), form[0]) for form, some, r in forms]

    def _count(
        self, row: NDArray[Any], space: Workspace
    ) -> tuple[int, Floats, Floats, list[float]]:
        r"""Count the classes of a row by cell.

        Returns:
            Its top class; the counts ``[P, C / P]``; the gaps of the large classes, which are not
            counted; and :math:`1 + \sum e` over the others, for each form.
        """
        k = len(row)
        values = space.array("values", (k,), np.float32 if row.itemsize <= 4 else np.float64)
        place = space.array("place", (k,), np.intp)
        top = int(row.argmax())
        np.subtract(row[top], row, out=values)
        values *= 1.0 / self.width
        if not values.max() < self.n_cells:
            np.minimum(values, self.n_cells - 1, out=values)
        np.copyto(place, values, casting="unsafe")
        counts = space.array("counts", (self.n_cells,))
        counts[...] = np.bincount(place, minlength=self.n_cells)
        counts[0] -= 1.0
        pieces = counts.reshape(-1, PIECE)
        totals = [1.0 + float(np.vecdot(table[0], pieces).sum()) for table in self.tables]
        limit = max(
            float(reach_of_large(form, np.asarray(total)))
            for form, total in zip(self.forms, totals, strict=True)
        )
        at = np.flatnonzero(values < max(limit / self.width, 1.0))
        at = at[at != top]
        cells = place[at]
        np.subtract.at(counts, cells, 1.0)
        rest = [
            total - float(table[0].reshape(-1)[cells].sum())
            for total, table in zip(totals, self.tables, strict=True)
        ]
        return top, pieces, row[top].astype(np.float64) - row[at], rest
