"""Predictions of a classifier, as read from a file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Kind: TypeAlias = Literal["logits", "probs"]
"""What the scores are. Said by the file or the caller, never guessed from values."""

BLOCK_BYTES = 1 << 22
"""Bytes of scores in one block: small enough to stay in cache, large enough to be few."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a table file stored what it holds, so that an output can look like its input.

    Attributes:
        label_column: name of the column of labels.
        labels_as: whether labels stood there as class positions or as class names.
        list_column: whether scores were one list column rather than one column a class.
    """

    label_column: str = "label"
    labels_as: Literal["index", "name"] = "index"
    list_column: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """Scores of N examples over K classes, with what the file says about them.

    Attributes:
        scores: ``[N, K]``, float32 or float64; a read-only memory map where the format allows.
        kind: ``"logits"`` or ``"probs"``.
        labels: int64 ``[N]``, positions of the true classes, or None.
        class_names: one name a column, or None where the file gives none.
        source: the file.
        checksum: SHA-256 of the file's bytes, in hex.
        labels_source: the file of the labels, where they came from another one.
        labels_checksum: its SHA-256.
        layout: how a table file was laid out.
    """

    scores: NDArray[Any]
    kind: Kind
    labels: NDArray[np.int64] | None
    class_names: tuple[str, ...] | None
    source: Path
    checksum: str
    labels_source: Path | None = None
    labels_checksum: str | None = None
    layout: Layout = field(default_factory=Layout)

    @property
    def n_rows(self) -> int:
        """Number of examples N."""
        return int(self.scores.shape[0])

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return int(self.scores.shape[1])


def rows_per_block(scores: NDArray[Any]) -> int:
    """Return how many rows of `scores`, ``[N, K]``, fill one block."""
    return max(1, BLOCK_BYTES // (int(scores.shape[1]) * scores.dtype.itemsize))


def blocks(predictions: Predictions, *, n_rows: int | None = None) -> Iterator[NDArray[Any]]:
    """Yield the scores as they are, ``[<= n_rows, K]`` at a time, in order.

    A block is a view: of a memory map it costs memory only while it is in use.

    Args:
        predictions: what was read.
        n_rows: rows a block; about 4 MB when left out.
    """
    step = rows_per_block(predictions.scores) if n_rows is None else n_rows
    if step < 1:
        raise ValueError(f"`n_rows` must be >= 1, got {n_rows!r}.")
    for start in range(0, predictions.n_rows, step):
        yield predictions.scores[start : start + step]


def logit_blocks(predictions: Predictions, *, n_rows: int | None = None) -> Iterator[NDArray[Any]]:
    r"""Yield logits, ``[<= n_rows, K]`` at a time: the scores, or :math:`\log p`.

    A probability of zero becomes ``-inf``: no epsilon is added, and a class the model
    excluded stays excluded.
    """
    for block in blocks(predictions, n_rows=n_rows):
        if predictions.kind == "logits":
            yield block
        else:
            with np.errstate(divide="ignore"):
                yield np.log(block)


def as_logits(predictions: Predictions) -> NDArray[Any]:
    r"""Return logits ``[N, K]`` in the dtype of the scores.

    Logits are returned as they are, memory map or not. Probabilities become
    :math:`\log p`, one block at a time, in a new array; zeros become ``-inf``.
    """
    if predictions.kind == "logits":
        return predictions.scores
    logits = np.empty(predictions.scores.shape, predictions.scores.dtype)
    start = 0
    for block in logit_blocks(predictions):
        logits[start : start + len(block)] = block
        start += len(block)
    return logits
