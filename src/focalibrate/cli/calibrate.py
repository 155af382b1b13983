"""`focalibrate calibrate`."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

from focalibrate._atomic import claim_folder
from focalibrate.calibrate import METHODS
from focalibrate.calibrate.methods import AVERAGE
from focalibrate.cli import _options
from focalibrate.cli._open import calibrated_by, engine_errors, open_predictions, steps, working
from focalibrate.cli._summary import (
    command_line,
    say,
    say_json,
    say_what_was_read,
    show_next,
    show_result,
)
from focalibrate.detection import average_precision
from focalibrate.io import Predictions, Scan, flags
from focalibrate.io.options import NO_LABELS
from focalibrate.io.source import suffix_of
from focalibrate.pipeline import CalibrationResult, calibrate_predictions
from focalibrate.pipeline.applying import calibrated_blocks
from focalibrate.pipeline.result import FILES
from focalibrate.pipeline.sample import FitRows

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
@click.option("--test", type=click.Path(path_type=Path), help="File to evaluate on.")
@click.option(
    "--test-labels",
    type=click.Path(path_type=Path),
    help="File with the labels of --test, if they are not in it.",
)
@click.option(
    "--methods",
    callback=lambda context, option, text: text and [name.strip() for name in text.split(",")],
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
@_options.bins_option
@_options.resamples_option
@_options.seed_option
@click.option(
    "-o",
    "--out",
    default="focalibrate-report",
    show_default=True,
    type=_options.OutPath(),
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
@_options.engine_options(
    "Number of processes that read and evaluate rows, if there are more rows than are fitted on.  "
    "[default: 1]"
)
@click.option("--onnx", is_flag=True, help="Also write calibrator.onnx.")
@_options.force_option
@_options.weights_option
@_options.anyway_option
@_options.json_option
@_options.prediction_options
def calibrate_command(
    val: tuple[Path, ...],
    options: dict[str, Any],
    test: Path | None,
    test_labels: Path | None,
    always_average: bool,
    out: Path,
    per_group: bool,
    onnx: bool,
    force: bool,
    anyway: bool,
    as_json: bool,
    **settings: Any,
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
    if always_average and (settings["choose"] is not None or settings["simple"]):
        raise click.UsageError("--always-average excludes --choose and --simple.")
    if always_average:
        settings["choose"] = AVERAGE
    if onnx:
        import_module("onnx")  # before any work
    claim_folder(out, FILES, force=force)
    sources = [open_predictions(val, options)]
    if test is not None:
        sources.append(open_predictions(test, {**options, "labels_path": test_labels}))
    is_per_group = per_group and not onnx

    def say_read(read: Sequence[Predictions | Scan]) -> None:
        bar.stop()
        say_what_was_read(read)
        for source in sources:
            done = calibrated_by(source)
            if done is not None:
                say(ALREADY.format(name=source.source, done=done))
        if per_group and onnx and sources[0].first.groups:
            say(ONE_FOR_ALL)
        bar.start()

    errors = engine_errors("Run the command again.")
    with errors, working("reading", anyway=anyway) as bar:
        result = calibrate_predictions(
            sources[0],
            test=sources[1] if len(sources) > 1 else None,
            per_group=is_per_group,
            progress=lambda label: bar.update(bar.task_ids[0], description=label),
            on_read=say_read,
            command=command_line(),
            **settings,
        )
    if calibrated_by(sources[-1]) is not None:
        first, *others = result.comparison.rows
        rows = (replace(first, label="calibrated already"), *others)
        result = replace(result, comparison=replace(result.comparison, rows=rows))
    if settings["backend"] is not None and result.sizes is None:
        say(NOT_SHARED, to_stderr=True)
    with steps("writing the report"):
        result.save(out, force=force, onnx=onnx)
    if as_json:
        say_json(result.to_dict())
    else:
        show_result(result, out)
        if "truth" in options:
            _say_precision(sources[0], result)
        show_next(_next_commands(result, out, sources[0], options))


def _say_precision(scan: Scan, result: CalibrationResult) -> None:
    rows = scan.read()
    matched = rows.layout.matched
    probs = np.concatenate(list(calibrated_blocks(result.calibrator, rows)))
    before = average_precision(matched)
    after = average_precision(replace(matched, confidence=probs[:, 1].astype(np.float64)))
    say(
        f"AP at IoU {matched.iou_threshold:g}: {100 * before:.2f} % before, {100 * after:.2f} % "
        "after calibration."
    )


COLUMNS = ("label_column", "score_columns", "id_column", "ignore")
REPEATED = ("input", "logits_key", "probs_key", "class_names", "sheet", "encoding", "probs_atol")
"""Options that new data need too, where the data fitted on needed them."""


def _next_commands(
    result: CalibrationResult, out: Path, scan: Scan, options: Mapping[str, Any]
) -> list[str]:
    """Return what to do with the result: apply the calibrator, if there is one, and look."""
    page = f"open {out / 'report.html'} in a browser"
    if result.calibrator.kind == "identity":
        return [page]
    first = scan.first
    kinds = Path(first.source).suffixes[-2:]
    is_packed = len(kinds) == 2 and suffix_of(Path(first.source)) == kinds[0].lower()
    suffix = "".join(kinds if is_packed else kinds[-1:])
    given = [name for name in REPEATED if name in options]
    needed: dict[str, Any] = {}
    if options.get("header") is False:
        needed["header"] = False
        given += [name for name in COLUMNS if name in options]
    elif any(name in options for name in COLUMNS) and len(first.scores_names) <= MOST_NAMED:
        # what is named so is found whether or not new data have labels
        needed["score_columns"] = list(first.scores_names)
        if "label_column" in options:
            needed["label_column"] = NO_LABELS  # new data may lack it, and have others like it
    else:
        given += [name for name in COLUMNS if name in options and name != "label_column"]
    if first.layout.form == "single" and first.positive is not None and "truth" not in options:
        needed["positive"] = first.positive  # which the labels told, and new data have none
    if first.layout.is_right and scan.rewrite(0) is None and not {"truth", "input"} & set(options):
        needed["score_columns"] = list(
            first.scores_names
        )  # the outcome told, and is not known yet
        needed["input"] = "percent" if scan.reading.roles.scores.percent else "probs"
    if "drop_missing" in options:
        needed["drop_missing"] = True
    typed = [word for name in given for word in _as_typed(name, options[name])]
    new = [f"new{suffix}", "-o", f"calibrated{suffix}", *typed]
    line = shlex.join(["focalibrate", "apply", str(out / "calibrator.json"), *new])
    return [" ".join([line, *flags(needed)]), page]


def _as_typed(name: str, value: Any) -> list[str]:
    values = value if isinstance(value, tuple) else (value,)
    return [word for one in values for word in (f"--{name.replace('_', '-')}", str(one))]
