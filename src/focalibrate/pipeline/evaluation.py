"""Scores of one model, from rows or from a sketch of any number of them."""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.rows import BLOCK_ENTRIES, available_cores, rank_of
from focalibrate.comparison import MEANS, PairedMeans, Score, Scores, score_rows
from focalibrate.detection import Measure, measures_of
from focalibrate.io import Predictions, SketchFile, align
from focalibrate.io.formats.answers import LETTERS
from focalibrate.metrics import Assessment, Cells, selective_accuracy
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.groups import GroupAssessment, PositionBias, WorstSlice, position_bias
from focalibrate.metrics.rows import renumbered, row_chunks
from focalibrate.metrics.scores import ConfidentFraction
from focalibrate.metrics.sketch import confident_of
from focalibrate.metrics.threshold import Selective
from focalibrate.pipeline.doubts import doubts_about, warn_of
from focalibrate.pipeline.examples import Examples

WHY = (
    "D-ECE depends on the score that detections are counted from: thousands of boxes near 0 are "
    "almost always wrong, as they say, and make it small. Intervals are by image."
)


@dataclass(frozen=True)
class Besides:
    """Findings that only some data have."""

    measures: tuple[Measure, ...] = ()
    """of detections"""
    bias: PositionBias | None = None
    """of options that are letters"""

    @property
    def lines(self) -> list[str]:
        """The findings in words."""
        found = [_line(measure) for measure in self.measures]
        if self.measures:
            found = [*found, WHY]
        if self.bias is not None:
            found.append(self.bias.summary(LETTERS))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        bias = None
        if self.bias is not None:
            bias = {
                k: v.tolist() if isinstance(v, np.ndarray) else v
                for k, v in asdict(self.bias).items()
            }
        return {"measures": [asdict(one) for one in self.measures], "position_bias": bias}


def _line(measure: Measure) -> str:
    text = f"{measure.name}: {100 * measure.estimate:.2f} %"
    if measure.low is None or measure.high is None:
        return text
    return f"{text} [{100 * measure.low:.2f}, {100 * measure.high:.2f}]"


def besides_of(examples: Examples, probs: NDArray[Any], *, seed: int) -> Besides:
    """Return what the data's format can be asked for, of these probabilities ``[N, K]``."""
    matched = examples.layout.matched
    if matched is not None and len(matched) == len(probs):
        now = replace(matched, confidence=np.asarray(probs[:, 1], np.float64))
        return Besides(tuple(measures_of(now, seed=seed)))
    if not (examples.layout.letters and examples.order is not None):
        return Besides()
    back = np.argsort(examples.order, axis=1)
    shown = np.take_along_axis(probs, back, axis=1)
    right = rank_of(examples.labels, back)
    return Besides(bias=position_bias(shown, right, cluster=examples.cluster))


def finite(value: float) -> float | None:
    """Return a number, or None if it is not finite, for JSON."""
    return value if math.isfinite(value) else None


def score_record(value: Score) -> dict[str, float | None]:
    """Return a score, with its interval where it has one; JSON has null for an infinite number."""
    return {k: finite(v) for k, v in asdict(value).items() if v is not None}


