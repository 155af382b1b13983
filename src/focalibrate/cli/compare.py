"""`focalibrate compare`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from focalibrate._atomic import atomic_path
from focalibrate.calibrate import Calibrator, GroupedCalibrator, Identity
from focalibrate.cli._errors import reported
from focalibrate.cli._open import doubts_said, read_file
from focalibrate.cli._options import (
    OutPath,
    anyway_option,
    judging_options,
    labels_option,
    prediction_options,
)
from focalibrate.cli._progress import steps
from focalibrate.cli._summary import command_line, say_what_was_read
from focalibrate.cli._tables import models_by_group_table, models_table
from focalibrate.io import Predictions
from focalibrate.pipeline import (
    Evaluation,
    Examples,
    ModelComparison,
    compare_models,
    evaluate_examples,
    models_page,
)

UNCALIBRATED = "raw"
"""The word for no calibrator."""


@click.command("compare")
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--on", type=click.Path(path_type=Path), help="Predictions to apply calibrators to.")
@labels_option
@judging_options
@click.option("-o", "--out", type=OutPath(), help="Also write an HTML page.")
@click.option("--force", is_flag=True, help="Replace the page if it exists.")
@anyway_option
@click.option("--json", "as_json", is_flag=True, help="Print the scores and differences as JSON.")
@prediction_options
def compare_command(
    models: tuple[Path, ...],
    on: Path | None,
    labels: Path | None,
    bins: int,
    resamples: int,
    seed: int,
    out: Path | None,
    force: bool,
    anyway: bool,
    as_json: bool,
    **options: Any,
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
    names = _distinct([p.name for p in models], [str(p) for p in models])
    settings: dict[str, Any] = {"n_bins": bins, "n_resamples": resamples, "seed": seed}
    if on is None:
        found = _evaluated_models(
            models, names, labels, options, settings, anyway=anyway, to_stderr=as_json
        )
    else:
        found = _evaluated_calibrators(
            models, names, on, labels, options, settings, anyway=anyway, to_stderr=as_json
        )
    compared = compare_models(found, n_resamples=resamples, seed=seed)
    if out is not None:
        with reported(), atomic_path(out, force=force) as temporary:
            temporary.write_text(models_page(compared, command=command_line()), encoding="utf-8")
    if as_json:
        click.echo(json.dumps(compared.to_dict(), indent=1, ensure_ascii=False))
        return
    _show(compared)
    if out is not None:
        click.echo(f"\nWritten to {out}")


def _evaluated_models(
    models: Sequence[Path],
    names: Sequence[str],
    labels: Path | None,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    anyway: bool,
    to_stderr: bool,
) -> list[Evaluation]:
    """Return the scores of several files of predictions for the same examples."""
    first = read_file(models[0], options, labels=labels)
    names_of = first.class_names
    files = [first]
    files += [read_file(p, options, labels=labels, classes_of=names_of) for p in models[1:]]
    with reported():
        files = [first, *(_in_order_of(first, other) for other in files[1:])]
    say_what_was_read(files, to_stderr=to_stderr)
    with doubts_said(anyway=anyway, to_stderr=to_stderr), reported(), steps() as bar:
        bar.add_task("evaluating", total=None)
        _check_same_examples(files)
        return [
            evaluate_examples(Examples.of_predictions(file), name=name, **settings)
            for name, file in zip(names, files, strict=True)
        ]


def _evaluated_calibrators(
    paths: Sequence[Path],
    names: Sequence[str],
    on: Path,
    labels: Path | None,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    anyway: bool,
    to_stderr: bool,
) -> list[Evaluation]:
    """Return the scores of the predictions `on` after each calibrator."""
    with reported():
        loaded = [_loaded(path) for path in paths]
    by = {c.column: None for c in loaded if isinstance(c, GroupedCalibrator)}
    if by and not options.get("by"):
        options = {**options, "by": ",".join(by)}
    given = read_file(on, options, labels=labels, calibrators=paths)
    say_what_was_read([given], to_stderr=to_stderr)
    with doubts_said(anyway=anyway, to_stderr=to_stderr), reported(), steps() as bar:
        bar.add_task("evaluating", total=None)
        examples = Examples.of_predictions(given)
        return [
            evaluate_examples(
                examples,
                name="uncalibrated" if str(path) == UNCALIBRATED else name,
                calibrator=calibrator,
                **settings,
            )
            for path, name, calibrator in zip(paths, names, loaded, strict=True)
        ]


def _show(compared: ModelComparison) -> None:
    """Print the tables, which model is best, and whether each is calibrated."""
    console = Console(highlight=False)
    console.print(models_table(compared))
    if compared.groups:
        console.print(models_by_group_table(compared))
    console.print(f"\n{compared.verdict}", style="bold", markup=False)
    for model in compared.models:
        console.print(f"{model.name}: {model.assessment.summary}", markup=False)
        for group in model.groups:
            if group.verdict == "miscalibrated":
                console.print(f"  {group.summary}", markup=False, soft_wrap=True)


def _distinct(names: list[str], paths: list[str]) -> list[str]:
    """Return file names if they differ, else whole paths."""
    return names if len(set(names)) == len(names) else paths


def _loaded(path: Path) -> Calibrator:
    return Identity() if str(path) == UNCALIBRATED else Calibrator.load(path)


def _in_order_of(first: Predictions, other: Predictions) -> Predictions:
    """Return the rows of `other` in the order of `first`, by the ids that both have.

    An id is a column that both files keep under one name, ignoring case, whose values are the same
    in both and no two alike. Without one the rows are paired by their order.
    """
    mine, theirs = _ids(first), _ids(other)
    orders = {
        name: tuple(map(theirs[name].__getitem__, places))
        for name, places in mine.items()
        if name in theirs and places.keys() == theirs[name].keys()
    }
    if not orders:
        return other
    if len(set(orders.values())) > 1:
        raise ValueError(
            f"{first.source} and {other.source} can be paired by {' or by '.join(orders)}, which "
            "give different pairs. Leave one of these columns out of the files."
        )
    order = np.array(next(iter(orders.values())))
    if (np.diff(order) == 1).all():
        return other
    name = next(iter(orders))
    return replace(
        other,
        scores=other.scores[order],
        labels=None if other.labels is None else other.labels[order],
        weights=None if other.weights is None else other.weights[order],
        cluster=None if other.cluster is None else other.cluster[order],
        groups={column: np.asarray(v)[order] for column, v in other.groups.items()},
        notes=(*other.notes, f"rows are matched to {first.source.name} by {name}"),
    )


def _ids(found: Predictions) -> dict[str, dict[str, int]]:
    """Return the columns whose values are all different: the place of each value, as text."""
    if found.layout.rest is None:
        return {}
    kept = found.layout.rest()
    columns = {}
    for name in kept.column_names:
        values = kept.column(name).to_pylist()
        places = {str(value): i for i, value in enumerate(values)}
        if len(values) == found.n_rows == len(places) and name != found.layout.label_column:
            columns[name.lower()] = places
    return columns


def _check_same_examples(files: list[Predictions]) -> None:
    first = files[0]
    for other in files[1:]:
        if other.scores.shape != first.scores.shape:
            raise ValueError(
                f"{first.source} and {other.source} must have the same examples and classes, got "
                f"shapes {first.scores.shape} and {other.scores.shape}."
            )
        if first.labels is None or other.labels is None:
            continue
        differ = np.flatnonzero(first.labels != other.labels)
        if len(differ):
            raise ValueError(
                f"{first.source} and {other.source} must have the same labels, but {len(differ)} "
                f"rows differ, first row {differ[0]}. Write both in the same order."
            )
