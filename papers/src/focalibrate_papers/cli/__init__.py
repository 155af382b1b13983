"""The commands that this package adds to `focalibrate`, imported when one of them is run."""

from focalibrate.cli import LazyCommand

COMMANDS = {
    "reproduce": LazyCommand(
        "focalibrate_papers.cli.reproduce:reproduce_command",
        "Run an experiment from the papers and check its claims.",
    ),
    "theory": LazyCommand(
        "focalibrate_papers.cli.theory:theory_command", "Check the papers' claims numerically."
    ),
    "train": LazyCommand(
        "focalibrate_papers.cli.train:train_command",
        "Train a model from a recipe; resume after an interruption.",
    ),
}
