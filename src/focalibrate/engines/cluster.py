"""Calls on a Dask cluster."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from focalibrate.engines.local import EngineError, Outcomes

POLL = 0.5
"""Seconds between two checks of the workers."""


@dataclass(frozen=True)
class DaskCluster:
    """The workers of a Dask scheduler; if one dies, another repeats its runs.

    A run is repeated only if its worker died before it wrote its result. Workers need this
    package, one thread each, and the folders the runs read and write under the same names.
    """

    address: str
    """of the scheduler, such as ``tcp://host:8786``"""
    connect_seconds: float = 10.0
    """how long to try to reach the scheduler"""
    patience_seconds: float = 60.0
    """how long there may be no worker at all"""

    def map(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Outcomes:
        """Yield results as they come; if interrupted, cancel the runs that have not begun.

        Raises:
            ValueError: the address is not valid.
            ConnectionError: no scheduler answers there.
            EngineError: the scheduler was lost, there are no workers, or they have many threads.
        """
        with self._client() as client:
            pending: dict[Any, int] = {}
            try:
                self._count_workers(client)  # before any of them begins a run
                for i, args in enumerate(arguments):
                    pending[client.submit(function, *args, pure=False)] = i
                yield from self._results(client, pending)
            except (CancelledError, OSError) as error:
                raise EngineError(
                    f"lost the Dask scheduler at {self.address} ({_short(error)}). Start it again."
                ) from error
            finally:
                with suppress(Exception):  # a scheduler that is gone has forgotten them anyway
                    client.cancel(list(pending), force=True)

    def _results(self, client: Any, pending: dict[Any, int]) -> Outcomes:
        """Yield the place and outcome of each future, taking it out of `pending`."""
        seen = time.monotonic()
        while pending:
            if self._count_workers(client):
                seen = time.monotonic()
            elif time.monotonic() - seen > self.patience_seconds:
                raise EngineError(self._no_worker())
            with suppress(TimeoutError):  # also where a result was lost with its worker
                done, _ = _dask().wait(list(pending), timeout=POLL, return_when="FIRST_COMPLETED")
                for future in done:
                    outcome = _outcome(future)
                    yield pending.pop(future), outcome

    def _count_workers(self, client: Any) -> int:
        threads = client.nthreads()
        busy = [worker for worker, n in threads.items() if n > 1]
        if busy:
            raise EngineError(
                f"the Dask worker {busy[0]} has {threads[busy[0]]} threads, but runs share the "
                f"state of their process. Start workers with `dask worker {self.address} "
                "--nworkers N --nthreads 1`."
            )
        return len(threads)

    def _no_worker(self) -> str:
        return (
            f"the Dask scheduler at {self.address} has had no worker for "
            f"{self.patience_seconds:g} s. Start workers with `dask worker {self.address} "
            "--nworkers N --nthreads 1`. If there were some, look at what they last wrote: a "
            "run may need more memory than they have."
        )

    @contextmanager
    def _client(self) -> Iterator[Any]:
        import asyncio

        advice = "Start one with `dask scheduler`, and give the address it prints."
        dask = _dask()
        try:
            # First by hand: a client that did not reach its scheduler cannot be closed quietly.
            with ThreadPoolExecutor(1) as pool:  # whose thread has no event loop, as notebooks do
                pool.submit(asyncio.run, self._knock()).result()
            client = dask.Client(self.address, timeout=self.connect_seconds)
        except ValueError as error:
            raise ValueError(
                f"--scheduler must be the address of a Dask scheduler, such as "
                f"tcp://host:8786, got {self.address!r} ({error}). {advice}"
            ) from error
        except OSError as error:  # refused, or not in time
            raise ConnectionError(
                f"--scheduler: no Dask scheduler answers at {self.address} within "
                f"{self.connect_seconds:g} s ({_short(error)}). {advice}"
            ) from error
        with client:
            yield client

    async def _knock(self) -> None:
        # the keys of Dask's own configuration, which a tls:// address needs
        keys = _dask().Security().get_connection_args("client")
        if self.address.startswith("tls://") and keys.get("ssl_context") is None:
            raise ValueError(
                "tls:// needs a key and certificates in Dask's configuration: "
                "distributed.comm.tls.ca-file, .client.key and .client.cert"
            )
        comm = await _dask().comm.connect(self.address, timeout=self.connect_seconds, **keys)
        await comm.close()


def _dask() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(
            "A cluster needs Dask. Install it: `pip install distributed`."
        ) from error
    return distributed


def _outcome(future: Any) -> Any:
    """Return what a finished future returned, or the exception it raised."""
    error = future.exception(timeout=POLL)
    if isinstance(error, _dask().KilledWorker):
        return EngineError(
            f"{error.allowed_failures + 1} workers died while they made this run, perhaps because "
            "memory ran out"
        )
    return future.result(timeout=POLL) if error is None else error


def _short(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
