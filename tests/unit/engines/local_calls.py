"""Calls for worker processes that are spawned, and so must import them."""

import os
from pathlib import Path


def square(number):
    if number < 0:
        raise ValueError("it was asked to")
    return number**2


def die_at_first(folder, number, deaths):
    """Return the number, after the process has died this many times."""
    for i in range(deaths):
        try:
            Path(folder, f"{number}-{i}").touch(exist_ok=False)
        except FileExistsError:
            continue
        os._exit(9)
    return number


def leave():
    raise SystemExit(3)


class StubbornError(Exception):
    def __reduce__(self):
        raise TypeError("stays here")


def stubborn():
    raise StubbornError("not sent")
