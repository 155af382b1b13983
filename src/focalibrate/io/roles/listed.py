"""Names of the classes that are stored in an array or a column of their own."""

import re
from dataclasses import replace

import numpy as np

from focalibrate.io.errors import RowError, short
from focalibrate.io.formats.opened import Opened
from focalibrate.io.roles.vocabulary import CLASS_NAMES, CONFIDENCE
from focalibrate.io.table import Schema, Table, is_text_type, parsed

_LISTED = CLASS_NAMES | {"labels"}


def with_class_names(opened: Opened) -> Schema:
    """Return the schema of a file of arrays with the names of the classes that one of them has."""
    schema = opened.schema
    if schema.is_table or schema.class_names is not None or opened.constants is None:
        return schema
    sizes = {c.shape[0] for c in schema.columns if c.kind == "matrix" and len(c.shape) == 1}
    found = [
        i
        for i, column in enumerate(schema.columns)
        if column.plain in CLASS_NAMES
        and ((column.n_rows is not None and not column.shape) or column.problem is not None)
        and (column.plain == "class_names" or column.n_rows in sizes)
    ]
    if not found:
        return schema
    problem = schema.columns[found[0]].problem
    if problem is not None:
        raise problem
    (names,) = opened.constants([found[0]])
    numeric = names.dtype.kind in "iufb"
    if numeric and names.dtype.kind == "f" and (names == np.trunc(names)).all():
        names = names.astype(np.int64)
    return replace(
        schema,
        class_names=tuple(str(name) for name in names.tolist()),
        numeric_classes=numeric,
        class_names_at=found[0],
    )


def with_numbers_in_text(head: Table) -> Schema:
    """Return the schema with columns of text as numbers that are named like scores, and are."""
    schema = head.schema
    if not schema.is_table or head.has_cells:
        return schema
    columns = list(schema.columns)
    for i, column in enumerate(columns):
        cells, is_score = head.data.get(i), column.plain in CONFIDENCE or column.meaning
        if column.kind != "text" or column.problem is not None or not is_score or cells is None:
            continue
        if not isinstance(cells, np.ndarray) and is_text_type(cells.type):
            numbers = parsed(cells, "number", decimal_comma=False)
            if numbers is not None and not np.isnan(numbers).all():
                columns[i] = replace(column, kind="number", dtype=np.dtype(np.float64))
    return replace(schema, columns=tuple(columns))


def with_listed_names(head: Table) -> Schema:
    """Take the names of the classes from a column whose cells are all ``['cat', 'dog']``.

    It is found by the first rows; `check_listed` refuses a later row with another list.
    """
    schema = with_numbers_in_text(head)
    if not schema.is_table or schema.class_names is not None:
        return schema
    widths = {head.values(i).shape[1] for i, c in enumerate(schema.columns) if c.kind == "matrix"}
    for i, column in enumerate(schema.columns):
        if not widths or column.kind != "text" or column.plain not in _LISTED:
            continue
        cells = head.values(i)
        if (cells == cells[0]).all() and str(cells[0]).startswith("["):
            names = tuple(a or b for a, b in re.findall(r"'([^']*)'|\"([^\"]*)\"", str(cells[0])))
            if len(names) in widths and len(set(names)) == len(names):
                return replace(schema, class_names=names, listed=(i, str(cells[0])))
    return schema


def check_listed(table: Table) -> None:
    """Raise where a row of a batch lists other classes than the first rows."""
    if table.schema.listed is None:
        return
    at, expected = table.schema.listed
    cells = table.values(at)
    other = np.flatnonzero(cells != expected)
    if len(other):
        raise RowError(
            table.path,
            f"column `{short(table.name(at))}` must list the same classes in every row, but ",
            other,
            f" lists {short(cells[other[0]])}.",
        )
