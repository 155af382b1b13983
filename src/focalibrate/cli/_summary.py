"""What commands print besides tables: what was read, diagrams, the verdict, what to do next."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console

from focalibrate.cli._charts import curve_chart, reliability_chart
from focalibrate.cli._tables import comparison_table
from focalibrate.comparison import Comparison, Scores, Verdict
from focalibrate.io import Doubt, Predictions, Scan, printable, without_user
from focalibrate.metrics import Cells
from focalibrate.metrics.corp import corp_of_cells
from focalibrate.metrics.groups import GroupAssessment
from focalibrate.metrics.words import finding
from focalibrate.pipeline import CalibrationResult


def command_line() -> str:
    """Return the command as it was typed, without passwords in URLs."""
    return shlex.join(["focalibrate", *(without_user(word) for word in sys.argv[1:])])


def say_what_was_read(files: Sequence[Predictions | Scan], *, to_stderr: bool = False) -> None:
    """Print one line per file, and what its reader noticed."""
    console = Console(highlight=False, stderr=to_stderr)
    for found in files:
        console.print(found.describe(), markup=False, soft_wrap=True)
        names = found.class_names
        if found.n_classes == 2 and names is not None and len(found.scores_names) == 2:
            how = "as --positive says" if found.positive else "the second; --positive changes that"
            console.print(
                f"  positive class: {printable(names[1])} ({how})", markup=False, style="dim"
            )
        for note in found.notes:
            style = "yellow" if isinstance(note, Doubt) else "dim"
            console.print(f"  {printable(note)}", markup=False, soft_wrap=True, style=style)


Diagram = Literal["curve", "bins"]


def show_diagram(
    console: Console, title: str, table: Cells, *, diagram: Diagram, is_event: bool = False
) -> None:
    """Print a reliability diagram: the curve of narrow cells, or the bars of bins.

    Args:
        console: where to print.
        title: above it.
        table: narrow cells, or bins.
        diagram: which.
        is_event: whether it is of the probability of the positive class, not of confidence.
    """
    width = max(20, min(40, console.width - 58))
    x, y = ("probability", "frequency") if is_event else ("confidence", "accuracy")
    if diagram == "bins":
        words = f"bar: {y}, |: mean {x}"
        lines = reliability_chart(table, width=width, words=(x, y))
    else:
        words = f"o: {y}, |: {x}, dots: 95 % if calibrated"
        lines = curve_chart(corp_of_cells(table).curve, table, width=width, outcome=y)
    console.print(f"\n{title} ({words})", markup=False, soft_wrap=True)
    for line in lines:
        console.print(line, style="cyan", no_wrap=True, crop=False, markup=False)


def _shown_table(rows: Scores, comparison: Comparison, diagram: Diagram) -> Cells:
    """Return what a diagram is drawn from: of two classes, P(positive); else confidence."""
    if not rows.are_rows:
        cells = rows.sketch.event_cells
        return cells.binned(comparison.n_bins) if diagram == "bins" else cells
    is_event, weights = comparison.n_classes == 2, comparison.weights
    x, y = rows.positive if is_event else (rows.confidence, rows.correct > 0.5)
    if diagram == "curve":
        return Cells.of_distinct(x, y, weights)
    return Cells.of(x, y, bins=comparison.n_bins, sample_weight=weights)


LIGHTS: dict[str, tuple[str, str]] = {
    "good": ("● Good", "green"),
    "repairable": ("● Off, but repairable", "yellow"),
    "too few rows": ("● Too few rows", "bright_black"),
    "check the data": ("● Check the data", "red"),
}


def show_verdict(console: Console, verdict: Verdict) -> None:
    """Print the traffic light, what was found, what calibration gains, and what to do."""
    if verdict.status is not None:
        light, style = LIGHTS[verdict.status]
        console.print(f"\n{light}", style=f"bold {style}", markup=False)
    console.print(verdict.headline, style="bold", markup=False)
    for text in (verdict.line, verdict.gain, verdict.after):
        if text:
            console.print(text, markup=False)
    if verdict.advice:
        console.print(f"What to do: {verdict.advice}", style="bold", markup=False)
    if verdict.reason:
        console.print(verdict.reason, style="dim", markup=False)


FEW_GROUPS = 5
"""If more groups than this are too small to judge, they are counted, not listed."""


def show_groups(console: Console, groups: Sequence[GroupAssessment]) -> None:
    """Print a verdict per group."""
    if not groups:
        return
    console.print("\nBy group (p-values are corrected for the number of groups):", markup=False)
    small = [group for group in groups if group.verdict == "too few rows to judge"]
    shown = groups if len(small) <= FEW_GROUPS else [g for g in groups if g not in small]
    for group in shown:
        console.print(f"  {group.summary}", markup=False, soft_wrap=True)
    if len(shown) < len(groups):
        most = max(group.n for group in small)
        console.print(
            f"  {len(small):,} more groups have too few rows to judge (at most {most:,} each); "
            "--json lists them all",
            markup=False,
            soft_wrap=True,
        )


def show_by_group(console: Console, result: CalibrationResult) -> None:
    """Print the worst slice, and which groups get a calibrator of their own."""
    if result.worst is not None:
        console.print(f"Worst slice: {result.worst.summary}.", markup=False, soft_wrap=True)
    found = result.by_group
    if found is None:
        return
    for trial in found.trials:
        if trial.is_better:
            console.print(
                f"  {trial.column} = {trial.group}: log loss {trial.shared:.4f} with the shared "
                f"calibrator, {trial.own:.4f} with its own, held out",
                markup=False,
                soft_wrap=True,
            )
    if found.calibrator is None:
        console.print(f"{found.summary}.", markup=False, soft_wrap=True)


def show_result(result: CalibrationResult, out: Path, *, diagram: Diagram = "curve") -> None:
    """Print the table, the diagrams, the verdict, and what was written."""
    console = Console(highlight=False)
    comparison, choice = result.comparison, result.choice
    console.print(comparison_table(comparison, choice, result.assessment, width=console.width))
    for note in result.notes:
        console.print(f"{note[:1].upper()}{note[1:]}.", style="yellow", markup=False)
    if comparison.left_out:
        names = ", ".join(method for method, _ in comparison.left_out)
        reason = comparison.left_out[0][1]
        console.print(
            f"Not tried ({reason}): {names}. Name them in --methods to include them.",
            style="yellow",
            markup=False,
        )
    for method, reason in comparison.skipped:
        console.print(f"{method} could not be fitted: {reason}", style="yellow", markup=False)
    for row in comparison.rows:
        for note in row.notes:
            console.print(f"{row.label}: {note}", style="dim", markup=False)
    shown = {"Before": comparison.row("identity")}
    if choice.row.method != "identity":
        shown[f"After {choice.row.label}"] = choice.row
    for title, row in shown.items():
        table = _shown_table(row.units, comparison, diagram)
        is_event = comparison.n_classes == 2
        show_diagram(console, title, table, diagram=diagram, is_event=is_event)
    show_groups(console, result.groups)
    show_by_group(console, result)
    show_verdict(console, result.verdict)
    if result.assessment_by_group is not None:
        summary = finding(result.assessment_by_group, when="after calibration by group ")
        console.print(summary, markup=False)
    written = ", ".join(sorted(p.name for p in out.iterdir()))
    console.print(f"\nWritten to {out}: {written}", markup=False, soft_wrap=True)


def show_next(commands: Sequence[str]) -> None:
    """Print the commands to run next."""
    console = Console(highlight=False)
    console.print("\nNext:", markup=False)
    for command in commands:
        console.print(f"  {command}", markup=False, soft_wrap=True)
