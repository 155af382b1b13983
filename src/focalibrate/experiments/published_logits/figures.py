"""Tables and charts of the published logits."""

from collections.abc import Sequence

from focalibrate.experiments.engine.experiment import Rows, Table
from focalibrate.experiments.engine.verdict import Interval
from focalibrate.experiments.published_logits.methods import COUNTED, FINE, PAIRS
from focalibrate.report.charts import Chart, Panel, Series

SHOWN = ("raw", "Ψ", "TS_NLL", "TS_ECE", FINE, "FTS_NLL", "FTS")


def number(rows: Rows, name: str, metric: str) -> float:
    """Return a number of the set `name`; nan if it was not measured."""
    found = rows.values(name, metric)
    return float(found[0]) if found.size else float("nan")


def interval(rows: Rows, name: str, metric: str) -> Interval:
    """Return a number of the set `name` with its bootstrap interval."""
    return Interval(*(number(rows, name, f"{metric}{end}") for end in ("", " low", " high")))


def percent(found: Interval) -> Interval:
    """Return an interval of fractions in percent."""
    return Interval(100 * found.estimate, 100 * found.low, 100 * found.high)


def counts(rows: Rows) -> Table:
    """Return in how many sets each method differs significantly from another."""
    body = []
    for method, other in PAIRS:
        for metric, shown in COUNTED.items():
            name = f"{method} less {other} {metric}"
            gaps = [interval(rows, one, name) for one in rows.recipes()]
            gaps = [gap for gap in gaps if gap.estimate == gap.estimate]
            lower, higher = sum(gap.high < 0 for gap in gaps), sum(gap.low > 0 for gap in gaps)
            counted = map(str, (lower, len(gaps) - lower - higher, higher))
            body.append((method, other, shown, *counted))
    return Table(
        "In how many sets a method is significantly lower or higher (paired 95 % interval)",
        ("method", "against", "metric", "lower", "no significant difference", "higher"),
        tuple(body),
    )


def every_method(rows: Rows) -> Table:
    """Return the errors of every set and method."""
    body = []
    for name in rows.recipes():
        methods = [m for m in SHOWN if rows.values(name, f"{m} ece").size]
        for i, method in enumerate(methods):
            errors = [
                _bracket(percent(interval(rows, name, f"{method} {m}")), 2)
                for m in ("ece", "adaptive_ece")
            ]
            nll = _bracket(interval(rows, name, f"{method} nll"), 4)
            wrong = f"{100 * number(rows, name, f'{method} error'):.2f}"
            fitted = f"{method}{_fitted(rows, name, method)}"
            body.append((name if i == 0 else "", fitted, *errors, nll, wrong))
    return Table(
        "Every set and method",
        ("set", "method", "ECE %", "AdaECE %", "NLL", "error %"),
        tuple(body),
        "Brackets: 95 % basic bootstrap intervals over the evaluated rows, 15 bins.",
    )


def _bracket(found: Interval, digits: int) -> str:
    values = (found.estimate, found.low, found.high)
    return "{} [{}, {}]".format(*(f"{x:.{digits}f}" for x in values))


def _fitted(rows: Rows, name: str, method: str) -> str:
    """Return the parameters of a method as short text."""
    values = {letter: rows.values(name, f"{method} {letter}") for letter in ("γ", "T")}
    found = [f"{letter}={value[0]:.4g}" for letter, value in values.items() if value.size]
    return f" ({', '.join(found)})" if found else ""


def chart(rows: Rows) -> Chart:
    """Return AdaECE per set, and the effect of the second parameter."""
    methods = [(f"{m} adaptive_ece", m) for m in ("raw", "TS_NLL", "FTS")]
    fits = [(f"FTS less {FINE} adaptive_ece", "")]
    log_loss = [("FTS_NLL less TS_NLL nll", "")]
    return Chart(
        "sets",
        "AdaECE per set, and the effect of the second parameter of focal temperature scaling, "
        "fitted by AdaECE (both on paper 003's grid) and by log loss. Intervals: 95 % bootstrap, "
        "paired for the differences; below 0, the second parameter helps.",
        (
            _panel(rows, "calibration error", "AdaECE (%)", methods, factor=100),
            _panel(rows, "FTS − TS, by AdaECE", "AdaECE (%)", fits, factor=100),
            _panel(rows, "FTS − TS, by log loss", "log loss", log_loss, factor=1),
        ),
        size=(3.6, 4.2),
    )


def _panel(
    rows: Rows, title: str, unit: str, drawn: Sequence[tuple[str, str]], *, factor: float
) -> Panel:
    names, series = rows.recipes(), []
    for metric, label in drawn:
        found = [interval(rows, name, metric) for name in names]
        y, low, high = (
            [factor * getattr(x, end) for x in found] for end in ("estimate", "low", "high")
        )
        series.append(Series(names, y, label, "points", low, high))
    return Panel(title, "", unit, series)
