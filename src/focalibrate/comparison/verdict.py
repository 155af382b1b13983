"""The result of a comparison in a few sentences."""

from focalibrate.calibrate import METHODS, Calibrator, Pool
from focalibrate.comparison.choose import WORDS, Choice, is_always_right
from focalibrate.comparison.group_choice import GroupChoice
from focalibrate.comparison.paired import Score, standard_error, weighted_mean
from focalibrate.comparison.result import Comparison
from focalibrate.metrics import Assessment


def verdict(
    comparison: Comparison,
    choice: Choice,
    assessment: Assessment | None = None,
    by_group: GroupChoice | None = None,
) -> str:
    """Return in a few sentences what is wrong, what to do about it, and what that gains.

    Args:
        comparison: what `compare` returned.
        choice: what `choose` returned.
        assessment: `focalibrate.metrics.assess` of the uncalibrated rows. Default: only the
            direction is stated.
        by_group: what `choose_by_group` returned.

    Example:
        >>> import numpy as np
        >>> from focalibrate.comparison import choose, compare
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=(1000, 4)) * 2
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = compare(3 * truth, labels, methods=["temperature"], n_resamples=100)
        >>> print(verdict(found, choose(found)))  # doctest: +ELLIPSIS
        Overconfident by 19.9 points. Temperature scaling, T=2.9... predictions unchanged.
    """
    opening = _direction(comparison) if assessment is None else assessment.summary
    opening = opening[:1].upper() + opening[1:]
    groups = ""
    if by_group is not None and by_group.calibrator is not None:
        groups = f" {by_group.summary}."
    if choice.row.method != "identity":
        return f"{opening}. {_cure(comparison, choice)}{groups}"
    if groups and not choice.is_forced:
        return (
            f"{opening}. No method lowers the {WORDS[choice.score]} of all rows together.{groups}"
        )
    return f"{opening}. {_keep(comparison, choice, assessment)}{groups}"


def _direction(comparison: Comparison) -> str:
    rows = comparison.row("identity").row_scores
    residual = rows.confidence - rows.correct
    gap = float(weighted_mean(residual, comparison.weights))
    noise = 1.96 * float(standard_error(residual, comparison.weights))
    if abs(gap) <= noise:
        return "confidence and accuracy agree on average"
    side = "overconfident" if gap > 0 else "underconfident"
    return f"{side} by {abs(gap) * 100:.1f} points"


def _keep(comparison: Comparison, choice: Choice, assessment: Assessment | None) -> str:
    if choice.is_forced:
        return "The model is left uncalibrated, as requested."
    if is_always_right(comparison):
        return "It makes no mistake on these rows, so they cannot show how confident it should be."
    word = WORDS[choice.score]
    if assessment is not None and assessment.verdict == "too few rows to judge":
        return (
            f"They cannot show which method lowers the {word} either, so the model is left as it "
            "is: calibrate on more rows."
        )
    if assessment is not None and assessment.verdict == "miscalibrated":
        return (
            f"No method compared lowers the {word} by more than noise, so the model is left as "
            "it is; more rows may show which method helps."
        )
    return f"No method compared lowers the {word} by more than noise: keep the model as it is."


def _cure(comparison: Comparison, choice: Choice) -> str:
    score = choice.score
    word = WORDS[score]
    before = comparison.row("identity").scores[score]
    after = choice.held_out[score]
    cure = _described(choice.row.calibrator)
    n = choice.row.n_predictions_changed
    price = (
        "predictions unchanged"
        if n == 0
        else f"{n:,} of {comparison.n_judged:,} predictions change"
    )
    if before.estimate == float("inf"):
        return f"{cure} brings the {word} from infinity to {_interval(after)}, held out; {price}."
    gain = choice.row.to_raw[score]
    is_clear = gain.high is not None and gain.high < 0
    is_worse = gain.low is not None and gain.low > 0
    verb = "raises" if after.estimate > before.estimate else "lowers"
    doubt = "" if is_clear or is_worse else " (a difference within noise)"
    advice = " It was requested, but makes it worse." if is_worse and choice.is_forced else ""
    caution = METHODS[choice.row.method].caution
    if caution and comparison.n_classes > 2:
        advice += f" Beware: {caution}."
    return (
        f"{cure} {verb} the {word} from {before.estimate:.4f} to {_interval(after)}, "
        f"held out{doubt}; {price}.{advice}"
    )


def _described(calibrator: Calibrator) -> str:
    """Return a calibrator as the beginning of a sentence, its members by their usual names."""
    if isinstance(calibrator, Pool):
        parts = zip(calibrator.weights, calibrator.members, strict=True)
        named = (f"{w:.2f} {METHODS[m.kind].label}" for w, m in parts if m.kind in METHODS)
        return f"A pool of methods ({', '.join(named)})"
    text = calibrator.describe().replace(": ", ", ", 1).replace("gamma=", "γ=")
    return f"{text[:1].upper()}{text[1:]},"


def _interval(value: Score) -> str:
    if value.low is None or value.high is None:
        return f"{value.estimate:.4f}"
    return f"{value.estimate:.4f} [{value.low:.4f}, {value.high:.4f}]"
