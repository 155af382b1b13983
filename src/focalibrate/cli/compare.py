"""`focalibrate compare`."""

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from focalibrate.calibrate import Calibrator, Identity
from focalibrate.cli._options import judging_options, prediction_options
from focalibrate.cli._read import Examples, Job, read_examples, reported, steps
from focalibrate.cli._tables import HEADINGS, number, with_interval
from focalibrate.metrics import METRIC_NAMES, Scorecard, scorecard
from focalibrate.pipeline import interval_record


@click.command("compare")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--on", type=click.Path(path_type=Path), help="File that two calibrators share.")
@click.option("--labels", type=click.Path(path_type=Path), help="Labels of .npy files.")
@judging_options
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
@prediction_options
def compare_command(
    a: Path,
    b: Path,
    on: Path | None,
    labels: Path | None,
    bins: int,
    resamples: int,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare two models, or two calibrators, on the same labels: differences in pairs.

    A and B are two files of predictions for the same examples, in the same order; or, with
    --on FILE, two calibrators (calibrator.json) or a calibrator and the word `raw`.

    \b
    Example:
        focalibrate compare model_a.npz model_b.npz
        focalibrate compare a/calibrator.json raw --on test.npz
    """
    sides = (
        _two_files(a, b, labels, options) if on is None else _two_maps(a, b, on, labels, options)
    )
    with reported(), steps() as bar:
        bar.add_task("resampling", total=None)
        first, second = (
            scorecard(probs, y, n_bins=bins, n_resamples=resamples, seed=seed)
            for probs, y in sides
        )
    if as_json:
        click.echo(json.dumps(_record(first, second), indent=1))
        return
    Console(highlight=False).print(_table(a, b, first, second))


_Side = tuple[NDArray[Any], NDArray[np.int64]]


def _two_files(a: Path, b: Path, labels: Path | None, options: dict[str, Any]) -> list[_Side]:
    first, second = (read_examples(path, labels, **options) for path in (a, b))
    if first.logits.shape != second.logits.shape:
        raise Job(
            f"{a} and {b} must be of the same examples and classes, got shapes "
            f"{first.logits.shape} and {second.logits.shape}."
        )
    differ = np.flatnonzero(first.labels != second.labels)
    if len(differ):
        raise Job(
            f"{a} and {b} must have the same labels, but {len(differ)} rows differ, first row "
            f"{differ[0]}. Write both in the same order."
        )
    return [(Identity().probs(e.logits), e.labels) for e in (first, second)]


def _two_maps(
    a: Path, b: Path, on: Path, labels: Path | None, options: dict[str, Any]
) -> list[_Side]:
    given: Examples = read_examples(on, labels, **options)
    with reported():
        maps = [Identity() if str(p) == "raw" else Calibrator.load(p) for p in (a, b)]
        return [(m.probs(given.logits), given.labels) for m in maps]


def _record(first: Scorecard, second: Scorecard) -> dict[str, Any]:
    return {
        m: {
            "a": interval_record(first.interval(m)),
            "b": interval_record(second.interval(m)),
            "a_less_b": interval_record(first.difference(second, m)),
        }
        for m in METRIC_NAMES
    }


def _table(a: Path, b: Path, first: Scorecard, second: Scorecard) -> Table:
    table = Table(
        title=f"{len(first.predictions)} examples",
        caption="A less B, paired; an interval that leaves out 0 tells them apart",
    )
    table.add_column("metric")
    for heading in (f"A: {a.name}", f"B: {b.name}"):
        table.add_column(heading, justify="right", overflow="fold")
    for heading in ("A less B", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for m in METRIC_NAMES:
        gap = first.difference(second, m)
        word = "A better" if gap.high < 0 else "B better" if gap.low > 0 else "no telling"
        sides = (number(m, card.estimates[m]) for card in (first, second))
        table.add_row(HEADINGS[m], *sides, with_interval(m, gap), word)
    return table
