"""The `.parquet` format: a list column or one column a class, read in batches."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._arrow import (
    column_block,
    import_arrow,
    is_list,
    label_block,
    list_block,
    score_dtype,
    uneven,
)
from focalibrate.io._columns import choose_columns, has_prefix, label_position
from focalibrate.io._error import fault, how, listing
from focalibrate.io._keys import KINDS, choose_scores
from focalibrate.io._table import Progress, Request, Table
from focalibrate.io.predictions import Kind, Layout


@dataclass(frozen=True)
class _Chosen:
    """Names of the columns to read."""

    scores: tuple[str, ...]
    label: str | None
    kind: Kind
    class_names: tuple[str, ...] | None
    is_list: bool


def read_parquet(request: Request, progress: Progress) -> Table:
    """Read scores and labels batch by batch into arrays; needs pyarrow."""
    parquet = import_arrow("pyarrow.parquet", path=request.path)
    pa = import_arrow("pyarrow", path=request.path)
    try:
        with parquet.ParquetFile(request.path) as file:
            return _read_file(file, pa, request, progress)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise fault(
            request.path,
            f"is not a readable .parquet file ({str(error).splitlines()[0]}). "
            "If it was copied, copy it again.",
        ) from error


def _read_file(file: Any, pa: Any, request: Request, progress: Progress) -> Table:
    schema = file.schema_arrow
    names = [name for name in schema.names if not name.startswith("__index_level_")]
    if not names:
        raise fault(request.path, "has no columns. Write one column a class.")
    chosen = _choose(names, schema, pa, request)
    if chosen.label is None and request.need_labels and not request.other_labels:
        raise fault(
            request.path,
            f"has no column of labels; its columns are {listing(names)}. "
            f"Pass {how('label_column', 'NAME')}.",
        )
    scores, labels = _read_batches(file, pa, chosen, request=request, progress=progress)
    return Table(
        scores=scores,
        kind=chosen.kind,
        scores_name=chosen.scores[0] if chosen.is_list else chosen.kind,
        labels=labels,
        class_names=chosen.class_names,
        names_are_labels=not chosen.is_list,
        layout=Layout(label_column=chosen.label or "label", list_column=chosen.is_list),
    )


def _choose(names: list[str], schema: Any, pa: Any, request: Request) -> _Chosen:
    lists = [name for name in names if is_list(schema.field(name).type, pa)]
    plain = [name for name in names if name not in lists]
    told = request.logits_key is not None or request.probs_key is not None
    if told or any(kind in lists for kind in KINDS) or (lists and not has_prefix(plain)):
        key, kind = choose_scores(lists, request)
        at = None if request.other_labels else label_position(plain, request)
        label = None if at is None else plain[at]
        return _Chosen((key,), label, kind, _stored_names(schema, request), is_list=True)
    columns = choose_columns(plain, request)
    return _Chosen(
        tuple(plain[i] for i in columns.scores),
        None if columns.label is None else plain[columns.label],
        columns.kind,
        columns.class_names,
        is_list=False,
    )


def _stored_names(schema: Any, request: Request) -> tuple[str, ...] | None:
    """Return the names in the file's metadata, a JSON list of text, or None."""
    raw = (schema.metadata or {}).get(b"class_names")
    if raw is None:
        return None
    try:
        names = json.loads(raw)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise fault(
            request.path,
            f"`class_names` in the metadata must be a JSON list of text, got {raw[:80]!r}. "
            "Write `json.dumps(['cat', 'dog'])`.",
        )
    return tuple(names)


def _read_batches(
    file: Any, pa: Any, chosen: _Chosen, *, request: Request, progress: Progress
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    n_rows = file.metadata.num_rows
    if n_rows <= 0:  # a damaged file may say -1
        raise fault(request.path, "holds no rows. Write at least one example.")
    dtype = score_dtype(file.schema_arrow, chosen.scores, pa, request)
    wanted = [*chosen.scores, *([chosen.label] if chosen.label is not None else [])]
    scores: NDArray[Any] | None = None
    labels: list[NDArray[Any]] = []
    start = 0
    for batch in file.iter_batches(columns=wanted):
        if chosen.is_list:
            block = list_block(batch.column(chosen.scores[0]), start, request)
        else:
            block = column_block([batch.column(name) for name in chosen.scores])
        if scores is None:
            scores = np.empty((n_rows, block.shape[1]), dtype)
        if block.shape[1] != scores.shape[1]:
            raise uneven(request, start, block.shape[1], scores.shape[1])
        scores[start : start + len(block)] = block
        if chosen.label is not None:
            labels.append(label_block(batch.column(chosen.label), pa, start, request))
        start += len(block)
        progress(start, n_rows)
    if scores is None or start != n_rows:
        raise fault(request.path, f"promises {n_rows} rows and holds {start}. Write it again.")
    return scores, np.concatenate(labels) if labels else None
