"""The door of the command line: commands are imported when they are run, errors are messages."""

import errno
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from focalibrate.io import PredictionFileError


PROGRAM = "focalibrate"

USERS_ERRORS = (ValueError, OSError, ImportError, MemoryError)
"""What commands raise where something is wrong with a file, an option or the machine."""
PACKAGES: Mapping[str, str] = {
    "torch": "torch",
    "sklearn": "scikit-learn",
    "jax": "jax",
    "matplotlib": "matplotlib",
    "onnx": "onnx onnxruntime",
    "onnxruntime": "onnxruntime",
    "pyarrow": "pyarrow",
    "openpyxl": "openpyxl",
    "PIL": "pillow",
    "dask": "distributed",
    "distributed": "distributed",
}
"""What to install for each optional module: by this name, it works from a checkout too."""


def make_streams_safe() -> None:
    """Print "?" for a character that the terminal cannot show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def one_line(error: BaseException, arguments: Sequence[str]) -> str:
    """Return an error as a message, with commands that would work, if any are known.

    Args:
        error: what was raised.
        arguments: the words of the command that raised it, without the program's name.
    """
    from focalibrate.io import PredictionFileError, printable

    if isinstance(error, PredictionFileError):
        return _with_commands(error, arguments)
    if isinstance(error, ModuleNotFoundError) and error.name and error.name in PACKAGES:
        step = f"Install it: pip install {PACKAGES[error.name]}"
        return f"This needs {error.name}, which is not installed. {step}"
    if isinstance(error, MemoryError):
        return "Not enough memory. Use a machine with more memory."
    if isinstance(error, OSError):
        return printable(_system(error))
    if isinstance(error, UnicodeError):
        return f"Text could not be encoded or decoded: {printable(str(error))[:300]}."
    return printable(str(error)) or type(error).__name__


def _system(error: OSError) -> str:
    if error.strerror is None:  # our own message, which begins with the name
        return str(error)
    where = "" if error.filename is None else f"{os.fspath(error.filename)}: "
    step = ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        step = " Free some room, or write elsewhere with -o."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        step = " Choose a place that you may write to."
    elif error.errno == errno.EISDIR:
        inside = os.path.join(os.fspath(error.filename or ""), "calibrator.json")
        such_as = f", such as {inside}" if os.path.isfile(inside) else ""
        step = f" Give the name of a file{such_as}."
    elif error.errno == errno.ENOENT:
        step = " Check the name."
    return f"{where}{error.strerror}.{step}"


def _with_commands(error: "PredictionFileError", arguments: Sequence[str]) -> str:
    """Return the message of a file's error and the same command with each fix added."""
    from focalibrate.io import flags, printable

    lines = [str(error)]
    commands = []
    for fix in error.fixes:
        if any(str(value) in ("NAME", "labels.npy") for value in fix.values()):
            continue
        given = _without(arguments, fix)
        commands.append(f"{PROGRAM} {shlex.join(given)} {' '.join(flags(fix))}")
    if commands:
        lines.append("To paste:")
        lines += [f"  {printable(command)}" for command in commands]
    return "\n".join(lines)


def _without(arguments: Sequence[str], fix: dict[str, object]) -> list[str]:
    """Leave out of a command the options that a fix replaces; `ignore` adds to what is there."""
    replaced = {f"--{name.replace('_', '-')}" for name in fix if name != "ignore"}
    kept: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word in replaced:
            skip = True
        elif word.split("=", 1)[0] not in replaced:
            kept.append(word)
    return kept


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
