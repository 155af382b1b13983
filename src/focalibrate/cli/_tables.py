"""Comparisons and scores as terminal tables."""

import math

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from focalibrate.comparison import Choice, Comparison, Score
from focalibrate.io import printable
from focalibrate.metrics import METRICS, Assessment
from focalibrate.metrics.errors import MetricName
from focalibrate.pipeline import Evaluation, ModelComparison

HEADINGS: dict[MetricName, str] = {name: metric.heading for name, metric in METRICS.items()}
MAX_GROUPS = 40
"""More groups than this are shown only by --json."""
CALIBRATION: tuple[MetricName, ...] = tuple(n for n, m in METRICS.items() if not m.has_interval)


def number(name: MetricName, value: float) -> str:
    """Return a metric without its interval."""
    return METRICS[name].text(value)


def interval(name: MetricName, value: Score) -> str:
    """Return the interval of a score, empty if it has none."""
    if value.low is None or value.high is None or not math.isfinite(value.estimate):
        return ""
    return f"[{number(name, value.low)}, {number(name, value.high)}]"


def with_interval(name: MetricName, value: Score) -> str:
    """Return a score with its interval, as a cell of a table."""
    return f"{number(name, value.estimate)} {interval(name, value)}".rstrip()


def comparison_table(
    comparison: Comparison, choice: Choice, assessment: Assessment, *, width: int = 80
) -> Table:
    """Return one row per method, the chosen one marked; more columns where `width` allows."""
    where = (
        f"{comparison.n_folds}-fold cross-validation"
        if comparison.judged_on == "cross-fit"
        else "test set"
    )
    # Both classes of two have the same error, that of the probability of the positive one.
    ece: MetricName = "classwise_ece" if comparison.n_classes == 2 else "ece"
    ece_words = "an ECE" if comparison.n_classes > 2 else "an ECE of P(positive)"
    floor = assessment.noise_floor[ece]
    table = Table(
        title=f"Held-out scores ({where}): {comparison.n_judged:,} examples, "
        f"{comparison.n_classes:,} classes",
        caption=f"A calibrated model would show {ece_words} of about {100 * floor.median:.1f} % "
        f"here (95 % of the time below {100 * floor.q95:.1f} %). Log loss has a 95 % interval; "
        "“changed” counts examples whose predicted class changes.",
        box=SIMPLE_HEAD,
    )
    is_wide = width >= 110
    columns: tuple[MetricName, ...] = ("brier", ece, "error") if is_wide else (ece, "error")
    table.add_column("method")
    headings = HEADINGS | {"classwise_ece": "ECE %"}
    for heading in (headings["nll"], *(headings[m] for m in columns), "changed"):
        table.add_column(heading, justify="right", no_wrap=True)
    reasons = dict.fromkeys(row.why_not for row in comparison.rows if row.why_not)
    marks = dict(zip(reasons, "¹²³", strict=False))
    notes = "".join(f" {mark} Cannot be chosen: {why}." for why, mark in marks.items())
    table.caption = f"{table.caption}{notes}"
    for row in comparison.rows:
        is_chosen = row.method == choice.row.method
        label = f"{row.label}{marks.get(row.why_not, '')}"
        table.add_row(
            f"► {label}" if is_chosen else f"  {label}",
            with_interval("nll", row.scores["nll"]) if is_wide else _plus_minus(row.scores["nll"]),
            *(number(m, row.scores[m].estimate) for m in columns),
            f"{row.n_predictions_changed:,}",
            style="bold" if is_chosen else "",
        )
    return table


def _plus_minus(value: Score) -> str:
    """Return a score with half the width of its interval, for narrow terminals."""
    text = number("nll", value.estimate)
    if value.low is None or value.high is None or not math.isfinite(value.estimate):
        return text
    return f"{text} ± {number('nll', 0.5 * (value.high - value.low))}"


