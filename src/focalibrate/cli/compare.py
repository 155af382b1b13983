"""`focalibrate compare`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from focalibrate.calibrate import Calibrator, Identity
from focalibrate.cli import _options
from focalibrate.cli._open import open_predictions, read_rows, working
from focalibrate.cli._summary import (
    command_line,
    models_by_group_table,
    models_table,
    say,
    say_json,
    say_what_was_read,
    show_table,
    write_page,
)
from focalibrate.pipeline import ModelComparison, compare_models, evaluate_predictions, models_page
from focalibrate.pipeline.models import paired_rows

UNCALIBRATED = "raw"
"""The word for no calibrator."""


@click.command("compare")
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--on", type=click.Path(path_type=Path), help="Predictions to apply calibrators to.")
@_options.bins_option
@_options.resamples_option
@_options.seed_option
@click.option("-o", "--out", type=_options.OutPath(), help="Also write an HTML page.")
@_options.force_option
@_options.anyway_option
@_options.json_option
@_options.prediction_options
def compare_command(
    models: tuple[Path, ...],
    options: dict[str, Any],
    on: Path | None,
    n_bins: int,
    n_resamples: int,
    seed: int,
    out: Path | None,
    force: bool,
    anyway: bool,
    as_json: bool,
) -> None:
    """Compare two or more models, or calibrators, on the same examples.

    MODELS are files of predictions for the same examples, paired by a column of ids that all have,
    else by their order; or, with --on FILE,
    calibrators (calibrator.json) and the word `raw` for the uncalibrated model. Differences in
    log loss are paired by example and corrected for the number of models. --by compares them in
    every group too.

    \b
    Example:
        focalibrate compare model_a.npz model_b.npz model_c.npz -o models.html
        focalibrate compare a/calibrator.json raw --on test.npz
    """
    if len(models) < 2:
        raise click.UsageError("Name at least two models to compare.")
    places = [os.path.realpath(path) for path in models]
    for i, path in enumerate(models):
        if places.index(places[i]) < i:
            raise click.UsageError(f"{path} is named twice: a model is compared with others.")
    names = [path.name for path in models]
    if len(set(names)) < len(names):
        names = [str(path) for path in models]
    applied: Sequence[Calibrator | None] = [None for _ in models]
    if on is None and any(path.name == "calibrator.json" for path in models):
        words = " ".join(map(str, models))
        raise click.UsageError(
            f"Name the predictions: `focalibrate compare {words} --on test.npz`."
        )
    if on is None:
        first = read_rows(open_predictions(models[0], options))
        given = [first]
        for path in models[1:]:
            scan = open_predictions(path, options)
            given.append(read_rows(scan, classes_of=first.class_names))
        given = paired_rows(given, id_column=options.get("id_column"))
        say_what_was_read(given)
    else:
        applied = calibrators = [_loaded(path) for path in models]
        scan = open_predictions(on, options, calibrators=calibrators)
        rows = read_rows(
            scan,
            classes_of=next((c.class_names for c in calibrators if c.class_names), None),
            calibrators=models,
        )
        say_what_was_read([rows])
        given = [rows for _ in models]
        names = ["uncalibrated" if name == UNCALIBRATED else name for name in names]
    with working("evaluating", anyway=anyway):
        evaluated = [
            evaluate_predictions(
                file,
                name=name,
                calibrator=calibrator,
                n_bins=n_bins,
                n_resamples=n_resamples,
                seed=seed,
            )
            for file, name, calibrator in zip(given, names, applied, strict=True)
        ]
    compared = compare_models(evaluated, n_resamples=n_resamples, seed=seed)
    write_page(out, lambda: models_page(compared, command=command_line(), seed=seed), force=force)
    if as_json:
        say_json(compared.to_dict())
        return
    _show(compared)
    if out is not None:
        say(f"\nWritten to {out}")


def _loaded(path: Path) -> Calibrator:
    return Identity() if str(path) == UNCALIBRATED else Calibrator.load(path)


def _show(compared: ModelComparison) -> None:
    show_table(models_table(compared))
    if compared.groups:
        show_table(models_by_group_table(compared))
    say(f"\n{compared.verdict}", style="bold", wrap=True)
    for model in compared.models:
        say(f"{model.name}: {model.assessment.summary}", wrap=True)
        for group in model.groups:
            if group.verdict == "miscalibrated":
                say(f"  {group.summary}")
