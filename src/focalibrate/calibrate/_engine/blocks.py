"""Row blocks that fit in cache, worked on by a few threads with buffers of their own."""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
S = TypeVar("S")

SMALL_BLOCK = 2**17
LARGE_BLOCK = 2**19
"""Bytes of a block: with its working copies it stays in second-level cache."""
MAX_THREADS = 8


def row_blocks(n_rows: int, *, row_bytes: int) -> list[slice]:
    """Return slices that cover `n_rows`, large for large data, small where memory is scarce.

    The cut depends on the shape alone, never on the number of threads, so that sums over
    blocks round the same way on every machine.
    """
    block = min(LARGE_BLOCK, max(SMALL_BLOCK, n_rows * row_bytes // 256))
    size = max(1, block // max(1, row_bytes))
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def thin_rows(n_rows: int, *, at_most: int) -> slice:
    """Return an evenly spaced subset of the rows: deterministic, and a view when applied."""
    return slice(0, n_rows, max(1, -(-n_rows // at_most)))


class Workspace:
    """Named buffers that one thread uses again and again.

    Fresh memory of block size comes from the operating system page by page, which takes
    several times as long as the arithmetic on it.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[Any]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
        """Return an array with arbitrary content; the same memory for the same `name`."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size or buffer.dtype != dtype:
            buffer = self._buffers[name] = np.empty(size, dtype=dtype)
        return buffer[:size].reshape(shape)


class Workers:
    """A few threads, each with a `Workspace`, for the time of one fit.

    NumPy releases the interpreter lock inside its loops, so threads are enough. Threads start
    on first need: small work runs in the caller's.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads or available_cores()
        self._pool: ThreadPoolExecutor | None = None
        self._spaces: SimpleQueue[Workspace] = SimpleQueue()
        for _ in range(self.n_threads):
            self._spaces.put(Workspace())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable[[S, Workspace], T], items: Sequence[S]) -> Iterator[T]:
        """Yield ``function(item, workspace)`` for each of `items`, in order.

        At most two results a thread are in flight: memory does not grow with the items.
        """

        def call(item: S) -> T:
            space = self._spaces.get()
            try:
                return function(item, space)
            finally:
                self._spaces.put(space)

        if self.n_threads == 1 or len(items) == 1:
            yield from map(call, items)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads)
        queue = iter(items)
        pending: deque[Future[T]] = deque(
            self._pool.submit(call, item) for item in islice(queue, 2 * self.n_threads)
        )
        while pending:
            yield pending.popleft().result()
            pending.extend(self._pool.submit(call, item) for item in islice(queue, 1))


def available_cores() -> int:
    """Return how many cores this process may use, at most `MAX_THREADS`."""
    if hasattr(os, "sched_getaffinity"):
        return min(MAX_THREADS, len(os.sched_getaffinity(0)))
    return min(MAX_THREADS, os.cpu_count() or 1)
