"""`focalibrate evaluate`."""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from focalibrate.calibrate import Calibrator, GroupedCalibrator
from focalibrate.cli._options import judging_options, prediction_options
from focalibrate.cli._read import read_file, reported, steps
from focalibrate.cli._summary import say_what_was_read, show_diagram, show_groups
from focalibrate.cli._tables import evaluation_table
from focalibrate.metrics import ReliabilityTable
from focalibrate.pipeline import Evaluation, Examples, evaluate_examples, file_record


@click.command("evaluate")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    help="File of the labels, if they are not in the predictions file.",
)
@click.option("--calibrator", type=click.Path(path_type=Path), help="Calibrator to apply first.")
@judging_options
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
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
    """Say whether the probabilities in FILE are calibrated, and print their scores.

    Nothing is fitted or written. Calibration errors are shown beside what a calibrated model
    with the same predictions would show by chance; log loss, Brier score and error have 95 %
    bootstrap intervals.

    \b
    Example:
        focalibrate evaluate test.npz
        focalibrate evaluate test.npz --calibrator report/calibrator.json
    """
    with reported():
        chosen = None if calibrator is None else Calibrator.load(calibrator)
    if isinstance(chosen, GroupedCalibrator) and not options.get("by"):
        options["by"] = chosen.column
    given = read_file(
        file,
        labels_path=labels,
        need_labels=True,
        classes_of=None if chosen is None else chosen.class_names,
        **options,
    )
    say_what_was_read([given], to_stderr=as_json)
    with reported(), steps() as bar:
        bar.add_task("evaluating", total=None)
        found = evaluate_examples(
            Examples.of_predictions(given),
            name=file.name,
            calibrator=chosen,
            n_bins=bins,
            n_resamples=resamples,
            seed=seed,
        )
    if as_json:
        record = found.to_dict() | {"bins": _bins(found, bins), "file": file_record(given)}
        click.echo(json.dumps(record, indent=1, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(evaluation_table(found))
    zeros = found.row_scores.n_zeros
    if zeros:
        rows = "1 example has" if zeros == 1 else f"{zeros:,} examples have"
        console.print(
            f"The log loss is infinite (∞): {rows} probability 0 at the true class.",
            style="yellow",
        )
    show_diagram(console, "Reliability", found.row_scores, n_bins=bins)
    show_groups(console, found.groups)
    if found.worst is not None:
        console.print(f"Worst slice: {found.worst.summary}.", markup=False, soft_wrap=True)
    console.print(f"\n{_sentence(found)}", style="bold", markup=False)


def _sentence(found: Evaluation) -> str:
    rows = found.row_scores
    text = found.assessment.summary
    is_sure = rows.confidence >= 0.99
    sentence = (
        f"{text[:1].upper()}{text[1:]}. {100 * is_sure.mean():.1f} % of the examples have a "
    )
    sentence += "confidence of at least 99 %"
    return (
        f"{sentence}; {100 * rows.correct[is_sure].mean():.1f} % of those are right."
        if is_sure.any()
        else f"{sentence}."
    )


def _bins(found: Evaluation, n_bins: int) -> dict[str, Any]:
    rows = found.row_scores
    table = ReliabilityTable.of_confidence(rows.confidence, rows.correct, n_bins=n_bins)
    return {
        "edges": table.edges.tolist(),
        "count": table.count.tolist(),
        "confidence_sum": table.confidence_sum.tolist(),
        "correct_sum": table.correct_sum.tolist(),
    }
