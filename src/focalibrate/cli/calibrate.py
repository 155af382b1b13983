"""`focalibrate calibrate`."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click

from focalibrate.cli._job import FILES, Settings, find, show, write
from focalibrate.cli._options import judging_options, prediction_options
from focalibrate.cli._output import claim_folder
from focalibrate.cli._read import read_examples, reported
from focalibrate.comparison import CANDIDATES


@click.command("calibrate")
@click.argument("val", type=click.Path(path_type=Path))
@click.option("--labels", type=click.Path(path_type=Path), help="Labels of a .npy file.")
@click.option("--test", type=click.Path(path_type=Path), help="File to judge on.")
@click.option("--test-labels", type=click.Path(path_type=Path), help="Labels of a .npy test file.")
@click.option(
    "--methods",
    help=f"Comma-separated, of: {', '.join(CANDIDATES)}. Default: all that apply.",
)
@click.option("--trained-gamma", type=float, help="Exponent of the focal loss in training.")
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
    trained_gamma: float | None,
    criterion: Literal["adaptive_ece", "ece"],
    bins: int,
    resamples: int,
    seed: int,
    out: Path,
    onnx: bool,
    force: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge the predictions in VAL, find the best calibrator and write it.

    VAL is an .npz with `logits` (or `probs`) and `labels`, a .npy with --labels, a .csv, a
    .parquet or a .safetensors. Methods are fitted on VAL and judged on --test; without it VAL is
    cross-fitted, so that no row is judged by what it was fitted on. Writes report.html,
    calibrator.json and results.json into the folder of -o. Exit status: 0 done, 1 bad file, 2
    bad options.

    \b
    Example:
        focalibrate calibrate val.npz --test test.npz -o report
        focalibrate calibrate val.csv --input logits --trained-gamma 2
    """
    settings = Settings(
        methods=None if methods is None else tuple(m.strip() for m in methods.split(",")),
        trained_gamma=trained_gamma,
        criterion=criterion,
        bins=bins,
        resamples=resamples,
        seed=seed,
    )
    with reported():
        claim_folder(out, FILES, force=force)
    fitted = read_examples(val, labels, **options)
    result = find(fitted, read_examples(test, test_labels, **options) if test else None, settings)
    today = datetime.now(UTC).date().isoformat()
    write(result, fitted, out, settings=settings, onnx=onnx, made_at=today)
    if as_json:
        click.echo(json.dumps(result.record, indent=1, ensure_ascii=False))
    else:
        show(result, out)
