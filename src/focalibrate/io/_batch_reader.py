"""The rows of a data set, batch by batch, once it is decided which column is what."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import PROBS_ATOL
from focalibrate.io._assemble import Settled, assemble
from focalibrate.io._error import PredictionFileError, file_error, shown
from focalibrate.io._find_streams import DataSet
from focalibrate.io._frame import Frame, silent
from focalibrate.io._other_labels import OtherLabels
from focalibrate.io._request import ReadOptions, Request
from focalibrate.io._roles import Roles
from focalibrate.io._stream import reordered
from focalibrate.io._view import View
from focalibrate.io.predictions import Predictions


@dataclass(frozen=True, kw_only=True)
class BatchReader:
    """Reads every batch of a data set in the way that its first rows decided.

    Attributes:
        data: the parts.
        options: what the caller passed to `scan_predictions`.
        request: the same, checked.
        roles: which column is what.
        labels: labels from a file of their own, or None.
        settled: what is known of all rows.
    """

    data: DataSet
    options: ReadOptions
    request: Request
    roles: Roles
    labels: OtherLabels | None
    settled: Settled

    @property
    def labels_path(self) -> Path | None:
        """The file of labels, if they are in one of their own."""
        return None if self.labels is None else self.labels.path

    @property
    def needed(self) -> list[int]:
        """Positions of the columns that are read: scores, label, weight, groups and ids."""
        roles = self.roles
        ids = () if self.labels is None else tuple(at for at, _ in self.labels.ids)
        named = [i for i in (roles.label, roles.weight) if i is not None]
        return list(dict.fromkeys([*roles.scores.positions, *named, *roles.groups, *ids]))

    def read(
        self,
        index: int,
        offset: int,
        *,
        batch_rows: int,
        like: Predictions,
        piece: int | None = None,
        keep: bool = False,
        half: bool = False,
    ) -> Iterator[tuple[int, Predictions | None]]:
        """Yield how many rows of one part were read, and the predictions of the complete ones.

        Args:
            index: position of the part.
            offset: rows of all parts before it.
            batch_rows: most rows of a batch.
            like: predictions of the first rows; all others must have the same classes.
            piece: which piece of the part to read. Default: all of it.
            keep: also read the columns that are not needed.
            half: leave logits in float16 as they are.
        """
        stream, places = self.data.streams[index], self.data.places[index]
        wanted = None if keep else [places[i] for i in self.needed]
        start = 0
        if piece is not None:
            start = sum(before.n_rows or 0 for before in stream.pieces[:piece])
            stream = stream.pieces[piece]
        for frame in stream.read(wanted, batch_rows):
            block = self.data.completed(reordered(frame, places))
            n_rows = self.n_rows_of(block)
            try:
                rows = slice(offset + start, offset + start + n_rows)
                found = self.predictions_of(block, rows, half=half)
            except PredictionFileError as error:
                raise _located(error, start) from error
            if found is not None:
                found = self._like(like, found, stream.frame.path)
            yield n_rows, found
            start += n_rows

    @property
    def can_take(self) -> bool:
        """Whether `take` gives any rows without reading the others: each counts as one."""
        counts = self.roles.weight is None and not self.options.get("drop_missing", False)
        by_order = self.labels is None or not self.labels.ids
        return counts and by_order and all(s.take is not None for s in self.data.streams)

    def take(
        self, index: int, offset: int, rows: NDArray[np.intp], *, like: Predictions
    ) -> Predictions:
        """Return the predictions of some rows of one part, without reading the others.

        Args:
            index: position of the part.
            offset: rows of all parts before it.
            rows: positions within the part, in ascending order.
            like: predictions of the first rows; all others must have the same classes.

        Raises:
            PredictionFileError: where a row breaks a rule; it does not say which.
        """
        stream, places = self.data.streams[index], self.data.places[index]
        if stream.take is None:
            raise ValueError("`take` must not be called where `can_take` is False.")
        frame = stream.take([places[i] for i in self.needed], rows)
        found = self.predictions_of(self.data.completed(reordered(frame, places)), offset + rows)
        if found is None:
            raise file_error(stream.frame.path, "has missing values in every row looked up.")
        return self._like(like, found, stream.frame.path)

    def predictions_of(
        self,
        block: Frame,
        rows: slice | NDArray[np.intp],
        *,
        is_first: bool = False,
        half: bool = False,
    ) -> Predictions | None:
        """Return the predictions of a block of rows; None if no row is complete.

        Args:
            block: the rows, with the columns in the order of the first part.
            rows: their positions in the data set.
            is_first: they are the first rows, whose notes are shown for all.
            half: leave logits in float16 as they are.
        """
        view = View(block)
        labels, matched = None, tuple[str, ...]()
        if self.labels is not None:
            values, matched = self.labels.of_rows(view, rows)
            labels = (values, self.labels.name)
        found = assemble(
            view,
            self.roles,
            self.request,
            labels=labels,
            labels_path=self.labels_path,
            probs_atol=self.options.get("probs_atol", PROBS_ATOL),
            drop_missing=self.options.get("drop_missing", False),
            progress=silent,
            settled=replace(self.settled, is_first=is_first, keeps_half=half),
        )
        if found is None:
            return None
        notes = (*found.notes, *matched)
        return replace(found, labels_source=self.labels_path, notes=notes)

    def n_rows_of(self, block: Frame) -> int:
        """Return the number of rows of a block."""
        return _n_rows(block, self.roles.scores.positions[0])

    def rows_before(self, index: int, *, batch_rows: int) -> int:
        """Return how many rows the parts before one have; counted if a file does not say."""
        total = 0
        scores = self.roles.scores.positions[0]
        for i in range(index):
            n = self.data.rows_of(i, scores)
            if n is None:
                at = self.data.places[i][scores]
                n = sum(_n_rows(f, at) for f in self.data.streams[i].read([at], batch_rows))
            total += n
        return total

    def check_all_labels_used(self, n_rows: int) -> None:
        """Raise if a file of labels has more of them than there are rows."""
        labels = self.labels
        if labels is not None and not labels.ids and len(labels.values) != n_rows:
            raise file_error(
                labels.path,
                "must hold one label per row, but there are more labels than rows: "
                f"{len(labels.values)} labels, {n_rows} rows. Check that both come from "
                "the same split.",
            )

    def _like(self, first: Predictions, found: Predictions, path: Path) -> Predictions:
        """Return the predictions in the precision of the first rows; raise if classes differ."""
        self._check_same(found, first, path)
        if found.scores.dtype in (first.scores.dtype, np.float16):
            return found
        return replace(found, scores=found.scores.astype(first.scores.dtype))

    def _check_same(self, found: Predictions, first: Predictions, path: Path) -> None:
        ways = [(p.class_names, p.positive, p.layout.labels_as) for p in (found, first)]
        if ways[0] != ways[1]:
            raise file_error(
                path,
                "its labels are matched to the classes in another way than those of the first "
                f"rows: {found.class_names} ({found.layout.labels_as}) and {first.class_names} "
                f"({first.layout.labels_as}). Write the names of the classes in one way.",
            )
        if found.n_classes != first.n_classes:
            raise file_error(
                path,
                f"has {found.n_classes} classes, but {shown(self.data.streams[0].place.path)} has "
                f"{first.n_classes}. Every part must have the same classes.",
            )


def _n_rows(frame: Frame, position: int) -> int:
    if frame.is_table:
        return frame.columns[position].shape[0]
    return len(frame.load([position], silent)[0])


def _located(error: PredictionFileError, start: int) -> PredictionFileError:
    """Return the error with the row from which its batch counts."""
    if not start or "row" not in str(error):
        return error
    return PredictionFileError(
        f"{error} (Rows are counted from row {start} of this file.)", fixes=error.fixes
    )
