"""The page that compares models on the same examples, or evaluates one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.comparison import Score, Verdict
from focalibrate.metrics import Assessment
from focalibrate.metrics.groups import GroupAssessment
from focalibrate.report._diagrams import diagrams, risk_coverage, top_label_figures
from focalibrate.report._numbers import short, shorts
from focalibrate.report._records import assessment_record, group_records, score_record
from focalibrate.report.data import SCHEMA_VERSION, PageData
from focalibrate.report.provenance import Provenance

MAX_GROUPS = 200
"""Most groups that the page shows."""
RowsOfEvent = tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64] | None]
"""Probability ``[N]``, outcome ``[N]`` and weights ``[N]``, None for equal ones."""
MOST_NAMED = 3
"""Most models that the default title names."""


@dataclass(frozen=True)
class Promise:
    """With 95 % certainty, of rows with at least this confidence at most this share is wrong."""

    error: float
    threshold: float
    coverage: float
    """share of the rows that are kept"""


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedModel:
    """One model of a comparison, evaluated."""

    name: str
    scores: Mapping[str, Score]
    """by name of the metric"""
    assessment: Assessment
    top: RowsOfEvent
    """confidence of the predicted class, whether it is right, weights"""
    positive: RowsOfEvent | None = None
    """of two classes: the probability of the positive one, whether it is true, weights"""
    is_answer: bool = False
    """whether rows are a confidence and whether it was right: rows are kept by `positive`"""
    promised: Sequence[Promise] = ()
    """what can be promised of the rows kept"""
    difference: Score | None = None
    """its log loss minus that of the best model, paired by row; None for the best"""
    p_value: float | None = None
    """of that difference, corrected for the number of models"""


@dataclass(frozen=True)
class ComparedGroup:
    """One group of rows: the log loss of every model there."""

    name: str
    n: int
    nll: tuple[float, ...]
    is_clear: tuple[bool, ...]
    """whether each model differs significantly, in this group, from the overall best"""


def models_data(
    models: Sequence[ComparedModel],
    *,
    verdict: Verdict,
    provenance: Provenance,
    n_classes: int,
    event: str | None = None,
    title: str | None = None,
    groups: Sequence[ComparedGroup] = (),
    n_rows: int | None = None,
    assessed: Sequence[GroupAssessment] = (),
    worst_slice: str | None = None,
    notes: Sequence[str] = (),
) -> PageData:
    """Gather what the page of a comparison of models shows, any number of them side by side.

    One model is evaluated by itself: no differences, all metrics, its groups with intervals.

    Args:
        models: evaluated on the same rows, in the order to show.
        verdict: which is best, or what is known of the one.
        provenance: how the page was made.
        n_classes: number of classes.
        event: name of the positive class, where `ComparedModel.positive` is given.
        title: title of the page. Default: the names of the models.
        groups: the log loss of every model in every group of rows, where there are groups.
        n_rows: number of rows, if `models` hold cells of several rows instead of single rows.
        assessed: the groups of one model, each assessed by itself.
        worst_slice: what is most clearly off, in words.
        notes: sentences to show below the verdict.

    Returns:
        `PageData`, for `write_report`.
    """
    return PageData(
        {
            "schema": SCHEMA_VERSION,
            "kind": "models",
            "title": title if title is not None else _title(models),
            "verdict": verdict.to_dict(),
            "event": None if event is None else {"name": event, "klass": 1},
            "n_rows": len(models[0].top[0]) if n_rows is None else n_rows,
            "n_classes": n_classes,
            "models": [_model(model) for model in models],
            "groups": [
                {
                    "name": group.name,
                    "n": group.n,
                    "nll": shorts(group.nll),
                    "clear": list(group.is_clear),
                }
                for group in groups[:MAX_GROUPS]
            ],
            "assessed": group_records(assessed),
            "worst_slice": worst_slice,
            "notes": list(notes),
            "provenance": asdict(provenance) | {"files": [asdict(f) for f in provenance.files]},
        }
    )


def _title(models: Sequence[ComparedModel]) -> str:
    names = [model.name for model in models]
    if len(names) == 1:
        return f"{names[0]}: evaluation"
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{rest}: models compared"


def _model(model: ComparedModel) -> dict[str, Any]:
    figures = top_label_figures(*model.top)
    if model.positive is not None:
        figures |= diagrams(*model.positive)
        if model.is_answer:
            figures["risk"] = risk_coverage(*model.positive)
    return {
        "name": model.name,
        "scores": {m: score_record(value) for m, value in model.scores.items()},
        "difference": None if model.difference is None else score_record(model.difference),
        "p_value": None if model.p_value is None else short(model.p_value),
        "assessment": assessment_record(model.assessment),
        "promised": [asdict(promise) for promise in model.promised],
        **figures,
    }
