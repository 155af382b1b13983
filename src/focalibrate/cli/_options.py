"""Options that several commands share; a command gets those of one kind as one argument."""

from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from focalibrate.engines import Backend

Command = Callable[..., Any]


FOR_JSON = "focalibrate.for_json"


def for_json(context: click.Context, _: click.Parameter, value: Any) -> Any:
    """Keep standard output for JSON, and say all else on standard error, if an option asks so."""
    context.meta[FOR_JSON] = value is True or str(value) == "-"
    return value


class OutPath(click.Path):
    """A file or folder to write, on this machine: `Path` would make a folder called ``s3:``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; refuse a URL."""
        if "://" in str(value):
            self.fail(f"{value} is a URL. Write to this machine and copy the result.", param, ctx)
        return super().convert(value, param, ctx)


def collected(
    argument: str, options: Iterable[Callable[[Command], Command]], made: Callable[..., Any]
) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, which gets them as one `argument`.

    Args:
        argument: its name.
        options: in the order of the help.
        made: returns the argument from the options by name.
    """

    def add(command: Command) -> Command:
        @wraps(command)
        def called(**values: Any) -> Any:
            own = {name: values.pop(name) for name in names}
            return command(**{argument: made(**own)}, **values)

        found: list[click.Parameter] = called.__dict__.setdefault("__click_params__", [])
        before = len(found)
        for option in reversed(list(options)):
            option(called)
        names = [str(parameter.name) for parameter in found[before:]]
        return called

    return add


def backend_of(
    *, workers: int | None, backend: str, scheduler: str | None, default: int | None = None
) -> "Backend | None":
    """Return the backend that the options name, or None for this process."""
    if (backend == "dask") != (scheduler is not None):
        raise click.UsageError("--backend dask and --scheduler ADDRESS go together.")
    if backend == "dask" and workers is not None:
        raise click.UsageError("--workers is for --backend local; a cluster has its own workers.")
    from focalibrate.engines import DaskCluster, LocalProcesses

    if scheduler is not None:
        return DaskCluster(scheduler)
    count = workers or default
    return None if count is None else LocalProcesses(count)


def engine_options(
    workers_help: str, *, default: int | None = None
) -> Callable[[Command], Command]:
    """Add --workers, --backend and --scheduler, as the argument `backend`."""
    options = [
        click.option("--workers", type=click.IntRange(min=1), help=workers_help),
        click.option(
            "--backend",
            default="local",
            show_default=True,
            type=click.Choice(["local", "dask"]),
            help="Where to run.",
        ),
        click.option(
            "--scheduler",
            metavar="ADDRESS",
            help="Address of the Dask scheduler: tcp://host:8786, or tls:// with the keys of "
            "Dask's own configuration. Whoever reaches a scheduler can run code on its workers, "
            "so keep it in a private network or use tls://.",
        ),
    ]
    return collected("backend", options, lambda **given: backend_of(**given, default=default))


def _number(
    flag: str, name: str, default: int, least: int, text: str
) -> Callable[[Command], Command]:
    return click.option(
        flag, name, default=default, show_default=True, type=click.IntRange(min=least), help=text
    )


bins_option = _number("--bins", "n_bins", 15, 1, "Number of bins for the calibration errors.")
resamples_option = _number(
    "--resamples", "n_resamples", 300, 10, "Number of bootstrap resamples for the intervals."
)
seed_option = _number("--seed", "seed", 0, 0, "Random seed.")
force_option = click.option("--force", is_flag=True, help="Replace files that exist.")
json_option = click.option(
    "--json", "as_json", is_flag=True, callback=for_json, help="Print results as JSON."
)
calibrator_option = click.option(
    "--calibrator", type=click.Path(path_type=Path), help="Calibrator to apply first."
)
weights_option = click.option(
    "--weights-are",
    "copies",
    type=click.Choice(["importance", "copies"]),
    callback=lambda context, option, value: value == "copies",
    default="importance",
    show_default=True,
    help="What --weight-column holds: how much a row counts, or how many identical rows it is.",
)
anyway_option = click.option(
    "--anyway", is_flag=True, help="Continue although the data look wrong."
)

prediction_options = collected(
    "options",
    [
        click.option(
            "--labels",
            "labels_path",
            type=click.Path(path_type=Path),
            help="File with the labels, if they are not in the predictions file.",
        ),
        click.option(
            "--input",
            type=click.Choice(["logits", "probs", "percent"]),
            help="What the scores are, if the file does not say.",
        ),
        click.option(
            "--truth",
            type=click.Path(path_type=Path),
            help="Ground truth to match detections to: a COCO file or a folder of YOLO labels.",
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
            help="Column that says which rows belong together, such as attempts at one question; "
            "tests and intervals account for it.",
        ),
        click.option("--by", help="Columns to group by, separated by commas."),
        click.option("--positive", help="Name of the positive class, if there are two."),
        click.option("--class-names", help="Names of the classes in order, if the file has none."),
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
    lambda **given: {name: value for name, value in given.items() if value not in (None, ())},
)
"""What a file holds: only what is given, under the names of `scan_predictions`."""
