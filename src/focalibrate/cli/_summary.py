"""What commands print: what was read, tables, charts, the verdict, what to do next."""

import json
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from focalibrate._atomic import atomic_path
from focalibrate.cli._options import FOR_JSON
from focalibrate.comparison import Choice, Comparison, GroupChoice, Score, Scores, Verdict
from focalibrate.io import Doubt, Predictions, Scan, printable, without_user
from focalibrate.metrics import METRICS, Assessment, Cells
from focalibrate.metrics.corp import ReliabilityCurve, corp_of_cells
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.groups import GroupAssessment, WorstSlice
from focalibrate.metrics.words import finding
from focalibrate.pipeline import CalibrationResult, Evaluation, ModelComparison


def command_line() -> str:
    """Return the command as it was typed, without passwords in URLs."""
    return shlex.join(["focalibrate", *(without_user(word) for word in sys.argv[1:])])


def say(
    text: str | Text, *, style: str | None = None, to_stderr: bool = False, wrap: bool = False
) -> None:
    """Print text as it is, in colour on a terminal.

    Args:
        text: what to print.
        style: of `rich`.
        to_stderr: also where standard output is not for JSON, see `for_json`.
        wrap: break lines between words; default: the terminal breaks them.
    """
    context = click.get_current_context(silent=True)
    is_for_json = context is not None and context.meta.get(FOR_JSON, False)
    console = Console(highlight=False, stderr=to_stderr or is_for_json)
    console.print(text, markup=False, soft_wrap=not wrap, style=style)


def say_json(record: Any) -> None:
    """Print results for programs."""
    click.echo(json.dumps(record, indent=1, ensure_ascii=False))


def write_page(path: Path | None, page: Callable[[], str], *, force: bool) -> None:
    """Write a page, whole or not at all, if a `path` is given."""
    if path is not None:
        with atomic_path(path, force=force) as temporary:
            temporary.write_text(page(), encoding="utf-8")


def show_table(table: Table) -> None:
    """Print a table."""
    Console(highlight=False).print(table)


def say_what_was_read(files: Sequence[Predictions | Scan]) -> None:
    """Print one line per file, and what its reader noticed."""
    for found in files:
        say(found.describe())
        names = found.class_names
        if found.n_classes == 2 and names is not None and len(found.scores_names) == 2:
            how = "as --positive says" if found.positive else "the second; --positive changes that"
            text = f"  positive class: {printable(names[1])} ({how})"
            say(text, style="dim", wrap=True)
        for note in found.notes:
            say(f"  {printable(note)}", style="yellow" if isinstance(note, Doubt) else "dim")


def show_diagram(title: str, cells: Cells, *, is_event: bool = False) -> None:
    """Print a reliability diagram.

    Args:
        title: above it.
        cells: the rows, in narrow cells.
        is_event: whether it is of the probability of the positive class, not of confidence.
    """
    width = max(20, min(40, Console().width - 58))
    x, y = ("probability", "frequency") if is_event else ("confidence", "accuracy")
    say(f"\n{title} (o: {y}, |: {x}, dots: 95 % if calibrated)")
    for line in curve_chart(corp_of_cells(cells).curve, cells, width=width, outcome=y):
        say(line, style="cyan")


def _cells(rows: Scores, comparison: Comparison) -> Cells:
    """Return what a diagram is drawn from: of two classes, P(positive); else confidence."""
    if not rows.are_rows:
        return rows.sketch.event_cells
    is_event = comparison.n_classes == 2
    x, y = rows.positive if is_event else (rows.confidence, rows.correct > 0.5)
    return Cells.of_distinct(x, y, comparison.weights)


LIGHTS: dict[str, tuple[str, str]] = {
    "good": ("● Good", "green"),
    "repairable": ("● Off, but repairable", "yellow"),
    "too few rows": ("● Too few rows", "bright_black"),
    "check the data": ("● Check the data", "red"),
}


