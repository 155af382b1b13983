"""The rows that the page computes from: a few numbers each, enough for any gamma and T."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import CompressedLogits, compress_logits, exact_logits
from focalibrate.report._packed import IMPOSSIBLE_CODE, companded, pack

IMPOSSIBLE = 1e30
"""The gap of a class at -inf, as large as any that matters."""
WIDEST = 88
"""Classes up to which `compress_logits` would not make rows of float32 shorter."""
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
    rows = compress_logits(narrow, labels) if is_compressed else exact_logits(logits, labels)
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
