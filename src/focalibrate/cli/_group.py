"""A command group that imports a command only when it is run, on an allocator that fits it."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import click

from focalibrate.cli._errors import USERS_ERRORS, make_streams_safe, one_line

REUSED = 2**25
"""Arrays of up to this many bytes come from memory that is kept; the most that glibc allows."""
KEPT = 2**26
"""Free bytes that are not given back."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def reuse_memory() -> None:
    """Let glibc keep freed arrays: fresh pages took a quarter of `evaluate`'s processor time.

    By default glibc maps an array of more than 128 kB again each time, and the system fills its
    pages with zeros. Elsewhere this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, REUSED)
        mallopt(M_TRIM_THRESHOLD, KEPT)
        mallopt(M_ARENA_MAX, 1)


NUMPY_COMMANDS = frozenset({"apply", "calibrate", "check", "compare", "evaluate", "threshold"})
"""Commands that work on arrays of scores; others have an allocator of their own."""

PAPERS = ("reproduce", "theory", "train")
"""Commands that the distribution focalibrate-papers adds."""


@dataclass(frozen=True)
class LazyCommand:
    """Where a command lives, as ``"module:attribute"``, and its line in the list of commands."""

    target: str
    short_help: str


@cache
def added_commands() -> dict[str, LazyCommand]:
    """Return the commands that other distributions add, such as focalibrate-papers."""
    found: dict[str, LazyCommand] = {}
    for entry in entry_points(group="focalibrate.commands"):
        found |= entry.load()
    return found


class LazyGroup(click.Group):
    """A group whose ``--help`` costs no more than importing click."""

    def __init__(self, *, lazy: Mapping[str, LazyCommand], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._lazy = dict(lazy)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*self._lazy, *added_commands(), *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or None if there is none of that name."""
        found = self._lazy.get(cmd_name) or added_commands().get(cmd_name)
        if found is None:
            if cmd_name in PAPERS:
                raise click.ClickException(
                    f"`focalibrate {cmd_name}` is in the package focalibrate-papers, which is not "
                    "installed. Install it from a clone of the repository: pip install ./papers"
                )
            return super().get_command(ctx, cmd_name)
        # Before NumPy is loaded: the fits have threads of their own, and those of BLAS, spinning
        # while they wait, take the cores from them.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        if cmd_name in NUMPY_COMMANDS:
            reuse_memory()
        module, attribute = found.target.split(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; if there is none, suggest the nearest name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from focalibrate._check import did_you_mean  # which imports NumPy

            hint = did_you_mean(args[0], {**self._lazy, **added_commands()})
            raise click.UsageError(f"{error.message}{hint}", ctx) from error

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the command line: every error that is not a bug is one message, exit status 1."""
        make_streams_safe()
        return super().main(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error of the user's making becomes a message here, and only here."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # click ends quietly where the reader of a pipe has gone
        except USERS_ERRORS as error:
            raise click.ClickException(one_line(error, sys.argv[1:])) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        known = self._lazy | added_commands()
        with formatter.section("Commands"):
            formatter.write_dl([(n, known[n].short_help) for n in sorted(known)])
