"""The command line: one file per command, imported when the command is run."""

import click

from focalibrate import __version__
from focalibrate.cli._group import LazyCommand, LazyGroup

__all__ = ["main"]

COMMANDS = {
    "demo": LazyCommand(
        "focalibrate.cli.demo:demo_command",
        "Show on simulated data what focal training does, and undo it.",
    ),
    "theory": LazyCommand(
        "focalibrate.cli.theory:theory_command",
        "Check every claim of the papers, now, by numbers.",
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
@click.version_option(__version__, prog_name="focalibrate")
def main() -> None:
    """Make a classifier's probabilities true.

    \b
    Example:
        focalibrate theory
        focalibrate theory 003-prop-5 --json
    """
