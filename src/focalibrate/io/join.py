"""Batches of predictions as one."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.errors import Doubt, short
from focalibrate.io.predictions import Predictions
from focalibrate.io.repeats import SharedRows

LEAST_ROWS = 20
"""In fewer rows it is no surprise that all have the same label."""


def joined_predictions(
    batches: Sequence[Predictions],
    *,
    kept: Callable[[], Iterator[Predictions]],
    notes: Sequence[str],
    n_labels: int | None,
) -> Predictions:
    """Return batches one below another, with the notes that need all rows.

    Args:
        batches: at least one, with the same classes.
        kept: reads the batches with their other columns.
        notes: those of the first batch.
        n_labels: labels in a file of their own, matched by the names of the rows.
    """
    first = batches[0]
    scores = np.concatenate([b.scores for b in batches]) if len(batches) > 1 else first.scores
    whole = replace(
        first,
        scores=scores,
        labels=_stacked([b.labels for b in batches]),
        weights=_weights(batches),
        groups={k: _stacked([b.groups[k] for b in batches]) for k in first.groups},
        cluster=_stacked([b.cluster for b in batches]),
        n_rounded=sum(b.n_rounded for b in batches),
        n_dropped=sum(b.n_dropped for b in batches),
        layout=replace(first.layout, rest=lambda: _rest(kept)),
    )
    more = [*counted(whole), *_zeros(whole), *_one_label(whole)]
    if len({batch.source for batch in batches}) > 1:
        shared = SharedRows()
        for batch in batches:
            shared.add(batch)
        more += shared.notes()
    if n_labels is not None and n_labels > whole.n_rows + whole.n_dropped:
        name = first.labels_source.name if first.labels_source else ""
        n_unused = n_labels - whole.n_rows - whole.n_dropped
        more.append(f"labels in {name} that belong to no row: {n_unused}")
    return replace(whole, notes=tuple(dict.fromkeys([*notes, *more])))


def counted(found: Predictions) -> list[str]:
    """Return how many rows were divided by their sum, and how many are left out."""
    notes = []
    if found.n_dropped:
        rows = "1 row" if found.n_dropped == 1 else f"{found.n_dropped:,} rows"
        notes.append(f"{rows} with missing values left out")
    if found.n_rounded:
        notes.append(
            f"{found.n_rounded} rows rounded so that they do not sum to 1: each is divided by its "
            "sum"
        )
    return notes


def _weights(batches: Sequence[Predictions]) -> Any:
    """Return the weights of all rows; only batches with shared outcomes may have some."""
    if all(b.weights is None for b in batches):
        return None
    return _stacked([np.ones(b.n_rows) if b.weights is None else b.weights for b in batches])


def _stacked(parts: Sequence[NDArray[Any] | None]) -> Any:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None


def _zeros(found: Predictions) -> list[str]:
    """Return a note that counts the rows with a probability of exactly 0."""
    if found.kind != "probs":
        return []
    zeros = int((found.scores == 0).any(axis=1).sum())
    rows = "1 row has" if zeros == 1 else f"{zeros} rows have"
    return [f"{rows} a probability of exactly 0"] if zeros else []


def _one_label(found: Predictions) -> list[str]:
    """Return a warning where many rows have the same label, all of them."""
    labels = found.labels
    if labels is None or len(labels) < LEAST_ROWS or (labels != labels[0]).any():
        return []
    label = str(labels[0]) if found.class_names is None else short(found.class_names[labels[0]])
    return [
        Doubt(
            f"WARNING: the label of every row is {label}: check the labels. Rows of one class "
            "alone cannot show whether its probability is right"
        )
    ]


def _rest(kept: Callable[[], Iterator[Predictions]]) -> Any:
    """Return the other columns of all batches as one Arrow table."""
    tables = [b.layout.rest() for b in kept() if b.layout.rest is not None]
    names = tables[0].column_names
    columns = [_column([table.column(i) for table in tables]) for i in range(len(names))]
    return pa.table(columns, names=names)


def _column(parts: Sequence[Any]) -> Any:
    """Return the parts of a column as one; text where no type holds the values of all.

    Numbers are whole where some are by their type and all by their value: pandas writes whole
    numbers as 1.0 where one is missing.
    """
    types = {part.type for part in parts if not pa.types.is_null(part.type)}
    wanted = [pa.int64()] if any(map(pa.types.is_integer, types)) and len(types) > 1 else []
    is_decimal = any(map(pa.types.is_decimal, types))  # 1.10, which no other number is
    with suppress(pa.ArrowException):
        schemas = [pa.schema([("", kind)]) for kind in types or {pa.null()}]
        common = (
            pa.unify_schemas(schemas, promote_options="default" if is_decimal else "permissive")
            .field(0)
            .type
        )
        for kind in [*wanted, common]:
            with suppress(pa.ArrowInvalid):
                return pa.chunked_array([c for p in parts for c in p.cast(kind).chunks], kind)
    return pa.chunked_array([_as_text(part) for part in parts], pa.string())


def _as_text(part: Any) -> Any:
    if pa.types.is_nested(part.type):
        texts = [None if v is None else json.dumps(v, default=str) for v in part.to_pylist()]
        return pa.array(texts, pa.string())
    return part.cast(pa.string()).combine_chunks()
