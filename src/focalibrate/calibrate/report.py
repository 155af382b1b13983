"""Diagnostics of a fit."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


class CalibrationWarning(UserWarning):
    """Warning that the result of a fit should be checked before it is used."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FitReport:
    """Diagnostics of one fit: ``calibrator.report``."""

    method: str
    """The calibrator's kind."""
    criterion: str
    """What was minimised."""
    value: float
    """The criterion at the parameters returned, on the rows fitted on."""
    n_rows: int
    n_classes: int
    n_evaluations: int = 1
    """Times the criterion was evaluated on all rows."""
    converged: bool = True
    """False if the iterations ran out before the tolerance was met."""
    at_bound: bool = False
    """True if the best parameters are at the edge of the range searched."""
    gammas: tuple[float, ...] | None = None
    temperatures: tuple[float, ...] | None = None
    held_out: dict[str, float] | None = None
    """Mean log loss of every candidate of the automatic choice, from simple to complex."""
    reason: str = ""
    """Why the automatic choice took this method, in words."""
    grid: NDArray[np.float64] | None = None
    """The criterion at every gamma and temperature, ``[G, M]``; nan where not evaluated."""


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the search of a fit ended."""

    x: Any
    """The parameters."""
    value: float
    converged: bool = True
    n_evaluations: int = 1
    at_bound: bool = False


_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of fits in this thread instead of issuing them.

    `warnings.catch_warnings` changes the filters of all threads.
    """
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)


def warn(message: str) -> None:
    """Warn the caller of the public fit (two frames up)."""
    messages = _collected.get()
    if messages is None:
        warnings.warn(message, CalibrationWarning, stacklevel=3)
    else:
        messages.append(message)
