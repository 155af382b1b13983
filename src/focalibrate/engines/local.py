"""The interface of parallel work, calls on this machine, and which code makes them."""

import os
import pickle
import platform
import shutil
import signal
import subprocess
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from threading import Thread
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


MAX_DEATHS = 3
"""A call that has lost this many worker processes is given up."""
LOST = (
    f"its worker process was killed, {MAX_DEATHS} times one after another, perhaps because memory "
    "ran out: if so, use fewer --workers"
)
NEVER_BEGUN = (
    "worker processes end before they begin, perhaps because memory ran out: if so, use fewer "
    "--workers. A script that starts some must do so under `if __name__ == '__main__':`."
)


@dataclass(frozen=True)
class LocalProcesses:
    """Worker processes on this machine, one thread each; one that dies is replaced."""

    workers: int

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Outcomes:
        """Yield results as they come.

        A worker has one call at a time, so that one that is killed loses only that call, which
        is made again. The outcome of a call that has lost `MAX_DEATHS` workers is an
        `EngineError`.

        Raises:
            EngineError: workers end before they begin.
        """
        waiting = deque(enumerate(arguments))
        lost: Counter[int | None] = Counter()  # workers, by call; None: before their first
        calls: dict[Future[bytes], tuple[_Worker, int]] = {}
        with _settings(), _team() as (idle, new):
            while waiting or calls:
                while waiting and len(calls) < self.workers:
                    worker = idle.pop() if idle else new()
                    place, values = waiting.popleft()
                    # As bytes: what the function needs is imported after the worker watches this.
                    content = pickle.dumps((function, values))
                    try:
                        calls[worker.pool.submit(_outcome, content)] = worker, place
                    except BrokenProcessPool:  # it was killed while it had no call
                        waiting.appendleft((place, values))
                for call in wait(calls, return_when=FIRST_COMPLETED).done:
                    worker, place = calls.pop(call)
                    error = call.exception()
                    if not isinstance(error, BrokenProcessPool):
                        idle.append(worker)
                        outcome = error or _loaded(call.result())
                    else:
                        which = place if worker.begun.is_set() else None
                        lost[which] += 1
                        if lost[which] < MAX_DEATHS:
                            waiting.appendleft((place, arguments[place]))
                            continue
                        if which is None:
                            raise EngineError(NEVER_BEGUN)
                        outcome = EngineError(LOST)
                    yield place, outcome


@dataclass(frozen=True)
class _Worker:
    """A pool of one process, and whether that process has begun."""

    pool: ProcessPoolExecutor
    begun: Any


@contextmanager
def _team() -> Iterator[tuple[list[_Worker], Callable[[], _Worker]]]:
    """Give the workers without a call and what starts another; in the end, end all of them.

    Interrupted, it stops the calls they make: they find the end of a pipe closed.
    """
    context = get_context("spawn")
    team: list[_Worker] = []
    there, here = context.Pipe(duplex=False)

    def new() -> _Worker:
        begun = context.Event()
        pool = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(begun, there))
        team.append(_Worker(pool, begun))
        return team[-1]

    is_done = False
    try:
        yield [], new
        is_done = True
    finally:
        if not is_done:
            here.close()
        for worker in team:
            worker.pool.shutdown(cancel_futures=True)
        here.close()
        there.close()


def _begin(begun: Any, pipe: connection.Connection) -> None:
    """Prepare a worker: it ends with the process that started it, or when that closes the pipe.

    Ctrl-C, which reaches every process of a terminal, is left to the parent to handle. A worker
    whose parent is killed during a call would otherwise keep running.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, args=(pipe,), daemon=True).start()
    begun.set()


def _end_with_parent(pipe: connection.Connection) -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([pipe, parent.sentinel])
        os._exit(1)


def _outcome(content: bytes) -> bytes:
    """Make a call; return its result, or what it raised, as bytes."""
    try:
        function, values = pickle.loads(content)  # noqa: S301  from the process that started this
        return pickle.dumps(function(*values))
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        try:
            return pickle.dumps(error)
        except Exception:  # it holds something that cannot be sent
            return pickle.dumps(EngineError(repr(error)))


def _loaded(content: bytes) -> Any:
    """Return what a call returned or raised."""
    try:
        return pickle.loads(content)  # noqa: S301  from a process started here
    except Exception as error:  # it cannot be loaded here
        return error


@contextmanager
def _settings() -> Iterator[None]:
    """Let processes started meanwhile use one thread each: more would slow each other down.

    Python's own tracker of semaphores, which outlives a killed parent to remove them, is told to
    do so without a warning.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    quiet = [os.environ.get("PYTHONWARNINGS", ""), "ignore:resource_tracker"]
    settings = dict.fromkeys(names, "1") | {"PYTHONWARNINGS": ",".join(filter(None, quiet))}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


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
