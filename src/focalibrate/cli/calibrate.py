"""`focalibrate calibrate`."""

import json
import shlex
from pathlib import Path
from typing import Any, Literal

import click

from focalibrate._atomic import claim_folder
from focalibrate.calibrate import METHODS
from focalibrate.cli._errors import require
from focalibrate.cli._options import judging_options, prediction_options
from focalibrate.cli._read import read_file, reported, steps
from focalibrate.cli._summary import command_line, say_what_was_read, show_next, show_result
from focalibrate.pipeline import FILES, calibrate_predictions


@click.command("calibrate")
@click.argument("val", type=click.Path(path_type=Path))
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
    help=f"Methods to compare, separated by commas: {', '.join(METHODS)}. Default: all that "
    "apply. If you name one, that one is written.",
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
@click.option(
    "-o",
    "--out",
    default="focalibrate-report",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder to write.",
)
@click.option(
    "--per-group/--no-per-group",
    default=True,
    help="With --by: give a group its own calibrator where that is significantly better held "
    "out.  [default: yes]",
)
@click.option("--onnx", is_flag=True, help="Also write calibrator.onnx.")
@click.option("--force", is_flag=True, help="Replace files of an earlier run.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of tables.")
@prediction_options
def calibrate_command(
    val: Path,
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
    out: Path,
    per_group: bool,
    onnx: bool,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate the predictions in VAL, find the best calibrator and write it.

    VAL is a file of logits or probabilities with labels. Methods are fitted on VAL and evaluated
    on --test; without --test VAL is cross-validated, so that no example is used both to fit and
    to evaluate. The simplest method within one standard error of the lowest log loss is chosen.
    With --by every group of rows gets a verdict, and a calibrator of its own where that
    significantly lowers its held-out log loss; `apply` then needs the same column.
    Writes report.html, calibrator.json and results.json into the folder of -o. Exit status: 0
    done, 1 bad file, 2 bad options.

    \b
    Example:
        focalibrate calibrate val.npz --test test.npz -o report
        focalibrate calibrate val.csv --input logits --trained-gamma 2
    """
    with reported():
        if onnx:
            require("onnx")
        claim_folder(out, FILES, force=force)
    given = read_file(val, labels_path=labels, need_labels=True, **options)
    judged = None
    if test is not None:
        judged = read_file(
            test,
            labels_path=test_labels,
            need_labels=True,
            classes_of=given.class_names,
            **options,
        )
    say_what_was_read([given] if judged is None else [given, judged], to_stderr=as_json)
    if onnx and given.groups and per_group:
        text = "One calibrator for all groups: an ONNX graph of the scores cannot know the group."
        click.echo(text, err=as_json)
    with steps() as bar, reported():
        task = bar.add_task("fitting", total=None)
        result = calibrate_predictions(
            given,
            test=judged,
            methods=None if methods is None else [m.strip() for m in methods.split(",")],
            choose=choose,
            simple=simple,
            trained_gamma=trained_gamma,
            criterion=criterion,
            n_bins=bins,
            n_resamples=resamples,
            seed=seed,
            progress=lambda label: bar.update(task, description=f"fitting: {label}"),
            per_group=per_group and not onnx,
            command=command_line(),
        )
        bar.update(task, description="writing the report")
        result.save(out, force=force, onnx=onnx)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=1, ensure_ascii=False))
    else:
        show_result(result, out)
        page = f"open {out / 'report.html'} in a browser"
        if result.calibrator.kind == "identity":
            show_next([page])
            return
        given_file = str(test or val)
        words = ["focalibrate", "apply", str(out / "calibrator.json"), given_file]
        words += ["-o", f"calibrated{Path(given_file).suffix}"]
        show_next([shlex.join(words), page])
