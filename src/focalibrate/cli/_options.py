"""Options that several commands share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class OutPath(click.Path):
    """A file or folder to write, on this machine: `Path` would make a folder called ``s3:``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; refuse a URL."""
        if "://" in str(value):
            self.fail(f"{value} is a URL. Write to this machine and copy the result.", param, ctx)
        return super().convert(value, param, ctx)


def with_options(command: F, options: Sequence[Callable[[F], F]]) -> F:
    """Add options to a command, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def _number(name: str, default: int, least: int, text: str) -> Callable[[F], F]:
    return click.option(
        name, default=default, show_default=True, type=click.IntRange(min=least), help=text
    )


def judging_options(command: F) -> F:
    """Add the options that say how predictions are evaluated."""
    return with_options(
        command,
        [
            _number("--bins", 15, 1, "Number of bins for the calibration errors."),
            _number(
                "--resamples",
                300,
                10,
                "Number of bootstrap resamples for the confidence intervals.",
            ),
            _number("--seed", 0, 0, "Random seed."),
        ],
    )


def diagram_option(command: F) -> F:
    """Add the option that says which reliability diagram is printed."""
    return click.option(
        "--diagram",
        type=click.Choice(["curve", "bins"]),
        default="curve",
        show_default=True,
        help="Reliability diagram: the curve without bins and its band (CORP), or bars.",
    )(command)


labels_option = click.option(
    "--labels",
    type=click.Path(path_type=Path),
    help="File with the labels, if they are not in the predictions file.",
)
calibrator_option = click.option(
    "--calibrator", type=click.Path(path_type=Path), help="Calibrator to apply first."
)
weights_option = click.option(
    "--weights-are",
    type=click.Choice(["importance", "copies"]),
    default="importance",
    show_default=True,
    help="What --weight-column holds: how much a row counts, or how many identical rows it is.",
)
anyway_option = click.option(
    "--anyway", is_flag=True, help="Continue although the data look wrong."
)


def prediction_options(command: F) -> F:
    """Add the options that say what a file holds; the names are those of `read_predictions`."""
    return with_options(
        command,
        [
            click.option(
                "--input",
                type=click.Choice(["logits", "probs", "percent"]),
                help="What the scores are, if the file does not say.",
            ),
            click.option(
                "--truth",
                type=click.Path(path_type=Path),
                help="Ground truth to match detections to: a COCO file or a folder of YOLO "
                "labels.",
            ),
            click.option(
                "--iou",
                type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
                help="Minimum overlap for a detection to be correct.  [default: 0.5]",
            ),
            click.option("--logits-key", help="Array or column with the logits."),
            click.option("--probs-key", help="Array or column with the probabilities."),
            click.option("--labels-key", help="Array with the labels."),
            click.option(
                "--label-column",
                help="Column with the labels: a name, a position (-1: the last), or none.",
            ),
            click.option(
                "--score-columns",
                help="Columns of the scores in order, such as 'cat,dog', or a pattern: 'p_*'.",
            ),
            click.option("--id-column", multiple=True, help="Column with the ids of the rows."),
            click.option("--ignore", multiple=True, help="Column to ignore; may be repeated."),
            click.option("--weight-column", help="Column with the weights of the examples."),
            click.option(
                "--cluster",
                help="Column that says which rows belong together, such as attempts at one "
                "question; tests and intervals account for it.",
            ),
            click.option("--by", help="Columns to group by, separated by commas."),
            click.option("--positive", help="Name of the positive class, if there are two."),
            click.option(
                "--class-names", help="Names of the classes in order, if the file has none."
            ),
            click.option(
                "--header/--no-header",
                default=None,
                help="Whether the first row of a text table names the columns.",
            ),
            click.option("--sheet", help="Sheet of the workbook, if more than one has data."),
            click.option("--encoding", help="Encoding of a text table.  [default: UTF-8]"),
            click.option(
                "--drop-missing",
                is_flag=True,
                default=None,
                help="Leave out rows with a missing score or label.",
            ),
            click.option(
                "--probs-atol",
                type=click.FloatRange(min=0.0),
                help="How far rows may be from summing to 1, beyond what rounding explains.  "
                "[default: 1e-05]",
            ),
            click.option(
                "--max-memory",
                help="Maximum memory for reading, such as 4GB.  [default: 80 % of the machine's]",
            ),
        ],
    )
