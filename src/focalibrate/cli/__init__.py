"""The command line: one file per command, imported when the command is run."""

import click

from focalibrate import __version__
from focalibrate.cli._group import LazyCommand, LazyGroup

__all__ = ["LazyCommand", "main"]

COMMANDS = {
    "apply": LazyCommand(
        "focalibrate.cli.apply:apply_command",
        "Write calibrated probabilities for a file of predictions.",
    ),
    "calibrate": LazyCommand(
        "focalibrate.cli.calibrate:calibrate_command",
        "Evaluate predictions, find the best calibrator, write it and a report.",
    ),
    "check": LazyCommand(
        "focalibrate.cli.check:check_command",
        "Check predictions against limits in CI: pass, fail, or not enough data.",
    ),
    "compare": LazyCommand(
        "focalibrate.cli.compare:compare_command",
        "Compare models or calibrators on the same examples.",
    ),
    "demo": LazyCommand(
        "focalibrate.cli.demo:demo_command",
        "See what focal loss does on simulated data, and undo it.",
    ),
    "evaluate": LazyCommand(
        "focalibrate.cli.evaluate:evaluate_command",
        "Test whether probabilities are calibrated, and print their scores.",
    ),
    "sketch": LazyCommand(
        "focalibrate.cli.sketch:sketch_command",
        "Summarise predictions of any size in one small file; several can be merged.",
    ),
    "threshold": LazyCommand(
        "focalibrate.cli.threshold:threshold_command",
        "Find the lowest confidence that keeps a promise, such as a precision of 95 %.",
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
@click.version_option(__version__, prog_name="focalibrate")
def main() -> None:
    """Calibrate a classifier's probabilities.

    \b
    Example:
        focalibrate demo
        focalibrate calibrate val.npz --test test.npz -o report
        focalibrate apply report/calibrator.json new.npz -o calibrated.npz
    """
