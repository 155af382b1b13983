"""`focalibrate threshold`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click
import numpy as np

from focalibrate._stable import log_softmax
from focalibrate.cli._open import open_predictions, read_rows
from focalibrate.cli._options import json_option, prediction_options
from focalibrate.cli._summary import say, say_json, say_what_was_read
from focalibrate.detection import Measure, lrp_measures
from focalibrate.io import Predictions
from focalibrate.metrics import Costs, choose_threshold
from focalibrate.metrics.threshold import Threshold
from focalibrate.pipeline import Examples

PROMISES = ("precision", "recall", "max_cost")
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


class MeanCost(click.FloatRange):
    """A mean cost per row; costs of mistakes are told what they are for."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the mean cost."""
        if "=" in str(value):
            self.fail(
                "must be the mean cost per row to promise; the costs of mistakes go to --costs: "
                f"--max-cost 0.3 --costs {value}",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


@click.command("threshold")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--precision", type=_share, help="Promise: at least this share of the rows that pass is right."
)
@click.option(
    "--recall", type=_share, help="Promise: at least this share of the right rows passes."
)
@click.option(
    "--max-cost", type=MeanCost(min=0.0), help="Promise: at most this mean cost per row."
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
@json_option
@prediction_options
def threshold_command(
    paths: tuple[str, ...],
    options: dict[str, Any],
    per_class: bool,
    as_json: bool,
    **settings: Any,
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
    if per_class and "truth" not in options:
        raise click.UsageError("--per-class is for detections: pass --truth, too.")
    promises = [name for name in PROMISES if settings[name] is not None]
    if len(promises) != 1 and not (per_class and not promises):
        raise click.UsageError("Pass exactly one of --precision, --recall and --max-cost.")
    if settings["costs"] is not None and promises != ["max_cost"]:
        raise click.UsageError("--costs needs --max-cost, the mean cost to promise.")
    if "weight_column" in options and promises:
        raise click.UsageError(
            "--weight-column cannot be used: a promise is about rows, each once."
        )
    rows = read_rows(open_predictions(paths, options))
    say_what_was_read([rows])
    if not promises:
        _show_per_class(lrp_measures(rows.layout.matched), as_json=as_json)
        return
    if rows.weights is not None:
        raise click.UsageError("Outcomes must be 0 or 1 to promise a share: leave out the ties.")
    if len(rows.groups) > 1:
        raise click.UsageError(f"--by must name one column, got {', '.join(rows.groups)}.")
    confidence, correct = _events(rows)
    by = next(iter(rows.groups.values()), None)
    found = choose_threshold(confidence, correct, cluster=rows.cluster, by=by, **settings)
    if as_json:
        say_json(found.to_dict())
    else:
        _show(found)
    parts = (found.by or {}).values()
    kept = all(one.is_kept for one in parts) if parts else found.is_kept
    click.get_current_context().exit(0 if kept else 1)


def _show_per_class(found: Sequence[Measure], *, as_json: bool) -> None:
    if as_json:
        known = [asdict(one) | ({"estimate": None} if one.low is None else {}) for one in found]
        say_json(known)
        return
    for one in found:
        text = "no objects, or no detections"
        if one.low is not None and one.high is not None:
            text = f"{one.estimate:.3f} (95 % CI by image {one.low:.3f} to {one.high:.3f})"
        say(f"{one.name}: {text}")
    say(
        "Keep detections with at least these scores: they minimise the localisation-recall-"
        "precision error. They promise nothing; for a promise add --precision.",
        wrap=True,
    )


def _events(rows: Predictions) -> tuple[Any, Any]:
    """Return a confidence in [0, 1] and whether it was right, of each row."""
    examples = Examples.of_predictions(rows)
    probs = examples.scores.astype(np.float64)
    if examples.kind == "logits":
        probs = np.exp(log_softmax(probs))
    if examples.n_classes == 2:
        return probs[:, 1], examples.labels == 1
    top = probs.argmax(axis=1)
    return probs[np.arange(len(top)), top], top == examples.labels


def _show(found: Threshold) -> None:
    say(found.summary)
    if found.n_clusters is not None:
        n = found.n_clusters
        say(f"{found.n:,} rows in {n:,} clusters; the certainty accounts for them.")
    for name, one in (found.by or {}).items():
        say(f"{name}: {one.summary}")