def show_verdict(verdict: Verdict) -> None:
    """Print the traffic light, what was found, what calibration gains, and what to do."""
    if verdict.status is not None:
        light, style = LIGHTS[verdict.status]
        say(f"\n{light}", style=f"bold {style}")
    say(verdict.headline, style="bold", wrap=True)
    for text in (verdict.line, verdict.gain, verdict.after):
        if text:
            say(text, wrap=True)
    if verdict.advice:
        say(f"What to do: {verdict.advice}", style="bold", wrap=True)
    if verdict.reason:
        say(verdict.reason, style="dim", wrap=True)


FEW_GROUPS = 5
"""If more groups than this are too small to judge, they are counted, not listed."""


def show_groups(groups: Sequence[GroupAssessment], worst: WorstSlice | None) -> None:
    """Print a verdict per group, and the slice that is most clearly off."""
    if groups:
        say("\nBy group (p-values are corrected for the number of groups):")
    small = [group for group in groups if group.verdict == "too few rows to judge"]
    shown = groups if len(small) <= FEW_GROUPS else [g for g in groups if g not in small]
    for group in shown:
        say(f"  {group.summary}")
    if len(shown) < len(groups):
        most = max(group.n for group in small)
        say(
            f"  {len(small):,} more groups have too few rows to judge (at most {most:,} each); "
            "--json lists them all"
        )
    if worst is not None:
        say(f"Worst slice: {worst.summary}.")


def _show_own_calibrators(found: GroupChoice) -> None:
    for trial in found.trials:
        if trial.is_better:
            say(
                f"  {trial.column} = {trial.group}: log loss {trial.shared:.4f} with the shared "
                f"calibrator, {trial.own:.4f} with its own, held out"
            )
    if found.calibrator is None:
        say(f"{found.summary}.")


def show_result(result: CalibrationResult, out: Path) -> None:
    """Print the table, the diagrams, the verdict, and what was written."""
    comparison, choice = result.comparison, result.choice
    show_table(comparison_table(comparison, choice, result.assessment, width=Console().width))
    for note in result.notes:
        say(f"{note[:1].upper()}{note[1:]}.", style="yellow", wrap=True)
    if comparison.left_out:
        names = ", ".join(method for method, _ in comparison.left_out)
        reason = comparison.left_out[0][1]
        text = f"Not tried ({reason}): {names}. Name them in --methods to include them."
        say(text, style="yellow", wrap=True)
    for method, reason in comparison.skipped:
        say(f"{method} could not be fitted: {reason}", style="yellow", wrap=True)
    for row in comparison.rows:
        for note in row.notes:
            say(f"{row.label}: {note}", style="dim", wrap=True)
    shown = {"Before": comparison.row("identity")}
    if choice.row.method != "identity":
        shown[f"After {choice.row.label}"] = choice.row
    for title, row in shown.items():
        show_diagram(title, _cells(row.units, comparison), is_event=comparison.n_classes == 2)
    show_groups(result.groups, result.worst)
    if result.by_group is not None:
        _show_own_calibrators(result.by_group)
    show_verdict(result.verdict)
    if result.assessment_by_group is not None:
        say(finding(result.assessment_by_group, when="after calibration by group "), wrap=True)
    say(f"\nWritten to {out}: {', '.join(sorted(p.name for p in out.iterdir()))}")


def show_next(commands: Sequence[str]) -> None:
    """Print the commands to run next."""
    say("\n".join(["\nNext:", *(f"  {command}" for command in commands)]))


LEVELS = np.array([0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0])
"""One line is shown for each of these probabilities, of the examples nearest to it."""


