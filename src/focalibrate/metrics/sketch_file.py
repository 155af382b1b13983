"""A sketch as named arrays, and back with everything checked: for files and messages."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import check_n_bins
from focalibrate.metrics.binning import log_odds_edges
from focalibrate.metrics.cells import FIELDS, Cells
from focalibrate.metrics.interval import Moments
from focalibrate.metrics.sketch import (
    CLUSTER_CELLS,
    MAX_CLASSWISE,
    N_CELLS,
    SCORES,
    NamedCells,
    Sketch,
    class_index,
    fine_index,
)

MAX_BINS = 10_000
MAX_CLASS_CELLS = 1 << 21
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
        "scores": {
            name: {"rows": m.rows, "powers": m.powers, "n_infinite": m.n_infinite}
            for name, m in sketch.scores.items()
        },
        "top": _filled(sketch.top),
        "positive": _filled(sketch.positive),
        "classes": _filled(sketch.classes),
        "groups": {name: _filled(column) for name, column in sketch.groups.items()},
        "clusters": _filled(sketch.clusters),
    }


def _filled(cells: Cells | NamedCells | None) -> dict[str, Any] | None:
    if cells is None:
        return None
    if isinstance(cells, NamedCells):
        names = {"names": list(cells.names), "at": cells.at}
        return names | dict(zip(FIELDS, cells.sums, strict=True))
    flat = cells.sums.reshape(len(FIELDS), -1)
    at = np.flatnonzero(flat.any(axis=0))
    return {"at": at} | dict(zip(FIELDS, flat[:, at], strict=True))


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

    def cells(name: str, edges: Floats, *n_events: int) -> Cells:
        dense = np.zeros((len(FIELDS), *n_events, len(edges) - 1))
        flat = dense.reshape(len(FIELDS), -1)
        at, sums = _read(record[name], flat.shape[1])
        flat[:, at] = sums
        _check_mass(dense[0].sum(axis=-1), total)
        return Cells(dense, edges, is_counted)

    def named(column: Mapping[str, Any], edges: Floats) -> NamedCells:
        names, n_cells = tuple(column["names"]), len(edges) - 1
        if not names or not all(isinstance(x, str) for x in names):
            raise ValueError("the groups have no names")
        if list(names) != sorted(set(names)):
            raise ValueError("the names of groups are not in order")
        at, sums = _read(column, n_cells * len(names))
        _check_mass(sums[0].sum(), total)
        if len(np.unique(at // n_cells)) != len(names):
            raise ValueError("a group is empty")
        return NamedCells(names, at, sums, edges, is_counted)

    classes = clusters = None
    if record["classes"] is not None:
        if n_classes > MAX_CLASSWISE:
            raise ValueError(f"sums by class are for up to {MAX_CLASSWISE} classes")
        of_class = class_index(n_classes, n_bins).edges
        if n_classes * len(of_class) > MAX_CLASS_CELLS:  # a small file must not ask for all memory
            raise ValueError(f"{n_classes:,} classes have {len(of_class) - 1:,} cells each")
        classes = cells("classes", of_class, n_classes)
        _check_mass(classes.outcome.sum(), total)
    if record["clusters"] is not None:
        clusters = named(record["clusters"], log_odds_edges(CLUSTER_CELLS))
    return Sketch(
        n_classes=n_classes,
        n_bins=n_bins,
        top=cells("top", edges),
        positive=None if n_classes != 2 else cells("positive", edges),
        classes=classes,
        scores=scores,
        confident=confident,
        groups={str(name): named(column, edges) for name, column in record["groups"].items()},
        clusters=clusters,
    )


def _moments(record: Mapping[str, Any], is_counted: bool) -> Moments:
    rows, powers = float(record["rows"]), np.asarray(record["powers"], dtype=np.float64)
    if powers.shape != (3, 4) or not (np.isfinite(powers).all() and powers.min() >= 0):
        raise ValueError("a sum of scores is negative")
    if not (1 <= rows < np.inf and powers[0, 0] > 0):
        raise ValueError("there are no rows")
    return Moments(rows, powers, _whole(record, "n_infinite", 0), is_counted)


def _read(record: Mapping[str, Any], limit: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the numbers of the filled cells, below `limit`, and their sums ``[8, M]``."""
    sums = np.stack([np.asarray(record[name], dtype=np.float64) for name in FIELDS])
    at, n = np.asarray(record["at"], dtype=np.float64), sums.shape[1]
    places = at.astype(np.intp)
    is_rising = bool((np.diff(places) > 0).all()) and bool((places == at).all())
    if at.shape != (n,) or not is_rising or (n and not 0 <= places[0] <= places[-1] < limit):
        raise ValueError("the numbers of cells are not rising whole numbers in range")
    if not (np.isfinite(sums).all() and (sums >= 0).all()):
        raise ValueError("a cell is negative")
    weight = sums[0]
    slack = SLACK * weight + 1e-9 * (1.0 + weight.sum())  # some cells are differences of sums
    if not (sums[[1, 2, 5, 6]] <= weight + slack).all():
        raise ValueError("a cell has more hits or confidence than rows")
    return places, sums


def _check_mass(weight: Any, total: float) -> None:
    if not (np.abs(weight - total) <= 1e-6 * total + 1e-6).all():
        raise ValueError("the cells do not add up to all rows")


def _whole(record: Mapping[str, Any], name: str, least: int) -> int:
    value = record[name]
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 53:
        raise ValueError(f"{name} must be a whole number of at least {least}")
    return value
