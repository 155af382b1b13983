"""What `calibrate` and `demo` print: table, diagrams, verdict."""

import shlex
import sys
from pathlib import Path

from rich.console import Console

from focalibrate.cli._charts import reliability_chart
from focalibrate.cli._tables import comparison_table
from focalibrate.metrics import ReliabilityTable
from focalibrate.pipeline import CalibrationResult


def command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["focalibrate", *sys.argv[1:]])


def show(result: CalibrationResult, out: Path) -> None:
    """Print the table, the diagrams and the verdict."""
    console = Console(highlight=False)
    comparison, choice = result.comparison, result.choice
    console.print(comparison_table(comparison, choice, width=console.width))
    for method, reason in comparison.skipped:
        console.print(f"skipped {method}: {reason}", style="dim", markup=False)
    for row in comparison.rows:
        for note in row.notes:
            console.print(f"{row.label}: {note}", style="dim", markup=False)
    for title, method in (("before", "identity"), ("after", choice.row.method)):
        console.print(f"\n{title} (bar: accuracy, |: mean confidence)")
        probs = comparison.held_out_probs(method, result.judged.logits)
        table = ReliabilityTable.of(probs, result.judged.labels, n_bins=comparison.n_bins)
        for line in reliability_chart(table, width=max(20, min(40, console.width - 50))):
            console.print(line, style="cyan", no_wrap=True, crop=False)
    console.print(f"\n{result.verdict}.", style="bold", markup=False)
    console.print(choice.reason, markup=False)
    written = ", ".join(sorted(p.name for p in out.iterdir()))
    console.print(f"\nWritten to {out}: {written}", markup=False)
