"""Options for parallel work: on this machine or on a cluster."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from focalibrate.cli._options import F, with_options

if TYPE_CHECKING:
    from focalibrate.engines import Backend


def engine_options(workers_help: str) -> Callable[[F], F]:
    """Add --workers, --backend and --scheduler."""
    options: list[Callable[[F], F]] = [
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
    return lambda command: with_options(command, options)


def backend_of(
    name: str, scheduler: str | None, workers: int | None, *, default: int
) -> "Backend | None":
    """Return the backend that the options name, or None for one local process."""
    if (name == "dask") != (scheduler is not None):
        raise click.UsageError("--backend dask and --scheduler ADDRESS go together.")
    if name == "dask" and workers is not None:
        raise click.UsageError("--workers is for --backend local; a cluster has its own workers.")
    from focalibrate.engines import DaskCluster, LocalProcesses

    if scheduler is not None:
        return DaskCluster(scheduler)
    count = workers or default
    return None if count == 1 and workers is None else LocalProcesses(count)
