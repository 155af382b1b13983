"""`focalibrate reproduce`."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from focalibrate.cli._open import counted
from focalibrate.cli._options import OutPath, engine_options

if TYPE_CHECKING:
    from focalibrate.engines import Backend
    from focalibrate_papers.evidence import Reproduced

AGAIN = "run the same command again to make only those that are missing."
STYLES = {
    "reproduced": "green",
    "supported": "green",
    "same direction": "cyan",
    "undecided": "dim",
    "not run at full size": "dim",
    "opposite direction": "yellow",
    "not reproduced": "bold red",
    "not supported": "yellow",
}


@click.command("reproduce")
@click.argument("name", required=False)
@click.option(
    "--scale",
    default="reduced",
    show_default=True,
    type=click.Choice(["smallest", "reduced", "full"]),
    help="smallest: seconds, no data; reduced: about an hour on two cores; full: the paper's "
    "size.",
)
@click.option("-o", "--out", type=OutPath(), help="Folder.  [default: reproduced/NAME]")
@click.option("--data", type=click.Path(path_type=Path), help="Folder of data sets.")
@click.option(
    "--trained",
    type=click.Path(path_type=Path),
    help="Folder of trained networks, shared by experiments.  [default: trained beside -o]",
)
@click.option(
    "--only-trained",
    is_flag=True,
    help="Leave out runs whose network is not yet in --trained, instead of training it.",
)
@click.option(
    "--keep-rows",
    is_flag=True,
    help="Take the runs in the folder's rows.csv as finished; make only those that are missing.",
)
@engine_options("Runs at the same time.  [default: number of cores]", default=os.cpu_count() or 1)
@click.option(
    "--judge-again",
    is_flag=True,
    help="Judge the rows.csv in the folder again, by the current rules; nothing is run.",
)
def reproduce_command(
    name: str | None,
    scale: str,
    out: Path | None,
    data: Path | None,
    trained: Path | None,
    only_trained: bool,
    keep_rows: bool,
    backend: "Backend | None",
    judge_again: bool,
) -> None:
    """Run an experiment of the papers; without a NAME, list them.

    Each run has a file of its own: if the command is interrupted, running it again continues
    where it stopped. Writes README.md (finding, verdicts, tables), rows.csv (every number),
    verdicts.json, meta.json and figures/. Exit status: 0 done, whatever the verdicts;
    1 runs failed or were interrupted, or data is missing; 2 bad options.

    \b
    Example:
        focalibrate reproduce
        focalibrate reproduce regimes -o regimes
        focalibrate reproduce focal-temperature --data DATA --scale smallest
        focalibrate reproduce psi-tabular --data DATA --backend dask --scheduler tcp://host:8786
    """
    if name is None:
        _print_list()
        return
    from focalibrate.engines import EngineError
    from focalibrate_papers.evidence import reproduce

    folder = out or Path("reproduced", name)
    if judge_again:
        _show(_judged_again(name, folder))
        return
    try:
        with counted(name) as progress:
            found = reproduce(
                name,
                out=folder,
                scale=scale,  # type: ignore[arg-type]
                data=data,
                trained=trained,
                only_trained=only_trained,
                keep_rows=keep_rows,
                backend=backend,
                progress=progress,
            )
    except EngineError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(
            f"interrupted. Finished runs are in {folder}/runs: {AGAIN}"
        ) from None
    _show(found)


def _judged_again(name: str, folder: Path) -> "Reproduced":
    from focalibrate_papers.evidence import judge_again, read_meta

    found = read_meta(folder)["experiment"]
    if found != name:
        raise click.UsageError(f"{folder} holds the experiment {found!r}, not {name!r}.")
    return judge_again(folder)


def _print_list() -> None:
    from focalibrate_papers.engine import EXPERIMENTS, find_experiment

    table = Table(box=None, pad_edge=False)
    for head in ("name", "what it shows", "source"):
        table.add_column(head, overflow="fold")
    for name in EXPERIMENTS:
        found = find_experiment(name)
        table.add_row(name, found.title, found.source)
    Console(highlight=False).print(table)


def _show(found: "Reproduced") -> None:
    from focalibrate_papers.engine import show_interval, tally

    console = Console(highlight=False)
    table = Table(title=found.experiment.title, show_lines=True)
    for head in ("claim", "here", "verdict"):
        table.add_column(head, overflow="fold")
    for result in found.conclusion.results:
        here = f"{show_interval(result.ours)} {result.unit}".strip()
        verdict = Text(result.verdict, style=STYLES[result.verdict])
        whose = "" if result.is_papers else " (our own question, not the paper's)"
        table.add_row(Text(result.claim + whose), Text(here), verdict)
    console.print(table)
    if found.conclusion.finding:
        console.print(Text(found.conclusion.finding, style="bold"))
    console.print(tally(found.conclusion.results))
    if smaller := found.experiment.smaller.get(found.scale):
        console.print(f"Smaller than the paper: {smaller}")
    console.print(f"\nThe paper's words and the figures: {found.folder}/README.md", soft_wrap=True)
