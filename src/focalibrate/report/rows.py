"""The rows that a page holds, as short text: sampled, quantised, deflated, base64.

Their probabilities before and after, for any class, threshold and cost; and where the page lets
its reader try gammas and temperatures, their logits.
"""

import base64
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate.focal_rows import CompressedLogits, focal_rows

IMPOSSIBLE_CODE = 65535
"""The code of a gap too large to matter, such as that of a class at -inf."""


def pack(array: NDArray[Any], *, delta: bool = False) -> dict[str, Any]:
    """Return `array` ``[N, C]`` or ``[N]`` as JSON: its type, its shape and its bytes as text.

    Columns are stored one after the other, the lowest byte of every entry first, then the next:
    similar bytes are next to each other, which compresses better. With `delta` each column
    holds the difference to the one before it (modulo the type's range).
    """
    table = array.reshape(len(array), -1)
    if delta:
        table = np.diff(table, axis=1, prepend=np.zeros((len(table), 1), dtype=table.dtype))
    little = np.ascontiguousarray(table.T).astype(table.dtype.newbyteorder("<"))
    planes = little.view(np.uint8).reshape(-1, table.dtype.itemsize).T
    text = base64.b64encode(zlib.compress(np.ascontiguousarray(planes).tobytes(), 6)).decode()
    return {
        "dtype": table.dtype.name,
        "shape": list(table.shape),
        "delta": delta,
        "data": text,
    }


def companded(values: NDArray[Any], *, top: float, n_codes: int) -> NDArray[np.uint16]:
    r"""Return whole numbers below `n_codes` whose steps widen with the value.

    .. math:: c = \mathrm{round}\left((n-1) \frac{\log(1+x)}{\log(1+x_{\max})}\right)

    The error of a value :math:`x` is at most :math:`(1+x)\log(1+x_{\max}) / (2n-2)`: for gaps of
    logits, large only where the class has no probability left.
    """
    scale = (n_codes - 1) / np.log1p(top) if top > 0 else 0.0
    codes: NDArray[np.uint16] = np.rint(np.log1p(np.minimum(values, top)) * scale).astype(
        np.uint16
    )
    return codes


IMPOSSIBLE = 1e30
"""The gap of a class at -inf, as large as any that matters."""
WIDEST = 88
"""Classes up to which compression would not make rows of float32 shorter."""
MOST_ATOMS = 48
"""Number of gaps kept per row with more classes."""
MAX_ROWS = 20_000
MAX_ATOMS = 500_000
"""Most atoms of all rows: as many as a page can sum up between two frames."""
MAX_TEXT = 900_000
"""Most characters of all rows, so that the page stays below 2 MB."""
FLOAT32_BYTES = 480_000
"""Up to this size gaps are kept in float32; beyond it, in 16 bits (see `companded`)."""
WEIGHT_CODES = 4096


