"""`focalibrate check`."""

import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from focalibrate._atomic import atomic_path
from focalibrate.calibrate import Calibrator
from focalibrate.cli._options import prediction_options
from focalibrate.cli._read import read_file, reported, steps
from focalibrate.cli._summary import say_what_was_read
from focalibrate.io import printable
from focalibrate.pipeline import BAD_INPUT, GateResult, check_predictions

STYLES = {"pass": "bold green", "fail": "bold red", "undetermined": "bold yellow"}
WORDS = {"pass": "pass", "fail": "fail", "undetermined": "not enough data"}

_limit = click.FloatRange(min=0.0)


@click.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--max-ece", type=_limit, help="Largest expected calibration error, such as 0.02.")
@click.option("--max-rms", type=_limit, help="Largest root-mean-square calibration error.")
@click.option(
    "--max-nll-increase", type=_limit, help="By how much the log loss may exceed the baseline's."
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Former results.json, or former predictions; those of the same rows are paired.",
)
@click.option(
    "--alpha",
    default=0.05,
    show_default=True,
    help="Chance of failing a model that keeps the limits.",
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    help="File of the labels, if they are not in the predictions file.",
)
@click.option("--calibrator", type=click.Path(path_type=Path), help="Calibrator to apply first.")
@click.option(
    "--markdown",
    type=click.Path(path_type=Path, dir_okay=False),
    help='Add a summary to the end of this file, such as "$GITHUB_STEP_SUMMARY".',
)
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write the finding as JSON; - for standard output.",
)
@click.option("--seed", default=0, show_default=True, help="Random seed.")
@prediction_options
def check_command(
    file: Path,
    max_ece: float | None,
    max_rms: float | None,
    max_nll_increase: float | None,
    baseline: Path | None,
    alpha: float,
    labels: Path | None,
    calibrator: Path | None,
    markdown: Path | None,
    junit: Path | None,
    json_file: Path | None,
    seed: int,
    **options: Any,
) -> None:
    """Hold the predictions in FILE to limits; for CI.

    Exit status: 0 pass, 1 fail, 3 not enough data to tell, 2 bad input. A limit fails only
    where the data show that it is exceeded, and passes only where they show that it is kept: a
    model that keeps the limits fails in at most 5 % of runs (--alpha).

    \b
    Example:
        focalibrate check test.npz --max-ece 0.05
        focalibrate check test.npz --max-nll-increase 0.01 --baseline report/results.json
    """
    with _status_2():
        if options.pop("by"):
            raise click.UsageError("--by: limits hold for all rows. Check a file per group.")
        with reported():
            chosen = None if calibrator is None else Calibrator.load(calibrator)
        given = read_file(
            file,
            labels_path=labels,
            need_labels=True,
            classes_of=None if chosen is None else chosen.class_names,
            **options,
        )
        to_stderr = json_file is not None and str(json_file) == "-"
        say_what_was_read([given], to_stderr=to_stderr)
        with reported(), steps() as bar:
            bar.add_task("checking", total=None)
            found = check_predictions(
                given,
                calibrator=chosen,
                max_ece=max_ece,
                max_rms=max_rms,
                max_nll_increase=max_nll_increase,
                baseline=baseline,
                alpha=alpha,
                seed=seed,
            )
        with reported():
            _write(found, markdown, junit, json_file)
        _show(Console(highlight=False, stderr=to_stderr), found)
    click.get_current_context().exit(found.exit_code)


@contextmanager
def _status_2() -> Iterator[None]:
    """End with status 2 on every error: 1 is reserved for a limit that is exceeded."""
    try:
        yield
    except click.ClickException as error:
        error.show()
        raise SystemExit(BAD_INPUT) from error
    except Exception as error:
        traceback.print_exc()
        raise SystemExit(BAD_INPUT) from error


def _write(
    found: GateResult, markdown: Path | None, junit: Path | None, json_file: Path | None
) -> None:
    if markdown is not None:
        with markdown.open("a", encoding="utf-8") as file:
            file.write(found.to_markdown())
    record = json.dumps(found.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if json_file is not None and str(json_file) == "-":
        click.echo(record, nl=False)
        json_file = None
    for path, text in ((junit, found.to_junit()), (json_file, record)):
        if path is not None:
            with atomic_path(path, force=True) as temporary:
                temporary.write_text(text, encoding="utf-8")


def _show(console: Console, found: GateResult) -> None:
    if found.baseline is not None:
        console.print(f"baseline: {printable(found.baseline)}", markup=False, style="dim")
    for check in found.checks:
        console.print(f"  {check.label}: ", end="", markup=False)
        console.print(WORDS[check.status], end=". ", style=STYLES[check.status])
        console.print(check.message, markup=False, soft_wrap=True)
    console.print(printable(found.summary), style=STYLES[found.status], markup=False)
