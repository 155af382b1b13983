"""`focalibrate evaluate`."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from focalibrate._atomic import atomic_path
from focalibrate.cli._engine import backend_of, engine_options
from focalibrate.cli._errors import reported
from focalibrate.cli._open import doubts_said, name_of, rows_or_sketch
from focalibrate.cli._options import (
    OutPath,
    anyway_option,
    calibrator_option,
    diagram_option,
    judging_options,
    labels_option,
    prediction_options,
    weights_option,
)
from focalibrate.cli._progress import steps
from focalibrate.cli._summary import (
    Diagram,
    cells_of_rows,
    command_line,
    show_diagram,
    show_groups,
    show_verdict,
)
from focalibrate.cli._tables import evaluation_table
from focalibrate.comparison import assessed
from focalibrate.io import Predictions, SketchFile
from focalibrate.metrics import Cells
from focalibrate.metrics.scores import ConfidentFraction
from focalibrate.metrics.threshold import Selective
from focalibrate.pipeline import (
    Evaluation,
    Examples,
    SketchedEvaluation,
    evaluate_examples,
    evaluate_sketch_file,
    evaluation_page,
    file_record,
)


@click.command("evaluate")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@labels_option
@calibrator_option
@judging_options
@diagram_option
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
@click.option("-o", "--out", type=OutPath(), help="Write an HTML page: x.html.")
@click.option("--force", is_flag=True, help="Replace the page if it exists.")
@weights_option
@anyway_option
@engine_options("Parts read at the same time, each in a process.  [default: 1]")
@prediction_options
def evaluate_command(
    paths: tuple[str, ...],
    labels: Path | None,
    calibrator: Path | None,
    bins: int,
    resamples: int,
    seed: int,
    diagram: Diagram,
    as_json: bool,
    out: Path | None,
    force: bool,
    weights_are: str,
    anyway: bool,
    workers: int | None,
    backend: str,
    scheduler: str | None,
    **options: Any,
) -> None:
    """Test whether the probabilities in PATHs are calibrated, and print their scores.

    Nothing is fitted, and nothing is written but the page of -o. Calibration errors are shown
    beside those that a calibrated model with the same predictions would have by chance; log loss,
    Brier score and error have 95 % intervals.

    A PATH is a file, a folder or glob of parts, a URL, or a sketch (`focalibrate sketch`); several
    are evaluated together. More than 200,000 rows (fewer with more than 200 classes), and any PATH
    with --workers or --backend, are evaluated from a sketch; memory does not grow with the rows.

    \b
    Example:
        focalibrate evaluate test.npz
        focalibrate evaluate test.npz --calibrator report/calibrator.json
        focalibrate evaluate predictions/ --workers 2 --by region
        focalibrate evaluate day1.sketch day2.sketch -o days.html
    """
    page = _Page(out, force, seed)
    page.check()
    where = backend_of(backend, scheduler, workers, default=1)
    given, chosen = rows_or_sketch(
        paths,
        options,
        labels=labels,
        calibrator=calibrator,
        bins=bins,
        backend=where,
        to_stderr=as_json,
    )
    if isinstance(given, SketchFile):
        _show_sketch(given, paths, bins, diagram, as_json, page)
        return
    with doubts_said(anyway=anyway, to_stderr=as_json), reported(), steps() as bar:
        bar.add_task("evaluating", total=None)
        found = evaluate_examples(
            replace(Examples.of_predictions(given), copies=weights_are == "copies"),
            name=name_of(paths),
            calibrator=chosen,
            n_bins=bins,
            n_resamples=resamples,
            seed=seed,
        )
    _show_rows(found, given, bins, diagram, as_json, page)


@dataclass(frozen=True)
class _Page:
    """The page that -o names."""

    path: Path | None
    force: bool
    seed: int

    def check(self) -> None:
        """Raise before the work begins if the page could not be written."""
        with reported():
            if self.path is not None and self.path.exists() and not self.force:
                raise FileExistsError(
                    f"{self.path}: already exists and is not overwritten. Choose another name, or "
                    "pass --force."
                )

    def write(self, found: Evaluation | SketchedEvaluation) -> None:
        """Write the page, if one was named."""
        if self.path is None:
            return
        text = evaluation_page(found, command=command_line(), seed=self.seed)
        with reported(), atomic_path(self.path, force=self.force) as temporary:
            temporary.write_text(text, encoding="utf-8")

    def say(self) -> None:
        """Name the page that was written."""
        if self.path is not None:
            Console(highlight=False).print(f"Written to {self.path}", markup=False, soft_wrap=True)


def _show_rows(
    found: Evaluation,
    given: Predictions,
    bins: int,
    diagram: Diagram,
    as_json: bool,
    page: "_Page",
) -> None:
    """Write the page and print the scores of rows in memory."""
    rows = found.units
    table = Cells.of(rows.confidence, rows.correct, bins=bins, sample_weight=found.weights)
    page.write(found)
    if as_json:
        _print_json(found.to_dict() | {"bins": _bins(table), "file": file_record(given)})
        return
    table = cells_of_rows(rows, found.n_classes, diagram, bins, found.weights)
    _show(found, table, diagram, _confident(found), rows.n_zeros)
    page.say()


def _show_sketch(
    file: SketchFile,
    paths: tuple[str, ...],
    bins: int,
    diagram: Diagram,
    as_json: bool,
    page: "_Page",
) -> None:
    if file.sketch.n_bins != bins:
        raise click.UsageError(
            f"--bins must be {file.sketch.n_bins}, as in the sketch, got {bins}. Pass --bins "
            f"{file.sketch.n_bins}, or make the sketch again with --bins {bins}."
        )
    with reported(), steps() as bar:
        bar.add_task("evaluating", total=None)
        found = evaluate_sketch_file(file, name=name_of(paths), seed=page.seed)
    page.write(found)
    if as_json:
        _print_json(found.to_dict() | {"bins": _bins(found.table)})
        return
    console = Console(highlight=False)
    console.print(file.describe(), markup=False, soft_wrap=True)
    table = file.sketch.top if diagram == "curve" else found.table
    _show(found, table, diagram, found.confident, found.n_zeros)
    console.print(found.precision, style="dim", markup=False, soft_wrap=True)
    if len(file.sketch.groups) > 1:
        console.print(
            "The worst slice over several columns needs rows in memory and was not searched for.",
            style="dim",
        )
    page.say()


def _print_json(record: dict[str, Any]) -> None:
    click.echo(json.dumps(record, indent=1, ensure_ascii=False))


def _show(
    found: Evaluation | SketchedEvaluation,
    table: Cells,
    diagram: Diagram,
    confident: ConfidentFraction,
    zeros: int,
) -> None:
    console = Console(highlight=False)
    console.print(evaluation_table(found))
    if zeros:
        rows = "1 example has" if zeros == 1 else f"{zeros:,} examples have"
        console.print(
            f"The log loss is infinite (∞): {rows} probability 0 at the true class.",
            style="yellow",
        )
    is_event = isinstance(found, Evaluation) and found.n_classes == 2
    show_diagram(console, "Reliability", table, diagram=diagram, is_event=is_event)
    show_groups(console, found.groups)
    if isinstance(found, Evaluation) and found.worst is not None:
        console.print(f"Worst slice: {found.worst.summary}.", markup=False, soft_wrap=True)
    show_verdict(console, assessed(found.assessment))
    console.print(_sure(confident), markup=False)
    if isinstance(found, Evaluation) and found.selective is not None:
        console.print(_selective(found.selective), markup=False)


def _confident(found: Evaluation) -> ConfidentFraction:
    rows = found.units
    weights = np.ones(len(rows.correct)) if found.weights is None else found.weights
    sure = weights * (rows.confidence >= 0.99)
    mass = float(sure.sum())
    right = float(sure @ rows.correct) / mass if mass else float("nan")
    return ConfidentFraction(mass / float(weights.sum()), right)


def _sure(confident: ConfidentFraction) -> str:
    text = f"{100 * confident.fraction:.1f} % of the examples have a confidence of at least 99 %"
    if not confident.fraction:
        return f"{text}."
    return f"{text}; {100 * confident.accuracy:.1f} % of those are right."


def _selective(found: Selective) -> str:
    """Return the accuracy of the most confident half and the area under the error's curve."""
    half = found.accuracy[int(np.argmin(np.abs(found.coverage - 0.5)))]
    area = found.aurc
    return (
        f"The most confident half is right in {100 * half.estimate:.1f} % of the rows (95 % CI "
        f"{100 * half.low:.1f} to {100 * half.high:.1f} %). Mean error over all coverages (AURC): "
        f"{100 * area.estimate:.2f} % (95 % CI {100 * area.low:.2f} to {100 * area.high:.2f} %)."
    )


def _bins(table: Cells) -> dict[str, Any]:
    return {
        "edges": table.edges.tolist(),
        "count": table.weight.tolist(),
        "confidence_sum": table.probability.tolist(),
        "correct_sum": table.outcome.tolist(),
    }