def most_rows(n: int, n_classes: int) -> int:
    """Return how many of `n` rows the page can hold."""
    return min(n, MAX_ROWS, MAX_ATOMS // (n_classes if n_classes <= WIDEST else MOST_ATOMS))


def pack_rows(logits: NDArray[Any], labels: NDArray[np.intp]) -> dict[str, Any]:
    """Return the rows as JSON; `frontend/src/recovery.ts` reads them."""
    # float32 first: float64 takes twice the room, and its precision is not needed here.
    narrow = logits.astype(np.float32, copy=False)
    is_compressed = logits.shape[1] > WIDEST
    rows = focal_rows(narrow if is_compressed else logits, labels, compressed=is_compressed)
    gaps = _gaps(rows)
    correct = np.packbits(rows.correct, bitorder="little")
    packed: dict[str, Any] = {
        "n": rows.n_rows,
        "top": None if is_compressed else pack(rows.top.astype(np.uint8)),
        "correct": pack(correct),
        "true_gap": pack(rows.true_gap.astype(np.float32)),
        "gaps": None,
        "weights": None,
        "max_gap": 0.0,
        "max_weight": 0.0,
        "weight_codes": WEIGHT_CODES,
    }
    if not is_compressed and 4 * gaps.size <= FLOAT32_BYTES:
        packed["gaps"] = pack(np.minimum(gaps, IMPOSSIBLE).astype(np.float32))
        return packed
    is_possible = gaps < 0.5 * IMPOSSIBLE
    top = float(np.float32(gaps[is_possible].max()))
    codes = companded(gaps, top=top, n_codes=IMPOSSIBLE_CODE)
    codes[~is_possible] = IMPOSSIBLE_CODE
    packed |= {"gaps": pack(codes, delta=is_compressed), "max_gap": top}
    if rows.weights is not None:
        most = float(rows.weights.max())
        weights = companded(rows.weights, top=most, n_codes=WEIGHT_CODES)
        packed |= {"weights": pack(weights), "max_weight": most}
    return packed


def text_length(packed: dict[str, Any]) -> int:
    """Return the number of characters that the rows take on the page."""
    return sum(len(part["data"]) for part in packed.values() if isinstance(part, dict))


def _gaps(rows: CompressedLogits) -> NDArray[np.float64]:
    at = np.arange(rows.n_rows)
    atoms = rows.atoms.astype(np.float64)
    gaps: NDArray[np.float64] = np.minimum(atoms[at, rows.top][:, None] - atoms, IMPOSSIBLE)
    return gaps


def sample_of(
    n: int, size: int, weights: NDArray[np.float64] | None, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return `size` of `n` rows in ascending order, drawn in proportion to the weights, if any.

    The page then counts every row shown as one, and needs no weights.
    """
    if weights is not None:
        return np.sort(rng.choice(n, size, p=weights / weights.sum()))
    return np.arange(n) if size >= n else np.sort(rng.choice(n, size, replace=False))


def packed_sample(
    rows: NDArray[Any], labels: NDArray[np.intp], weights: NDArray[np.float64] | None, seed: int
) -> dict[str, Any]:
    """Return the rows that the page computes any gamma and temperature from, as JSON."""
    rng = np.random.default_rng(seed)
    shown = sample_of(len(rows), most_rows(*rows.shape), weights, rng)
    packed = pack_rows(rows[shown], labels[shown])
    if text_length(packed) > MAX_TEXT:
        n = int(len(shown) * 0.98 * MAX_TEXT / text_length(packed))
        shown = sample_of(len(rows), n, weights, rng)
        packed = pack_rows(rows[shown], labels[shown])
    return packed | {"seed": seed}


MAX_ENTRIES = 120_000
MAX_DENSE_CLASSES = 16
"""With more classes than this, only probabilities that are not close to 0 are kept."""
POOLED_BELOW = (0.002, 0.005, 0.01, 0.02, 0.04)
"""Probabilities below one of these limits are pooled: below the first with which the entries
fit into `MAX_ENTRIES`. The last is the width of the page's narrowest bin, 1/25."""
PILOT = 400
"""Number of rows from which the size of a row is estimated."""


def plan_entries(
    before: NDArray[np.floating], after: NDArray[np.floating], *, n: int
) -> tuple[int, float]:
    """Return how many of `n` rows are shown, and below which probability they are pooled.

    Args:
        before: probabilities of some rows ``[P, K]``.
        after: the same, calibrated.
        n: number of rows.
    """
    k = before.shape[1]
    n = min(n, MAX_ROWS)
    if k <= MAX_DENSE_CLASSES:
        return min(n, MAX_ENTRIES // _width(k)), 0.0
    larger = np.maximum(before, after)
    for floor in POOLED_BELOW:
        per_row = float((larger > floor).sum()) / len(larger)
        if n * per_row <= MAX_ENTRIES:
            return n, floor
    return int(MAX_ENTRIES / per_row), POOLED_BELOW[-1]


def _width(n_classes: int) -> int:
    return 1 if n_classes == 2 else n_classes


@dataclass(eq=False)
class Entries:
    """Probabilities before and after of the rows shown, gathered block by block.

    With `floor` 0 every probability is kept (for two classes, that of class 1). Otherwise
    entries are kept by class, those whose label is the class first, and small ones are pooled:
    equal-width bins of the page are exact, since all pooled entries lie in the first bin;
    elsewhere the pooled rows count as ties.
    """

    rows: NDArray[np.intp]
    """rows shown, in ascending order"""
    n_classes: int
    floor: float
    _parts: list[tuple[NDArray[Any], ...]] = field(default_factory=list)
    _rest: list[NDArray[np.float64]] = field(default_factory=list)

    def add(
        self,
        start: int,
        before: NDArray[np.floating],
        after: NDArray[np.floating],
        labels: NDArray[np.intp],
    ) -> None:
        """Take what is shown of the rows `start`, `start + 1`, ...: probabilities ``[B, K]``."""
        first, last = np.searchsorted(self.rows, [start, start + len(labels)])
        at = self.rows[first:last] - start
        targets = labels[at]
        if self.floor == 0.0:
            columns = slice(-_width(self.n_classes), None)
            codes = (_sixteen_bits(x[at, columns]) for x in (before, after))
            self._parts.append((targets, *codes))
            return
        kept = before[at], after[at]
        row, column = np.nonzero(np.maximum(*kept) > self.floor)
        is_label = targets[row] == column
        p, q = (x[row, column] for x in kept)
        self._parts.append((column, is_label, p, q))
        k = self.n_classes
        counts = np.bincount(targets, minlength=k) - np.bincount(column[is_label], minlength=k)
        sums = [
            x.sum(axis=0, dtype=np.float64) - np.bincount(column, shown, minlength=k)
            for x, shown in zip(kept, (p, q), strict=True)
        ]
        self._rest.append(np.stack([counts, *sums]))

    def record(self) -> dict[str, Any]:
        """Return all entries as JSON; `frontend/src/entries.ts` reads it."""
        columns = [np.concatenate(x) for x in zip(*self._parts, strict=True)]
        if self.floor == 0.0:
            labels, before, after = columns
            return {
                "n": len(labels),
                "pooled_below": 0.0,
                "labels": pack(labels.astype(np.uint8)),
                "before": pack(before),
                "after": pack(after),
            }
        column, is_label, before, after = columns
        order = np.lexsort((~is_label, column))
        rest = np.maximum(sum(self._rest[1:], self._rest[0]), 0.0)
        k = self.n_classes
        return {
            "n": len(self.rows),
            "pooled_below": self.floor,
            "counts": pack(np.bincount(column, minlength=k).astype(np.uint32)),
            "hits": pack(np.bincount(column[is_label], minlength=k).astype(np.uint32)),
            "before": pack(_sixteen_bits(before[order])),
            "after": pack(_sixteen_bits(after[order])),
            "rest_hits": pack(rest[0].astype(np.uint32)),
            "rest_before": pack(rest[1].astype(np.float32)),
            "rest_after": pack(rest[2].astype(np.float32)),
        }


def _sixteen_bits(p: NDArray[np.floating]) -> NDArray[np.uint16]:
    codes: NDArray[np.uint16] = np.rint(p.astype(np.float64) * 65535).astype(np.uint16)
    return codes


def planned_entries(
    probs: Callable[[Any], tuple[NDArray[Any], NDArray[Any]]],
    n: int,
    k: int,
    weights: Floats | None,
    rng: np.random.Generator,
) -> Entries:
    """Return the collector of the rows shown: all, or a random sample if not all fit."""
    pilot = np.sort(rng.permutation(n)[:PILOT])
    n_shown, floor = plan_entries(*probs(pilot), n=n)
    return Entries(sample_of(n, n_shown, weights, rng), k, floor)
