"""Which of several models is best: paired by row, over all rows and in every group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate.grouped import group_names
from focalibrate.comparison import MEANS, PairedMeans, Score
from focalibrate.comparison.paired import paired_p_value, weighted_mean
from focalibrate.metrics.groups import holm
from focalibrate.metrics.registry import MetricName
from focalibrate.pipeline.evaluation import EvaluatedRows, Evaluation
from focalibrate.pipeline.record import finite, score_record

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


@dataclass(frozen=True, eq=False)
class Difference:
    """One model against the best, paired by example."""

    name: str
    scores: dict[MetricName, Score]
    """this model minus the best; negative is better"""
    p_value: float
    """of the difference in log loss, corrected for the number of models (Holm)"""

    @property
    def is_clear(self) -> bool:
        """Whether the log losses differ by more than noise: by the test, and by the interval."""
        low = self.scores["nll"].low
        return self.p_value < 0.05 and (low is None or low > 0)


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Several models on the same examples."""

    models: tuple[Evaluation, ...]
    best: Evaluation
    """the lowest log loss, or the lowest Brier score where every log loss is infinite"""
    differences: tuple[Difference, ...]
    """of every other model, in the order given"""
    groups: tuple[GroupScores, ...] = ()
    """the log loss of every model in every group, where groups were given"""

    @property
    def verdict(self) -> str:
        """Which model is best, and which are not clearly worse, in words."""
        close = [d.name for d in self.differences if not d.is_clear]
        text = f"{self.best.name} has the lowest log loss"
        if not close:
            others = "every other model" if len(self.models) > 2 else self.differences[0].name
            return f"{text}, significantly lower than {others}."
        return f"{text}, but no clear difference to {', '.join(close)}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        return {
            "verdict": self.verdict,
            "best": self.best.name,
            "models": [model.to_dict() for model in self.models],
            "groups": [group.to_dict() for group in self.groups],
            "differences_to_best": [
                {
                    "name": d.name,
                    "scores": {m: score_record(v) for m, v in d.scores.items()},
                    "p_value": d.p_value,
                }
                for d in self.differences
            ],
        }


def compare_models(
    models: Sequence[Evaluation], *, n_resamples: int = 300, seed: int = 0
) -> ModelComparison:
    """Compare models evaluated on the same examples by proper scores, paired by example.

    Calibration errors are not subtracted from each other: their noise does not cancel, and two
    calibrated models would often seem to differ.

    Args:
        models: two or more, of the same examples in the same order.
        n_resamples: bootstrap resamples behind the intervals.
        seed: random seed.
    """
    if len(models) < 2:
        raise ValueError(f"`models` must be at least two to compare, got {len(models)}.")
    score: MetricName = "nll"
    if all(m.n_zeros for m in models):
        score = "brier"
    best = min(range(len(models)), key=lambda i: models[i].scores[score].estimate)
    rows = [_rows_of(model) for model in models]
    values = np.concatenate([one.units.means() for one in rows], axis=1)
    nll = [one.units.nll for one in rows]
    weights, cluster = rows[best].weights, rows[best].cluster
    paired = PairedMeans.of(
        values, weights=weights, cluster=cluster, n_resamples=n_resamples, seed=seed
    )
    width = len(MEANS)
    others = [i for i in range(len(models)) if i != best]
    p_values = holm([paired_p_value(nll[i], nll[best], weights, cluster) for i in others])
    return ModelComparison(
        models=tuple(models),
        best=models[best],
        differences=tuple(
            Difference(
                models[i].name,
                {
                    m: paired.difference(width * i + j, width * best + j)
                    for j, m in enumerate(MEANS)
                },
                p,
            )
            for i, p in zip(others, p_values, strict=True)
        ),
        groups=scores_by_group(
            nll,
            rows[best].columns,
            best=best,
            weights=weights,
            cluster=cluster,
        ),
    )


def _rows_of(model: Evaluation) -> EvaluatedRows:
    if model.rows is None:
        raise ValueError(
            f"{model.name}: models are compared row by row, and a sketch has no rows. Pass the "
            "predictions."
        )
    return model.rows


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
