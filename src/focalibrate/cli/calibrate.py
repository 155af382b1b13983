"""`focalibrate calibrate`."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np

from focalibrate._atomic import claim_folder
from focalibrate.calibrate import METHODS
from focalibrate.calibrate.methods import AVERAGE
from focalibrate.cli._engine import backend_of, engine_options
from focalibrate.cli._errors import reported, require
from focalibrate.cli._marks import calibrated_by
from focalibrate.cli._open import doubts_said, engine_errors, open_predictions
from focalibrate.cli._options import (
    OutPath,
    anyway_option,
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
    say_what_was_read,
    show_next,
    show_result,
)
from focalibrate.detection import average_precision
from focalibrate.io import Predictions, Scan, flags
from focalibrate.io.options import NO_LABELS
from focalibrate.io.source import suffix_of
from focalibrate.pipeline import (
    FILES,
    CalibrationResult,
    FitRows,
    calibrate_predictions,
    calibrated_blocks,
)

MOST_NAMED = 30
"""Most columns of scores that a command to paste names."""
NOT_SHARED = (
    "Note: --workers and --backend are not used: all rows are fitted on, in this process. Pass "
    "--fit-rows to fit on fewer of them and evaluate on the others."
)
ALREADY = (
    "  WARNING: {name} was written by `focalibrate apply` ({done}): a calibrator fitted to it is "
    "for calibrated probabilities, not for the model's own scores."
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
@labels_option
@click.option("--test", type=click.Path(path_type=Path), help="File to evaluate on.")
@click.option(
    "--test-labels",
    type=click.Path(path_type=Path),
    help="File with the labels of --test, if they are not in it.",
)
@click.option(
    "--methods",
    help=f"Methods to compare, separated by commas: auto (the candidates of the "
    f"automatic choice), {', '.join(METHODS)}. Default: all that apply. If you name only one, it "
    "is written.",
)
@click.option("--choose", metavar="METHOD", help="Write this method, whatever its score.")
@click.option(
    "--simple", is_flag=True, help="Choose a single method, never an average of several."
)
@click.option(
    "--always-average",
    is_flag=True,
    help="Write the average of several methods: usually a little better, but less simple.",
)
@click.option(
    "--trained-gamma",
    type=float,
    help="Exponent of the focal loss that the model was trained with.",
)
@click.option(
    "--trained-alpha",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    help="Weight of class 1 (of two) in that focal loss; detectors often use 0.25.",
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
    help="Maximum number of rows to fit on; methods are evaluated on the others. 'all': fit on "
    "all rows, which must fit into memory.  [default: 200000, fewer with more than 200 classes]",
)
@engine_options(
    "Number of processes that read and evaluate rows, if there are more rows than are fitted on.  "
    "[default: 1]"
)
@click.option("--onnx", is_flag=True, help="Also write calibrator.onnx.")
@click.option("--force", is_flag=True, help="Replace files of an earlier run.")
@weights_option
@anyway_option
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
    always_average: bool,
    trained_gamma: float | None,
    trained_alpha: float | None,
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
    weights_are: str,
    anyway: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate the predictions in VAL, find the best calibrator and write it.

    VAL is a file of logits or probabilities with labels; several files are parts of one table.
    Methods are fitted on VAL and evaluated on --test. Without --test, VAL is cross-validated: no
    example is used both to fit and to evaluate. The folder of -o gets report.html,
    calibrator.json and results.json.

    The method is chosen as by focalibrate.fit: the model is kept if its log loss is within
    one standard error of the lowest; otherwise the simplest method within half of one is written.

    With --by every group gets a verdict. A group gets its own calibrator if that significantly
    lowers its held-out log loss; `apply` then needs the same column.

    VAL can also be a folder, a glob or a URL (s3://...). Data need not fit in memory: methods are
    fitted on a sample of the rows and evaluated on the others, see --fit-rows. With --workers or
    --backend dask, workers read and evaluate rows; fitting stays in this process.

    Exit status: 0 done, 1 bad file, 2 bad options.

    \b
    Example:
        focalibrate calibrate val.npz --test test.npz -o report
        focalibrate calibrate val.csv --input logits --trained-gamma 2
    """
    if always_average and (choose is not None or simple):
        raise click.UsageError("--always-average excludes --choose and --simple.")
    where = backend_of(backend, scheduler, workers, default=1)
    with reported():
        if onnx:
            require("onnx")
        claim_folder(out, FILES, force=force)
    sources = [open_predictions(val, options, labels=labels)]
    if test is not None:
        sources.append(open_predictions(test, options, labels=test_labels))
    result = _calibrated(
        sources,
        per_group=per_group,
        onnx=onnx,
        anyway=anyway,
        to_stderr=as_json,
        methods=None if methods is None else [m.strip() for m in methods.split(",")],
        choose=AVERAGE if always_average else choose,
        simple=simple,
        trained_gamma=trained_gamma,
        trained_alpha=trained_alpha,
        criterion=criterion,
        n_bins=bins,
        n_resamples=resamples,
        seed=seed,
        copies=weights_are == "copies",
        fit_rows=fit_rows,
        backend=where,
        command=command_line(),
    )
    if calibrated_by(sources[-1]) is not None:
        first, *others = result.comparison.rows
        rows = (replace(first, label="calibrated already"), *others)
        result = replace(result, comparison=replace(result.comparison, rows=rows))
    if where is not None and result.sizes is None:
        click.echo(NOT_SHARED, err=True)
    with steps() as bar, reported():
        bar.add_task("writing the report", total=None)
        result.save(out, force=force, onnx=onnx)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=1, ensure_ascii=False))
    else:
        show_result(result, out, diagram=diagram)
        if options["truth"] is not None:
            _say_precision(sources[0], result)
        show_next(_next_commands(result, out, sources[0].first, options))


