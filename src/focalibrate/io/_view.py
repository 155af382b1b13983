"""A file's columns with their values, read once, while roles are being decided."""

from typing import Any

from numpy.typing import NDArray

from focalibrate.io._error import PredictionFileError, file_error, short
from focalibrate.io._evidence import RowSums, is_whole, row_sums
from focalibrate.io._frame import Column, Frame, Progress, silent


class View:
    """Columns by position; values are loaded when first needed and then kept."""

    def __init__(self, frame: Frame, progress: Progress = silent) -> None:
        self.frame = frame
        self.path = frame.path
        self._progress = progress
        self._loaded: dict[int, NDArray[Any]] = {}

    def __getitem__(self, position: int) -> Column:
        return self.frame.columns[position]

    def name(self, position: int) -> str:
        """Return a column's name."""
        return self.frame.columns[position].name

    def values(self, *positions: int) -> list[NDArray[Any]]:
        """Return the values of some columns."""
        missing = [i for i in dict.fromkeys(positions) if i not in self._loaded]
        for i in missing:
            problem = self.frame.columns[i].problem
            if problem is not None:
                raise problem
        if missing:
            arrays = self.frame.load(missing, self._progress)
            self._loaded.update(zip(missing, arrays, strict=True))
        return [self._loaded[i] for i in positions]

    def is_kind(self, position: int, *kinds: str) -> bool:
        """Return whether the column's cells are of one of these kinds."""
        return self.frame.columns[position].kind in kinds

    def is_whole(self, position: int) -> bool:
        """Return whether a column could be classes: whole numbers, booleans or text."""
        if self.is_kind(position, "text", "bool"):
            return True
        return self.is_kind(position, "number") and is_whole(self.values(position)[0])

    def sums(self, positions: list[int]) -> RowSums:
        """Return what the rows over these columns sum to."""
        if len(positions) == 1:
            values = self.values(positions[0])[0]
            return row_sums(values if values.ndim == 2 else [values])
        arrays = self.values(*positions)
        if len({array.shape for array in arrays}) > 1:
            raise file_error(
                self.path,
                "scores must have the same number of rows, but "
                f"`{short(self.name(positions[0]))}` has shape {arrays[0].shape} and another "
                f"{arrays[-1].shape}.",
            )
        return row_sums(arrays)

    def raise_problem(self, position: int) -> None:
        """Raise if the column is known to be unreadable."""
        problem = self.frame.columns[position].problem
        if isinstance(problem, PredictionFileError):
            raise problem
