"""A sketch as named arrays, and back with everything checked: for files and messages."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from focalibrate._array import Floats
from focalibrate._check import check_n_bins
from focalibrate.metrics.binning import log_odds_edges
from focalibrate.metrics.cells import COUNTED, WEIGHTED, Cells
from focalibrate.metrics.interval import SUMS, Moments
from focalibrate.metrics.sketch import (
    CLUSTER_CELLS,
    MAX_CLASSWISE,
    N_CELLS,
    NamedCells,
    Sketch,
    class_index,
    fine_index,
)

SCORES = ("nll", "brier", "error")
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
        "is_counted": sketch.top.is_counted,
        "confident": sketch.confident,
        "scores": {name: asdict(moments) for name, moments in sketch.scores.items()},
        "top": _sparse(sketch.top),
        "positive": None if sketch.positive is None else _sparse(sketch.positive),
        "classes": None if sketch.classes is None else _sparse(sketch.classes),
        "groups": {name: _named(column) for name, column in sketch.groups.items()},
        "clusters": None if sketch.clusters is None else _named(sketch.clusters),
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
    is_counted, edges = bool(record["is_counted"]), fine_index(n_bins).edges
    scores = {name: _moments(record["scores"][name], is_counted) for name in SCORES}
    total = scores["error"].weight
    confident = np.asarray(record["confident"], dtype=np.float64)
    if confident.shape != (2,) or not 0 <= confident[1] <= confident[0] <= total * (1 + SLACK):
        raise ValueError("the confident rows are not among all rows")
    if (n_classes == 2) != (record["positive"] is not None):
        raise ValueError("cells of class 1 are for two classes")
    positive = classes = clusters = None
    top = _dense(record["top"], edges, is_counted, total)
    if record["positive"] is not None:
        positive = _dense(record["positive"], edges, is_counted, total)
    if record["classes"] is not None:
        classes = _dense_classes(record["classes"], n_classes, n_bins, is_counted, total)
    groups = {
        str(name): _read_named(column, edges, is_counted, total)
        for name, column in record["groups"].items()
    }
    if record["clusters"] is not None:
        coarse = log_odds_edges(CLUSTER_CELLS)
        clusters = _read_named(record["clusters"], coarse, is_counted, total)
    return Sketch(
        n_classes=n_classes,
        n_bins=n_bins,
        top=top,
        positive=positive,
        classes=classes,
        scores=scores,
        confident=confident,
        groups=groups,
        clusters=clusters,
    )


def _sparse(cells: Cells) -> dict[str, Any]:
    flat = cells.sums.reshape(len(cells.sums), -1)
    at = np.flatnonzero(flat.any(axis=0))
    return {"at": at} | dict(zip(WEIGHTED, flat[:, at], strict=False))


def _named(column: NamedCells) -> dict[str, Any]:
    named = {"names": list(column.names), "at": column.at}
    return named | dict(zip(WEIGHTED, column.sums, strict=False))


def _moments(record: Mapping[str, Any], is_counted: bool) -> Moments:
    sums = [float(record[name]) for name in SUMS]
    if not (np.isfinite(sums).all() and min(sums) >= 0 and sums[0] >= 1 and sums[1] > 0):
        raise ValueError("a sum of scores is negative, or there are no rows")
    n_infinite = _whole(record, "n_infinite", 0)
    return Moments(*sums, n_infinite=n_infinite, is_counted=is_counted)


def _dense(record: Mapping[str, Any], edges: Floats, is_counted: bool, total: float) -> Cells:
    at, sums = _filled(record, len(edges) - 1)
    _check_cells(sums, total, "cells")
    return Cells(_spread(at, sums, len(edges) - 1), edges, is_counted)


def _dense_classes(
    record: Mapping[str, Any], n_classes: int, n_bins: int, is_counted: bool, total: float
) -> Cells:
    if n_classes > MAX_CLASSWISE:
        raise ValueError(f"sums by class are for up to {MAX_CLASSWISE} classes")
    edges = class_index(n_classes, n_bins).edges
    n_cells = len(edges) - 1
    if n_classes * n_cells > MAX_CLASS_CELLS:  # a small file must not ask for all memory
        raise ValueError(f"{n_classes:,} classes have {n_cells:,} cells each")
    at, sums = _filled(record, n_classes * n_cells)
    dense = _spread(at, sums, n_classes * n_cells).reshape(len(sums), n_classes, n_cells)
    cells = Cells(dense, edges, is_counted)
    for k in range(n_classes):
        _check_mass(cells.weight[k], total, f"cells of class {k}")
    slack = SLACK * total  # the first cells are differences of sums
    if not (dense[1:5] <= cells.weight * (1.0 + SLACK) + slack).all():
        raise ValueError("a cell of a class has more labels or probability than rows")
    if not (dense >= -slack).all():
        raise ValueError("a cell of a class is negative")
    _check_mass(cells.outcome, total, "labels of all classes")
    return cells


def _read_named(
    record: Mapping[str, Any], edges: Floats, is_counted: bool, total: float
) -> NamedCells:
    names, n_cells = tuple(record["names"]), len(edges) - 1
    if not names or not all(isinstance(x, str) for x in names):
        raise ValueError("the groups have no names")
    if list(names) != sorted(set(names)):
        raise ValueError("the names of groups are not in order")
    at, sums = _filled(record, n_cells * len(names))
    _check_cells(sums, total, "groups")
    if len(np.unique(at // n_cells)) != len(names):
        raise ValueError("a group is empty")
    return NamedCells(names, at, sums, edges, is_counted)


def _filled(record: Mapping[str, Any], limit: int) -> tuple[Any, Floats]:
    """Return the numbers of the filled cells, below `limit`, and their sums ``[F, M]``."""
    names = WEIGHTED if WEIGHTED[-1] in record else COUNTED
    sums = np.stack([np.asarray(record[name], dtype=np.float64) for name in names])
    at, n = np.asarray(record["at"], dtype=np.float64), sums.shape[1]
    places = at.astype(np.intp)
    is_rising = bool((np.diff(places) > 0).all()) and bool((places == at).all())
    if at.shape != (n,) or not is_rising or (n and not 0 <= places[0] <= places[-1] < limit):
        raise ValueError("the numbers of cells are not rising whole numbers in range")
    return places, sums


def _spread(at: Any, sums: Floats, n: int) -> Floats:
    dense = np.zeros((len(sums), n))
    dense[:, at] = sums
    return dense


def _check_cells(sums: Floats, total: float, what: str) -> None:
    weight = sums[0]
    if not ((sums[1:5] >= 0) & (sums[1:5] <= weight * (1.0 + SLACK) + 1e-9)).all():
        raise ValueError("a cell has more hits or confidence than rows")
    if not (np.isfinite(sums).all() and (weight > 0).all() and (sums >= 0).all()):
        raise ValueError("a cell is empty or negative")
    _check_mass(weight, total, what)


def _check_mass(weight: Floats, total: float, what: str) -> None:
    if not np.isfinite(weight).all() or abs(float(weight.sum()) - total) > 1e-6 * total + 1e-6:
        raise ValueError(f"the {what} do not add up to all rows")


def _whole(record: Mapping[str, Any], name: str, least: int) -> int:
    value = record[name]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 53:
        raise ValueError(f"{name} must be a whole number of at least {least}")
    return value
