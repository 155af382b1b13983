"""The columns of an output: probabilities, and the other columns of the input."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._dialect import is_number, is_numbering
from focalibrate.io._vocabulary import PROBABILITY, outcome_of, plain
from focalibrate.io.predictions import Predictions


@dataclass(frozen=True)
class Output:
    """The columns of an output file.

    Attributes:
        before: names and values of the columns before the probabilities.
        after: those after.
        names: columns of the probabilities; one if the input had one.
        order: position of each of them among the classes of a block.
        class_names: in the same order, or None.
    """

    before: list[tuple[str, Any]]
    after: list[tuple[str, Any]]
    names: list[str]
    order: list[int] | None
    class_names: tuple[str, ...] | None

    @property
    def kept(self) -> list[tuple[str, Any]]:
        """All columns but the probabilities."""
        return [*self.before, *self.after]

    def columns(self, block: NDArray[Any]) -> NDArray[Any]:
        """Return the columns of a block of probabilities in the order of the output."""
        if self.order is None:
            return block
        return np.ascontiguousarray(block[:, self.order])


def output_of(like: Predictions, *, is_table: bool) -> Output:
    """Return the columns of an output for the predictions `like`."""
    layout = like.layout
    names, order = _score_names(like)
    written = set(names) if is_table else {"probs", "class_names"}
    values = layout.load() if layout.names else []
    kept = []
    for name, value in zip(layout.names, values, strict=True):
        if not layout.extra.get("has_names", True):
            name = "label" if name == layout.label_column else f"column_{name}"
        while name in written:  # keep the file's own column beside the new one
            name = f"uncalibrated_{name}"
        written.add(name)
        kept.append((name, value))
    place = layout.place
    if like.labels is not None and layout.label_column is None:
        labels: Any = like.labels
        if like.class_names is not None and is_table:
            labels = np.array(like.class_names, dtype=object)[like.labels]
        elif like.class_names is not None and is_numbering(like.class_names):
            # Classes called 1, 0, 2: a number is read as the class of that name.
            labels = np.array([int(float(name)) for name in like.class_names])[like.labels]
        own = "label" if is_table else "labels"
        while own in written:
            own = f"{own}_used"
        kept.insert(0, (own, labels))
        place += 1
    shown = layout.class_names if order is not None and layout.class_names else like.class_names
    return Output(kept[:place], kept[place:], names, order, shown)


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


def as_numbers(cells: list[str]) -> NDArray[Any]:
    """Return cells of text as whole numbers, as numbers, or else as text."""
    if all(is_number(cell) for cell in cells):
        plain_whole = all(
            cell.lstrip("-").isdigit() and (cell == "0" or not cell.lstrip("-").startswith("0"))
            for cell in cells
        )
        if plain_whole and all(len(cell) < 18 for cell in cells):
            return np.array([int(cell) for cell in cells], np.int64)
        if not any(
            cell.strip().lstrip("-").startswith("0") and "." not in cell and cell.strip() != "0"
            for cell in cells
        ):
            return np.array([float(cell) for cell in cells])
    return np.array(cells, dtype=object)
