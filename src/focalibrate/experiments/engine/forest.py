"""The forest plot of an experiment: one line per claim, as SVG."""

import html
import math
from collections.abc import Iterator, Sequence

from focalibrate.experiments.engine.verdict import ClaimResult, Interval, Verdict

COLORS: dict[Verdict, str] = {
    "reproduced": "#00684a",
    "supported": "#00684a",
    "same direction": "#0b5fa5",
    "undecided": "#6b6f78",
    "not run at full size": "#9aa0aa",
    "opposite direction": "#b35c00",
    "not reproduced": "#a6341b",
    "not supported": "#a6341b",
}
CAPTION = (
    "One line per claim. Right of the middle (shaded): the claimed side; a narrow band is a "
    "printed number with its tolerance. Dot and bar: our estimate and its 95 % confidence "
    "interval, on one scale for all claims with the same unit. An open end: the interval extends "
    "further."
)
WIDTH, TEXT, PLOT, ROW = 1130, 560, 260, 24
_LETTERS = 92
"""How many characters of the claim fit beside its line."""


def forest_svg(results: Sequence[ClaimResult]) -> str:
    """Return the plot; colours show the verdicts, and each line names its verdict too.

    The paper's claims come first, then our own questions.
    """
    results = sorted(results, key=lambda result: not result.is_papers)
    scales = _scales(results)
    height = ROW * (len(results) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="11.5">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for place, result in enumerate(results):
        parts += _row(result, ROW * place, scales[result.unit])
    middle, bottom = TEXT + PLOT / 2, ROW * len(results)
    parts.append(
        f'<path d="M{middle} 0V{bottom}" stroke="#1b1b1f" stroke-width="1"/>'
        f'<text x="{middle + 6}" y="{bottom + 16}" fill="#5c5f66">as claimed →</text></svg>'
    )
    return "\n".join(parts)


def show_interval(interval: Interval) -> str:
    """Return a number with its interval, to four digits; without one if it is exact.

    Example:
        >>> show_interval(Interval(1.23456, 1.0, 1.5)), show_interval(Interval.exact(2.0))
        ('1.235 [1, 1.5]', '2')
    """
    text = f"{interval.estimate:.4g}"
    if interval.low == interval.high or not math.isfinite(interval.low):
        return text
    return f"{text} [{interval.low:.4g}, {interval.high:.4g}]"


def _centre(result: ClaimResult) -> tuple[float, float]:
    """Return the value drawn in the middle, and the sign that puts the claimed side right."""
    low, high = result.claimed
    if math.isinf(low):
        return high, -1.0
    return (low, 1.0) if math.isinf(high) else ((low + high) / 2, 1.0)


def _scales(results: Sequence[ClaimResult]) -> dict[str, float]:
    """Return the half-width of the plot for each unit: the furthest finite end.

    The band of a printed number takes a quarter of it at most.
    """
    found: dict[str, float] = {}
    for result in results:
        centre, _ = _centre(result)
        reach = [abs(x - centre) for x in vars(result.ours).values() if math.isfinite(x)]
        reach += [4 * abs(x - centre) for x in result.claimed if math.isfinite(x)]
        found[result.unit] = max(found.get(result.unit, 0.0), *reach, 1e-300)
    return found


def _row(result: ClaimResult, top: float, scale: float) -> Iterator[str]:
    centre, sign = _centre(result)
    middle, half = TEXT + PLOT / 2, PLOT / 2 - 8

    def at(value: float) -> float:
        return middle + half * max(-1.04, min(1.04, sign * (value - centre) / scale))

    start, end = sorted(at(x) for x in result.claimed)
    if math.isinf(result.claimed[0]) or math.isinf(result.claimed[1]):
        start, end = middle, TEXT + PLOT
    width = max(end - start, 2.0)
    y, color = top + ROW / 2, COLORS[result.verdict]
    yield f'<rect x="{start:.1f}" y="{top + 1}" width="{width:.1f}" height="{ROW - 2}" '
    yield 'fill="#e8eef4"/>'
    claim = result.claim if result.is_papers else f"(ours) {result.claim}"
    short = claim if len(claim) <= _LETTERS else claim[: _LETTERS - 1] + "…"
    yield f'<text x="4" y="{y + 4}" fill="#1b1b1f"><title>{html.escape(claim)}</title>'
    yield f"{html.escape(short)}</text>"
    if math.isfinite(result.ours.estimate):
        low, high = sorted((at(result.ours.low), at(result.ours.high)))
        yield f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="{color}" stroke-width="2"/>'
        yield f'<circle cx="{at(result.ours.estimate):.1f}" cy="{y}" r="4" fill="{color}"/>'
    number = show_interval(result.ours)
    yield f'<text x="{TEXT + PLOT + 8}" y="{y + 4}" fill="{color}">{html.escape(number)} '
    yield f"{result.shown}</text>"
