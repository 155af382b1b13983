"""`focalibrate evaluate`."""

import json
from dataclasses import replace
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
    command_line,
    show_diagram,
    show_groups,
    show_verdict,
)
from focalibrate.cli._tables import evaluation_table
from focalibrate.comparison import assessed
from focalibrate.io import SketchFile
from focalibrate.metrics.scores import ConfidentFraction
from focalibrate.metrics.threshold import Selective
from focalibrate.pipeline import (
    Evaluation,
    Examples,
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
@engine_options("Number of processes that read parts in parallel.  [default: 1]")
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

    Nothing is fitted, and only -o writes a file. Each calibration error is shown beside the error
    that a calibrated model with the same predictions would show by chance; log loss,
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
    with reported():
        if out is not None and out.exists() and not force:
            raise FileExistsError(
                f"{out}: already exists and is not overwritten. Choose another name, or pass "
                "--force."
            )
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
    if isinstance(given, SketchFile) and given.sketch.n_bins != bins:
        raise click.UsageError(
            f"--bins must be {given.sketch.n_bins}, as in the sketch, got {bins}. Pass --bins "
            f"{given.sketch.n_bins}, or make the sketch again with --bins {bins}."
        )
    with doubts_said(anyway=anyway, to_stderr=as_json), reported(), steps() as bar:
        bar.add_task("evaluating", total=None)
        if isinstance(given, SketchFile):
            found = evaluate_sketch_file(given, name=name_of(paths), seed=seed)
        else:
            found = evaluate_examples(
                replace(Examples.of_predictions(given), copies=weights_are == "copies"),
                name=name_of(paths),
                calibrator=chosen,
                n_bins=bins,
                n_resamples=resamples,
                seed=seed,
            )
    if out is not None:
        text = evaluation_page(found, command=command_line(), seed=seed)
        with reported(), atomic_path(out, force=force) as temporary:
            temporary.write_text(text, encoding="utf-8")
    if as_json:
        file = {} if isinstance(given, SketchFile) else {"file": file_record(given)}
        click.echo(json.dumps(found.to_dict() | file, indent=1, ensure_ascii=False))
        return
    console = Console(highlight=False)
    if isinstance(given, SketchFile):
        console.print(given.describe(), markup=False, soft_wrap=True)
    _show(console, found, diagram, bins)
    if out is not None:
        console.print(f"Written to {out}", markup=False, soft_wrap=True)


def _show(console: Console, found: Evaluation, diagram: Diagram, bins: int) -> None:
    console.print(evaluation_table(found))
    if found.n_zeros:
        rows = "1 example has" if found.n_zeros == 1 else f"{found.n_zeros:,} examples have"
        console.print(
            f"The log loss is infinite (∞): {rows} probability 0 at the true class.",
            style="yellow",
        )
    is_event = found.n_classes == 2
    cells = found.cells(is_event=is_event, n_bins=bins if diagram == "bins" else None)
    show_diagram(console, "Reliability", cells, diagram=diagram, is_event=is_event)
    show_groups(console, found.groups)
    if found.rows is not None and found.rows.worst is not None:
        console.print(f"Worst slice: {found.rows.worst.summary}.", markup=False, soft_wrap=True)
    show_verdict(console, assessed(found.assessment))
    console.print(_sure(found.confident), markup=False)
    if found.rows is not None and found.rows.selective is not None:
        console.print(_selective(found.rows.selective), markup=False)
    for note in found.notes:
        console.print(note, style="dim", markup=False, soft_wrap=True)


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