def evaluation_table(found: Evaluation) -> Table:
    """Return one row per measure: value, interval, and what a calibrated model would show."""
    table = Table(
        title=found.name + (f", calibrated: {found.calibrator}" if found.calibrator else ""),
        caption=caption_of_brier(found.n_classes),
        box=SIMPLE_HEAD,
    )
    table.add_column("measure", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("if calibrated: median, 95th percentile", justify="right")
    assessment = found.assessment
    is_event = assessment.event != "top label"
    gap = "probability − frequency %" if is_event else "confidence − accuracy %"
    for heading, value in ((gap, assessment.gap), ("RMS calibration error %", assessment.rms)):
        low, high = 100 * value.low, 100 * value.high
        table.add_row(heading, f"{100 * value.estimate:.2f}", f"[{low:.2f}, {high:.2f}]", "")
    # The other errors of two classes are of the confidence of the predicted class: see --json.
    shown = ("classwise_ece",) if is_event and "classwise_ece" in found.scores else CALIBRATION
    for name in shown:
        if name == "mce" or name not in found.scores:  # no classwise of very many classes
            continue
        floor = assessment.noise_floor[name]
        table.add_row(
            f"ECE of P({printable(assessment.event_name)}) %" if is_event else HEADINGS[name],
            number(name, found.scores[name].estimate),
            "",
            f"{number(name, floor.median)}, {number(name, floor.q95)}",
        )
    for name in ("nll", "brier", "error"):
        score = found.scores[name]
        table.add_row(HEADINGS[name], number(name, score.estimate), interval(name, score), "")
    return table


def caption_of_brier(n_classes: int) -> str:
    """Return the definition of the Brier score that is shown."""
    if n_classes == 2:
        return "Brier score: summed over both classes, twice scikit-learn's brier_score_loss."
    return "Brier score: summed over classes."


def models_by_group_table(found: ModelComparison) -> Table:
    """Return one row per group and one column per model: the log loss."""
    table = Table(
        title="Log loss by group",
        caption=f"Bold: lowest in the group. *: significantly different from {found.best.name} "
        "there (paired by example, corrected for the number of comparisons).",
        box=SIMPLE_HEAD,
    )
    table.add_column("group", overflow="fold")
    table.add_column("rows", justify="right")
    for model in found.models:
        table.add_column(model.name, justify="right", overflow="fold")
    for group in found.groups[:MAX_GROUPS]:
        cells = []
        for i, value in enumerate(group.nll):
            text = f"{number('nll', value)}{'*' if group.is_clear(i) else ' '}"
            cells.append(f"[bold]{text}[/bold]" if i == group.best else text)
        name = escape(printable(f"{group.column} = {group.group}"))
        table.add_row(name, f"{group.n:,}", *cells)
    return table


def models_table(found: ModelComparison) -> Table:
    """Return one row per model, and its difference to the best."""
    table = Table(
        title=f"{found.best.n_rows:,} examples, {found.best.n_classes:,} classes",
        caption="95 % intervals. Differences are paired by example; positive: worse than the "
        f"best. {caption_of_brier(found.best.n_classes)}",
        box=SIMPLE_HEAD,
    )
    table.add_column("model", overflow="fold")
    for heading in (
        "log loss",
        "difference\nto the best",
        "Brier",
        "RMS calib.\nerror %",
        "error %",
    ):
        table.add_column(heading, justify="right", overflow="fold")
    differences = {d.name: d for d in found.differences}
    for model in found.models:
        other = differences.get(model.name)
        gap = "best"
        if other is not None:  # intervals on lines of their own leave room for the names
            gap = with_interval("nll", other.scores["nll"]).replace(" [", "\n[")
            gap += "\nsignificant" if other.is_clear else "\nno clear difference"
        rms = model.assessment.rms
        table.add_row(
            model.name,
            number("nll", model.scores["nll"].estimate),
            gap,
            number("brier", model.scores["brier"].estimate),
            f"{100 * rms.estimate:.1f}\n[{100 * rms.low:.1f}, {100 * rms.high:.1f}]",
            number("error", model.scores["error"].estimate),
            style="bold" if other is None else "",
        )
    return table
