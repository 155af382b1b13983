"""The command line: one file per command, imported when the command is run."""

import click

from focalibrate import __version__
from focalibrate.cli._group import LazyCommand, LazyGroup

__all__ = ["LazyCommand", "main"]

HELP = {
    "apply": "Write calibrated probabilities for a file of predictions.",
    "calibrate": "Evaluate predictions, find the best calibrator, write it and a report.",
    "check": "Check predictions against limits in CI: pass, fail, or not enough data.",
    "compare": "Compare models or calibrators on the same examples.",
    "demo": "See what focal loss does on simulated data, and undo it.",
    "evaluate": "Test whether probabilities are calibrated, and print their scores.",
    "sketch": "Summarise predictions of any size in one small file; several can be merged.",
    "threshold": "Find the lowest confidence that keeps a promise, such as a precision of 95 %.",
}
COMMANDS = {
    name: LazyCommand(f"focalibrate.cli.{name}:{name}_command", text)
    for name, text in HELP.items()
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
