"""What the cells of a text table can be, and what columns of numbers show."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from focalibrate.io.errors import PredictionFileError, RowError

MISSING = frozenset(
    ("", "na", "n/a", "nan", "-nan", "null", "none", "nat", "<na>", "#n/a", "#na", "?", "\\n")
)
"""Cells, in lower case, that mean a missing value in a column of numbers."""

_ONE_NUMBER = re.compile(r"(\D*)(\d{1,9})(\.0|\D*)", re.ASCII)


def is_number(cell: str) -> bool:
    """Return whether `cell` is a number as text tables write it: ``1e-3``, not ``1_0``."""
    try:
        float(cell)
    except ValueError:
        return False
    # `float` also accepts 1_0 and the digits of other scripts; a table does not.
    return "_" not in cell and cell.isascii()


def is_numbering(names: Sequence[str]) -> bool:
    """Return whether the names are 0, 1, 2, ... (or ``0.0, 1.0, ...``) in any order."""
    whole = {name.removesuffix(".0") for name in names}
    return len(whole) == len(names) and whole == {str(i) for i in range(len(names))}


def numbers_in(names: Sequence[str]) -> list[int] | None:
    """Return the numbers of names that differ only in a number, from 0 or from 1, or None.

    Names that are nothing but a number count if they begin at 0.

    Example:
        >>> numbers_in(["LABEL_2", "LABEL_0", "LABEL_1"]), numbers_in(["V1", "V2"])
        ([2, 0, 1], [1, 2])
        >>> numbers_in(["grade 5", "grade 9"]) is None
        True
    """
    found = [_ONE_NUMBER.fullmatch(name) for name in names]
    parts = [match.groups() for match in found if match is not None]
    if len(parts) < len(names) or len({(head, tail) for head, _, tail in parts}) != 1:
        return None
    numbers = [int(number) for _, number, _ in parts]
    first = min(numbers)
    is_range = sorted(numbers) == list(range(first, first + len(numbers)))
    is_bare = not parts[0][0] and parts[0][2] in ("", ".0")
    return numbers if is_range and (first == 0 or (first == 1 and not is_bare)) else None


def is_value(cell: str, *, decimal_comma: bool = False) -> bool:
    """Return whether `cell` is a number, a percentage or missing."""
    text = cell.strip()
    if decimal_comma:
        text = "." if "." in text else text.replace(",", ".", 1)
    return text.lower() in MISSING or is_number(text.removesuffix("%"))


ROW_TOLERANCE = 0.05
"""How far the sum of a row may be from 1: probabilities may be rounded to few digits."""

SCREENED = 64
"""Number of rows on which runs of columns are tried first."""

MAX_RUN_COLUMNS = 1500
"""Most columns that are searched for a run that sums to 1."""


@dataclass(frozen=True)
class RowSums:
    """What the rows over some columns sum to; rows with nan are left out.

    Attributes:
        in_unit: every number lies in [0, 1].
        worst: largest distance of a row's sum from 1.
        worst_percent: largest distance from 100.
        negative: some number is below 0.
        fractions: some number lies strictly between 0 and 1.
        n_rows: rows without nan.
    """

    in_unit: bool
    worst: float
    worst_percent: float
    negative: bool
    fractions: bool
    n_rows: int

    @property
    def on_simplex(self) -> bool:
        """Whether every row looks like probabilities."""
        return self.n_rows > 0 and self.in_unit and self.worst <= ROW_TOLERANCE

    @property
    def in_percent(self) -> bool:
        """Whether every row looks like percentages."""
        return (
            self.n_rows > 0 and not self.negative and self.worst_percent <= 100 * ROW_TOLERANCE / 2
        )


def row_sums(values: NDArray[Any]) -> RowSums:
    """Return what the rows of a matrix ``[N, K]`` sum to."""
    with np.errstate(all="ignore"):
        total = values.sum(axis=1, dtype=np.float64)
        good = ~np.isnan(total)
        if not good.all():
            values, total = values[good], total[good]
        if not values.size:
            return RowSums(False, np.inf, np.inf, False, False, 0)
        low, high = float(values.min()), float(values.max())
        return RowSums(
            in_unit=low >= 0 and high <= 1 + 1e-6,
            worst=float(np.abs(total - 1).max()),
            worst_percent=float(np.abs(total - 100).max()),
            negative=low < 0,
            fractions=bool(((values > 0) & (values < 1)).any()),
            n_rows=len(total),
        )


def looks_like_probs(scores: NDArray[Any]) -> bool:
    """Return whether the rows of a matrix could hardly be anything but probabilities."""
    sums = row_sums(scores)
    return sums.on_simplex and sums.fractions and sums.worst < 1e-3


AGREEMENT = 0.02
"""How far two columns of probabilities of one model may differ: they may be rounded."""


def is_same_model(logits: NDArray[Any], probs: NDArray[Any]) -> bool:
    """Return whether the softmax of `logits` gives `probs`, both ``[N, K]``, in the first rows."""
    if logits.shape != probs.shape or not len(logits):
        return False
    z, p = (np.asarray(a[:4096], np.float64) for a in (logits, probs))
    with np.errstate(all="ignore"):
        e = np.exp(z - z.max(axis=1, keepdims=True))
        gap = np.abs(e / e.sum(axis=1, keepdims=True) - p / p.sum(axis=1, keepdims=True))
    return bool(np.nanmax(gap, initial=0.0) <= AGREEMENT)


def is_whole(values: NDArray[Any]) -> bool:
    """Return whether every number is whole (or missing)."""
    if values.dtype.kind in "iub":
        return True
    if values.dtype.kind != "f":
        return False
    with np.errstate(invalid="ignore"):
        return bool((np.isnan(values) | (values == np.trunc(values))).all())


def is_row_number(values: NDArray[Any]) -> bool:
    """Return whether the values number at least 5 rows: each is one more than the one before."""
    if values.dtype.kind not in "fiu" or values.ndim != 1 or len(values) < 5:
        return False
    numbers = values.astype(np.float64)
    return bool((np.diff(numbers) == 1).all())


def find_runs(columns: Sequence[NDArray[Any]]) -> list[tuple[int, int]]:
    """Return the first and last of each run of neighbouring columns whose rows sum to 1.

    Only runs with fractions count, as one-hot columns sum to 1 too. Runs that differ only by
    columns of zeros are all returned.
    """
    if not 2 <= len(columns) <= MAX_RUN_COLUMNS:
        return []
    n = min(SCREENED, len(columns[0]))
    rows = np.unique(np.linspace(0, len(columns[0]) - 1, n).astype(np.intp))
    table = np.stack([np.asarray(c[rows], np.float64) for c in columns], axis=1)
    with np.errstate(all="ignore"):
        table[:, ((table < 0) | (table > 1 + 1e-6)).any(axis=0)] = np.nan
    found = []
    width = table.shape[1]
    for first in range(width - 1):
        sums = np.cumsum(table[:, first:], axis=1)
        with np.errstate(invalid="ignore"):
            good = np.all(np.abs(sums - 1) <= ROW_TOLERANCE, axis=0)
        for last in (first + np.flatnonzero(good)).tolist():
            if last == first:
                continue
            checked = row_sums(np.stack(columns[first : last + 1], axis=1))
            if checked.on_simplex and checked.fractions:
                found.append((first, last))
            if len(found) > 20:
                return found
    return found


Kind: TypeAlias = Literal["number", "text", "bool", "matrix", "empty", "other"]
"""What the cells of a column are; a matrix has a list of numbers in every row."""

BOOLEANS = {"true": True, "false": False}
_SCALAR = re.compile(r"(?:np\.|numpy\.)?(?:float|int|bfloat)\d+\(([^()]*)\)")
_ARRAY = re.compile(
    r"(?:tensor|array|Array|DenseVector)\((.*?)(?:,\s*(?:dtype|device|grad_fn)=.*)?\)", re.DOTALL
)


def as_numpy(cells: Any) -> NDArray[Any]:
    """Return numbers or truth values as a NumPy array, missing ones as nan.

    Not by `to_numpy` where it can be avoided: it imports pandas, which takes longer than the rest.
    """
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    if cells.null_count or pa.types.is_temporal(cells.type) or pa.types.is_decimal(cells.type):
        found: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return found
    if pa.types.is_boolean(cells.type):
        return np.from_dlpack(cells.cast(pa.uint8())).view(np.bool_)
    return np.from_dlpack(cells)


def _codes(codes: Any, missing: int) -> NDArray[Any]:
    """Return the numbers of dictionary-encoded cells, `missing` where there is none."""
    return as_numpy(codes.indices.fill_null(missing) if codes.null_count else codes.indices)


def as_arrow(array: NDArray[Any]) -> Any:
    """Return an array as an Arrow array; one of several axes as lists of fixed size.

    By `pa.array` only where it must be, as `pa.array` imports pandas too.
    """
    if array.ndim > 1:
        inner = as_arrow(array.reshape(-1, *array.shape[2:]))
        return pa.FixedSizeListArray.from_arrays(inner, array.shape[1])
    if array.dtype.kind in "UO":
        texts = array.tolist()
        if None in texts:
            return pa.array(texts, pa.string())
        cells = [text.encode() for text in texts]
        ends = np.cumsum([0, *map(len, cells)], dtype=np.int32)
        buffers = pa.py_buffer(ends), pa.py_buffer(b"".join(cells))
        return pa.StringArray.from_buffers(len(cells), *buffers)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)  # Arrow has no longer ones
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if array.dtype == np.bool_:
        return as_arrow(array.view(np.uint8)).cast(pa.bool_())
    if array.dtype.kind not in "fiu":
        return pa.array(array)
    kind, content = pa.from_numpy_dtype(array.dtype), pa.py_buffer(array)
    return pa.Array.from_buffers(kind, len(array), [None, content])


def is_text_type(kind: Any) -> bool:
    """Return whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_binary_type(kind: Any) -> bool:
    """Return whether an Arrow type holds bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def texts_of(cells: Any) -> NDArray[Any]:
    """Return cells as text without white space around them; missing text is ``""``."""
    if is_binary_type(cells.type):  # which need not be text, such as an image
        codes = cells.dictionary_encode()
        words = [word.decode("utf-8", "backslashreplace") for word in codes.dictionary.to_pylist()]
    else:
        codes = cells.cast(pa.string()).dictionary_encode()
        words = codes.dictionary.to_pylist()
    words = [word.strip() for word in words]
    distinct = np.array([*words, ""], dtype=object)
    places = _codes(codes, len(words))
    return np.asarray(distinct[places])


def unwrapped(cell: str) -> str:
    """Return a number or list without the names of types around it.

    Example:
        >>> unwrapped("[np.float64(0.25), np.float64(0.75)]")
        '[0.25, 0.75]'
        >>> unwrapped("tensor(0.5, device='cpu')")
        '0.5'
    """
    text = cell.strip()
    if "(" not in text:
        return text
    if text.startswith("(") and text.endswith(")"):
        text = f"[{text[1:-1].rstrip(',')}]"
    found = _ARRAY.fullmatch(text)
    return _SCALAR.sub(r"\1", text if found is None else found[1])


def _kind_of_cells(cells: Any, *, decimal_comma: bool) -> tuple[Kind, NDArray[Any] | None]:
    """Return what cells of text are, and their values if they are not text."""
    numbers = parsed(cells, "number", decimal_comma=decimal_comma)
    if numbers is not None and not np.isnan(numbers).all():
        return "number", numbers
    known = [unwrapped(cell) for cell in pc.unique(cells).to_pylist() if cell and cell.strip()]
    if not known:
        return "empty", None
    if numbers is not None:  # a column of nothing but "None" or "?" is text
        is_number = any(cell.lower() not in MISSING for cell in known)
        return ("number", numbers) if is_number else ("text", None)
    kind: Kind = "matrix"
    if all(cell.lower() in BOOLEANS for cell in known):
        kind = "bool"
    elif not all(cell.startswith("[") and cell.endswith("]") for cell in known):
        return "text", None
    values = parsed(cells, kind, decimal_comma=decimal_comma)
    return ("text", None) if values is None else (kind, values)


def parsed(cells: Any, kind: Kind, *, decimal_comma: bool) -> NDArray[Any] | None:
    """Return cells of text as numbers, booleans or lists; None where one is of another kind."""
    if kind not in _PARSE:
        return texts_of(cells)
    if kind == "number":
        if decimal_comma:
            if pc.any(pc.match_substring(cells, ".")).as_py():
                return None  # thousands, or another way to write numbers
            cells = pc.replace_substring(cells, ",", ".", max_replacements=1)
        for as_they_are in (True, False):
            with suppress(pa.ArrowInvalid):
                return as_numpy((cells if as_they_are else _trimmed(cells)).cast(pa.float64()))
    codes = cells.dictionary_encode()
    words = ["" if word is None else word for word in codes.dictionary.to_pylist()]
    distinct = _PARSE[kind](words)
    if distinct is None:
        return None
    if codes.null_count:
        if kind != "number":
            return None
        distinct = np.append(distinct, np.nan)
    places = _codes(codes, len(words))
    return np.asarray(distinct[places])


def _trimmed(cells: Any) -> Any:
    """Return cells without white space around them; empty ones are missing."""
    cells = pc.utf8_trim_whitespace(cells)
    empty = as_arrow(np.array([""])).cast(cells.type)
    return pc.if_else(pc.equal(cells, empty[0]), pa.nulls(1, cells.type)[0], cells)


def _numbers(words: Sequence[str]) -> NDArray[np.float64] | None:
    numbers = np.empty(len(words))
    for i, word in enumerate(words):
        text = unwrapped(word)
        if text.lower() in MISSING:
            numbers[i] = np.nan
        elif is_number(text):
            numbers[i] = float(text)
        elif text.endswith("%") and is_number(text[:-1]):
            numbers[i] = float(text[:-1]) / 100
        else:
            return None
    return numbers


def _booleans(words: Sequence[str]) -> NDArray[np.bool_] | None:
    found = [BOOLEANS.get(word.strip().lower()) for word in words]
    return None if None in found else np.array(found, bool)


def _lists(words: Sequence[str]) -> NDArray[np.float64] | None:
    """Return lists written as text: ``[0.1, 0.9]``, NumPy's ``[0.1 0.9]``, or a tensor."""
    rows: list[list[float]] = []
    for word in words:
        text = unwrapped(word)
        if not (text.startswith("[") and text.endswith("]")):
            return None
        try:
            rows.append([float(number) for number in text[1:-1].replace(",", " ").split()])
        except ValueError:
            return None
        if len(rows[-1]) != len(rows[0]):
            return None
    return np.array(rows, np.float64)


def _matrix(column: Any, path: Path) -> NDArray[Any]:
    if column.null_count:
        missing = np.flatnonzero(as_numpy(column.is_null()))
        raise RowError(
            path, "scores must not be missing, but they are in ", missing, ". Drop them."
        )
    if hasattr(column.type, "list_size"):
        lengths = np.full(len(column), column.type.list_size)
    else:
        lengths = np.diff(as_numpy(column.offsets))
    if len(lengths) and lengths.min() != lengths.max():
        at = int(np.argmax(lengths != lengths[0]))
        raise uneven(path, at, int(lengths[at]), int(lengths[0]))
    return as_numpy(column.flatten()).reshape(len(column), int(lengths[0]) if len(lengths) else 0)


def uneven(path: Path, row: int, found: int, expected: int) -> PredictionFileError:
    """Return the error for a row with another number of classes than those before."""
    return RowError(
        path,
        "every row must have the same number of scores, but ",
        [row],
        f" has {found} and those before it {expected}.",
    )


_PARSE: dict[str, Any] = {"number": _numbers, "bool": _booleans, "matrix": _lists}
