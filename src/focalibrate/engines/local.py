"""Calls in processes of this machine."""

import os
import pickle
import signal
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any

from focalibrate.engines.backend import EngineError, Outcomes

MAX_DEATHS = 3
"""A call that has lost this many worker processes is given up."""
LOST = (
    f"its worker process was killed, {MAX_DEATHS} times one after another, perhaps because memory "
    "ran out: if so, use fewer --workers"
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
        lost: Counter[int] = Counter()  # workers, by call; -1: before their first
        team: list[_Worker] = []
        with _one_thread_each(), _ended(team):
            while waiting or any(worker.call is not None for worker in team):
                for worker in team:
                    if worker.is_ready and worker.call is None and waiting:
                        worker.begin(*waiting.popleft())
                n_starting = sum(not worker.is_ready for worker in team)
                n_new = min(self.workers - len(team), len(waiting) - n_starting)
                team.extend(_Worker(function) for _ in range(n_new))
                for worker in _with_news(team):
                    place, outcome = worker.call, worker.news()
                    if outcome is _DIED:
                        team.remove(worker)
                        worker.end()
                        if place is None:
                            _count_early_death(lost, has_begun=worker.is_ready)
                            continue
                        lost[place] += 1
                        if lost[place] < MAX_DEATHS:
                            waiting.appendleft((place, arguments[place]))
                            continue
                        outcome = EngineError(LOST)
                    if place is not None:
                        yield place, outcome


def _count_early_death(lost: "Counter[int]", *, has_begun: bool) -> None:
    lost[-1] += not has_begun
    if lost[-1] >= MAX_DEATHS:
        raise EngineError(
            "worker processes end before they begin, perhaps because memory ran out: if so, use "
            "fewer --workers. A script that starts some must do so under "
            "`if __name__ == '__main__':`."
        )


_DIED = object()


class _Worker:
    """A process, the pipe to it, and which call it makes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        context = get_context("spawn")
        self.pipe, there = context.Pipe()
        # As bytes: what the function needs is imported after the worker watches its parent.
        self.process = context.Process(target=_work, args=(there, pickle.dumps(function)))
        self.process.start()
        there.close()  # so that its end is noticed here
        self.call: int | None = None
        self.is_ready = False

    def begin(self, place: int, arguments: tuple[Any, ...]) -> None:
        """Send a call; one to a worker that is dead is noticed when it is waited for."""
        self.call = place
        try:
            self.pipe.send_bytes(pickle.dumps(arguments))
        except OSError:
            return

    def news(self) -> Any:
        """Return the outcome of the call, `_DIED`, or None when the worker has started."""
        try:
            if not self.pipe.poll():  # the process has ended without a message
                return _DIED
            content = self.pipe.recv_bytes()
        except (EOFError, OSError):
            return _DIED
        if not self.is_ready:
            self.is_ready = True
            return None
        self.call = None
        try:
            return pickle.loads(content)  # noqa: S301  from a process started here
        except Exception as error:  # what it returned cannot be loaded here
            return error

    def end(self, *, at_once: bool = True) -> None:
        """End the process: now, or as it finds its pipe closed."""
        if at_once:
            self.process.terminate()
        self.pipe.close()
        self.process.join()


def _with_news(team: "Sequence[_Worker]") -> "list[_Worker]":
    ready = wait([x for worker in team for x in (worker.pipe, worker.process.sentinel)])
    return [w for w in team if w.pipe in ready or w.process.sentinel in ready]


@contextmanager
def _ended(team: list[_Worker]) -> Iterator[None]:
    """End the workers that are left; interrupted, stop the calls they make."""
    is_done = False
    try:
        yield
        is_done = True
    finally:
        for worker in team:
            worker.end(at_once=not is_done)


def _work(pipe: Connection, content: bytes) -> None:
    """Make the calls that come through the pipe until it is closed.

    It ends with the process that started it. Ctrl-C, which reaches every process of a terminal, is
    left to the parent to handle. A worker whose parent is killed during a call would otherwise
    keep running.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()
    function = pickle.loads(content)  # noqa: S301  from the process that started this
    with suppress(EOFError, OSError):  # the pipe is closed, perhaps before a first call
        pipe.send_bytes(b"ready")
        while True:
            content = pipe.recv_bytes()
            pipe.send_bytes(_outcome(function, content))


def _outcome(function: Callable[..., Any], content: bytes) -> bytes:
    try:
        found = function(*pickle.loads(content))  # noqa: S301  from the process that started this
        return pickle.dumps(found)
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        try:
            return pickle.dumps(error)
        except Exception:  # it holds something that cannot be sent
            return pickle.dumps(EngineError(repr(error)))


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes started meanwhile use one thread each: more would slow each other down."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
