"""`focalibrate train`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from focalibrate.cli._open import progress_bar
from focalibrate.cli._options import OutPath
from focalibrate.cli._summary import command_line

if TYPE_CHECKING:
    from focalibrate_papers.train import Recipe, Run, Tick

SECONDS_BETWEEN_LINES = 10.0
"""Where stderr is a file or a pipe, which shows no bar."""


@click.command("train")
@click.argument("recipe", required=False)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a field of the recipe; may be given several times.",
)
@click.option(
    "--scale",
    default=1.0,
    show_default=True,
    help="Fraction of the training examples and of the epochs.",
)
@click.option("--data", type=click.Path(path_type=Path), help="Folder of data sets.")
@click.option("-o", "--out", type=OutPath(), help="Output folder.  [default: runs/NAME]")
@click.option(
    "--look-every",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="EPOCHS",
    help="Evaluate on the training and test examples every N epochs.",
)
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Threads of torch. More are slower for small networks, and give other rounding.",
)
@click.option("--list", "lists", is_flag=True, help="List the recipes of the papers.")
def train_command(
    recipe: str | None,
    settings: tuple[str, ...],
    scale: float,
    data: Path | None,
    out: Path | None,
    look_every: int,
    threads: int,
    lists: bool,
) -> None:
    """Train the network that RECIPE describes: a name from --list, or a .toml file.

    If it is interrupted, run the same command again: it resumes and ends with the same weights.
    The output folder gets val.npz and test.npz (logits and labels for
    `focalibrate calibrate`), recovery.json (the calibrator that undoes the focal loss, for
    `focalibrate apply`), model.pt, dynamics.html (a page of metrics per epoch; also .npz and
    .json), recipe.toml, versions.json, time.json and checkpoint.pt. Needs torch. Exit status: 0
    success, 1 a problem with data, files or training, 2 wrong options.

    \b
    Example:
        focalibrate train e2-fl1 -o run
        focalibrate train e3-cifar10-resnet8-fl2 --scale 0.1 --data DATA --set seed=1
        focalibrate calibrate run/val.npz --test run/test.npz --trained-gamma 1
    """
    import torch

    from focalibrate_papers.train import load_dataset, train

    if lists:
        _print_list()
        return
    if recipe is None:
        raise click.UsageError("Name a RECIPE: one of --list, or a .toml file.")
    wanted = _find(recipe, settings, scale)
    folder = out or Path("runs", Path(recipe).stem)
    torch.set_num_threads(threads)
    dataset = load_dataset(wanted, data=data)
    click.echo(dataset.describe())
    with _bar() as progress:
        run = train(wanted, out=folder, dataset=dataset, look_every=look_every, progress=progress)
    _show(run, _write_page(run))


def _write_page(run: "Run") -> Path:
    from focalibrate import __version__
    from focalibrate.report import Provenance
    from focalibrate_papers.dynamics_page import write_dynamics

    today = datetime.now(UTC).date().isoformat()
    made = Provenance(
        command=command_line(), version=__version__, seed=run.recipe.seed, made_at=today
    )
    return write_dynamics(run.folder, provenance=made)


def _find(name: str, settings: tuple[str, ...], scale: float) -> "Recipe":
    from focalibrate_papers.recipe import read_recipe, with_settings
    from focalibrate_papers.recipes import named_recipe, scaled

    found = read_recipe(name) if name.endswith(".toml") else named_recipe(name)
    return scaled(with_settings(found, settings), scale)


@contextmanager
def _bar() -> Iterator[Any]:
    """Show epoch, loss, error and ECE on stderr: a bar, or a line every ten seconds."""
    text = "epoch {task.fields[epoch]}  loss {task.fields[loss]}  {task.fields[seen]}"
    columns = (BarColumn(), TextColumn(text), TimeElapsedColumn(), TimeRemainingColumn())
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=None, epoch="0", loss="-", seen="")
        said_at = time.monotonic()

        def update(tick: "Tick") -> None:
            nonlocal said_at
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
            if bar.disable and time.monotonic() - said_at > SECONDS_BETWEEN_LINES:
                said_at = time.monotonic()
                done = min(tick.epoch + 1, tick.epochs)
                click.echo(f"epoch {done}/{tick.epochs}  loss {tick.loss:.4f}  {seen}", err=True)

        yield update


def _print_list() -> None:
    from focalibrate_papers.datasets import DATASETS
    from focalibrate_papers.recipes import EXPERIMENTS, NAMED

    line = "{:3}{:33} {:14} {:12} {}"
    click.echo(line.format("", "RECIPE", "DATA", "NETWORK", "LOSS"))
    click.echo("* needs no data files")
    for prefix, title in EXPERIMENTS.items():
        click.echo(f"\n{title}")
        for name, recipe in NAMED.items():
            if name.split("-")[0] != prefix:
                continue
            source = DATASETS.get(recipe.dataset)
            mark = " *" if source is not None and source.is_generated else ""
            loss = recipe.describe_loss()
            click.echo(line.format(mark, name, recipe.dataset, recipe.model, loss))


def _show(run: "Run", page: Path) -> None:
    from focalibrate.metrics import METRICS
    from focalibrate_papers.dynamics_page import next_command

    table = Table(title=f"{run.recipe.model} on {run.recipe.dataset}, {run.recipe.epochs} epochs")
    table.add_column("")
    metrics = [METRICS[name] for name in ("error", "nll", "ece", "adaptive_ece")]
    for metric in metrics:
        table.add_column(metric.heading, justify="right")
    for split in ("train", "validation", "test"):
        last = [float(run.dynamics.arrays[f"{split}_{metric.name}"][-1]) for metric in metrics]
        table.add_row(split, *(m.text(value) for m, value in zip(metrics, last, strict=True)))
    console = Console(highlight=False)
    console.print(table)
    if run.recipe.scale < 1:
        console.print(
            f"Trained on {run.recipe.scale:g} of the paper's data and epochs: do not compare "
            "with its numbers."
        )
    first = next_command(run.folder, vars(run.recipe))
    console.print(f"\nMetrics per epoch: {page}\n\nNext:\n  {first}", soft_wrap=True, markup=False)
