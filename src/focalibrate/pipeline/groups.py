"""The log loss of several models in each group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate.grouped import group_names
from focalibrate.comparison.paired import paired_p_value, weighted_mean
from focalibrate.metrics.groups import holm
from focalibrate.pipeline.record import finite

LEAST_ROWS = 20
"""Smaller groups are not compared."""
ALPHA = 0.05


@dataclass(frozen=True)
class GroupScores:
    """The log loss of every model in one group."""

    column: str
    group: str
    n: int
    nll: tuple[float, ...]
    """of each model, in the order given"""
    best: int
    """which model is lowest"""
    p_values: tuple[float, ...]
    """of each model's difference to the model that is best over all rows, paired by example and
    corrected for the number of comparisons (Holm); nan for that model and for small groups"""

    def is_clear(self, model: int) -> bool:
        """Whether `model` differs in this group from the overall best by more than noise."""
        return self.p_values[model] < ALPHA

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        return {
            "column": self.column,
            "group": self.group,
            "rows": self.n,
            "log_loss": [finite(x) for x in self.nll],
            "p_values": [finite(p) for p in self.p_values],
        }


def scores_by_group(
    nll: Sequence[Floats],
    columns: Mapping[str, NDArray[Any]],
    *,
    best: int,
    weights: Floats | None = None,
    cluster: NDArray[np.intp] | None = None,
) -> tuple[GroupScores, ...]:
    """Return the log loss of every model in every group.

    Args:
        nll: log loss of each example ``[N]``, one array per model.
        columns: of groups, each ``[N]``.
        best: which model the others are compared with.
        weights: weights of the examples ``[N]``.
        cluster: number of the cluster of each example ``[N]``.
    """
    found: list[tuple[str, str, int, list[float]]] = []
    tests: list[float] = []
    for column, values in columns.items():
        names = group_names(values)
        for group in np.unique(names).tolist():
            at = np.flatnonzero(names == group)
            some = None if weights is None else weights[at]
            codes = None if cluster is None else np.unique(cluster[at], return_inverse=True)[1]
            rows = [model[at] for model in nll]
            found.append((column, group, len(at), [float(weighted_mean(r, some)) for r in rows]))
            tests += [
                float("nan")
                if i == best or len(at) < LEAST_ROWS
                else paired_p_value(r, rows[best], some, codes)
                for i, r in enumerate(rows)
            ]
    if not found:
        return ()
    p = np.reshape(holm(tests), (len(found), len(nll)))
    return tuple(
        GroupScores(column, group, n, tuple(means), int(np.argmin(means)), tuple(p[i].tolist()))
        for i, (column, group, n, means) in enumerate(found)
    )
