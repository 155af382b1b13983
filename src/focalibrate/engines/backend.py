"""Somewhere functions are called many times, and what can go wrong there."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias

Outcomes: TypeAlias = Generator[tuple[int, Any], None, None]


class EngineError(RuntimeError):
    """Some calls failed, or the place where they were made is gone."""


class Backend(Protocol):
    """Calls a function for every argument, in any order."""

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Outcomes:
        """Yield the place of each call and what it returned, or the exception it raised.

        Closed before its end, it drops the calls not begun.
        """
        ...


def reason_of(error: BaseException) -> str:
    """Return what went wrong; with the kind of error where its message was not made for users."""
    is_for_users = isinstance(error, (ValueError, OSError, ImportError, EngineError))
    return str(error) if is_for_users and str(error) else repr(error)
