"""`focalibrate check`."""

import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from focalibrate._atomic import atomic_path
from focalibrate.cli import _options
from focalibrate.cli._group import USERS_ERRORS, one_line
from focalibrate.cli._open import name_of, open_predictions, rows_or_sketch, sketched, working
from focalibrate.cli._summary import say
from focalibrate.io import SketchFile, printable
from focalibrate.io.options import as_names
from focalibrate.pipeline import GateResult, check_predictions
from focalibrate.pipeline.gate_result import BAD_INPUT, STATUSES

if TYPE_CHECKING:
    from focalibrate.engines import Backend

STYLES = {"pass": "bold green", "fail": "bold red", "undetermined": "bold yellow"}

BINS = 15
_limit = click.FloatRange(min=0.0)


@click.command("check")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--max-ece", type=_limit, help="Largest expected calibration error, such as 0.02.")
@click.option("--max-rms", type=_limit, help="Largest root-mean-square calibration error.")
@click.option(
    "--max-nll-increase", type=_limit, help="By how much the log loss may exceed the baseline's."
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    help="Earlier results.json, predictions or sketch; predictions of the same rows are paired.",
)
@click.option(
    "--alpha",
    default=0.05,
    show_default=True,
    help="Chance of failing a model that is within the limits.",
)
@_options.calibrator_option
@click.option(
    "--markdown",
    type=_options.OutPath(dir_okay=False),
    help='Add a summary to the end of this file, such as "$GITHUB_STEP_SUMMARY".',
)
@click.option("--junit", type=_options.OutPath(dir_okay=False), help="Write JUnit XML.")
@click.option(
    "--json",
    "json_file",
    type=_options.OutPath(dir_okay=False, allow_dash=True),
    callback=_options.for_json,
    help="Write the finding as JSON; - for standard output.",
)
@_options.seed_option
@_options.weights_option
@_options.anyway_option
@_options.engine_options("Number of processes that read parts in parallel.  [default: 1]")
@_options.prediction_options
def check_command(
    paths: tuple[str, ...],
    options: dict[str, Any],
    baseline: Path | None,
    calibrator: Path | None,
    markdown: Path | None,
    junit: Path | None,
    json_file: Path | None,
    anyway: bool,
    backend: "Backend | None",
    **settings: Any,
) -> None:
    """Check the predictions in PATHs against limits, for CI.

    Exit status: 0 pass, 1 fail, 3 not enough data to tell, 2 bad input. A check fails only
    if the data show that the limit is exceeded, and passes only if they show that it is not: a
    model within the limits fails in at most 5 % of runs (--alpha). With --by, the limits on the
    calibration error apply to every group too, and the 5 % hold for all of them together.

    A PATH is a file, a folder or glob of parts, a URL, or a sketch (`focalibrate sketch`); several
    are checked together. More than 200,000 rows (fewer with more than 200 classes), and any PATH
    with --workers or --backend, are checked by a sketch; memory does not grow with the rows.

    \b
    Example:
        focalibrate check test.npz --max-ece 0.05
        focalibrate check test.npz --max-nll-increase 0.01 --baseline report/results.json
        focalibrate check test.parquet --max-ece 0.05 --by region
        focalibrate check day1.sketch day2.sketch --max-ece 0.05 --by region
    """
    with _status_2():
        by = as_names(options.get("by"))
        given, chosen = rows_or_sketch(
            paths,
            options,
            calibrator=calibrator,
            n_bins=BINS,
            backend=backend,
        )
        former: Any = baseline
        is_sketched = isinstance(given, SketchFile)
        if is_sketched and baseline is not None and baseline.suffix not in (".json", ".sketch"):
            scan = open_predictions(baseline, {**options, "labels_path": None})
            advice = f"`focalibrate sketch {baseline} -o old.sketch` keeps finished parts."
            former = sketched(scan, None, n_bins=BINS, backend=backend, advice=advice)
        with working("checking", anyway=anyway):
            found = check_predictions(given, by=by, calibrator=chosen, baseline=former, **settings)
        if is_sketched:
            found = replace(found, name=name_of(paths))
        _write(found, markdown, junit, json_file)
        _show(found)
    click.get_current_context().exit(found.exit_code)


@contextmanager
def _status_2() -> Iterator[None]:
    """End with status 2 on every error: 1 is reserved for a limit that is exceeded."""
    try:
        yield
    except (click.ClickException, *USERS_ERRORS) as error:
        if not isinstance(error, click.ClickException):
            error = click.ClickException(one_line(error, sys.argv[1:]))
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


def _show(found: GateResult) -> None:
    if found.baseline is not None:
        say(f"baseline: {printable(found.baseline)}", style="dim")
    for check in found.shown:
        line = Text(f"  {printable(check.label)}: ")
        line.append(STATUSES[check.status].short, STYLES[check.status]).append(
            f". {check.message}"
        )
        say(line)
    if found.note:
        say(printable(found.note))
    say(printable(found.summary), style=STYLES[found.status])
