"""`focalibrate evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from focalibrate._atomic import check_target
from focalibrate.cli import _options
from focalibrate.cli._open import name_of, rows_or_sketch, working
from focalibrate.cli._summary import (
    command_line,
    evaluation_table,
    say,
    say_json,
    show_diagram,
    show_groups,
    show_table,
    show_verdict,
    write_page,
)
from focalibrate.comparison import assessed
from focalibrate.io import SketchFile
from focalibrate.metrics.scores import ConfidentFraction
from focalibrate.metrics.threshold import Selective
from focalibrate.pipeline import Evaluation, evaluate_predictions, evaluation_page
from focalibrate.pipeline.result import file_record

if TYPE_CHECKING:
    from focalibrate.engines import Backend


@click.command("evaluate")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@_options.calibrator_option
@_options.bins_option
@_options.resamples_option
@_options.seed_option
@_options.json_option
@click.option("-o", "--out", type=_options.OutPath(), help="Write an HTML page: x.html.")
@_options.force_option
@_options.weights_option
@_options.anyway_option
@_options.engine_options("Number of processes that read parts in parallel.  [default: 1]")
@_options.prediction_options
def evaluate_command(
    paths: tuple[str, ...],
    options: dict[str, Any],
    calibrator: Path | None,
    n_bins: int,
    seed: int,
    as_json: bool,
    out: Path | None,
    force: bool,
    anyway: bool,
    backend: "Backend | None",
    **settings: Any,
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
    if out is not None:
        check_target(out, force=force)
    given, chosen = rows_or_sketch(
        paths,
        options,
        calibrator=calibrator,
        n_bins=n_bins,
        backend=backend,
    )
    if isinstance(given, SketchFile) and given.sketch.n_bins != n_bins:
        raise click.UsageError(
            f"--bins must be {given.sketch.n_bins}, as in the sketch, got {n_bins}. Pass --bins "
            f"{given.sketch.n_bins}, or make the sketch again with --bins {n_bins}."
        )
    with working("evaluating", anyway=anyway):
        found = evaluate_predictions(
            given,
            name=name_of(paths),
            calibrator=chosen,
            n_bins=n_bins,
            seed=seed,
            **settings,
        )
    write_page(out, lambda: evaluation_page(found, command=command_line(), seed=seed), force=force)
    if as_json:
        file = {} if isinstance(given, SketchFile) else {"file": file_record(given)}
        say_json(found.to_dict() | file)
        return
    if isinstance(given, SketchFile):
        say(given.describe())
    _show(found)
    if out is not None:
        say(f"Written to {out}")


def _show(found: Evaluation) -> None:
    show_table(evaluation_table(found))
    if found.n_zeros:
        rows = "1 example has" if found.n_zeros == 1 else f"{found.n_zeros:,} examples have"
        text = f"The log loss is infinite (∞): {rows} probability 0 at the true class."
        say(text, style="yellow", wrap=True)
    is_event = found.n_classes == 2
    show_diagram("Reliability", found.cells(is_event=is_event), is_event=is_event)
    show_groups(found.groups, None if found.rows is None else found.rows.worst)
    show_verdict(assessed(found.assessment))
    say(_sure(found.confident), wrap=True)
    if found.rows is not None and found.rows.selective is not None:
        say(_selective(found.rows.selective), wrap=True)
    for note in found.notes:
        say(note, style="dim")


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
