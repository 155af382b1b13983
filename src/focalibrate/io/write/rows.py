"""The rows of an output: probabilities, and the other columns of the input as they were."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.cells import is_numbering
from focalibrate.io.predictions import Predictions
from focalibrate.io.roles.vocabulary import PROBABILITY, outcome_of, plain
from focalibrate.io.table import as_arrow

TEXT = (".csv", ".tsv", ".txt")
ARRAYS = (".npz", ".npy", ".safetensors", ".pt")
LISTS = (".parquet", ".feather", ".arrow", ".jsonl", ".json")
"""Formats of tables whose cells can be lists."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """How the rows of an output are laid out.

    Attributes:
        like: the predictions, whose layout the output has.
        suffix: of the format.
        header: names of all columns, in their order.
        new: those of the probabilities: one column, or one list, for all of them where it is one.
        kept: which of the other columns of the input are written.
        own_labels: labels of another file are the first column.
        place: where the probabilities are among the columns.
        order: position of each probability among the classes of a block; None: all in order.
        class_names: in the same order, or None.
    """

    like: Predictions
    suffix: str
    header: list[str]
    new: list[str]
    kept: list[int]
    own_labels: bool
    place: int
    order: list[int] | None
    class_names: tuple[str, ...] | None

    @classmethod
    def of(cls, like: Predictions, suffix: str, *, without: Sequence[str] = ()) -> "Output":
        """Return the layout of an output for the predictions `like`, without some columns."""
        layout, is_arrays = like.layout, suffix in ARRAYS
        scores, order = _score_names(like)
        in_lists = layout.form in ("matrix", "options") and suffix in LISTS
        new = ["probs"] if is_arrays or in_lists else scores
        written = {*new, "class_names"} if is_arrays else set(scores)
        kept = [i for i, name in enumerate(layout.names) if layout.rest and name not in without]
        shown = list[str]()
        for name in (layout.names[i] for i in kept):
            if not layout.has_names:
                name = "label" if name == layout.label_column else f"column_{name}"
            while name in written:  # keep the file's own column beside the new one
                name = f"uncalibrated_{name}"
            again = 0 if suffix in TEXT else shown.count(name)
            shown.append(f"{name}.{again}" if again else name)
        place = len([i for i in kept if i < layout.place])
        own_labels = like.labels is not None and layout.label_column is None
        if own_labels:
            own = "labels" if is_arrays else "label"
            while own in (*written, *shown):
                own = f"{own}_used"
            shown.insert(0, own)
            place += 1
        if suffix in (".jsonl", ".json"):
            place = len(shown)
        return cls(
            like=like,
            suffix=suffix,
            header=[*shown[:place], *new, *shown[place:]],
            new=new,
            kept=kept,
            own_labels=own_labels,
            place=place,
            order=order,
            class_names=layout.class_names if order and layout.class_names else like.class_names,
        )

    def rows(self, like: Predictions, blocks: Iterable[NDArray[Any]]) -> Iterator[Any]:
        """Yield the rows of blocks of probabilities that belong to `like`, as Arrow tables."""
        rest = like.layout.rest
        kept = [] if rest is None or not self.kept else rest().select(self.kept).columns
        if like.layout.separator is not None and self.suffix not in TEXT:
            kept = [_numbers(column) for column in kept]
        if self.own_labels:
            kept = [_own_labels(like, is_table=self.suffix not in ARRAYS), *kept]
        start, place = 0, self.place
        for block in blocks:
            probs = block if self.order is None else block[:, self.order]
            is_list = len(self.new) < probs.shape[1]
            new = [probs] if is_list else np.ascontiguousarray(probs.T)
            columns = [column.slice(start, len(block)) for column in kept]
            columns[place:place] = [as_arrow(array) for array in new]
            yield pa.table(columns, names=self.header)
            start += len(block)


def _own_labels(like: Predictions, *, is_table: bool) -> Any:
    labels: Any = like.labels
    if like.class_names is not None and is_table:
        return pa.array(np.array(like.class_names, dtype=object)[labels], pa.string())
    if like.class_names is not None and is_numbering(like.class_names):
        # Classes called 1, 0, 2: a number is read as the class of that name.
        labels = np.array([int(float(name)) for name in like.class_names])[labels]
    return pa.array(labels)


def _score_names(like: Predictions) -> tuple[list[str], list[int] | None]:
    """Return the columns of the probabilities of a table, and their positions if these differ."""
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