def worst_record(worst: WorstSlice | None) -> dict[str, Any] | None:
    """Return the worst slice, without the rows in it."""
    if worst is None:
        return None
    return {
        "description": worst.description,
        "rows": worst.n,
        "gap": worst.gap.estimate,
        "p_value": worst.p_value,
        "slices": worst.n_slices,
        "summary": worst.summary,
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """The scores of one model, and whether it is calibrated."""

    name: str
    calibrator: str
    """what was applied first, in words; empty where nothing was"""
    scores: dict[MetricName, Score]
    """log loss, Brier score and error with 95 % intervals; calibration errors without"""
    assessment: Assessment
    n_rows: int
    n_classes: int
    n_zeros: int
    """rows with probability 0 at their label"""
    confident: ConfidentFraction
    table: Cells = field(repr=False)
    """of the predicted class, in bins"""
    groups: tuple[GroupAssessment, ...] = ()
    """a verdict per group, where groups were given"""
    rows: "EvaluatedRows | None" = field(default=None, repr=False)
    """what is known of each row; None for a sketch"""
    sketch: SketchFile | None = field(default=None, repr=False)
    """what was evaluated in place of rows"""
    besides: Besides = field(default_factory=Besides)
    """what only detections or options that are letters have"""
    error_bound: Mapping[MetricName, float] = field(default_factory=dict)
    """of a sketch: how far each calibration error can be from its value on rows; 0: the same"""

    @property
    def notes(self) -> tuple[str, ...]:
        """What some data have besides; how exact a sketch is, and what it cannot tell."""
        if self.sketch is None:
            return tuple(self.besides.lines)
        exact = (
            "Evaluated in one pass, from a sketch: adaptive ECE is within "
            f"{100 * self.error_bound['adaptive_ece']:.2g} points of its value on rows, smooth "
            f"ECE within {100 * self.error_bound['smooth_ece']:.2g}; the other scores are exact."
        )
        if len(self.sketch.sketch.groups) < 2:
            return (exact,)
        return exact, "The worst slice over several columns needs rows and was not searched for."

    def cells(self, *, is_event: bool) -> Cells:
        """Return the rows by their probability of class 1, or by that of the predicted class."""
        if self.rows is not None:
            return Cells.of_distinct(*(self.rows.positive if is_event else self.rows.top))
        assert self.sketch is not None  # noqa: S101  one of the two is known
        given = self.sketch.sketch
        return given.positive if is_event and given.positive is not None else given.top

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        record = {
            "name": self.name,
            "calibrator": self.calibrator or None,
            "rows": self.n_rows,
            "classes": self.n_classes,
            "scores": {m: score_record(v) for m, v in self.scores.items()},
            "assessment": self.assessment.to_dict(),
            "selective": None if self.rows is None else _selective_record(self.rows.selective),
            "groups": [group.to_dict() for group in self.groups],
            "worst_slice": None if self.rows is None else worst_record(self.rows.worst),
            "besides": self.besides.to_dict(),
            "bins": {
                "edges": self.table.edges.tolist(),
                "count": self.table.weight.tolist(),
                "confidence_sum": self.table.probability.tolist(),
                "correct_sum": self.table.outcome.tolist(),
            },
        }
        if self.sketch is not None:
            record["sketch"] = {
                "error_bound": dict(self.error_bound),
                "sources": list(self.sketch.sources),
                "versions": {name: list(v) for name, v in self.sketch.versions.items()},
                "from": self.sketch.start,
                "to": self.sketch.end,
            }
        return record


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluatedRows:
    """What is known of each row of an evaluation."""

    units: Scores
    weights: Floats | None
    cluster: NDArray[np.intp] | None
    """number of the cluster of each row"""
    columns: Mapping[str, NDArray[Any]]
    """columns of groups"""
    is_answer: bool
    """whether a row is a confidence and whether it was right, which is never folded at one half"""
    worst: WorstSlice | None
    """the slice that is most clearly off, where several columns of groups were given"""

    @property
    def top(self) -> tuple[Floats, NDArray[np.bool_], Floats | None]:
        """Confidence of the predicted class, whether it is right, and weights."""
        return np.clip(self.units.confidence, 0, 1), self.units.correct > 0.5, self.weights

    @property
    def positive(self) -> tuple[Floats, NDArray[np.bool_], Floats | None]:
        """Of two classes: the probability of class 1, whether it is true, and weights."""
        return *self.units.positive, self.weights

    @property
    def answers(self) -> tuple[Floats, NDArray[np.bool_], Floats | None]:
        """By what rows are accepted or left to somebody else, whether they are right, weights."""
        return self.positive if self.is_answer else self.top

    @cached_property
    def selective(self) -> Selective | None:
        """Accuracy of the most confident rows; None with weights, which it does not take."""
        confidence, correct, weights = self.answers
        if weights is not None:
            return None
        return selective_accuracy(confidence, correct, cluster=self.cluster)

    @property
    def confident(self) -> ConfidentFraction:
        """The share of rows with a confidence of at least 0.99, and how many are right."""
        confidence, correct, weights = self.answers
        mass = np.ones(len(correct)) if weights is None else weights
        sure = mass * (confidence >= 0.99)
        total = float(sure.sum())
        right = float(sure @ correct) / total if total else float("nan")
        return ConfidentFraction(total / float(mass.sum()), right)


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


def evaluate_predictions(
    source: Predictions | SketchFile,
    *,
    name: str = "",
    calibrator: Calibrator | None = None,
    copies: bool = False,
    n_bins: int = 15,
    n_resamples: int = 300,
    seed: int = 0,
) -> Evaluation:
    """Return the scores of predictions with labels; nothing is fitted.

    Args:
        source: what was read, or a sketch, of `read_sketch`, `merge_sketches` or
            `sketch_predictions`.
        name: what to call the model.
        calibrator: applied first, to its classes by name; not for a sketch.
        copies: whether weights of predictions are numbers of identical rows.
        n_bins: bins of the binned errors; a sketch has its own.
        n_resamples: bootstrap resamples behind the intervals of log loss, Brier score and error;
            those of a sketch are normal.
        seed: random seed.

    Warns:
        DataWarning: the data look wrong.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(500, 3))
        >>> y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        >>> evaluate_predictions(Examples.of_arrays(logits=z, labels=y)).assessment.verdict
        'no evidence of miscalibration'
    """
    if isinstance(source, SketchFile):
        return _of_sketch(source, name, seed)
    source = align(source, None if calibrator is None else calibrator.class_names)
    if isinstance(source, Examples):
        examples = source
    else:
        examples = Examples.of_predictions(source, copies=copies)
    warn_of(doubts_about(examples))
    scores, labels, weights = examples.scores, examples.labels, examples.weights
    blocks = list(row_chunks(len(scores), scores.shape[1], BLOCK_ENTRIES))
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
        assessed = thread.submit(examples.assessed, probs, seed=seed)
        codes = None if examples.cluster is None else renumbered(examples.cluster)
        paired = PairedMeans.of(
            rows.means(), weights=weights, cluster=codes, n_resamples=n_resamples, seed=seed
        )
        assessment = assessed.result()
    found = {m: Score(v) for m, v in rows.calibration.items()}
    for i, m in enumerate(MEANS):
        own = paired.interval(i).clipped(m)
        is_alone = codes is not None and not codes.any()  # one cluster does not show its spread
        found[m] = Score(own.estimate) if is_alone else own
    is_applied = calibrator is not None and calibrator.kind != "identity"
    applied = calibrator.describe() if calibrator is not None and is_applied else ""
    groups, worst = examples.by_group(probs, seed=seed)
    evaluated = EvaluatedRows(
        units=rows,
        weights=weights,
        cluster=codes,
        columns=examples.groups,
        is_answer=examples.are_answers,
        worst=worst,
    )
    return Evaluation(
        name=name,
        calibrator=applied,
        scores=found,
        assessment=assessment,
        n_rows=len(labels),
        n_classes=examples.n_classes,
        besides=besides_of(examples, probs, seed=seed),
        n_zeros=rows.n_zeros,
        confident=evaluated.confident,
        table=rows.table,
        groups=groups,
        rows=evaluated,
    )


def _of_sketch(file: SketchFile, name: str, seed: int) -> Evaluation:
    sketch = file.sketch
    found = sketch.evaluate(seed=seed, class_names=file.class_names)
    scores = {m: Score(v) for m, v in found.errors.items()}
    for metric, value in found.scores.items():
        is_known = np.isfinite([value.low, value.high]).all()
        ends = (value.low, value.high) if is_known else ()
        scores[metric] = Score(value.estimate, *ends)
    return Evaluation(
        name=name,
        calibrator=file.calibrator,
        scores=scores,
        assessment=found.assessment,
        n_rows=sketch.n,
        n_classes=sketch.n_classes,
        n_zeros=sketch.n_zeros,
        confident=confident_of(sketch),
        table=sketch.table,
        groups=found.groups,
        sketch=file,
        error_bound=dict(found.error_bound),
    )
