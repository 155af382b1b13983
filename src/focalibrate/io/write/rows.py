"""The rows of an output: probabilities, and the other columns of the input as they were."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.cells import is_numbering
from focalibrate.io.predictions import Predictions
from focalibrate.io.roles.vocabulary import PROBABILITY, outcome_of, plain


@dataclass(frozen=True)
class Output:
    """How the rows of an output are laid out.

    Attributes:
        like: the predictions, whose layout the output has.
        names: columns of the probabilities; one if the input had one.
        order: position of each of them among the classes of a block.
        class_names: in the same order, or None.
        place: how many of the other columns come before the probabilities.
        is_table: rows of a table, rather than arrays.
        is_text: cells of a text table are written as they are.
    """

    like: Predictions
    names: list[str]
    order: list[int] | None
    class_names: tuple[str, ...] | None
    place: int
    is_table: bool
    is_text: bool

    @property
    def is_list(self) -> bool:
        """Whether all probabilities of a row are one list."""
        return self.like.layout.form in ("matrix", "options")

    def rows(self, like: Predictions, blocks: Iterable[NDArray[Any]]) -> Iterator["Rows"]:
        """Yield the rows of blocks of probabilities that belong to `like`."""
        kept = self._kept(like)
        start = 0
        for block in blocks:
            cells = block if self.order is None else np.ascontiguousarray(block[:, self.order])
            yield Rows(kept.slice(start, len(block)), cells)
            start += len(block)

    def _kept(self, like: Predictions) -> Any:
        """Return the other columns, with labels of another file as the first."""
        layout = like.layout
        written = set(self.names) if self.is_table else {"probs", "class_names"}
        table = None if layout.rest is None or not layout.names else layout.rest()
        arrays, names = ([], []) if table is None else (list(table.columns), list(layout.names))
        shown = []
        for name in names:
            if not layout.has_names:
                name = "label" if name == layout.label_column else f"column_{name}"
            while name in written:  # keep the file's own column beside the new one
                name = f"uncalibrated_{name}"
            written.add(name)
            shown.append(name)
        if like.labels is not None and layout.label_column is None:
            own = "label" if self.is_table else "labels"
            while own in written:
                own = f"{own}_used"
            arrays.insert(0, pa.chunked_array([_own_labels(like, is_table=self.is_table)]))
            shown.insert(0, own)
        if not arrays:  # a table without columns has no rows
            return _Nothing()
        if layout.separator is not None and not self.is_text:
            arrays = [_numbers(column) for column in arrays]
        return pa.table(arrays, names=shown)


class _Nothing:
    """A table without columns, of any number of rows."""

    column_names: tuple[str, ...] = ()
    columns: tuple[Any, ...] = ()

    def slice(self, start: int, length: int) -> "_Nothing":
        return self


@dataclass(frozen=True)
class Rows:
    """Some rows to write: the other columns as an Arrow table, and the probabilities."""

    kept: Any
    probs: NDArray[Any]


def output_of(like: Predictions, *, is_table: bool, is_text: bool) -> Output:
    """Return the layout of an output for the predictions `like`."""
    names, order = _score_names(like)
    layout = like.layout
    shown = layout.class_names if order is not None and layout.class_names else like.class_names
    place = layout.place + (like.labels is not None and layout.label_column is None)
    return Output(like, names, order, shown, place, is_table, is_text)


def _own_labels(like: Predictions, *, is_table: bool) -> Any:
    labels: Any = like.labels
    if like.class_names is not None and is_table:
        return pa.array(np.array(like.class_names, dtype=object)[labels], pa.string())
    if like.class_names is not None and is_numbering(like.class_names):
        # Classes called 1, 0, 2: a number is read as the class of that name.
        labels = np.array([int(float(name)) for name in like.class_names])[labels]
    return pa.array(labels)


def _score_names(like: Predictions) -> tuple[list[str], list[int] | None]:
    layout = like.layout
    if layout.form == "single" and like.n_classes == 2:
        own = like.scores_names[0] if like.scores_names else "prob_1"
        positive = like.positive if like.positive is not None else "1"
        says_probs = plain(own) in PROBABILITY or (outcome_of(own) and "perc" not in own.lower())
        own = own if says_probs else f"prob_{positive}"
        at = 1
        if like.class_names is not None and positive in like.class_names:
            at = like.class_names.index(positive)
        elif positive == "0":
            at = 0
        return [own], [at]
    given = layout.class_names
    order = None
    names = like.class_names
    if given is not None and names is not None and given != names and set(given) == set(names):
        order = [names.index(name) for name in given]
        names = given
    shown = names if names is not None else [str(i) for i in range(like.n_classes)]
    return [f"prob_{name}" for name in shown], order


def _numbers(column: Any) -> Any:
    """Return cells of text as numbers if every one is written as that number is.

    A cell such as ``007``, ``1e1``, ``1.10`` or ``+49`` anywhere makes the column text.
    """
    if not pa.types.is_string(column.type):
        return column
    for kind in (pa.int64(), pa.float64()):
        try:
            found = column.cast(kind)
        except pa.ArrowInvalid:
            continue
        written = [repr(v) for v in found.to_pylist()]
        return found if written == column.to_pylist() else column
    return column


def as_array(column: Any) -> NDArray[Any]:
    """Return a kept column as a NumPy array of numbers or of text."""
    cells = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = cells.type
    if pa.types.is_fixed_size_list(kind):
        inner = as_array(cells.flatten())
        return inner.reshape(len(cells), kind.list_size, *inner.shape[1:])
    is_plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if is_plain and not (pa.types.is_boolean(kind) and cells.null_count):
        found: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return found
    return np.array(["" if v is None else str(v) for v in cells.to_pylist()], dtype=np.str_)
