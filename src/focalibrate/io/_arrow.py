"""Arrow columns as NumPy arrays: lists, one column a class, labels. The one use of pyarrow."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import PredictionFileError, fault, rows_text
from focalibrate.io._table import Request


def import_arrow(module: str, *, path: Path) -> Any:
    """Return pyarrow's `module`, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise fault(
            path,
            "reading and writing .parquet needs pyarrow. "
            "Install it: `pip install 'focalibrate[parquet]'`.",
        ) from error


def is_list(column_type: Any, pa: Any) -> bool:
    """Say whether a column of `column_type` holds a list, or a tensor stored as one, a row."""
    storage = getattr(column_type, "storage_type", column_type)
    types = pa.types
    return bool(
        types.is_list(storage) or types.is_large_list(storage) or types.is_fixed_size_list(storage)
    )


def score_dtype(schema: Any, names: tuple[str, ...], pa: Any, request: Request) -> np.dtype[Any]:
    """Return the dtype for the scores: that of the floats, float64 where there are integers."""
    found = []
    for name in names:
        column_type = schema.field(name).type
        if is_list(column_type, pa):
            column_type = getattr(column_type, "storage_type", column_type).value_type
        if not (pa.types.is_floating(column_type) or pa.types.is_integer(column_type)):
            raise fault(
                request.path,
                f"column `{name}` must hold numbers, got {column_type}. If it is no class, drop "
                "it, or name the class columns `logit_<class>` or `prob_<class>`.",
            )
        found.append(np.dtype(column_type.to_pandas_dtype()))
    common = np.result_type(*found)
    return common if common.kind == "f" else np.dtype(np.float64)


def column_block(columns: list[Any]) -> NDArray[Any]:
    """Return one column a class as ``[n, K]``; a missing value becomes nan."""
    return np.stack([column.to_numpy(zero_copy_only=False) for column in columns], axis=1)


def list_block(column: Any, start: int, request: Request) -> NDArray[Any]:
    """Return a list column as ``[n, K]``; `start` is the number of its first row."""
    column = getattr(column, "storage", column)
    if column.null_count:
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        rows = rows_text((missing[:5] + start).tolist(), len(missing))
        raise fault(
            request.path, f"scores must not be missing, but they are in {rows}. Drop them."
        )
    lengths = _lengths(column)
    if len(lengths) and lengths.min() != lengths.max():
        at = int(np.argmax(lengths != lengths[0]))
        raise uneven(request, start + at, int(lengths[at]), int(lengths[0]))
    values: NDArray[Any] = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(len(column), int(lengths[0]) if len(lengths) else 0)


def _lengths(column: Any) -> NDArray[np.int64]:
    if hasattr(column.type, "list_size"):
        return np.full(len(column), column.type.list_size)
    lengths: NDArray[np.int64] = np.diff(column.offsets.to_numpy())
    return lengths


def uneven(request: Request, row: int, found: int, expected: int) -> PredictionFileError:
    """Return the error for a row with another number of classes than those before."""
    return fault(
        request.path,
        f"every row must have the same number of scores, but row {row} has {found} and those "
        f"before it {expected}.",
    )


def label_block(column: Any, pa: Any, start: int, request: Request) -> NDArray[Any]:
    """Return labels as numbers or text; `start` is the number of the first row."""
    if column.null_count:
        missing = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        rows = rows_text((missing[:5] + start).tolist(), len(missing))
        raise fault(
            request.path, f"labels must not be missing, but they are in {rows}. Drop them."
        )
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_string(column.type) or types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=np.str_)
    numeric = types.is_integer(column.type) or types.is_floating(column.type)
    if numeric or types.is_boolean(column.type):
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values
    raise fault(
        request.path,
        f"labels must be whole numbers or text, got {column.type}. Convert and write again.",
    )
