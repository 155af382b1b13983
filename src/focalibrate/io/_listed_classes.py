"""Names of the classes that are stored in an array or a column of their own."""

import re
from dataclasses import replace

import numpy as np

from focalibrate.io._frame import Frame, silent
from focalibrate.io._vocabulary import CLASS_NAMES, plain

_LISTED = CLASS_NAMES | {"labels"}


def with_class_names(frame: Frame) -> Frame:
    """Remove an array of class names from the columns and use it as the class names."""
    if frame.is_table or frame.class_names is not None:
        return frame
    sizes = {c.shape[-1] for c in frame.columns if c.kind == "matrix" and len(c.shape) == 2}
    found = [
        i
        for i, column in enumerate(frame.columns)
        if plain(column.name) in CLASS_NAMES
        and (len(column.shape) == 1 or column.problem is not None)
        and (plain(column.name) == "class_names" or (column.shape and column.shape[0] in sizes))
    ]
    if not found:
        return frame
    (names,) = frame.load([found[0]], silent)
    numeric = names.dtype.kind in "iufb"
    if numeric and names.dtype.kind == "f" and (names == np.trunc(names)).all():
        names = names.astype(np.int64)
    return replace(
        frame,
        class_names=tuple(str(name) for name in names.tolist()),
        numeric_classes=numeric,
        extra={**frame.extra, "class_names_at": found[0]},
    )


def with_listed_names(frame: Frame) -> Frame:
    """Take the names of the classes from a column whose cells are all ``['cat', 'dog']``.

    Not done for batches: every row must be seen.
    """
    if not frame.is_table or frame.class_names is not None:
        return frame
    widths = {c.shape[-1] for c in frame.columns if c.kind == "matrix" and len(c.shape) == 2}
    for i, column in enumerate(frame.columns):
        if not widths or column.kind != "text" or plain(column.name) not in _LISTED:
            continue
        (cells,) = frame.load([i], silent)
        if (cells == cells[0]).all() and str(cells[0]).startswith("["):
            names = tuple(a or b for a, b in re.findall(r"'([^']*)'|\"([^\"]*)\"", str(cells[0])))
            if len(names) in widths and len(set(names)) == len(names):
                return replace(frame, class_names=names)
    return frame
