"""Parts of the same rows, such as all but one fold, that several methods are fitted to."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate._engine.grid import RowIndex
from focalibrate.calibrate._input import ScoredRows

KEEP_BYTES = 2**26
"""Copies of all parts are kept if they need no more than this many bytes."""


class Parts:
    """The rows of several fits; what one method finds for a part, others can reuse.

    Args:
        rows: all rows.
        index: indices of rows, or a slice, for each fit.
    """

    def __init__(self, rows: ScoredRows, index: Sequence[RowIndex]) -> None:
        self.rows = rows
        self.index = tuple(index)
        self._keeps = rows.logits.nbytes * len(self.index) <= KEEP_BYTES
        self._kept = {i: rows for i, part in enumerate(self.index) if _is_all(part)}
        self._known: list[dict[str, Any]] = [
            rows.known if i in self._kept else {} for i in range(len(self.index))
        ]

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, number: int) -> ScoredRows:
        if number in self._kept:
            return self._kept[number]
        taken = self.rows.take(self.index[number], known=self._known[number])
        if self._keeps:
            self._kept[number] = taken
        return taken

    def known(self, number: int) -> dict[str, Any]:
        """Return what is known of a part; see `ScoredRows.known`."""
        return self._known[number]

    def row_weights(self, number: int) -> Floats:
        """Return the weights of all rows in a part, 0 outside of it, ``[N]``."""
        found = np.zeros(self.rows.n_rows)
        weights = self.rows.weights
        found[self.index[number]] = 1.0 if weights is None else weights[self.index[number]]
        return found


def _is_all(part: RowIndex) -> bool:
    return isinstance(part, slice) and part == slice(None)
