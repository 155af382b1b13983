"""Scores of one model, and which of several models is best."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator, Identity
from focalibrate.calibrate.choice import BLOCK_ENTRIES
from focalibrate.calibrate.rows import available_cores
from focalibrate.comparison import MEANS, PairedMeans, Score, Scores, score_rows
from focalibrate.comparison.paired import cluster_numbers, paired_p_value
from focalibrate.metrics import Assessment, assess, assess_groups, selective_accuracy, worst_slice
from focalibrate.metrics.groups import GroupAssessment, holm
from focalibrate.metrics.registry import MetricName
from focalibrate.metrics.slices import WorstSlice
from focalibrate.metrics.threshold import Selective
from focalibrate.pipeline.doubts import doubts_about, warn_of
from focalibrate.pipeline.examples import Examples
from focalibrate.pipeline.groups import GroupScores, scores_by_group
from focalibrate.pipeline.record import score_record, worst_record

LEAST_SLICE = 100
"""Fewer rows than this are not searched for a slice."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The scores of one model, and whether it is calibrated."""

    name: str
    calibrator: Calibrator
    """applied first; the identity where none was given"""
    scores: dict[MetricName, Score]
    """log loss, Brier score and error with 95 % intervals; calibration errors without"""
    assessment: Assessment
    units: Scores = field(repr=False)
    n_classes: int
    weights: NDArray[np.float64] | None = field(default=None, repr=False)
    cluster: NDArray[np.intp] | None = field(default=None, repr=False)
    """number of the cluster of each row"""
    groups: tuple[GroupAssessment, ...] = ()
    """a verdict per group, where groups were given"""
    worst: WorstSlice | None = None
    """the slice that is most clearly off, where several columns of groups were given"""
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    """columns of groups"""

    @property
    def n_rows(self) -> int:
        """Number of examples."""
        return len(self.units.nll)

    @cached_property
    def selective(self) -> Selective | None:
        """Accuracy of the most confident rows; None with weights, which it does not take."""
        if self.weights is not None:
            return None
        rows = self.units
        right = (rows.correct > 0.5).astype(np.float64)
        return selective_accuracy(np.clip(rows.confidence, 0, 1), right, cluster=self.cluster)

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        return {
            "name": self.name,
            "calibrator": self.calibrator.describe(),
            "rows": self.n_rows,
            "classes": self.n_classes,
            "scores": {m: score_record(v) for m, v in self.scores.items()},
            "assessment": self.assessment.to_dict(),
            "selective": _selective_record(self.selective),
            "groups": [group.to_dict() for group in self.groups],
            "worst_slice": worst_record(self.worst),
        }


def _selective_record(found: Selective | None) -> dict[str, Any] | None:
    """Return the area under the risk-coverage curve and the accuracies, with their intervals."""
    if found is None:
        return None
    return {
        "aurc": asdict(found.aurc),
        "accuracy_at_coverage": [
            {"coverage": float(share), **asdict(accuracy)}
            for share, accuracy in zip(found.coverage, found.accuracy, strict=True)
        ],
    }


def evaluate_examples(
    examples: Examples,
    *,
    name: str = "",
    calibrator: Calibrator | None = None,
    n_bins: int = 15,
    n_resamples: int = 300,
    seed: int = 0,
) -> Evaluation:
    """Return the scores of predictions with labels; nothing is fitted.

    Args:
        examples: logits and labels.
        name: what to call the model.
        calibrator: applied to the logits first.
        n_bins: bins of the binned errors.
        n_resamples: bootstrap resamples behind the intervals of log loss, Brier score and error.
        seed: random seed.

    Warns:
        DataWarning: the data look wrong.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(500, 3))
        >>> y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        >>> evaluate_examples(Examples.of_arrays(logits=z, labels=y)).assessment.verdict
        'no evidence of miscalibration'
    """
    warn_of(doubts_about(examples))
    scores, labels, weights = examples.scores, examples.labels, examples.weights
    step = max(1, BLOCK_ENTRIES // scores.shape[1])
    blocks = [slice(start, start + step) for start in range(0, len(scores), step)]
    n_threads = min(available_cores(), len(blocks))
    probs = np.empty(scores.shape, np.result_type(scores.dtype, np.float32))
    rows = score_rows(
        [(block, partial(examples.log_probs, calibrator, block)) for block in blocks],
        labels,
        n_bins=n_bins,
        weights=weights,
        probs_out=probs,
        n_threads=n_threads,
    )
    with ThreadPoolExecutor(1) as thread:  # in parallel: each takes half of the remaining time
        assessed = thread.submit(
            assess,
            probs,
            labels,
            class_names=examples.names_in_sentences,
            sample_weight=weights,
            copies=examples.copies,
            cluster=examples.cluster,
            seed=seed,
        )
        codes = None
        if examples.cluster is not None:
            codes = cluster_numbers(examples.cluster)
        paired = PairedMeans.of(
            rows.means(), weights=weights, cluster=codes, n_resamples=n_resamples, seed=seed
        )
        assessment = assessed.result()
    found = {m: Score(v) for m, v in rows.calibration.items()}
    found |= {m: paired.interval(i).clipped(m) for i, m in enumerate(MEANS)}
    return Evaluation(
        name=name,
        calibrator=Identity() if calibrator is None else calibrator,
        scores=found,
        assessment=assessment,
        units=rows,
        weights=weights,
        cluster=codes,
        n_classes=examples.n_classes,
        groups=groups_of(examples, probs, seed=seed),
        worst=worst_slice_of(examples, probs, seed=seed),
        columns=examples.groups,
    )


def groups_of(
    examples: Examples, probs: NDArray[Any], *, seed: int
) -> tuple[GroupAssessment, ...]:
    """Return a verdict per group of the examples, corrected for the number of groups."""
    if not examples.groups:
        return ()
    return assess_groups(
        probs,
        examples.labels,
        dict(examples.groups),
        sample_weight=examples.weights,
        copies=examples.copies,
        cluster=examples.cluster,
        seed=seed,
    )


def worst_slice_of(examples: Examples, probs: NDArray[Any], *, seed: int) -> WorstSlice | None:
    """Return the slice that is most clearly off; None with fewer than two columns or few rows."""
    if len(examples.groups) < 2 or examples.n_rows < LEAST_SLICE:
        return None
    return worst_slice(
        probs,
        examples.labels,
        dict(examples.groups),
        sample_weight=examples.weights,
        copies=examples.copies,
        seed=seed,
    )


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
    if all(m.units.n_zeros for m in models):
        score = "brier"
    best = min(range(len(models)), key=lambda i: models[i].scores[score].estimate)
    values = np.concatenate([m.units.means() for m in models], axis=1)
    weights = models[best].weights
    cluster = models[best].cluster
    paired = PairedMeans.of(
        values, weights=weights, cluster=cluster, n_resamples=n_resamples, seed=seed
    )
    width = len(MEANS)
    others = [i for i in range(len(models)) if i != best]
    p_values = holm(
        [
            paired_p_value(models[i].units.nll, models[best].units.nll, weights, cluster)
            for i in others
        ]
    )
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
            [m.units.nll for m in models],
            models[best].columns,
            best=best,
            weights=weights,
            cluster=cluster,
        ),
    )
