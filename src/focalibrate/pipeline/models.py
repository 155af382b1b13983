"""Which of several models is best: paired by row, over all rows and in every group."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from focalibrate._array import Floats
from focalibrate.calibrate.grouped import group_names
from focalibrate.comparison import MEANS, PairedMeans, Score
from focalibrate.comparison.paired import paired_p_value
from focalibrate.io import Predictions
from focalibrate.io.errors import Doubt, listing
from focalibrate.io.options import as_names
from focalibrate.io.roles.vocabulary import Named
from focalibrate.io.values.other_labels import one_way
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.groups import holm
from focalibrate.pipeline.evaluation import EvaluatedRows, Evaluation, finite, score_record

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
        groups=_scores_by_group(nll, rows[best], best),
    )


def _rows_of(model: Evaluation) -> EvaluatedRows:
    if model.rows is None:
        raise ValueError(
            f"{model.name}: models are compared row by row, and a sketch has no rows. Pass the "
            "predictions."
        )
    return model.rows


def paired_rows(
    files: Sequence[Predictions], *, id_column: str | None = None
) -> list[Predictions]:
    """Return files of the same examples with their rows in the order of the first.

    Rows are paired by an id: a column that two files keep under one name, ignoring case, whose
    values are the same in both and no two alike; `id_column` says which. Without one they are
    paired by their order, which a note says.

    Raises:
        ValueError: the files have other examples, labels or classes, or ids that disagree.
    """
    first, *others = files
    ids = {name.lower() for name in as_names(id_column)}
    found = [first, *(_in_order_of(first, other, ids) for other in others)]
    for other in found[1:]:
        if other.scores.shape != first.scores.shape:
            raise ValueError(
                f"{first.source} and {other.source} must have the same examples and classes, got "
                f"shapes {first.scores.shape} and {other.scores.shape}."
            )
        if first.labels is None or other.labels is None:
            continue
        differ = np.flatnonzero(first.labels != other.labels)
        if len(differ):
            raise ValueError(
                f"{first.source} and {other.source} must have the same labels, but {len(differ)} "
                f"rows differ, first row {differ[0]}. Write both in the same order."
            )
    return found


def _in_order_of(first: Predictions, other: Predictions, ids: Set[str]) -> Predictions:
    mine, theirs = _ids(first), _ids(other)
    both = [name for name in mine if name in theirs and (not ids or name in ids)]
    orders = {
        name: tuple(map(theirs[name].__getitem__, mine[name]))
        for name in both
        if mine[name].keys() == theirs[name].keys()
    }
    if not orders and ids:
        raise ValueError(
            f"{first.source} and {other.source} must name the same rows in {listing([*ids])}, "
            "each once. Keep the rows that both have."
        )
    if not orders and first.n_rows != other.n_rows:
        missing = {name: [v for v in mine[name] if v not in theirs[name]] for name in both}
        names = [name for name in both if 2 * len(missing[name]) < first.n_rows]
        if names:
            name = min(names, key=lambda name: len(missing[name]))
            more = [v for v in theirs[name] if v not in mine[name]]
            raise ValueError(
                f"{first.source} and {other.source} must have the same rows, but by {name}, "
                f"{_counted(missing[name], first)}, and {_counted(more, other)}. Keep the rows "
                "that both have."
            )
    if not orders:
        note = f"rows are paired with those of {first.source.name} in their order"
        differ = listing([name for name in both if Named(name).is_id])
        if differ:
            note = Doubt(f"WARNING: {note}, but {differ} is not the same in both")
        return replace(other, notes=(*other.notes, note))
    if len(set(orders.values())) > 1:
        raise ValueError(
            f"{first.source} and {other.source} can be paired by {' or by '.join(orders)}, which "
            "give different pairs. Say which: `id_column` (--id-column)."
        )
    for name, places in orders.items():
        order = np.array(places)
        if (np.diff(order) != 1).any():
            note = f"rows are matched to {first.source.name} by {name}"
            return replace(other.take(order), notes=(*other.notes, note))
    return other


def _counted(only: Sequence[str], found: Predictions) -> str:
    """Return how many rows one file alone has, and the first of them."""
    first = f" ({listing(only)})" if only else ""
    return f"{len(only):,} of {found.n_rows:,} are only in {found.source}{first}"


def _ids(found: Predictions) -> dict[str, dict[str, int]]:
    """Return the columns whose values are all different: the place of each value, as text.

    One text for 7, 7.0 and ``007``, unless a column holds several of these.
    """
    if found.layout.rest is None:
        return {}
    kept = found.layout.rest()
    columns = {}
    for name in kept.column_names:
        if pa.types.is_nested(kept.schema.field(name).type):
            continue
        values = kept.column(name).to_pylist()
        places = {one_way(str(value).strip()): i for i, value in enumerate(values)}
        if len(places) < len(values):
            places = {str(value): i for i, value in enumerate(values)}
        if len(values) == found.n_rows == len(places) and name != found.layout.label_column:
            columns[name.lower()] = places
    return columns


def _scores_by_group(
    nll: Sequence[Floats], told: EvaluatedRows, best: int
) -> tuple[GroupScores, ...]:
    """Return the log loss `nll` ``[N]`` of every model in every group, compared with the best."""
    weights, cluster = told.weights, told.cluster
    found: list[tuple[str, str, int, list[float]]] = []
    tests: list[float] = []
    for column, values in told.columns.items():
        names = group_names(values)
        for group in np.unique(names).tolist():
            at = np.flatnonzero(names == group)
            some = None if weights is None else weights[at]
            codes = None if cluster is None else np.unique(cluster[at], return_inverse=True)[1]
            rows = [model[at] for model in nll]
            means = [float(np.average(r, weights=some)) for r in rows]
            found.append((column, group, len(at), means))
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
