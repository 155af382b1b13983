"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _all(command: F, options: list[Callable[[F], F]]) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def _number(name: str, default: int, least: int, text: str) -> Callable[[F], F]:
    return click.option(
        name, default=default, show_default=True, type=click.IntRange(min=least), help=text
    )


def judging_options(command: F) -> F:
    """Add the options that say how predictions are judged."""
    return _all(
        command,
        [
            _number("--bins", 15, 1, "Bins of the binned errors."),
            _number("--resamples", 300, 10, "Bootstrap resamples behind every interval."),
            _number("--seed", 0, 0, "Of everything drawn at random."),
        ],
    )


def prediction_options(command: F) -> F:
    """Add the options that say what a file holds."""
    return _all(
        command,
        [
            click.option(
                "--input",
                "kind",
                type=click.Choice(["logits", "probs"]),
                help="What the scores are, where the file does not say.",
            ),
            click.option("--logits-key", help="Name of the logits in an .npz or .safetensors."),
            click.option("--probs-key", help="Name of the probabilities there."),
            click.option("--labels-key", help="Name of the labels there."),
            click.option("--label-column", help="Column of the labels in a .csv or .parquet."),
            click.option(
                "--probs-atol",
                type=click.FloatRange(min=0.0),
                help="How far probabilities may be from summing to 1.  [default: 1e-05]",
            ),
        ],
    )