def curve_chart(
    curve: ReliabilityCurve, cells: Cells, *, width: int = 40, outcome: str = "accuracy"
) -> list[str]:
    """Return one line per level of confidence: the curve and its band, averaged there.

    ``|`` is the confidence, ``o`` the accuracy, dots where the accuracy of a calibrated model
    would be. An o left of the dots says that the confidence is too high, one right of them that
    it is too low.

    Args:
        curve: of `focalibrate.metrics.corp`.
        cells: the examples that it was drawn from, in narrow cells.
        width: characters from 0 to 1.
        outcome: what the share of events is called.

    Example:
        >>> from focalibrate.metrics.corp import corp_of_cells
        >>> p, right = np.repeat([0.5, 0.9], 50), np.tile([0, 1], 50)
        >>> cells = Cells.of(p, right, bins=20)
        >>> print(*curve_chart(corp_of_cells(cells).curve, cells, width=20), sep="\\n")
        0.50        ...o...        accuracy 0.50, calibrated 0.34-0.64, 50 rows
        0.90           o     ..|.. accuracy 0.50, calibrated 0.80-0.98, 50 rows
    """
    weight = cells.weight[cells.weight > 0]
    confidence = np.clip(cells.probability[cells.weight > 0] / weight, 0.0, 1.0)
    nearest = np.searchsorted((LEVELS[1:] + LEVELS[:-1]) / 2, confidence)
    mass = np.bincount(nearest, weight, len(LEVELS))

    def means(values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.bincount(nearest, values * weight, len(LEVELS))
        return np.asarray(sums[mass > 0] / mass[mass > 0])

    def along(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        return means(np.interp(confidence, x, y))

    at = curve.band_probability
    columns = (
        means(confidence),
        along(curve.probability, curve.frequency),
        along(at, curve.band_low),
        along(at, curve.band_high),
        mass[mass > 0],
    )
    lines = []
    for level, right, low, high, n in zip(*columns, strict=True):
        line = [" "] * (width + 1)
        for place in range(round(low * width), round(high * width) + 1):
            line[place] = "."
        line[round(level * width)] = "|"
        line[round(right * width)] = "o"
        word = "row" if round(n) == 1 else "rows"
        lines.append(
            f"{level:.2f} {''.join(line)} {outcome} {right:.2f}, calibrated {low:.2f}-{high:.2f}, "
            f"{round(n):,} {word}"
        )
    return lines


MAX_GROUPS = 40
"""More groups than this are shown only by --json."""
CALIBRATION: tuple[MetricName, ...] = tuple(n for n, m in METRICS.items() if not m.has_interval)


def interval(name: MetricName, value: Score) -> str:
    """Return the interval of a score, empty if it has none."""
    if value.low is None or value.high is None or not math.isfinite(value.estimate):
        return ""
    return f"[{METRICS[name].text(value.low)}, {METRICS[name].text(value.high)}]"


def with_interval(name: MetricName, value: Score) -> str:
    """Return a score with its interval, as a cell of a table."""
    return f"{METRICS[name].text(value.estimate)} {interval(name, value)}".rstrip()


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
    headings = ["ECE %" if m == "classwise_ece" else METRICS[m].heading for m in columns]
    for heading in (METRICS["nll"].heading, *headings, "changed"):
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
            *(METRICS[m].text(row.scores[m].estimate) for m in columns),
            f"{row.n_predictions_changed:,}",
            style="bold" if is_chosen else "",
        )
    return table


def _plus_minus(value: Score) -> str:
    """Return a score with half the width of its interval, for narrow terminals."""
    text = METRICS["nll"].text(value.estimate)
    if value.low is None or value.high is None or not math.isfinite(value.estimate):
        return text
    return f"{text} ± {METRICS['nll'].text(0.5 * (value.high - value.low))}"


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
        metric, floor = METRICS[name], assessment.noise_floor[name]
        event = f"ECE of P({printable(assessment.event_name)}) %"
        table.add_row(
            event if is_event else metric.heading,
            metric.text(found.scores[name].estimate),
            "",
            f"{metric.text(floor.median)}, {metric.text(floor.q95)}",
        )
    for name in ("nll", "brier", "error"):
        metric, score = METRICS[name], found.scores[name]
        table.add_row(metric.heading, metric.text(score.estimate), interval(name, score), "")
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
            text = f"{METRICS['nll'].text(value)}{'*' if group.is_clear(i) else ' '}"
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
            METRICS["nll"].text(model.scores["nll"].estimate),
            gap,
            METRICS["brier"].text(model.scores["brier"].estimate),
            f"{100 * rms.estimate:.1f}\n[{100 * rms.low:.1f}, {100 * rms.high:.1f}]",
            METRICS["error"].text(model.scores["error"].estimate),
            style="bold" if other is None else "",
        )
    return table
