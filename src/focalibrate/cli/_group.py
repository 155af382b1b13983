"""A command group that imports a command only when it is run."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from focalibrate.cli._errors import (
    EXTRAS,
    make_streams_safe,
    missing_extra,
    one_line,
    report_bus_errors,
)
from focalibrate.cli._memory import reuse_memory

NUMPY_COMMANDS = frozenset({"apply", "calibrate", "check", "compare", "evaluate"})
"""Commands that work on arrays of scores; others have an allocator of their own."""


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
        if cmd_name in NUMPY_COMMANDS:
            reuse_memory()
        module, attribute = self._lazy[cmd_name].target.split(":")
        try:
            command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name in EXTRAS:
                raise click.ClickException(missing_extra(str(error.name))) from error
            raise
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; if there is none, suggest the nearest name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from focalibrate._check import did_you_mean  # which imports NumPy

            hint = did_you_mean(args[0], self._lazy)
            raise click.UsageError(f"{error.message}{hint}", ctx) from error

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the command line: every error that is not a bug is one message, exit status 1."""
        make_streams_safe()
        report_bus_errors()
        return super().main(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what the system refuses is reported in one place."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click ends quietly where the reader of a pipe has gone
        except (OSError, MemoryError, UnicodeError) as error:
            raise click.ClickException(one_line(error, sys.argv[1:])) from error
        except ImportError as error:
            if getattr(error, "name", None) not in EXTRAS:
                raise
            raise click.ClickException(one_line(error, sys.argv[1:])) from error
        except ValueError as error:
            if not hasattr(error, "fixes"):  # a bug: show the traceback
                raise
            raise click.ClickException(one_line(error, sys.argv[1:])) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(n, self._lazy[n].short_help) for n in sorted(self._lazy)])
