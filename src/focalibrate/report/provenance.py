"""Where the numbers of a page come from."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """One file that was read."""

    name: str
    sha256: str
    role: str = ""
    """what it was used for, such as ``"fitted on"``"""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a page was made, as given: the same arguments give the same page."""

    command: str
    version: str
    """of focalibrate"""
    seed: int
    made_at: str = ""
    """date, as it is to be shown; empty: none is shown"""
    files: tuple[SourceFile, ...] = ()
