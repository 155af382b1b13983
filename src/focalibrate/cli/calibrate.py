"""`focalibrate calibrate`."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from focalibrate._atomic import claim_folder
from focalibrate.calibrate import METHODS
from focalibrate.cli._engine import backend_of, engine_options
from focalibrate.cli._errors import reported, require
from focalibrate.cli._options import OutPath, diagram_option, judging_options, prediction_options
from focalibrate.cli._progress import steps
from focalibrate.cli._read import FitRows, read_file, scan_large
from focalibrate.cli._sketching import engine_errors
from focalibrate.cli._summary import (
    Diagram,
    command_line,
    say_what_was_read,
    show_next,
    show_result,
)
from focalibrate.io import Predictions, check_one_split, shown
from focalibrate.pipeline import (
    FILES,
    CalibrationResult,
    calibrate_predictions,
    calibrate_scan,
)

if TYPE_CHECKING:
    from focalibrate.engines import Backend

NOT_SHARED = (
    "Note: --workers and --backend are not used: all rows are fitted on, in this process. Pass "
    "--fit-rows to fit on fewer of them and evaluate on the others."
)
ONE_FOR_ALL = "One calibrator for all groups: an ONNX graph gets only the scores, not the group."


def fit_rows_option(_: click.Context, __: click.Parameter, value: str | None) -> FitRows | None:
    """Return the number of rows, "all", or None if the option is not given."""
    if value is None:
        return None
    if value == "all":
        return "all"
    if value.isdecimal() and int(value) > 0:
        return int(value)
    raise click.BadParameter(f"must be a number of rows or 'all', got {value!r}.")


@click.command("calibrate")
@click.argument("val", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="VAL...")
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    help="File of the labels, if they are not in the predictions file.",
)
@click.option("--test", type=click.Path(path_type=Path), help="File to evaluate on.")
@click.option(
    "--test-labels",
    type=click.Path(path_type=Path),
    help="File of the labels of --test, if they are not in it.",
)
@click.option(
    "--methods",
    help=f"Methods to compare, separated by commas: auto (those that the automatic choice is "
    f"made from), {', '.join(METHODS)}. Default: all that apply. If you name one, that one is "
    "written.",
)
@click.option("--choose", metavar="METHOD", help="Write this method, whatever its score.")
@click.option("--simple", is_flag=True, help="Choose a single method, never a pool of several.")
@click.option(
    "--trained-gamma",
    type=float,
    help="Exponent of the focal loss that the model was trained with.",
)
@click.option(
    "--criterion",
    type=click.Choice(["adaptive_ece", "ece"]),
    default="adaptive_ece",
    show_default=True,
    help="What the methods marked (ECE) minimise.",
)
@judging_options
@diagram_option
@click.option(
    "-o",
    "--out",
    default="focalibrate-report",
    show_default=True,
    type=OutPath(),
    help="Folder to write.",
)
@click.option(
    "--per-group/--no-per-group",
    default=True,
    help="With --by: give a group its own calibrator if that is significantly better on "
    "held-out examples.  [default: yes]",
)
@click.option(
    "--fit-rows",
    metavar="N|all",
    callback=fit_rows_option,
    help="Most rows to fit on; methods are evaluated on all others. 'all': fit to all rows. Where "
    "these take more than 1 GB, temperature, focal temperature and the structured scalings are "
    "fitted by passes over the files and cross-fitted in halves.  [default: 200000, fewer with "
    "more than 200 classes]",
)
@engine_options(
    "Processes that read and evaluate rows at the same time, where there are more rows than are "
    "fitted on.  [default: 1]"
)
@click.option("--onnx", is_flag=True, help="Also write calibrator.onnx.")
@click.option("--force", is_flag=True, help="Replace files of an earlier run.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of tables.")
@prediction_options
def calibrate_command(
    val: tuple[Path, ...],
    labels: Path | None,
    test: Path | None,
    test_labels: Path | None,
    methods: str | None,
    choose: str | None,
    simple: bool,
    trained_gamma: float | None,
    criterion: Literal["adaptive_ece", "ece"],
    bins: int,
    resamples: int,
    seed: int,
    diagram: Diagram,
    out: Path,
    per_group: bool,
    fit_rows: FitRows | None,
    workers: int | None,
    backend: str,
    scheduler: str | None,
    onnx: bool,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate the predictions in VAL, find the best calibrator and write it.

    VAL is a file of logits or probabilities with labels; several files are parts of one table.
    Methods are fitted on VAL and evaluated on --test; without --test VAL is cross-validated, so
    that no example is used both to fit and to evaluate. Writes report.html, calibrator.json and
    results.json into the folder of -o.

    The method is chosen as by focalibrate.fit_auto: the simplest of a few methods within one
    standard error of the lowest log loss, or a pool of several if that is better still.

    With --by every group of rows gets a verdict, and a calibrator of its own if that
    significantly lowers its held-out log loss; `apply` then needs the same column.

    VAL may also be a folder, a glob or a URL (s3://...), with more rows than fit into memory:
    methods are then fitted on a sample of the rows and evaluated on all others, see --fit-rows.
    --workers or --backend dask share the reading and evaluating out; this process fits.

    Exit status: 0 done, 1 bad file, 2 bad options.

    \b
    Example:
        focalibrate calibrate val.npz --test test.npz -o report
        focalibrate calibrate val.csv --input logits --trained-gamma 2
    """
    where = backend_of(backend, scheduler, workers, default=1)
    with reported():
        if onnx:
            require("onnx")
        check_one_split(val)  # also where the files are large and read in batches
        claim_folder(out, FILES, force=force)
    shared: dict[str, Any] = {
        "methods": None if methods is None else [m.strip() for m in methods.split(",")],
        "choose": choose,
        "simple": simple,
        "trained_gamma": trained_gamma,
        "criterion": criterion,
        "n_bins": bins,
        "n_resamples": resamples,
        "seed": seed,
        "command": command_line(),
    }
    files = [(val, labels)] if test is None else [(val, labels), ((test,), test_labels)]
    result = _calibrated_in_batches(files, fit_rows, options, shared, where, to_stderr=as_json)
    if result is None:
        if where is not None:
            click.echo(NOT_SHARED, err=True)
        result = _calibrated_in_memory(
            files, options, shared, per_group=per_group, onnx=onnx, to_stderr=as_json
        )
    with steps() as bar, reported():
        bar.add_task("writing the report", total=None)
        result.save(out, force=force, onnx=onnx)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=1, ensure_ascii=False))
    else:
        show_result(result, out, diagram=diagram)
        show_next(_next_commands(result, out, shown(test or val[0])))