def _calibrated(
    sources: Sequence[Scan],
    *,
    per_group: bool,
    onnx: bool,
    anyway: bool,
    to_stderr: bool,
    **settings: Any,
) -> CalibrationResult:
    """Return the result, with what is being read and fitted shown beside a bar."""
    doubts = doubts_said(anyway=anyway, to_stderr=to_stderr)
    errors = engine_errors("Run the command again.")
    with doubts, reported(), errors, steps() as bar:
        task = bar.add_task("reading", total=None)

        def say(read: Sequence[Predictions | Scan]) -> None:
            bar.stop()
            say_what_was_read(read, to_stderr=to_stderr)
            for source in sources:
                done = calibrated_by(source)
                if done is not None:
                    click.echo(ALREADY.format(name=source.source, done=done), err=to_stderr)
            if onnx and per_group and sources[0].first.groups:
                click.echo(ONE_FOR_ALL, err=to_stderr)
            bar.start()

        return calibrate_predictions(
            sources[0],
            test=sources[1] if len(sources) > 1 else None,
            per_group=per_group and not onnx,
            progress=lambda label: bar.update(task, description=label),
            on_read=say,
            **settings,
        )


def _say_precision(scan: Scan, result: CalibrationResult) -> None:
    """Print the average precision of detections before and after."""
    rows = scan.read()
    matched = rows.layout.matched
    probs = np.concatenate(list(calibrated_blocks(result.calibrator, rows)))
    before = average_precision(matched)
    after = average_precision(replace(matched, confidence=probs[:, 1].astype(np.float64)))
    click.echo(
        f"AP at IoU {matched.iou_threshold:g}: {100 * before:.2f} % before, {100 * after:.2f} % "
        "after calibration."
    )


COLUMNS = ("label_column", "score_columns", "id_column", "ignore")
REPEATED = ("input", "logits_key", "probs_key", "class_names", "sheet", "encoding", "probs_atol")
"""Options that new data need too, where the data fitted on needed them."""


def _next_commands(
    result: CalibrationResult, out: Path, first: Predictions, options: Mapping[str, Any]
) -> list[str]:
    """Return what to do with the result: apply the calibrator, if there is one, and look."""
    page = f"open {out / 'report.html'} in a browser"
    if result.calibrator.kind == "identity":
        return [page]
    kinds = Path(first.source).suffixes[-2:]
    is_packed = len(kinds) == 2 and suffix_of(Path(first.source)) == kinds[0].lower()
    suffix = "".join(kinds if is_packed else kinds[-1:])
    typed = dict.fromkeys(REPEATED)
    needed: dict[str, Any] = {}
    if options["header"] is False:
        needed["header"] = False
        typed |= dict.fromkeys(COLUMNS)
    elif any(options[name] for name in COLUMNS) and len(first.scores_names) <= MOST_NAMED:
        # what is named so is found whether or not new data have labels
        needed["score_columns"] = list(first.scores_names)
        if options["label_column"] is not None:
            needed["label_column"] = NO_LABELS  # new data may lack it, and have others like it
    else:
        typed |= dict.fromkeys(name for name in COLUMNS if name != "label_column")
    is_named = first.layout.form == "single" and first.positive is not None
    if is_named and options["truth"] is None:
        needed["positive"] = first.positive  # which the labels told, and new data have none
    if options["drop_missing"]:
        needed["drop_missing"] = True
    given = [word for name in typed for word in _as_typed(name, options[name])]
    new = [f"new{suffix}", "-o", f"calibrated{suffix}", *given]
    line = shlex.join(["focalibrate", "apply", str(out / "calibrator.json"), *new])
    return [" ".join([line, *flags(needed)]), page]


def _as_typed(name: str, value: Any) -> list[str]:
    """Return an option of the command line as it was given; nothing where it was not."""
    values = value if isinstance(value, tuple) else () if value is None else (value,)
    return [word for one in values for word in (f"--{name.replace('_', '-')}", str(one))]
