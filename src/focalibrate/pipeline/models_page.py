"""A page that compares models, as text."""

from focalibrate import __version__
from focalibrate.comparison import Verdict
from focalibrate.pipeline.evaluation import Evaluation, ModelComparison
from focalibrate.report import ComparedGroup, ComparedModel, Provenance, models_data, render_report


def models_page(
    found: ModelComparison, *, command: str = "", seed: int = 0, made_at: str = ""
) -> str:
    """Return the comparison as one HTML page, complete in itself.

    Args:
        found: what `compare_models` returned.
        command: how it was made, shown at the end.
        seed: random seed of the comparison, shown at the end.
        made_at: date, as it is to be shown.
    """
    made = Provenance(command=command, version=__version__, seed=seed, made_at=made_at)
    data = models_data(
        [_compared(found, model) for model in found.models],
        verdict=Verdict(None, found.verdict),
        provenance=made,
        n_classes=found.best.n_classes,
        event=found.best.assessment.event_name if found.best.n_classes == 2 else None,
        groups=[
            ComparedGroup(
                f"{group.column} = {group.group}",
                group.n,
                group.nll,
                tuple(group.is_clear(i) for i in range(len(group.nll))),
            )
            for group in found.groups
        ],
    )
    return render_report(data)


def _compared(found: ModelComparison, model: Evaluation) -> ComparedModel:
    difference = next((d for d in found.differences if d.name == model.name), None)
    return ComparedModel(
        name=model.name,
        scores={str(metric): score for metric, score in model.scores.items()},
        assessment=model.assessment,
        confidence=model.units.confidence,
        correct=model.units.correct > 0.5,
        positive=model.units.positive if model.n_classes == 2 else None,
        weights=model.weights,
        difference=None if difference is None else difference.scores["nll"],
        p_value=None if difference is None else difference.p_value,
    )
