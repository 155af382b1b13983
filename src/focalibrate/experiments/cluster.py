"""Runs on a Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cluster:
    """The workers of a Dask scheduler; one that dies has its runs made by another."""

    address: str
    """of the scheduler, such as ``tcp://host:8786``"""

    def map(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, Any]]:
        """Yield results as they come."""
        try:
            from distributed import Client, as_completed
        except ImportError as error:
            raise ImportError(
                "A cluster needs Dask. Install it: `pip install 'focalibrate[dask]'`."
            ) from error
        with Client(self.address) as client:
            futures = {
                client.submit(function, *args, pure=False): i for i, args in enumerate(arguments)
            }
            for future in as_completed(futures):
                failure = future.exception()
                yield futures[future], future.result() if failure is None else failure
