"""The interface of parallel work, and its errors."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias

Outcomes: TypeAlias = Generator[tuple[int, Any], None, None]


class EngineError(RuntimeError):
    """Some calls failed, or the workers were lost."""


class Backend(Protocol):
    """Calls a function for every argument, in any order."""

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Outcomes:
        """Yield the position of each call and what it returned, or the exception it raised.

        If closed early, it drops the calls that have not begun.
        """
        ...


class InThisProcess:
    """Makes the calls here, one after another; an error ends them as it is."""

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Outcomes:
        """Yield the position of each call and what it returned."""
        for place, values in enumerate(arguments):
            yield place, function(*values)


def reason_of(error: BaseException) -> str:
    """Return what went wrong, with the type of an error whose message is not meant for users."""
    is_for_users = isinstance(error, (ValueError, OSError, ImportError, EngineError))
    return str(error) if is_for_users and str(error) else repr(error)
