"""Comparisons and metrics as terminal tables."""

import math

from rich.table import Table

from focalibrate.comparison import Choice, Comparison
from focalibrate.metrics import BootstrapInterval, MetricName

PERCENT: tuple[MetricName, ...] = (
    "ece", "adaptive_ece", "classwise_ece", "smooth_ece", "mce", "error",
)  # fmt: skip
HEADINGS: dict[MetricName, str] = {
    "ece": "ECE %",
    "adaptive_ece": "AdaECE %",
    "classwise_ece": "classwise ECE %",
    "smooth_ece": "smooth ECE %",
    "mce": "MCE %",
    "nll": "log loss",
    "brier": "Brier",
    "error": "error %",
}


def number(name: MetricName, value: float) -> str:
    """Return a metric without its interval."""
    if not math.isfinite(value):
        return "∞" if value > 0 else str(value)
    return f"{100 * value:.2f}" if name in PERCENT else f"{value:.4f}"


def with_interval(name: MetricName, value: BootstrapInterval) -> str:
    """Return a metric with its interval, as a cell of a table."""
    if not math.isfinite(value.estimate):
        return number(name, value.estimate)
    return "{} [{}, {}]".format(
        *(number(name, x) for x in (value.estimate, value.low, value.high))
    )


def comparison_table(comparison: Comparison, choice: Choice, *, width: int = 80) -> Table:
    """Return one row a method, the chosen one marked; more intervals where `width` allows."""
    where = "by cross-fit" if comparison.judged_on == "cross-fit" else "on the test set"
    table = Table(
        title=f"{comparison.n_judged} examples, {comparison.n_classes} classes, judged {where}",
        caption=f"95 % bootstrap intervals, {comparison.n_resamples} resamples",
    )
    is_wide = width >= 120
    table.add_column("method", no_wrap=True)
    table.add_column(HEADINGS["adaptive_ece"], justify="right", no_wrap=True)
    if is_wide:
        table.add_column(HEADINGS["ece"], justify="right", no_wrap=True)
    for heading in ("log loss" if is_wide else "NLL", "err %", "changed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in comparison.rows:
        is_chosen = row.method == choice.row.method
        cells = [with_interval("adaptive_ece", row.scores["adaptive_ece"])]
        if is_wide:
            cells += [with_interval("ece", row.scores["ece"])]
            cells += [with_interval("nll", row.scores["nll"])]
        else:
            cells += [number("nll", row.scores["nll"].estimate)]
        table.add_row(
            f"► {row.label}" if is_chosen else f"  {row.label}",
            *cells,
            number("error", row.scores["error"].estimate),
            str(row.n_predictions_changed),
            style="bold" if is_chosen else "",
        )
    return table
