"""`focalibrate reproduce`."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from focalibrate.cli._read import reported

if TYPE_CHECKING:
    from focalibrate.experiments.reproduce import Reproduced
    from focalibrate.experiments.sweep import Backend

AGAIN = "run the same command again to make only those that are missing."
STYLES = {
    "reproduced": "green",
    "same direction": "cyan",
    "not reproduced": "bold red",
    "not run at full size": "dim",
}


@click.command("reproduce")
@click.argument("name", required=False)
@click.option(
    "--scale",
    default="reduced",
    show_default=True,
    type=click.Choice(["smallest", "reduced", "full"]),
    help="Size; reduced is what two cores do in an hour, and is full where that is little.",
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Folder.  [default: reproduced/NAME]"
)
@click.option("--data", type=click.Path(path_type=Path), help="Folder of data sets.")
@click.option(
    "--trained",
    type=click.Path(path_type=Path),
    help="Folder of trained networks, shared by experiments.  [default: trained beside -o]",
)
@click.option(
    "--workers", type=click.IntRange(min=1), help="Runs side by side.  [default: the cores]"
)
@click.option(
    "--backend",
    default="local",
    show_default=True,
    type=click.Choice(["local", "dask"]),
    help="Where the runs are made.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Of the Dask cluster.")
def reproduce_command(
    name: str | None,
    scale: str,
    out: Path | None,
    data: Path | None,
    trained: Path | None,
    workers: int | None,
    backend: str,
    scheduler: str | None,
) -> None:
    """Run an experiment of the papers; without a NAME, list them.

    Each run has a file of its own: interrupted in any way and started again by the same command,
    finished runs are not repeated. Writes page.html (the paper's figure, its numbers beside ours,
    a verdict for every claim), rows.csv, verdicts.json, meta.json, tables.md and figures/. Exit
    status: 0 done, whatever the verdicts; 1 runs failed or were interrupted, or data are absent;
    2 bad options.

    \b
    Example:
        focalibrate reproduce
        focalibrate reproduce regimes -o regimes
        focalibrate reproduce focal-temperature --data DATA --scale smallest
        focalibrate reproduce psi-tabular --data DATA --backend dask --scheduler tcp://host:8786
    """
    with reported():
        if name is None:
            _print_list()
            return
        from focalibrate.experiments.reproduce import reproduce
        from focalibrate.experiments.sweep import SweepError

        where = _backend(backend, scheduler, workers)
        folder = out or Path("reproduced", name)
        try:
            with _bar(name) as progress:
                found = reproduce(
                    name,
                    out=folder,
                    scale=scale,  # type: ignore[arg-type]
                    data=data,
                    trained=trained,
                    backend=where,
                    command=shlex.join(["focalibrate", *sys.argv[1:]]),
                    progress=progress,
                )
        except SweepError as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            raise click.ClickException(
                f"interrupted. Finished runs are in {folder}/runs: {AGAIN}"
            ) from None
    _show(found)


def _backend(name: str, scheduler: str | None, workers: int | None) -> "Backend":
    if (name == "dask") != (scheduler is not None):
        raise click.UsageError("--backend dask and --scheduler ADDRESS go together.")
    if name == "dask" and workers is not None:
        raise click.UsageError("--workers is for --backend local; a cluster has its own workers.")
    if scheduler is not None:
        from focalibrate.experiments.cluster import Cluster

        return Cluster(scheduler)
    from focalibrate.experiments.sweep import Here

    return Here(workers or os.cpu_count() or 1)


@contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show finished runs on stderr, if that is a terminal."""
    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(name, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield update


def _print_list() -> None:
    from focalibrate.experiments.registry import EXPERIMENTS, find_experiment

    table = Table(box=None, pad_edge=False)
    for head in ("name", "", "what", "source"):
        table.add_column(head, overflow="fold")
    for name in EXPERIMENTS:
        found = find_experiment(name)
        table.add_row(name, found.spec, found.title, found.source)
    Console(highlight=False).print(table)


def _show(found: "Reproduced") -> None:
    from focalibrate.experiments.page import show_interval

    console = Console(highlight=False)
    table = Table(title=f"{found.experiment.title} ({found.experiment.spec})", show_lines=True)
    for head in ("claim", "paper", "here", "verdict"):
        table.add_column(head, overflow="fold")
    for line in found.conclusion.lines:
        here = f"{show_interval(line.ours)} {line.unit}".strip()
        verdict = Text(line.standing, style=STYLES[line.standing])
        table.add_row(Text(line.claim), Text(line.paper), Text(here), verdict)
    console.print(table)
    if smaller := found.experiment.smaller[found.scale]:
        console.print(f"Smaller than the paper: {smaller}")
    console.print(f"\nSee {found.folder}/page.html", soft_wrap=True)
