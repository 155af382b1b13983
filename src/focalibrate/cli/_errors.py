"""Errors as one message on stderr: what is wrong, and commands to paste."""

import ctypes
import errno
import importlib.util
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from focalibrate.io import PredictionFileError

PROGRAM = "focalibrate"

EXTRAS: Mapping[str, str] = {
    "torch": "torch",
    "sklearn": "sklearn",
    "jax": "jax",
    "matplotlib": "plot",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "pyarrow": "parquet",
    "openpyxl": "excel",
    "PIL": "images",
    "dask": "dask",
    "distributed": "dask",
}
"""The extra that installs each optional package."""

TRUNCATED = b"Error: a file became shorter, or its disk failed, while it was being read.\n"


def require(module: str) -> None:
    """Raise `ImportError` with the command that installs it if an optional package is missing."""
    if importlib.util.find_spec(module) is None:
        raise ImportError(missing_extra(module))


def missing_extra(module: str) -> str:
    """Return how to install an optional package."""
    extra = EXTRAS.get(module)
    line = f"pip install 'focalibrate[{extra}]'" if extra else f"pip install {module}"
    return f"This needs {module}, which is not installed. Install it: {line}"


def make_streams_safe() -> None:
    """Print "?" for a character that the terminal cannot show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


_KEPT: list[Any] = []  # the system calls the handler by its address: it must not be collected


def report_bus_errors() -> None:
    """Print one line if a memory-mapped file is truncated while it is read.

    The system then sends SIGBUS, which Python cannot catch: returning from a handler would
    repeat the access. So the handler writes the line and ends the process.
    """
    if _KEPT or not hasattr(signal, "SIGBUS"):
        return

    def handler(number: int) -> None:
        os.write(2, TRUNCATED)
        # for `check`, status 1 means that a limit is exceeded
        os._exit(2 if sys.argv[1:2] == ["check"] else 1)

    callback = ctypes.CFUNCTYPE(None, ctypes.c_int)(handler)
    _KEPT.append(callback)
    try:
        system = ctypes.CDLL(None).signal
        system.restype = ctypes.c_void_p
        system(ctypes.c_int(signal.SIGBUS), callback)
    except (OSError, AttributeError):  # a system without it
        return


def one_line(error: BaseException, arguments: Sequence[str]) -> str:
    """Return an error as a message, with commands that would work, if any are known.

    Args:
        error: what was raised.
        arguments: the words of the command that raised it, without the program's name.
    """
    from focalibrate.io import PredictionFileError, printable

    if isinstance(error, PredictionFileError):
        return _with_commands(error, arguments)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return missing_extra(str(error.name))
    if isinstance(error, MemoryError):
        return (
            "Not enough memory. Save the scores as .npy or .safetensors, which are read as a "
            "memory map, or use a machine with more memory."
        )
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
        step = " Give the name of a file."
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


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error of the user's making into one message and exit status 1."""
    try:
        yield
    except (ValueError, OSError, ImportError, MemoryError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise click.ClickException(one_line(error, sys.argv[1:])) from error
