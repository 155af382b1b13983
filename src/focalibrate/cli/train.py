"""`focalibrate train`."""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from focalibrate.cli._read import reported

if TYPE_CHECKING:
    from focalibrate.train import Recipe, Run, Tick


@click.command("train")
@click.argument("recipe", required=False)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a field.")
@click.option("--scale", default=1.0, show_default=True, help="Share of the data and epochs.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder of data sets.")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Folder of the run.  [default: runs/NAME]"
)
@click.option(
    "--look-every",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="EPOCHS",
    help="Look at the training and test examples only so often; changes no weight.",
)
@click.option("--list", "lists", is_flag=True, help="List the named recipes.")
def train_command(
    recipe: str | None,
    settings: tuple[str, ...],
    scale: float,
    data: Path | None,
    out: Path | None,
    look_every: int,
    lists: bool,
) -> None:
    """Train as RECIPE says: a name of --list, or a .toml file.

    Interrupted in any way and started again by the same command, it goes on where it was and
    ends with the same weights. Under `torchrun` the processes share every batch. Writes
    recipe.toml, versions.json, checkpoint.pt, dynamics.npz and .json, val.npz and test.npz for
    `focalibrate calibrate`, time.json, model.pt, and dynamics.html, a page of what was seen after
    each epoch. Needs torch. Exit status: 0 done, 1 bad file, data or run, 2 bad options.

    \b
    Example:
        focalibrate train e2-fl1 -o run
        focalibrate train e3-cifar10-resnet20-fl2 --scale 0.1 --data DATA --set seed=1
        focalibrate calibrate run/val.npz --test run/test.npz --trained-gamma 1
    """
    with reported():
        from focalibrate.train import NAMED, train

        if lists:
            _print_list(NAMED)
            return
        if recipe is None:
            raise click.UsageError("Name a RECIPE: one of --list, or a .toml file.")
        wanted = _find(recipe, settings, scale)
        folder = out or Path("runs", Path(recipe).stem)
        with _bar() as progress:
            run = train(wanted, out=folder, data=data, look_every=look_every, progress=progress)
        if os.environ.get("RANK", "0") == "0":  # the first of torchrun's processes speaks for all
            _show(run, _write_page(run))


def _write_page(run: "Run") -> Path:
    from focalibrate import __version__
    from focalibrate.report import Provenance, write_dynamics

    today = datetime.now(UTC).date().isoformat()
    made = Provenance(
        command=shlex.join(["focalibrate", *sys.argv[1:]]),
        version=__version__,
        seed=run.recipe.seed,
        made_at=today,
    )
    return write_dynamics(run.folder, provenance=made)


def _find(name: str, settings: tuple[str, ...], scale: float) -> "Recipe":
    from focalibrate.train import named_recipe, read_recipe, scaled, with_settings

    found = read_recipe(name) if name.endswith(".toml") else named_recipe(name)
    return scaled(with_settings(found, settings), scale)


@contextmanager
def _bar() -> Iterator[Any]:
    """Show epochs, loss, error and ECE on stderr, if that is a terminal."""
    console = Console(stderr=True)
    text = "epoch {task.fields[epoch]}  loss {task.fields[loss]}  {task.fields[seen]}"
    columns = (BarColumn(), TextColumn(text), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None, epoch="0", loss="-", seen="")

        def update(tick: "Tick") -> None:
            seen = ""
            if tick.error is not None and tick.ece is not None:
                seen = f"val error {tick.error:.2%}  ECE {tick.ece:.2%}"
            bar.update(
                task,
                total=tick.epochs * tick.steps,
                completed=tick.epoch * tick.steps + tick.step,
                epoch=f"{min(tick.epoch + 1, tick.epochs)}/{tick.epochs}",
                loss=f"{tick.loss:.4f}",
                seen=seen,
            )

        yield update


def _print_list(named: dict[str, "Recipe"]) -> None:
    for name, recipe in named.items():
        loss = recipe.loss if recipe.loss != "focal" else f"gamma={recipe.gamma}"
        click.echo(f"{name:34} {recipe.dataset:14} {recipe.model:12} {loss}")


def _show(run: "Run", page: Path) -> None:
    from focalibrate.report import next_commands

    table = Table(title=f"{run.recipe.model} on {run.recipe.dataset}, {run.recipe.epochs} epochs")
    table.add_column("")
    columns = ("error", "nll", "ece", "adaptive_ece")
    for column in columns:
        table.add_column(column, justify="right")
    for split in ("train", "validation", "test"):
        last = [float(run.dynamics.arrays[f"{split}_{column}"][-1]) for column in columns]
        error, nll, *gaps = last
        table.add_row(split, f"{error:.2%}", f"{nll:.4f}", *(f"{gap:.2%}" for gap in gaps))
    console = Console(highlight=False)
    console.print(table)
    if run.recipe.scale < 1:
        console.print(
            f"Scaled: {run.recipe.scale:g} of the published data and epochs; not its numbers."
        )
    first, _ = next_commands(run.folder, vars(run.recipe))
    console.print(f"\nEpoch by epoch: {page}\n\nNext:\n  {first}", soft_wrap=True, markup=False)
