"""Labels in a file of their own, brought to the rows of the scores."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import file_error, listing, rows_text
from focalibrate.io._evidence import is_row_number
from focalibrate.io._frame import Frame
from focalibrate.io._request import Request, find_columns
from focalibrate.io._view import View
from focalibrate.io._vocabulary import is_id, is_label


@dataclass(frozen=True)
class OtherLabels:
    """Labels that are in a file of their own.

    Attributes:
        path: that file.
        values: as stored, one per row.
        name: what they are called there.
        ids: position in the file of scores, and values in that of labels, of each column that
            names the rows in both.
    """

    path: Path
    values: NDArray[Any]
    name: str
    ids: tuple[tuple[int, NDArray[Any]], ...]

    def of_rows(
        self, scores: View, rows: slice | NDArray[np.intp]
    ) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Return the labels of the rows of `scores`, and what to tell the user about them.

        Where both files name their rows and the order differs, rows are matched by their names.

        Args:
            scores: rows of the file of scores.
            rows: where the same rows are in the file of labels if the order is the same;
                positions other than a slice only where the files do not name their rows.

        Raises:
            PredictionFileError: names of rows are not unique, disagree, or have no label.
        """
        if not isinstance(rows, slice):
            return self.values[rows], ()
        orders = {
            scores.name(at): self._order(scores, place, rows)
            for place, (at, _) in enumerate(self.ids)
        }
        if not orders:
            return self.values[rows], ()
        name, order = next(iter(orders.items()))
        for other, found in orders.items():
            if not np.array_equal(found, order):
                raise file_error(
                    self.path,
                    f"its rows are not those of {scores.path.name}: columns "
                    f'"{name}" and "{other}" match them in different ways. Leave one of them out.',
                )
        in_order = np.array_equal(order, self._in_order(rows))
        notes = () if in_order else (f'labels are matched to the rows by "{name}"',)
        n_unused = len(self.values) - len(order)
        if rows == slice(None) and n_unused > 0:
            notes = (*notes, f"labels in {self.path.name} that belong to no row: {n_unused}")
        return self.values[order], notes

    def _in_order(self, rows: slice) -> NDArray[np.intp]:
        return np.arange(*rows.indices(len(self.values)))

    def _order(self, scores: View, place: int, rows: slice) -> NDArray[np.intp]:
        """Return where the labels of the rows are, by the names in one column."""
        at, theirs = self.ids[place]
        ours = scores.values(at)[0].astype(str)
        if np.array_equal(ours, theirs[rows]):
            return self._in_order(rows)
        names, order = self._sorted[place]
        differs = (
            f'its rows are not those of {scores.path.name}: column "{scores.name(at)}" differs'
        )
        if (names[1:] == names[:-1]).any():
            raise file_error(
                self.path, f"{differs} and is not unique. Sort both files in the same way."
            )
        found = np.minimum(np.searchsorted(names, ours), len(names) - 1)
        missing = np.flatnonzero(names[found] != ours)
        if len(missing):
            without = rows_text(missing[:5].tolist(), len(missing))
            raise file_error(
                self.path, f"{differs}, and it has no label for {without}. Give all labels."
            )
        return order[found]

    @cached_property
    def _sorted(self) -> list[tuple[NDArray[Any], NDArray[np.intp]]]:
        orders = [np.argsort(values, kind="stable") for _, values in self.ids]
        return [(v[order], order) for (_, v), order in zip(self.ids, orders, strict=True)]


def labels_in(frame: Frame, request: Request, scores: Frame) -> OtherLabels:
    """Return the labels of `frame`, a file of their own."""
    path = frame.path
    view = View(frame)
    wanted = request.label_column if request.label_column is not None else request.labels_key
    usable = [
        i
        for i, c in enumerate(frame.columns)
        if c.kind in ("number", "text", "bool", "matrix") and not c.is_index
    ]
    if wanted is not None:
        found = find_columns(frame, [str(wanted)], option="label_column")
    else:
        found = [i for i in usable if is_label(frame.names[i])] if frame.has_names else []
        if len(found) != 1:
            named = [i for i in usable if not (frame.has_names and is_id(frame.names[i]))]
            if len(named) == 1:
                found = named
    if len(found) != 1:
        for i, column in enumerate(frame.columns):
            if column.problem is not None:
                view.raise_problem(i)
        raise file_error(
            path,
            f"must hold one column of labels, but it holds {listing(frame.names) or 'none'}. Say "
            "which.",
            fixes=[{"label_column": frame.names[i]} for i in usable[:3]],
        )
    ids = [
        (scores.names.index(column.name), view.values(i)[0])
        for i, column in enumerate(frame.columns)
        if is_id(column.name)
        and column.name.strip()
        and column.kind in ("number", "text")
        and scores.names.count(column.name) == 1
        and frame.is_table
    ]
    # A row number says no more than the order does, where there is a better name.
    better = [pair for pair in ids if not is_row_number(pair[1])]
    ids = [(at, values.astype(str)) for at, values in better or ids]
    return OtherLabels(path, view.values(found[0])[0], frame.names[found[0]], tuple(ids))
