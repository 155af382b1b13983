"""`focalibrate curvature`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from focalibrate.cli._errors import reported
from focalibrate.cli._progress import steps

if TYPE_CHECKING:
    from focalibrate.curvature import CurvatureReport


@click.command("curvature")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--on",
    "split",
    type=click.Choice(["validation", "train"]),
    default="validation",
    show_default=True,
    help="Examples over which the loss is averaged.",
)
@click.option("--data", type=click.Path(path_type=Path), help="Folder of data sets.")
@click.option(
    "--vectors",
    default=30,
    show_default=True,
    type=click.IntRange(min=2),
    help="Random vectors for the trace.",
)
@click.option("--max-examples", type=click.IntRange(min=1), help="Use only the first N examples.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Random seed."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def curvature_command(
    run: Path,
    split: Literal["validation", "train"],
    data: Path | None,
    vectors: int,
    max_examples: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Print trace, largest and smallest eigenvalue and spectrum of a trained RUN's Hessian.

    RUN is an output folder of `focalibrate train`. Each number comes with its error. Needs torch.

    \b
    Example:
        focalibrate train e2-fl1 -o run
        focalibrate curvature run --on train
    """
    with steps() as bar, reported():
        from focalibrate.train import run_curvature

        bar.add_task("multiplying by the Hessian", total=None)
        found = run_curvature(
            run,
            split=split,
            data=data,
            n_vectors=vectors,
            max_examples=max_examples,
            seed=seed,
        )
    if as_json:
        click.echo(json.dumps(_record(found), indent=1))
        return
    console = Console(highlight=False)
    console.print(
        _table(found, title=f"{run}: Hessian of the {split} loss, {found.size} parameters")
    )
    console.print("\nSpectrum: share of the eigenvalues in each interval")
    for line in _spectrum(found):
        console.print(line, style="cyan", no_wrap=True, crop=False)


def _record(found: "CurvatureReport") -> dict[str, Any]:
    return {
        "size": found.size,
        "trace": {
            "value": found.trace.value,
            "standard_error": found.trace.standard_error,
            "method": found.trace.method,
        },
        "lambda_max": _eigenvalue(found.lambda_max),
        "lambda_min": _eigenvalue(found.lambda_min),
        "density": {
            "nodes": np.asarray(found.density.nodes).ravel().tolist(),
            "weights": np.asarray(found.density.weights).ravel().tolist(),
        },
    }


def _eigenvalue(found: Any) -> dict[str, Any]:
    return {
        "value": found.value,
        "residual": found.residual,
        "converged": bool(found.converged),
    }


def _table(found: "CurvatureReport", *, title: str) -> Table:
    table = Table(title=title)
    table.add_column("quantity")
    for heading in ("value", "error"):
        table.add_column(heading, justify="right")
    trace = found.trace
    error = f"± {trace.standard_error:.2g} (standard error)" if trace.standard_error else "exact"
    table.add_row("trace", f"{trace.value:.6g}", error)
    for name, value in (
        ("largest eigenvalue", found.lambda_max),
        ("smallest eigenvalue", found.lambda_min),
    ):
        word = "" if value.converged else ", not converged"
        table.add_row(name, f"{value.value:.6g}", f"± {value.residual:.1e} (residual{word})")
    return table


def _spectrum(found: "CurvatureReport", n_bins: int = 10, width: int = 40) -> list[str]:
    nodes = np.asarray(found.density.nodes).ravel()
    weights = np.asarray(found.density.weights).ravel()
    share, edges = np.histogram(nodes, n_bins, weights=weights / weights.sum())
    return [
        f"{low:>11.3g} to {high:<11.3g} {'█' * round(part * width):<{width}} {part:.1%}"
        for part, low, high in zip(share, edges[:-1], edges[1:], strict=True)
    ]
