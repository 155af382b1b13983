"""A command group that imports a command only when it is run."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

import click


@dataclass(frozen=True)
class LazyCommand:
    """Where a command lives, as ``"module:attribute"``, and its line in the list of commands."""

    target: str
    short_help: str


class LazyGroup(click.Group):
    """A group whose ``--help`` costs no more than importing click."""

    def __init__(self, *, lazy: Mapping[str, LazyCommand], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*self._lazy, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or None if there is none of that name."""
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        # Before NumPy is loaded: the fits have threads of their own, and those of BLAS, spinning
        # while they wait, take the cores from them.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        module, attribute = self._lazy[cmd_name].target.split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the map, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(n, self._lazy[n].short_help) for n in sorted(self._lazy)])
