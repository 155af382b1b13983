"""Tables, in .npz or .csv files, and where those of the papers' experiments come from."""

import csv
import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate_papers.datasets._files import need, read_arrays, read_text
from focalibrate_papers.datasets._split import split_sizes
from focalibrate_papers.datasets.dataset import Dataset, DataSetError, Split

SHARES = (0.6, 0.2, 0.2)
MISSING = ("", "?", "NA", "nan", "NaN")
LABEL_COLUMNS = ("label", "class", "target", "y")


@dataclass(frozen=True)
class TableSource:
    """Origin of one table.

    Attributes:
        url: file of the public copy it was made from.
        licence: terms of the data, as far as they are stated.
        checksum: `table_checksum` of ``X`` and ``y`` in ``<name>.npz``.
    """

    url: str
    licence: str
    checksum: str


def table_checksum(X: NDArray[np.floating], y: NDArray[np.integer]) -> str:
    """Return the first 16 hex digits of the SHA-256 of `X` as float32, then `y` as int16.

    Rows in the order of the public file; categories as their rank among the sorted values;
    missing values nan; constant columns dropped; little-endian.
    """
    content = np.ascontiguousarray(X, "<f4").tobytes() + np.ascontiguousarray(y, "<i2").tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def _sources() -> dict[str, TableSource]:
    with Path(__file__).with_name("tables.csv").open(encoding="utf-8", newline="") as file:
        return {row.pop("name"): TableSource(**row) for row in csv.DictReader(file)}


TABLES = _sources()
"""Tables by name. ``abalone3`` has the rings in three
classes (up to 8, 9 or 10, 11 or more), and ``keel_ring`` lost its decimal points at KEEL."""


@dataclass(frozen=True)
class RawTable:
    """A table before it is split and scaled.

    Attributes:
        X: numbers, and codes of categories, NaN where missing, ``[N, d]``.
        labels: ``[N]``.
        is_categorical: whether each column is categorical, ``[d]``.
        class_names: one for each class.
    """

    X: Floats
    labels: NDArray[np.int64]
    is_categorical: NDArray[np.bool_]
    class_names: tuple[str, ...]


def find_tables(root: Path | None) -> list[str]:
    """Return the names of the tables in the folder of data sets and in its folder ``tabular``."""
    if root is None:
        return []
    folders = [root / folder for folder in ("", "tabular")]
    return sorted(
        {path.stem for folder in folders for s in ("npz", "csv") for path in folder.glob(f"*.{s}")}
    )


def read_npz_table(path: Path) -> RawTable:
    """Read arrays ``X``, ``y`` and, where there, ``is_categorical``."""
    X, y = read_arrays(path, ("X", "y"))
    if X.ndim != 2 or y.shape != X.shape[:1] or not len(y):
        raise DataSetError(
            f"{path}: X must be [N, d] and y [N], found {list(X.shape)} and {list(y.shape)}."
        )
    with np.load(path, allow_pickle=False) as archive:
        categorical = (
            archive["is_categorical"].astype(bool)
            if "is_categorical" in archive.files
            else np.zeros(X.shape[1], dtype=bool)
        )
    if categorical.shape != X.shape[1:]:
        raise DataSetError(
            f"{path}: is_categorical must have one entry for each of the {X.shape[1]} columns, "
            f"found {categorical.size}."
        )
    kinds, labels = np.unique(y, return_inverse=True)
    names = _manifest_names(path) or tuple(str(kind) for kind in kinds)
    if len(names) != len(kinds):
        names = tuple(str(kind) for kind in kinds)
    return RawTable(X.astype(np.float64), labels.astype(np.int64), categorical, names)


def _manifest_names(path: Path) -> tuple[str, ...]:
    manifest = path.with_name("manifest.json")
    if not manifest.exists():
        return ()
    try:
        listed = {entry["name"]: entry["class_names"] for entry in json.loads(read_text(manifest))}
    except (ValueError, TypeError, KeyError):
        return ()  # some other file of that name
    return tuple(str(name) for name in listed.get(path.stem, ()))


def read_csv_table(path: Path) -> RawTable:
    """Read columns with a line of names; the label is the column named so, else the last.

    A column is categorical if a value is not a number. Empty cells and ``?`` are missing.
    """
    import pandas as pd  # takes half a second

    rows = [line for line in csv.reader(io.StringIO(read_text(path, "utf-8-sig"))) if line]
    if len(rows) < 2:
        raise DataSetError(f"{path}: must hold a line of names and lines of values.")
    header = [name.strip() for name in rows[0]]
    for i, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise DataSetError(f"{path}: line {i} has {len(row)} cells, the first {len(header)}.")
    named = [i for i, name in enumerate(header) if name.lower() in LABEL_COLUMNS]
    at = named[0] if len(named) == 1 else len(header) - 1
    cells = pd.DataFrame(rows[1:]).map(str.strip).replace(list(MISSING), None)
    label = cells.pop(at)
    if label.isna().any():
        raise DataSetError(f"{path}: a label in column {header[at]!r} is missing.")
    numbers = cells.apply(pd.to_numeric, errors="coerce")
    categorical = (numbers.isna() & cells.notna()).any()
    codes = cells.apply(lambda column: pd.Series(pd.factorize(column, sort=True)[0]))
    X = np.where(categorical, codes.where(codes >= 0), numbers).astype(np.float64)
    is_number = pd.to_numeric(label, errors="coerce").notna().all()
    names = tuple(sorted(label.unique(), key=float if is_number else str))
    labels = label.map(names.index).to_numpy(np.int64)
    return RawTable(X, labels, categorical.to_numpy(), names)


def scaled(table: RawTable, train: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return the table as numbers for a network, scaled by the rows `train`.

    A number is standardised; a missing one becomes the mean, and an extra column marks it if it
    was missing in train. A category becomes one column per value in train: all zero if it is
    missing or new.
    """
    columns: list[NDArray[Any]] = []
    for values, is_category in zip(table.X.T, table.is_categorical, strict=True):
        seen = values[train]
        seen = seen[~np.isnan(seen)]
        if is_category:
            columns += [values == kind for kind in np.unique(seen)]
            continue
        mean = seen.mean() if seen.size else 0.0
        deviation = seen.std() if seen.size else 0.0
        filled = np.where(np.isnan(values), mean, values)
        columns.append((filled - mean) / (deviation or 1.0))
        if seen.size < len(train):
            columns.append(np.isnan(values))
    if not columns:
        return np.zeros((len(table.labels), 0), dtype=np.float32)
    return np.stack(columns, axis=1).astype(np.float32)


def read_table(root: Path | None, name: str, *, seed: int) -> Dataset:
    """Return the table `name`, split 60/20/20 with the shares of the classes."""
    path = need(root, [f"{name}.npz", f"{name}.csv"], advice="Put the table there.")
    table = read_npz_table(path) if path.suffix == ".npz" else read_csv_table(path)
    n = len(table.labels)
    if n < len(SHARES):
        raise DataSetError(f"{path}: must hold at least {len(SHARES)} rows, found {n}.")
    held_out = max(1, round(SHARES[1] * n))
    rows = split_sizes(table.labels, [n - 2 * held_out, held_out, held_out], seed=[seed, 0])
    X = scaled(table, rows[0])
    splits = [Split(X[part], table.labels[part]) for part in rows]
    return Dataset(
        name, splits[0], splits[1], splits[2], len(table.class_names), table.class_names, "tabular"
    )
