"""The command line: one file per command, imported when the command is run."""

import click

from focalibrate import __version__
from focalibrate.cli._group import LazyCommand, LazyGroup

__all__ = ["main"]

COMMANDS = {
    "apply": LazyCommand(
        "focalibrate.cli.apply:apply_command",
        "Write calibrated probabilities for a file of predictions.",
    ),
    "calibrate": LazyCommand(
        "focalibrate.cli.calibrate:calibrate_command",
        "Judge predictions, find the best calibrator, write it and a report.",
    ),
    "compare": LazyCommand(
        "focalibrate.cli.compare:compare_command",
        "Compare two models or two calibrators on the same labels.",
    ),
    "curvature": LazyCommand(
        "focalibrate.cli.curvature:curvature_command",
        "Print the curvature of a trained run's loss.",
    ),
    "demo": LazyCommand(
        "focalibrate.cli.demo:demo_command",
        "Show on simulated data what focal training does, and undo it.",
    ),
    "evaluate": LazyCommand(
        "focalibrate.cli.evaluate:evaluate_command",
        "Print how honest a file of predictions is.",
    ),
    "reproduce": LazyCommand(
        "focalibrate.cli.reproduce:reproduce_command",
        "Run an experiment of the papers and judge its claims.",
    ),
    "theory": LazyCommand(
        "focalibrate.cli.theory:theory_command",
        "Check every claim of the papers, now, by numbers.",
    ),
    "train": LazyCommand(
        "focalibrate.cli.train:train_command",
        "Train a model by a recipe; go on after an interruption.",
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
@click.version_option(__version__, prog_name="focalibrate")
def main() -> None:
    """Make a classifier's probabilities true.

    \b
    Example:
        focalibrate demo
        focalibrate calibrate val.npz --test test.npz -o report
        focalibrate apply report/calibrator.json new.npz -o calibrated.npz
    """
