"""Findings as sentences, made from the fields of an assessment."""

import math
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from focalibrate.metrics.assessment import Assessment, ClassFinding
    from focalibrate.metrics.interval import Interval
    from focalibrate.metrics.rows import EventKind

Direction = Literal["overconfident", "underconfident", "too high", "too low"]
ALPHA = 0.05
"""A smaller p-value counts as a finding."""
NOTABLE_RATIO = 1.2
"""From here on a ratio is easier to understand than a difference."""


def finding(found: "Assessment", *, when: str = "") -> str:
    """Return what was found, as one or two sentences.

    Args:
        found: the assessment.
        when: words to begin with, such as ``"after calibration "``.
    """
    is_calm = found.verdict == "no evidence of miscalibration"
    return f"{headline(found, when=when)}{'. ' if is_calm else ': '}{details(found)}"


def headline(found: "Assessment", *, when: str = "") -> str:
    """Return the finding without its numbers, as the beginning of a sentence."""
    text = f"{when}{_headline(found)}"
    return text[:1].upper() + text[1:]


def details(found: "Assessment") -> str:
    """Return the numbers behind the headline, to be read after it."""
    rows = _size(found)
    error, event, *more = points(found.detectable), *found.tested
    if found.verdict == "miscalibrated":
        return " ".join(_evidence(found))
    if found.verdict == "too few rows to judge":
        if found.p_value != found.p_value:
            return f"{rows}; at least 50 clusters are needed."
        if not found.detectable < 0.5:
            return f"{rows} can hardly show any error."
        return f"{rows} can only show an error of about {error} or more in {event}."
    text = (
        f"With {rows}, an error of {error} or more in {event} would probably have been detected."
    )
    return f"{text} {more[0].capitalize()} were tested too." if more else text


def _size(found: "Assessment") -> str:
    """Return how much data there is: rows, or clusters of rows where they are dependent."""
    rows = f"{found.n:,} row{'' if found.n == 1 else 's'}"
    if found.n_clusters is None:
        return rows
    return f"{found.n_clusters:,} cluster{'' if found.n_clusters == 1 else 's'} in {rows}"


def _headline(found: "Assessment") -> str:
    """Return the same, beginning in lower case."""
    if found.verdict == "too few rows to judge":
        what = "clusters" if found.p_value != found.p_value else "rows"
        return f"there are too few {what} to judge"
    if found.verdict == "no evidence of miscalibration":
        return "we find no miscalibration"
    subject = {
        "top label": "confidence is",
        "positive class": f"probabilities of {found.event_name} are",
        "correct": "confidence is",
    }[found.event]
    if found.direction is not None:
        if found.event == "top label":
            return f"the model is {found.direction}"
        return f"{subject} {side_of(found.gap)}"
    if found.has_certain_error:
        return "the model is miscalibrated"
    worst = found.worst_class
    if is_of_classes(found) and worst is not None:
        side = side_of(worst.gap) if worst.gap.excludes_zero else "off"
        return f"probabilities of {worst.name} are {side}"
    if found.slope is not None and found.slope.high < 1.0:
        return f"{subject} too extreme"
    if found.slope is not None and found.slope.low > 1.0:
        return f"{subject} not extreme enough"
    return f"{subject} too high for some predictions and too low for others"


