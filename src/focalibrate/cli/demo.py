"""`focalibrate demo`."""

import math
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from focalibrate._atomic import claim_folder, finish_folder
from focalibrate.calibrate import Calibrator, Identity
from focalibrate.cli._open import steps
from focalibrate.cli._options import OutPath, force_option, json_option, seed_option
from focalibrate.cli._summary import (
    command_line,
    say,
    say_json,
    show_next,
    show_result,
    show_table,
)
from focalibrate.metrics import adaptive_ece, error_rate, kl_divergence
from focalibrate.pipeline import CalibrationResult, calibrate_predictions
from focalibrate.pipeline.result import FILES
from focalibrate.simulated import KnownPosterior, Simulated, simulate

CLASS_NAMES = ("left", "middle", "right")


@click.command("demo")
@click.option(
    "--gamma",
    default=3.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Exponent of the focal loss.",
)
@click.option(
    "--examples",
    default=10_000,
    show_default=True,
    type=click.IntRange(min=100),
    help="Number of examples in each of the training, validation and test sets.",
)
@seed_option
@click.option(
    "-o",
    "--out",
    default="focalibrate-demo",
    show_default=True,
    type=OutPath(),
    help="Folder to write.",
)
@force_option
@json_option
def demo_command(
    gamma: float, examples: int, seed: int, out: Path, force: bool, as_json: bool
) -> None:
    """Train a model with focal loss on data whose true probabilities are known, and calibrate it.

    The data are three overlapping classes on a line, drawn at random. The predictions are written
    as val.npz and test.npz and calibrated as `focalibrate calibrate` does. Needs no data and no
    torch, and takes a few seconds.

    \b
    Example:
        focalibrate demo
        focalibrate demo --gamma 5 -o demo5 --json
    """
    claim_folder(out, ("val.npz", "test.npz", *FILES), force=force)
    with steps("training two models"):
        made = simulate(gamma=gamma, n=examples, seed=seed)
    with finish_folder(out) as folder:
        _save(folder / "val.npz", made.validation_logits, made.validation)
        _save(folder / "test.npz", made.test_logits, made.test)
    with steps("comparing calibration methods"):
        result = calibrate_predictions(
            out / "val.npz",
            test=out / "test.npz",
            trained_gamma=gamma,
            simple=True,  # one method, which can be compared with the truth
            seed=seed,
            command=command_line(),
        )
        result.save(out, force=force)
    figures = against_the_truth(made, result, gamma)
    if as_json:
        # JSON has no infinity: null if a method gives probability 0 to a class that occurs.
        finite = [
            {k: v if isinstance(v, str) or math.isfinite(v) else None for k, v in row.items()}
            for row in figures
        ]
        say_json(finite)
        return
    say(f"A model was trained with focal loss, γ={gamma:g}, on {examples:,} simulated examples.\n")
    show_result(result, out)
    say("")
    show_table(_table(figures))
    show_next(
        [
            f"focalibrate evaluate {out}/test.npz",
            f"focalibrate calibrate {out}/val.npz --test {out}/test.npz -o my-report",
            f"focalibrate apply {out}/calibrator.json {out}/test.npz -o calibrated.npz",
            f"open {out}/report.html in a browser",
        ]
    )


def _save(path: Path, logits: NDArray[Any], problem: KnownPosterior) -> None:
    np.savez(path, logits=logits, labels=problem.labels, class_names=np.array(CLASS_NAMES))


def against_the_truth(
    made: Simulated, result: CalibrationResult, gamma: float
) -> list[dict[str, str | float]]:
    """Return how close each method's probabilities are to the true ones, on the test examples."""
    plain: tuple[str, Calibrator, NDArray[Any]]
    plain = ("cross-entropy", Identity(), made.plain_test_logits)
    candidates = [plain] + [
        (f"focal γ={gamma:g}: {row.label}", row.calibrator, made.test_logits)
        for row in result.comparison.rows
    ]
    figures: list[dict[str, str | float]] = []
    for name, calibrator, logits in candidates:
        probs = calibrator.probs(logits)
        figures.append(
            {
                "method": name,
                "error": error_rate(probs, made.test.labels),
                "kl_divergence": kl_divergence(made.test.posterior, probs),
                "adaptive_ece": adaptive_ece(probs, made.test.labels),
            }
        )
    return figures


def _table(figures: list[dict[str, str | float]]) -> Table:
    table = Table(title="Compared with the true probabilities, on the test examples")
    table.add_column("method")
    for column in ("error", "KL divergence to the truth", "adaptive ECE"):
        table.add_column(column, justify="right")
    for row in figures:
        table.add_row(
            str(row["method"]),
            f"{row['error']:.2%}",
            f"{row['kl_divergence']:.5f}",
            f"{row['adaptive_ece']:.2%}",
        )
    return table
