"""The rows of an output: probabilities, and the other columns of the input as they were."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.cells import is_numbering
from focalibrate.io.predictions import Predictions
from focalibrate.io.roles.vocabulary import PROBABILITY, outcome_of, plain

TEXT = (".csv", ".tsv", ".txt")
ARRAYS = (".npz", ".npy", ".safetensors", ".pt")


class Rows(NamedTuple):
    """Some rows to write: the other columns as an Arrow table, and the probabilities."""

    kept: Any
    probs: NDArray[Any]


@dataclass(frozen=True)
class Output:
    """How the rows of an output are laid out.

    Attributes:
        like: the predictions, whose layout the output has.
        suffix: of the format.
        names: columns of the probabilities; one if the input had one.
        order: position of each of them among the classes of a block.
        class_names: in the same order, or None.
        place: how many of the other columns come before the probabilities.
    """

    like: Predictions
    suffix: str
    names: list[str]
    order: list[int] | None
    class_names: tuple[str, ...] | None
    place: int

    @classmethod
    def of(cls, like: Predictions, suffix: str) -> "Output":
        """Return the layout of an output for the predictions `like`."""
        names, order = _score_names(like)
        layout = like.layout
        in_file = order is not None and layout.class_names
        shown = layout.class_names if in_file else like.class_names
        place = layout.place + (like.labels is not None and layout.label_column is None)
        return cls(like, suffix, names, order, shown, place)

    @property
    def is_list(self) -> bool:
        """Whether all probabilities of a row are one list."""
        return self.like.layout.form in ("matrix", "options")

    def beside(self, kept: Sequence[Any], new: Sequence[Any]) -> list[Any]:
        """Return columns, or their names, in the order of the output."""
        return [*kept[: self.place], *new, *kept[self.place :]]

    def rows(self, like: Predictions, blocks: Iterable[NDArray[Any]]) -> Iterator[Rows]:
        """Yield the rows of blocks of probabilities that belong to `like`."""
        kept = self._kept(like)
        start = 0
        for block in blocks:
            cells = block if self.order is None else np.ascontiguousarray(block[:, self.order])
            yield Rows(kept.slice(start, len(block)), cells)
            start += len(block)

    def _kept(self, like: Predictions) -> Any:
        """Return the other columns, with labels of another file as the first."""
        layout, is_table = like.layout, self.suffix not in ARRAYS
        written = set(self.names) if is_table else {"probs", "class_names"}
        table = pa.table({}) if layout.rest is None or not layout.names else layout.rest()
        arrays, shown = list(table.columns), list[str]()
        for name in layout.names if arrays else ():
            if not layout.has_names:
                name = "label" if name == layout.label_column else f"column_{name}"
            while name in written:  # keep the file's own column beside the new one
                name = f"uncalibrated_{name}"
            again = 0 if self.suffix in TEXT else shown.count(name)
            shown.append(f"{name}.{again}" if again else name)
        if like.labels is not None and layout.label_column is None:
            own = "label" if is_table else "labels"
            while own in written:
                own = f"{own}_used"
            arrays.insert(0, pa.chunked_array([_own_labels(like, is_table=is_table)]))
            shown.insert(0, own)
        if layout.separator is not None and self.suffix not in TEXT:
            arrays = [_numbers(column) for column in arrays]
        return pa.table(arrays, names=shown)


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
