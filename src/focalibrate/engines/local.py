"""Calls in processes of this machine."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any

from focalibrate.engines.backend import EngineError, Outcomes


@dataclass(frozen=True)
class LocalProcesses:
    """Worker processes on this machine, one thread each."""

    workers: int

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Outcomes:
        """Yield results as they come; a killed worker ends them, and says so."""
        with _one_thread_each(), _pool(self.workers) as pool:
            futures = {pool.submit(function, *args): i for i, args in enumerate(arguments)}
            for future in as_completed(futures):
                yield futures[future], _outcome(future)


def _outcome(future: "Future[Any]") -> Any:
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        raise EngineError(
            "a worker process was killed, perhaps because memory ran out: if so, use "
            "fewer --workers."
        ) from error
    return future.result() if error is None else error


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give worker processes; interrupted, drop the calls not begun and stop those that are."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin_worker)
    try:
        yield pool
    except BaseException:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


def _begin_worker() -> None:
    """Tie a worker to the process that started it, in its end and in nothing else.

    Ctrl-C reaches every process of a terminal, and is for the one that waits to handle. A worker
    whose parent is killed would wait for its next call forever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let processes started meanwhile use one thread: side by side, more would only disturb."""
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
