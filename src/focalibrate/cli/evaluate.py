"""`focalibrate evaluate`."""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from focalibrate.calibrate import Calibrator, Identity
from focalibrate.cli._charts import reliability_chart
from focalibrate.cli._options import judging_options, prediction_options
from focalibrate.cli._read import read_examples, reported, steps
from focalibrate.cli._tables import HEADINGS, with_interval
from focalibrate.metrics import (
    METRIC_NAMES,
    ReliabilityTable,
    Scorecard,
    confident_fraction,
    scorecard,
)
from focalibrate.pipeline import file_record, interval_record


@click.command("evaluate")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--labels", type=click.Path(path_type=Path), help="Labels of a .npy file.")
@click.option("--calibrator", type=click.Path(path_type=Path), help="Apply this one first.")
@judging_options
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as JSON.")
@prediction_options
def evaluate_command(
    file: Path,
    labels: Path | None,
    calibrator: Path | None,
    bins: int,
    resamples: int,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Print how honest the predictions in FILE are; nothing is fitted or written.

    \b
    Example:
        focalibrate evaluate test.npz
        focalibrate evaluate test.npz --calibrator report/calibrator.json
    """
    given = read_examples(file, labels, **options)
    with reported(), steps() as bar:
        bar.add_task("resampling", total=None)
        applied: Calibrator = Identity() if calibrator is None else Calibrator.load(calibrator)
        probs = applied.probs(given.logits)
        card = scorecard(probs, given.labels, n_bins=bins, n_resamples=resamples, seed=seed)
    table = ReliabilityTable.of(probs, given.labels, n_bins=bins)
    sure = confident_fraction(probs, given.labels)
    if as_json:
        record = {
            "scores": {m: interval_record(card.interval(m)) for m in METRIC_NAMES},
            "confidence_gap": card.confidence_gap,
            "confident": {"threshold": 0.99, "fraction": sure.fraction, "accuracy": sure.accuracy},
            "bins": {
                "edges": table.edges.tolist(),
                "count": table.count.tolist(),
                "confidence_sum": table.confidence_sum.tolist(),
                "correct_sum": table.correct_sum.tolist(),
            },
            "calibrator": applied.describe(),
            "file": file_record(given.predictions),
        }
        click.echo(json.dumps(record, indent=1, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(_metrics_table(card, title=f"{file.name}: {applied.describe()}"))
    console.print("\naccuracy █ where the model said |")
    for line in reliability_chart(table, width=max(20, min(40, console.width - 50))):
        console.print(line, style="cyan", no_wrap=True, crop=False)
    side = "overconfident" if card.confidence_gap > 0 else "underconfident"
    console.print(
        f"\n[bold]{side} by {abs(card.confidence_gap) * 100:.1f} points[/]; "
        f"{sure.fraction:.1%} of the examples have a confidence of 99 % or more"
        + (f", {sure.accuracy:.1%} of those are right." if sure.fraction else ".")
    )


def _metrics_table(card: Scorecard, *, title: str) -> Table:
    table = Table(title=title)
    table.add_column("metric")
    table.add_column("value [95 % interval]", justify="right")
    for name in METRIC_NAMES:
        table.add_row(HEADINGS[name], with_interval(name, card.interval(name)))
    return table