def _calibrated_in_batches(
    files: Sequence[tuple[Sequence[Path], Path | None]],
    fit_rows: FitRows | None,
    options: Mapping[str, Any],
    shared: Mapping[str, Any],
    backend: "Backend | None",
    *,
    to_stderr: bool,
) -> CalibrationResult | None:
    """Return the result on more rows than are fitted on; None if there are fewer."""
    scans = scan_large(files, fit_rows, options)
    if not scans:
        return None
    with steps() as bar, reported(), engine_errors("Run the command again."):
        task = bar.add_task("reading", total=None)
        found = calibrate_scan(
            scans[0],
            test=scans[1] if len(scans) > 1 else None,
            fit_rows=fit_rows,
            backend=backend,
            progress=lambda label: bar.update(task, description=label),
            **shared,
        )
    if found is not None:
        say_what_was_read(scans, to_stderr=to_stderr)
    return found


def _calibrated_in_memory(
    files: Sequence[tuple[Sequence[Path], Path | None]],
    options: Mapping[str, Any],
    shared: Mapping[str, Any],
    *,
    per_group: bool,
    onnx: bool,
    to_stderr: bool,
) -> CalibrationResult:
    """Return the result on files that are read whole, cross-validated or with a test set."""
    given: list[Predictions] = []
    for path, labels in files:
        classes = given[0].class_names if given else None
        found = read_file(
            path, labels_path=labels, need_labels=True, classes_of=classes, **options
        )
        given.append(found)
    say_what_was_read(given, to_stderr=to_stderr)
    if onnx and given[0].groups and per_group:
        click.echo(ONE_FOR_ALL, err=to_stderr)
    with steps() as bar, reported():
        task = bar.add_task("fitting", total=None)
        return calibrate_predictions(
            given[0],
            test=given[1] if len(given) > 1 else None,
            progress=lambda label: bar.update(task, description=f"fitting: {label}"),
            per_group=per_group and not onnx,
            **shared,
        )


def _next_commands(result: CalibrationResult, out: Path, file: str) -> list[str]:
    """Return what to do with the result: apply the calibrator, if there is one, and look."""
    page = f"open {out / 'report.html'} in a browser"
    if result.calibrator.kind == "identity":
        return [page]
    words = ["focalibrate", "apply", str(out / "calibrator.json"), file]
    words += ["-o", f"calibrated{Path(file).suffix}"]
    return [shlex.join(words), page]
