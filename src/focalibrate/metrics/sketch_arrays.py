"""A sketch as named arrays, and back with everything checked: for files and messages."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from focalibrate._array import Floats
from focalibrate._check import check_n_bins
from focalibrate.metrics._cell_sums import MAX_GROUPS, PLAIN, WEIGHTED, GroupColumn
from focalibrate.metrics._class_cells import class_edges
from focalibrate.metrics._class_sums import CLASS_PLAIN, CLASS_WEIGHTED
from focalibrate.metrics._score_sums import MOMENTS, SCORES, TOTALS
from focalibrate.metrics.sketch import MAX_CLASSWISE, N_CELLS, Sketch, n_cells_of

MAX_BINS = 10_000
MAX_CLASS_CELLS = 1 << 22
"""of all classes together, in a file: 134 MB"""
SLACK = 1e-6
"""of a sum that must not exceed another, relative: rounding and fractional weights"""


def sketch_to_arrays(sketch: Sketch) -> dict[str, Any]:
    """Return the sums by name: of cells only those that are filled."""
    return {
        "n_classes": sketch.n_classes,
        "n_bins": sketch.n_bins,
        "n_cells": N_CELLS,
        "n_zeros": sketch.n_zeros,
        "is_whole": sketch.is_whole,
        "totals": dict(zip(TOTALS, sketch.totals.tolist(), strict=True)),
        "scores": {
            name: dict(zip(MOMENTS, row, strict=True))
            for name, row in zip(SCORES, sketch.scores.tolist(), strict=True)
        },
        "top": _sparse(sketch.top),
        "positive": None if sketch.positive is None else _sparse(sketch.positive),
        "classes": None if sketch.classes is None else _sparse_classes(sketch.classes),
        "groups": {
            name: {"names": list(column.names), "at": column.at}
            | dict(zip(WEIGHTED, column.sums, strict=False))
            for name, column in sketch.groups.items()
        },
    }


def sketch_from_arrays(record: Mapping[str, Any]) -> Sketch:
    """Return the sketch of named arrays.

    Raises:
        ValueError: where they cannot be sums of one sketch; also KeyError and TypeError.
    """
    n_classes, n_bins = _whole(record, "n_classes", 2), _whole(record, "n_bins", 1)
    check_n_bins(n_bins)
    if n_bins > MAX_BINS or record["n_cells"] != N_CELLS:
        raise ValueError(f"it has {n_bins} bins and {record['n_cells']} cells")
    n_cells = n_cells_of(n_bins)
    totals = np.array([record["totals"][name] for name in TOTALS], dtype=np.float64)
    scores = np.array(
        [[record["scores"][name][m] for m in MOMENTS] for name in SCORES], dtype=np.float64
    )
    top = _dense(record["top"], n_cells)
    _check_mass(top[0], totals[1], "cells")
    positive = None
    if (n_classes == 2) != (record["positive"] is not None):
        raise ValueError("cells of class 1 are for two classes")
    if record["positive"] is not None:
        positive = _dense(record["positive"], n_cells)
        _check_mass(positive[0], totals[1], "cells of class 1")
    classes = None
    if n_classes > MAX_CLASSWISE and record["classes"] is not None:
        raise ValueError(f"sums by class are for up to {MAX_CLASSWISE} classes")
    if record["classes"] is not None:
        classes = _dense_classes(record["classes"], n_classes, n_bins)
        for k in range(n_classes):
            _check_mass(classes[0, k], totals[1], f"cells of class {k}")
        _check_classes(classes, totals[1])
    if not (np.isfinite(totals).all() and (totals >= 0).all() and totals[0] >= 1):
        raise ValueError("it has no rows")
    if not (np.isfinite(scores).all() and (scores >= 0).all()):
        raise ValueError("a sum of scores is negative")
    return Sketch(
        n_classes=n_classes,
        n_bins=n_bins,
        top=top,
        positive=positive,
        classes=classes,
        scores=scores,
        totals=totals,
        n_zeros=_whole(record, "n_zeros", 0),
        is_whole=bool(record["is_whole"]),
        groups={
            str(name): _group(column, n_cells, totals[1])
            for name, column in record["groups"].items()
        },
    )


def _sparse(sums: Floats) -> dict[str, Any]:
    at = np.flatnonzero(sums[0])
    return {"cell": at} | dict(zip(WEIGHTED, sums[:, at], strict=False))


def _sparse_classes(sums: Floats) -> dict[str, Any]:
    flat = sums.reshape(len(sums), -1)
    at = np.flatnonzero(flat.any(axis=0))
    cells = {"n_cells": sums.shape[2], "at": at}
    return cells | dict(zip(CLASS_WEIGHTED, flat[:, at], strict=False))


def _dense_classes(record: Mapping[str, Any], n_classes: int, n_bins: int) -> Floats:
    n_cells = len(class_edges(n_classes, n_bins)) - 1
    if record["n_cells"] != n_cells:
        raise ValueError(f"classes have {record['n_cells']} cells where {n_cells} are known")
    if n_classes * n_cells > MAX_CLASS_CELLS:  # a small file must not ask for all memory
        raise ValueError(f"{n_classes:,} classes have {n_cells:,} cells each")
    sums = _rows(record, CLASS_PLAIN, CLASS_WEIGHTED)
    at = _places(record["at"], n_classes * n_cells, sums.shape[1])
    dense = np.zeros((len(sums), n_classes * n_cells))
    dense[:, at] = sums
    return dense.reshape(len(sums), n_classes, n_cells)


def _dense(record: Mapping[str, Any], n_cells: int) -> Floats:
    sums = _rows(record, PLAIN, WEIGHTED)
    at = _places(record["cell"], n_cells, sums.shape[1])
    _check_cells(sums)
    dense = np.zeros((len(sums), n_cells))
    dense[:, at] = sums
    return dense


def _rows(record: Mapping[str, Any], plain: tuple[str, ...], weighted: tuple[str, ...]) -> Floats:
    names = weighted if weighted[-1] in record else plain
    return np.stack([np.asarray(record[name], dtype=np.float64) for name in names])


def _places(given: Any, limit: int, n: int) -> Any:
    at = np.asarray(given, dtype=np.float64)
    places = at.astype(np.intp)
    is_rising = bool((np.diff(places) > 0).all()) and bool((places == at).all())
    if at.shape != (n,) or not is_rising or (n and not 0 <= places[0] <= places[-1] < limit):
        raise ValueError("the numbers of cells are not rising whole numbers in range")
    return places


def _check_cells(sums: Floats) -> None:
    weight, probability, outcome, of_hits = sums[: len(PLAIN)]
    most = weight * (1.0 + SLACK) + 1e-9
    for part in (probability, outcome, of_hits):
        if not ((part >= 0) & (part <= most)).all():
            raise ValueError("a cell has more hits or confidence than rows")
    if not (np.isfinite(sums).all() and (weight > 0).all() and (sums >= 0).all()):
        raise ValueError("a cell is empty or negative")


def _check_classes(sums: Floats, total: float) -> None:
    """Check the sums by class, whose first cells are differences of sums."""
    slack = SLACK * total
    count, probability, label = sums[:3]
    most = count * (1.0 + SLACK) + slack
    if not ((sums >= -slack).all() and (probability <= most).all() and (label <= most).all()):
        raise ValueError("a cell of a class has more labels or probability than rows")
    _check_mass(label, total, "labels of all classes")


def _check_mass(weight: Floats, total: float, what: str) -> None:
    if not np.isfinite(weight).all() or abs(float(weight.sum()) - total) > 1e-6 * total + 1e-6:
        raise ValueError(f"the {what} do not add up to all rows")


def _group(record: Mapping[str, Any], n_cells: int, total: float) -> GroupColumn:
    names = tuple(record["names"])
    if not 0 < len(names) <= MAX_GROUPS or not all(isinstance(x, str) for x in names):
        raise ValueError("the groups have no names")
    if list(names) != sorted(set(names)):
        raise ValueError("the names of groups are not in order")
    sums = _rows(record, PLAIN, WEIGHTED)
    _check_cells(sums)
    _check_mass(sums[0], total, "groups")
    at = _places(record["at"], n_cells * len(names), sums.shape[1])
    if len(np.unique(at // n_cells)) != len(names):
        raise ValueError("a group is empty")
    return GroupColumn(names, at, sums)


def _whole(record: Mapping[str, Any], name: str, least: int) -> int:
    value = record[name]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 53:
        raise ValueError(f"{name} must be a whole number of at least {least}")
    return value