def _evidence(found: "Assessment") -> list[str]:
    """Return sentences; the first goes on after a colon."""
    # of two tests, one at its least allows no less than twice that
    p = p_text(found.p_value, n_draws=found.n_draws // max(len(found.p_values), 1))
    if found.n_clusters is not None:
        p = f"{p}, from {_size(found)}"
    worst = found.worst_class
    if found.direction is None and found.has_certain_error:
        return [f"a prediction made with 100 % certainty is wrong ({p})."]
    if found.direction is None and is_of_classes(found) and worst is not None:
        return [f"{_class_rates(worst)} ({p}, allowing for all classes tested)."]
    typical = f"typically off by {points(found.rms.estimate)} (95 % CI {_range(found.rms)}; {p})"
    if found.direction is None:
        # A typical error of 0 beside a small p-value would read as a contradiction.
        first = f"{_two_rates(found)} ({p})" if found.rms.estimate == 0.0 else typical
        return [f"{first}.", *_of_classes(found)]
    if found.event == "top label":
        side = "above" if found.gap.estimate > 0 else "below"
        first = f"its confidence is {points(abs(found.gap.estimate))} {side} its accuracy"
        hides_more = found.rms.low > 1.5 * abs(found.gap.estimate)
        first = f"{first} on average, and {typical}" if hides_more else f"{first} ({p})"
    else:
        ratio = found.ratio
        if ratio is not None and not 1.0 / NOTABLE_RATIO < ratio < NOTABLE_RATIO:
            p = f"{ratio:.1f} times; {p}" if ratio > 1.0 else f"{ratio:.2f} times; {p}"
        first = f"{_two_rates(found)} ({p})"
    certain = ["A prediction made with 100 % certainty is wrong."] * found.has_certain_error
    return [f"{first}.", *certain, *_of_classes(found)]


def is_of_classes(found: "Assessment") -> bool:
    """Return whether the test of all classes tells more than that of the event."""
    return min(found.p_values, key=lambda name: found.p_values[name]) == "classes"


def _of_classes(found: "Assessment") -> list[str]:
    worst = found.worst_class
    if worst is None:
        return []
    if found.p_values["classes"] >= ALPHA:
        return ["The probabilities of all classes were tested too, without a finding."]
    name, rates = worst.name, _class_rates(worst)
    return [f"Of all classes, the probabilities of {name} are off most: {rates}."]


def _class_rates(worst: "ClassFinding") -> str:
    if worst.gap.excludes_zero:
        return _two_rates(worst)
    return "right on average, but too high for some rows and too low for others"


def _two_rates(found: "Assessment | ClassFinding") -> str:
    mean, rate = percents(found.mean_probability, found.observed_rate)
    verb = "are correct" if getattr(found, "event", "") == "correct" else "happen"
    return f"{mean} on average, {rate} {verb}"


def side_of(gap: "Interval", event: "EventKind" = "positive class") -> Direction:
    """Return the direction of a gap: too high or too low; of a confidence, over- or under-."""
    if event == "top label":
        return "overconfident" if gap.estimate > 0 else "underconfident"
    return "too high" if gap.estimate > 0 else "too low"


def p_text(p: float, *, n_draws: int | None = None) -> str:
    """Return a p-value as text that is true; the smallest that `n_draws` allow is a bound.

    Example:
        >>> p_text(0.0005), p_text(0.001), p_text(0.001, n_draws=999), p_text(0.034), p_text(0.5)
        ('p < .001', 'p = .001', 'p ≤ .001', 'p = .034', 'p = .50')
    """
    if p < 0.001:
        return "p < .001"
    digits = 3 if p < 0.1 else 2
    is_least = n_draws is not None and p * (n_draws + 1) <= 1.0 + 1e-9
    shown = math.ceil(p * 10**digits - 1e-9) / 10**digits if is_least else p
    return f"p {'≤' if is_least else '='} " + f"{shown:.{digits}f}".lstrip("0")


def points(value: float) -> str:
    """Return percentage points with a digit that is not 0: "1.6 points", "0.48 points"."""
    size = 100 * value
    text = f"{size:.1f}" if size >= 0.95 or size == 0.0 else f"{size:.2g}"
    return f"{text} point{'' if text == '1' else 's'}"


def percents(first: float, second: float) -> tuple[str, str]:
    """Return two shares as percentages, with as many digits as it takes to tell them apart.

    Example:
        >>> percents(0.0435, 0.0163), percents(0.5, 0.5), percents(0.0012, 0.00118)
        (('4.3 %', '1.6 %'), ('50.0 %', '50.0 %'), ('0.120 %', '0.118 %'))
    """
    a, b = 100 * first, 100 * second
    texts = ("", "")
    for digits in range(1, 7):
        texts = (f"{a:.{digits}f}", f"{b:.{digits}f}")
        is_told = texts[0] != texts[1] or a == b
        is_fine = min(a, b) == 0.0 or min(a, b) >= 10.0 ** (1 - digits)
        if is_told and is_fine:
            break
    return f"{texts[0]} %", f"{texts[1]} %"


def _range(value: "Interval") -> str:
    return f"{100 * value.low:.1f} to {100 * value.high:.1f}"
