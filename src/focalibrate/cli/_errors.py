"""Errors as one message on stderr: what is wrong, and commands to paste."""

import errno
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

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
