"""Which code made a result."""

import platform
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path


@cache
def commit() -> str:
    """Return the commit of the checkout this package is in, with a + if it was changed.

    Looked up once: what a process has imported does not change with the checkout. Empty if the
    package was not run from a checkout or there is no git.
    """
    git, here = shutil.which("git"), str(Path(__file__).parent)
    if git is None:
        return ""

    def ask(*words: str) -> str:
        done = subprocess.run(  # noqa: S603  fixed words, no shell
            [git, "-C", here, *words], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    found = ask("rev-parse", "HEAD")
    return f"{found}+" if found and ask("status", "--porcelain", "--", here) else found


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions that decide the numbers."""
    names = ("focalibrate", *packages)
    return {"python": platform.python_version()} | {name: _version(name) for name in names}


@cache
def _version(name: str) -> str:
    """Return the version of an installed package, which is read from its files once."""
    from importlib.metadata import version  # which imports all of email

    return version(name)
