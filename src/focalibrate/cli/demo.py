"""`focalibrate demo`."""

import json

import click
from rich.console import Console
from rich.table import Table

from focalibrate.cli._charts import reliability_chart
from focalibrate.experiments.synthetic import Judged, run


@click.command("demo")
@click.option("--gamma", default=3.0, show_default=True, type=click.FloatRange(0, min_open=True))
@click.option("--examples", default=20_000, show_default=True, type=click.IntRange(min=100))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def demo_command(gamma: float, examples: int, seed: int, as_json: bool) -> None:
    """Train a model with focal loss where the truth is known, and make it honest.

    Three overlapping classes on a line, so that the true class probabilities are known. Needs
    no data and no torch, takes a few seconds.

    \b
    Example:
        focalibrate demo
        focalibrate demo --gamma 5 --json
    """
    console = Console(highlight=False)
    judged = run(gamma=gamma, n=examples, seed=seed)
    if as_json:
        click.echo(json.dumps([_figures(j) for j in judged], ensure_ascii=False, indent=2))
        return
    console.print(_table(judged))
    _, raw, recovered = judged
    for j in (raw, recovered):
        console.print(f"\n[bold]{j.name}[/]: accuracy █ where the model said |")
        for line in reliability_chart(j.table, width=max(20, min(40, console.width - 50))):
            console.print(line, style="cyan", no_wrap=True, crop=False)
    console.print(
        f"\nΨ takes the divergence from the true probabilities from {raw.kl_divergence:.4f} to "
        f"{recovered.kl_divergence:.4f} nats and the calibration error from {raw.ece:.1%} to "
        f"{recovered.ece:.1%}. It changes no prediction: the error stays {raw.error:.1%}."
    )


def _figures(judged: Judged) -> dict[str, object]:
    return {
        "name": judged.name,
        "error": judged.error,
        "kl_divergence": judged.kl_divergence,
        "ece": judged.ece,
    }


def _table(judged: list[Judged]) -> Table:
    table = Table(title="Probabilities against the truth, on fresh examples")
    table.add_column("trained with")
    for column in ("error", "KL to the truth", "ECE, 15 bins"):
        table.add_column(column, justify="right")
    for j in judged:
        table.add_row(j.name, f"{j.error:.2%}", f"{j.kl_divergence:.5f}", f"{j.ece:.2%}")
    return table
