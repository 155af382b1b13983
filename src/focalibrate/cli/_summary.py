"""What commands print besides tables: what was read, diagrams, the verdict, what to do next."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rich.console import Console

from focalibrate.cli._charts import curve_chart, reliability_chart
from focalibrate.cli._tables import comparison_table
from focalibrate.comparison import Comparison, GroupedScores, RowScores
from focalibrate.io import Predictions, Scan, printable, without_user
from focalibrate.metrics import GroupAssessment, ReliabilityTable, corp_of_table
from focalibrate.metrics.adaptive import distinct_table
from focalibrate.pipeline import CalibrationResult


def command_line() -> str:
    """Return the command as it was typed, without passwords in URLs."""
    return shlex.join(["focalibrate", *(without_user(word) for word in sys.argv[1:])])


def say_what_was_read(files: Sequence[Predictions | Scan], *, to_stderr: bool = False) -> None:
    """Print one line per file, and what its reader noticed."""
    console = Console(highlight=False, stderr=to_stderr)
    for found in files:
        console.print(found.describe(), markup=False, soft_wrap=True)
        for note in found.notes:
            style = "yellow" if note.startswith("WARNING") else "dim"
            console.print(f"  {printable(note)}", markup=False, soft_wrap=True, style=style)


Diagram = Literal["curve", "bins"]


def show_diagram(
    console: Console, title: str, table: ReliabilityTable, *, diagram: Diagram
) -> None:
    """Print a reliability diagram: the curve of narrow cells, or the bars of bins."""
    width = max(20, min(40, console.width - 58))
    if diagram == "bins":
        words = "bar: accuracy, |: mean confidence"
        lines = reliability_chart(table, width=width)
    else:
        words = "o: accuracy, |: confidence, dots: 95 % if calibrated"
        lines = curve_chart(corp_of_table(table).curve, table, width=width)
    console.print(f"\n{title} ({words})", markup=False, soft_wrap=True)
    for line in lines:
        console.print(line, style="cyan", no_wrap=True, crop=False, markup=False)


def _shown_table(
    rows: RowScores | GroupedScores, comparison: Comparison, diagram: Diagram
) -> ReliabilityTable:
    """Return what a diagram is drawn from."""
    if isinstance(rows, GroupedScores):
        return rows.table(comparison.n_bins) if diagram == "bins" else rows.sketch.cells
    weights = comparison.weights
    if diagram == "curve":
        return distinct_table(rows.confidence, rows.correct, weights)
    return ReliabilityTable.of_confidence(
        rows.confidence, rows.correct, n_bins=comparison.n_bins, sample_weight=weights
    )


FEW_GROUPS = 5
"""If more groups than this are too small to judge, they are counted, not listed."""


def show_groups(console: Console, groups: Sequence[GroupAssessment]) -> None:
    """Print a verdict per group."""
    if not groups:
        return
    console.print("\nBy group (p-values corrected for the number of groups):", markup=False)
    small = [group for group in groups if group.verdict == "too few rows to judge"]
    shown = groups if len(small) <= FEW_GROUPS else [g for g in groups if g not in small]
    for group in shown:
        console.print(f"  {group.summary}", markup=False, soft_wrap=True)
    if len(shown) < len(groups):
        most = max(group.n for group in small)
        console.print(
            f"  {len(small):,} more groups have too few rows to judge, at most {most:,} each; "
            "all are in the output of --json",
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
            f"Left out, {reason}: {names}. Name them in --methods to include them.",
            style="yellow",
            markup=False,
        )
    for method, reason in comparison.skipped:
        console.print(f"Not fitted: {method}: {reason}", style="yellow", markup=False)
    for _, reason in choice.excluded:
        console.print(f"Cannot be chosen: {reason}.", style="yellow", markup=False)
    for row in comparison.rows:
        for note in row.notes:
            console.print(f"{row.label}: {note}", style="dim", markup=False)
    shown = {"Before": comparison.row("identity")}
    if choice.row.method != "identity":
        shown[f"After {choice.row.label}"] = choice.row
    for title, row in shown.items():
        table = _shown_table(row.row_scores, comparison, diagram)
        show_diagram(console, title, table, diagram=diagram)
    show_groups(console, result.groups)
    show_by_group(console, result)
    console.print(f"\n{result.verdict}", style="bold", markup=False)
    if result.assessment_by_group is not None:
        summary = result.assessment_by_group.summary
        console.print(f"After calibration by group: {summary}.", markup=False)
    elif choice.row.method != "identity":
        console.print(f"After calibration: {result.assessment_after.summary}.", markup=False)
    console.print(choice.reason, markup=False)
    if not choice.is_forced and choice.row.method != "identity":
        part = "fold" if comparison.folds else "fifth of the test set"
        console.print(
            f"Held out: each {part} is scored by the method chosen without it, so that the "
            "choice does not flatter its own score.",
            style="dim",
        )
    written = ", ".join(sorted(p.name for p in out.iterdir()))
    console.print(f"\nWritten to {out}: {written}", markup=False, soft_wrap=True)


def show_next(commands: Sequence[str]) -> None:
    """Print the commands to run next."""
    console = Console(highlight=False)
    console.print("\nNext:", markup=False)
    for command in commands:
        console.print(f"  {command}", markup=False, soft_wrap=True)
