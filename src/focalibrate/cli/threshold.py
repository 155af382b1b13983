"""`focalibrate threshold`."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from focalibrate.cli._errors import reported
from focalibrate.cli._open import open_predictions, read_rows
from focalibrate.cli._options import labels_option, prediction_options
from focalibrate.cli._summary import say_what_was_read
from focalibrate.detection import lrp_measures
from focalibrate.io import Predictions
from focalibrate.metrics import Costs, choose_threshold
from focalibrate.metrics.threshold import Threshold
from focalibrate.pipeline import Examples

_share = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)


class CostsOption(click.ParamType):  # type: ignore[type-arg]
    """What mistakes cost, as ``FP=1,FN=5``."""

    name = "FP=1,FN=5"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the costs, both at least 0 and one above it."""
        if isinstance(value, Costs):
            return value
        pairs = [part.partition("=") for part in str(value).split(",")]
        try:
            found = {name.strip().upper(): float(number) for name, _, number in pairs}
        except ValueError:
            found = {}
        numbers = list(found.values())
        fits = len(pairs) == 2 and set(found) == {"FP", "FN"}
        if not fits or not (np.isfinite(numbers).all() and min(numbers) >= 0 < max(numbers)):
            self.fail(f"must be two costs such as FP=1,FN=5, got {value!r}.", param, ctx)
        return Costs(false_positive=found["FP"], false_negative=found["FN"])


@click.command("threshold")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--precision", type=_share, help="Promise: at least this share of the rows that pass is right."
)
@click.option(
    "--recall", type=_share, help="Promise: at least this share of the right rows passes."
)
@click.option(
    "--max-cost", type=click.FloatRange(min=0.0), help="Promise: at most this mean cost per row."
)
@click.option(
    "--costs",
    type=CostsOption(),
    help="Cost of a wrong row that passes, and of a right one that does not.  [default: 1 and 1]",
)
@click.option(
    "--confidence",
    "certainty",
    default=0.95,
    show_default=True,
    type=click.FloatRange(0.5, 1.0, min_open=True, max_open=True),
    help="Probability that the promise holds.",
)
@click.option(
    "--per-class",
    is_flag=True,
    help="For detections: find a threshold for each class. Without a promise, minimise the "
    "localisation-recall-precision error (LRP).",
)
@labels_option
@click.option("--json", "as_json", is_flag=True, help="Print the finding as JSON.")
@prediction_options
def threshold_command(
    paths: tuple[str, ...],
    precision: float | None,
    recall: float | None,
    max_cost: float | None,
    costs: Costs | None,
    certainty: float,
    per_class: bool,
    labels: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Find the lowest confidence threshold that keeps a promise on new rows.

    Pass one promise: --precision, --recall (which finds the highest threshold) or --max-cost. A
    file holds either a confidence and whether the answer was right, or scores of classes. With
    two classes, the probability of the positive class is used; with more, the confidence of the
    predicted class.

    Exit status: 0 if a threshold is found; 1 if none keeps the promise, with --by in some group.
    Then the best that can be promised is printed. --cluster accounts for rows that belong
    together.

    \b
    Example:
        focalibrate threshold answers.csv --precision .95 --cluster question_id
        focalibrate threshold answers.csv --recall .9 --by model
        focalibrate threshold answers.csv --max-cost .3 --costs FP=5,FN=1
        focalibrate threshold detections.json --truth instances.json --per-class
    """
    if per_class and options["truth"] is None:
        raise click.UsageError("--per-class is for detections: pass --truth, too.")
    if per_class and precision is recall is max_cost is None:
        _show_per_class(paths, options, as_json=as_json)
        return
    if sum(one is not None for one in (precision, recall, max_cost)) != 1:
        raise click.UsageError("Pass exactly one of --precision, --recall and --max-cost.")
    if costs is not None and max_cost is None:
        raise click.UsageError("--costs needs --max-cost, the mean cost to promise.")
    if options["weight_column"] is not None:
        raise click.UsageError(
            "--weight-column cannot be used: a promise is about rows, each once."
        )
    scan = open_predictions(paths, options, labels=labels)
    rows = read_rows(scan)
    assert rows is not None  # noqa: S101  there is no limit
    say_what_was_read([rows], to_stderr=as_json)
    if rows.weights is not None:
        raise click.UsageError("Outcomes must be 0 or 1 to promise a share: leave out the ties.")
    if len(rows.groups) > 1:
        raise click.UsageError(f"--by must name one column, got {', '.join(rows.groups)}.")
    with reported():
        confidence, correct = _events(rows)
        found = choose_threshold(
            confidence,
            correct,
            precision=precision,
            recall=recall,
            max_cost=max_cost,
            costs=costs,
            certainty=certainty,
            cluster=rows.cluster,
            by=next(iter(rows.groups.values()), None),
        )
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=1, ensure_ascii=False))
    else:
        _show(found)
    parts = (found.by or {}).values()
    kept = all(one.is_kept for one in parts) if parts else found.is_kept
    click.get_current_context().exit(0 if kept else 1)


def _show_per_class(paths: tuple[str, ...], options: dict[str, Any], *, as_json: bool) -> None:
    """Print the score from which the detections of each class have the least LRP error."""
    rows = read_rows(open_predictions(paths, options))
    assert rows is not None  # noqa: S101  there is no limit
    say_what_was_read([rows], to_stderr=as_json)
    found = lrp_measures(rows.layout.matched)
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1, ensure_ascii=False))
        return
    console = Console(highlight=False)
    for one in found:
        text = "no detections"
        if one.low is not None and one.high is not None:
            text = f"{one.estimate:.3f} (95 % CI by image {one.low:.3f} to {one.high:.3f})"
        console.print(f"{one.name}: {text}", markup=False, soft_wrap=True)
    console.print(
        "Keep detections with at least these scores: they minimise the localisation-recall-"
        "precision error. They promise nothing; for a promise add --precision.",
        markup=False,
    )


def _events(rows: Predictions) -> tuple[Any, Any]:
    """Return a confidence in [0, 1] and whether it was right, of each row."""
    examples = Examples.of_predictions(rows)
    probs = examples.scores.astype(np.float64)
    if examples.kind == "logits":
        probs = np.exp(probs - probs.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
    if examples.n_classes == 2:
        return probs[:, 1], examples.labels == 1
    top = probs.argmax(axis=1)
    return probs[np.arange(len(top)), top], top == examples.labels


def _show(found: Threshold) -> None:
    console = Console(highlight=False)
    console.print(found.summary, markup=False, soft_wrap=True)
    if found.n_clusters is not None:
        text = (
            f"{found.n:,} rows in {found.n_clusters:,} clusters; the certainty accounts for them."
        )
        console.print(text, markup=False, soft_wrap=True)
    for name, one in (found.by or {}).items():
        console.print(f"{name}: {one.summary}", markup=False, soft_wrap=True)
