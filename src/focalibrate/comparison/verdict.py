"""What was found and what to do, as fields; the sentences are made from facts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np

from focalibrate.calibrate import METHODS, Calibrator
from focalibrate.calibrate.choice import standard_error
from focalibrate.comparison.choose import Choice, GroupChoice
from focalibrate.comparison.judge import Comparison
from focalibrate.comparison.paired import Score
from focalibrate.metrics import Assessment
from focalibrate.metrics.assessment import TOO_COARSE
from focalibrate.metrics.words import finding

Status = Literal["good", "repairable", "too few rows", "check the data"]
SYMBOLS = {"temperature": "T", "gamma": "γ"}
NAMED = (*SYMBOLS, "slope", "bias", "curvature", "a", "b", "c")
"""Parameters that are mentioned, by their letter if they have one."""
NEUTRAL = {"temperature": 1.0, "gamma": 0.0}
"""Values at which a parameter does nothing, and is not mentioned."""


@dataclass(frozen=True)
class Verdict:
    """The result of a comparison: a status, and a sentence or two for each question."""

    status: Status | None
    """the traffic light; None where several models are compared"""
    headline: str
    """what is wrong with the model"""
    line: str = ""
    """calibration slope and intercept, of the probability of an event"""
    gain: str = ""
    """what calibration changes"""
    after: str = ""
    """what is still wrong after calibration"""
    reason: str = ""
    """why this method was chosen"""
    advice: str = ""
    """what to do, in one line"""

    def __str__(self) -> str:
        """Return the headline and the gain, in sentences."""
        return f"{self.headline} {self.gain}".rstrip()

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        return asdict(self)


def verdict(
    comparison: Comparison,
    choice: Choice,
    assessment: Assessment | None = None,
    by_group: GroupChoice | None = None,
    after: Assessment | None = None,
    doubts: Sequence[str] = (),
) -> Verdict:
    """Return what is wrong, what calibration gains, and what to do.

    Args:
        comparison: what `compare_methods` returned.
        choice: what `choose` returned.
        assessment: `focalibrate.metrics.assess` of the uncalibrated rows. Default: only the
            direction is stated.
        by_group: what `choose_by_group` returned.
        after: `focalibrate.metrics.assess` of the calibrated rows, held out.
        doubts: what is probably wrong with the data, and what to do about it.

    Example:
        >>> import numpy as np
        >>> from focalibrate.comparison import choose, compare_methods
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=(1000, 4)) * 2
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = compare_methods(3 * truth, labels, methods=["temperature"], n_resamples=100)
        >>> verdict(found, choose(found)).headline
        'The model is overconfident: its confidence is 19.9 points above its accuracy.'
    """
    is_kept = choice.row.method == "identity"
    has_groups = by_group is not None and by_group.calibrator is not None
    gain = _kept(choice, assessment) if is_kept else _gain(comparison, choice)
    if has_groups and is_kept and not choice.is_forced:
        gain = "No method lowers the log loss of all rows together."
    if by_group is not None and has_groups:
        gain = f"{gain} {by_group.summary}."
    is_repaired = has_groups or not (is_kept or _is_within_noise(choice, assessment))
    status = _status(assessment, is_repaired=is_repaired)
    is_calm = assessment is not None and assessment.verdict != "miscalibrated"
    if is_calm and is_repaired and not (has_groups or choice.is_forced):
        gain = f"Even so: {gain}"
    return Verdict(
        status="check the data" if doubts else status,
        headline=_direction(comparison) if assessment is None else assessment.summary,
        line="" if assessment is None else _line(assessment),
        gain=gain,
        after="" if after is None or is_kept else _after(assessment, after),
        reason=choice.reason,
        advice=doubts[0] if doubts else _advice(status, is_kept=is_kept, has_groups=has_groups),
    )


def assessed(assessment: Assessment) -> Verdict:
    """Return the verdict on one model that was evaluated, not calibrated."""
    status: Status
    if assessment.verdict == "miscalibrated":
        status, advice = "repairable", "Fit a calibrator: `focalibrate calibrate`."
    elif not assessment.detectable <= TOO_COARSE:
        status, advice = "too few rows", "Collect more labelled rows and run this again."
    else:
        status, advice = "good", "Keep using these probabilities."
    return Verdict(status, assessment.summary, line=_line(assessment), advice=advice)


def _line(found: Assessment) -> str:
    if found.event == "top label" or found.slope is None or found.intercept is None:
        return ""
    slope, intercept = (
        f"{_two(x.estimate)} (95 % CI {_two(x.low)} to {_two(x.high)})"
        for x in (found.slope, found.intercept)
    )
    return f"Calibration slope {slope}, intercept {intercept}; a calibrated model has 1 and 0."


def _two(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")  # + 0.0: no −0.00


def _status(assessment: Assessment | None, *, is_repaired: bool) -> Status:
    if is_repaired:
        return "repairable"
    is_coarse = assessment is not None and not assessment.detectable <= TOO_COARSE
    return "too few rows" if is_coarse else "good"


def _is_within_noise(choice: Choice, before: Assessment | None) -> bool:
    """Return whether nothing was found before calibration, and the gain may be chance."""
    high = choice.row.to_raw["nll"].high
    is_calm = before is not None and before.verdict != "miscalibrated"
    return is_calm and not choice.is_forced and (high is None or high >= 0)


def _after(before: Assessment | None, after: Assessment) -> str:
    calm = "no evidence of miscalibration"
    if before is not None and before.verdict == after.verdict == calm:
        return ""  # the headline has said it
    return finding(after, when="after calibration ")


def _advice(status: Status, *, is_kept: bool, has_groups: bool) -> str:
    if not is_kept and not has_groups and status != "repairable":
        return "Keep using the model's probabilities; applying calibrator.json is optional."
    if status == "good":
        return "Keep using the model's probabilities."
    if status == "too few rows":
        return "Collect more labelled rows and run this again; keep the model until then."
    if has_groups:
        return "Apply calibrator.json to new predictions; it needs the group column."
    return "Apply calibrator.json to new predictions."


def _direction(comparison: Comparison) -> str:
    rows = comparison.row("identity").units
    residual = rows.confidence - rows.correct
    gap = float(np.average(residual, weights=comparison.weights))
    noise = 1.96 * float(standard_error(residual, comparison.weights))
    if abs(gap) <= noise:
        return "The model's confidence and accuracy agree on average."
    kind, side = ("overconfident", "above") if gap > 0 else ("underconfident", "below")
    size = f"{abs(gap) * 100:.1f} points"
    return f"The model is {kind}: its confidence is {size} {side} its accuracy."


def _kept(choice: Choice, assessment: Assessment | None) -> str:
    if choice.is_forced:
        return "The model is left uncalibrated, as requested."
    if assessment is not None and assessment.verdict == "too few rows to judge":
        return "They cannot show which method lowers the log loss either, so the model is kept."
    return "No method lowers the log loss significantly, so the model is kept."


def _gain(comparison: Comparison, choice: Choice) -> str:
    before = comparison.row("identity").scores["nll"]
    after = choice.row.scores["nll"]
    n = choice.row.n_predictions_changed
    changes = "no prediction"
    if n:
        changes = f"{n:,} of {comparison.n_judged:,} predictions"
    name = described(choice.row.calibrator)
    cure = name[:1].upper() + name[1:]
    gain = choice.row.to_raw["nll"]
    is_clear = gain.high is not None and gain.high < 0
    is_worse = gain.low is not None and gain.low > 0
    verb = "raises" if after.estimate > before.estimate else "lowers"
    noise = "" if is_clear or is_worse else ", a difference within noise,"
    text = (
        f"{cure} {verb} the held-out log loss from {before.estimate:.4f} to {_interval(after)}"
        f"{noise} and changes {changes}."
    )
    if is_worse and choice.is_forced:
        text += " It was requested, but it makes the model worse."
    caution = METHODS[choice.row.method].caution
    if caution and comparison.n_classes > 2:
        text += f" Beware: {caution}."
    return text


def described(calibrator: Calibrator) -> str:
    """Return a calibrator by its usual name, with its parameters in brackets."""
    label = METHODS[calibrator.kind].label if calibrator.kind in METHODS else calibrator.kind
    words = parameters(calibrator)
    return f"{label} ({words})" if words else label


def parameters(calibrator: Calibrator) -> str:
    """Return the parameters in words, such as "T = 1.94"; empty if there are too many."""
    members: tuple[Calibrator, ...] = getattr(calibrator, "members", ())
    if members:
        weights: tuple[float, ...] = getattr(calibrator, "weights", ())
        named = (METHODS[m.kind].label if m.kind in METHODS else m.kind for m in members)
        return ", ".join(f"{100 * w:.0f} % {name}" for w, name in zip(weights, named, strict=True))
    values = {field.name: getattr(calibrator, field.name) for field in fields(calibrator)}
    return ", ".join(
        f"{SYMBOLS.get(name, name)} = {value:.3g}".replace("-", "−")
        for name, value in values.items()
        if isinstance(value, float) and name in NAMED and value != NEUTRAL.get(name)
    )


def _interval(value: Score) -> str:
    if value.low is None or value.high is None:
        return f"{value.estimate:.4f}"
    return f"{value.estimate:.4f} (95 % CI {value.low:.4f} to {value.high:.4f})"
